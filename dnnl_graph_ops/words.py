"""Words of other packages: accepted synonyms, and words that messages translate; a count with its noun."""

from __future__ import annotations

from typing import Final

# accepted names of arguments; one of theirs may be several of ours
ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "stride": ("strides",),
    "padding": ("pads_begin", "pads_end"),
    "dilation": ("dilations",),
}
# accepted strings, in any case; of several the first that the argument takes. Weights formats of transposed
# convolutions come first
VALUES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("nwc", "nhwc", "ndhwc", "nlc", "channels_last"), ("NXC",)),
    **dict.fromkeys(("ncw", "nchw", "ncdhw", "ncl", "channels_first"), ("NCX",)),
    **dict.fromkeys(("pytorch", "torch", "onnx"), ("IOX", "OIX")),
    **dict.fromkeys(("keras", "tensorflow"), ("XOI", "XIO")),
    **dict.fromkeys(("oiw", "oihw", "oidhw"), ("OIX",)),
    **dict.fromkeys(("iow", "iohw", "iodhw"), ("IOX",)),
    **dict.fromkeys(("wio", "hwio", "dhwio"), ("XIO",)),
    **dict.fromkeys(("woi", "hwoi", "dhwoi"), ("XOI",)),
    # an odd position of padding is at the end, as in Keras and PyTorch
    "same": ("SAME_UPPER",),
    # explicit pads, in ONNX and in OpenVINO
    **dict.fromkeys(("notset", "explicit"), ("None",)),
}
# formats whose order of axes depends on the op
FRAMEWORKS: Final = frozenset({"pytorch", "torch", "onnx", "keras", "tensorflow"})
# accepted names of dtypes, in any case, besides ours, NumPy's and ml_dtypes'; with or without "torch."
DTYPES: Final[dict[str, str]] = {
    **dict.fromkeys(("fp32", "single"), "f32"),
    **dict.fromkeys(("fp16", "half"), "f16"),
    "i8": "s8",
    "i32": "s32",
    "i64": "s64",
    "i4": "s4",
    "bool_": "boolean",
    "bool": "boolean",
    **dict.fromkeys(("f8_e4m3fn", "fp8_e4m3", "float8_e4m3"), "f8_e4m3"),
    "fp8_e5m2": "f8_e5m2",
}

# dtypes that are refused: they have two meanings, or oneDNN lacks them
OTHER_DTYPES: Final[dict[str, str]] = {
    **dict.fromkeys(("float", "f64", "fp64", "float64", "double"), "f32"),
    "int": "s32",
    "long": "s64",
}
# refused arguments of another shape or meaning: the arguments that may be meant
OTHER_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("pad", "pads"), ("pads_begin", "pads_end")),
    **dict.fromkeys(("group", "feature_group_count"), ("groups",)),
    **dict.fromkeys(("kernel_size", "kernel_shape"), ("kernel",)),
    **dict.fromkeys(("weight", "filters", "filter", "kernel", "w", "rhs"), ("weights",)),
    **dict.fromkeys(("input", "inputs", "x", "data", "lhs"), ("src",)),
    "b": ("bias",),
    **dict.fromkeys(("rhs_dilation", "dilation_rate"), ("dilations",)),
    "window_strides": ("strides",),
    "dimension_numbers": ("data_format", "weights_format"),
    "scale_factor": ("scales",),
    "method": ("ranges",),
    "negative_slope": ("alpha",),
    **dict.fromkeys(("device", "backend", "target"), ("engine",)),
    "dim": ("axis", "axes"),
    **dict.fromkeys(("keepdim", "keepdims"), ("keep_dims",)),
    "eps": ("epsilon",),
}
# refused arguments that a function lacks: (an argument by which the function is told, {argument: what to do instead})
NO_ARGUMENTS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    (
        "weights",
        dict.fromkeys(
            ("kernel_size", "kernel_shape", "kernel", "in_channels", "out_channels"),
            "the shape of 'weights' says it; leave it out",
        ),
    ),
    (
        "dilations",
        {
            "output_padding": "only conv_transpose and gradients of data have it",
            **dict.fromkeys(
                ("output_shape", "output_size", "dst_shape"), "pads and 'output_padding' set the result's shape"
            ),
            "lhs_dilation": "conv_transpose has it, as strides",
        },
    ),
    *(
        (
            told,
            {
                **dict.fromkeys(
                    ("activation", "act"), "compute it from the result, such as dgo.ops.relu(y) in a graph"
                ),
                **dict.fromkeys(("use_bias", "bias_attr"), "leave 'bias' out where there is none"),
                "padding_mode": "pads are zeros; dgo.ops.pad adds others",
            },
        )
        for told in ("dilations", "dilation")
    ),
    ("out", {"name": "ops of a graph have names, dgo.ops", "dtype": "the arrays have it already"}),
    (
        "shapes",
        {
            **dict.fromkeys(("providers", "device", "target"), "the CPU runs it; another engine is 'engine'"),
            **dict.fromkeys(
                ("sess_options", "precision", "tune", "threads", "algorithm", "progress"),
                "the net that is compiled has options: dgo.from_onnx(path).compile(...)",
            ),
            **dict.fromkeys(("dynamic_axes", "dynamic_shapes"), "dims that the model leaves unknown stay so"),
        },
    ),
    (
        "tune",
        {
            **dict.fromkeys(
                ("device", "backend", "engine", "providers", "target"), "a graph has it, dgo.Graph(engine=...)"
            ),
            **dict.fromkeys(
                ("num_threads", "n_threads", "nthreads", "intra_op_num_threads"), "it is 'threads' of Graph.compile"
            ),
            **dict.fromkeys(("optimize", "optimise", "level"), "it is always done; see 'tune'"),
            **dict.fromkeys(("inputs", "example_inputs"), "sizes are known from the graph, or at the first call"),
            **dict.fromkeys(("dtype", "half", "fp16"), "see 'precision'"),
        },
    ),
)
# values of 'padding' that are no words of 'auto_pad'
CAUSAL: Final = "pad the front of the axis alone: pads_begin=dilations * (kernel - 1), pads_end=0"
# a framework's format of filters for ConvTransposeBackpropFilters
OLDER_FILTERS: Final = "conv_transpose_backward_weights has it, as weights_format"
# refused values: (a value that the argument takes, what is meant)
OTHER_VALUES: Final[dict[str, tuple[str, str]]] = {
    "causal": ("None", CAUSAL),
    "ohwi": ("XIO", "move its axes: weights.transpose(1, 2, 3, 0) is XIO"),
    **dict.fromkeys(("cuda", "xpu", "mps"), ("gpu", "GPUs of Intel are 'gpu'")),
    **dict.fromkeys(("npu", "tpu", "auto"), ("gpu", "GPUs of Intel are 'gpu', other accelerators are not used")),
}
# ops under other names; a value with a space is a formula
OPS: Final[dict[str, str]] = {
    **dict.fromkeys(("transpose", "permute", "swapaxes", "moveaxis"), "static_transpose"),
    **dict.fromkeys(("reshape", "flatten", "view", "squeeze", "unsqueeze", "expand_dims"), "static_reshape"),
    **dict.fromkeys(("conv", "conv1d", "conv2d", "conv3d"), "convolution"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), "conv_transpose"),
    **dict.fromkeys(("conv1d_transpose", "conv2d_transpose", "conv3d_transpose"), "conv_transpose"),
    **dict.fromkeys(("deconvolution", "deconv"), "conv_transpose"),
    **dict.fromkeys(("linear", "dense", "gemm", "dot", "mm", "bmm", "fully_connected"), "matmul"),
    **dict.fromkeys(("mean", "average"), "reduce_mean"),
    **dict.fromkeys(("sum", "reducesum"), "reduce_sum"),
    "max": "reduce_max",
    "min": "reduce_min",
    "prod": "reduce_prod",
    **dict.fromkeys(("mul", "times"), "multiply"),
    **dict.fromkeys(("sub", "minus"), "subtract"),
    **dict.fromkeys(("div", "truediv"), "divide"),
    **dict.fromkeys(
        ("batch_norm", "batchnorm", "batch_normalization", *(f"batch{_}norm{n}d" for _ in ("", "_") for n in "123")),
        "batch_norm_inference",
    ),
    **dict.fromkeys(("resize", "upsample", "upsample1d", "upsample2d", "upsample3d"), "interpolate"),
    **dict.fromkeys(("embedding", "index_select", "take"), "gather"),
    **dict.fromkeys(("globalavgpool", "global_avg_pool", "global_average_pool"), "reduce_mean"),
    **dict.fromkeys(("lstm", "gru", "rnn"), "recurrent layers are read from models, dgo.from_onnx(path)"),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool3d", *(f"maxpool{n}d" for n in "123"), "maxpool"), "max_pool"
    ),
    **dict.fromkeys(
        ("avg_pool1d", "avg_pool2d", "avg_pool3d", "average_pool", *(f"avgpool{n}d" for n in "123"), "avgpool"),
        "avg_pool",
    ),
    **dict.fromkeys(("cat", "concatenate", "hstack", "vstack", "stack"), "concat"),
    **dict.fromkeys(("where", "cond"), "select"),
    **dict.fromkeys(("cast", "astype"), "type_cast"),
    **dict.fromkeys(("split", "chunk", "narrow"), "index the Value, such as x[:, :8] and x[:, 8:]"),
    **dict.fromkeys(("instance_norm", "instancenorm"), "use dgo.ops.group_norm with a group for each channel"),
    **dict.fromkeys(("einsum", "tensordot", "inner"), "matmul"),
    **dict.fromkeys(
        ("pixel_shuffle", "depth_to_space", "argmax", "argmin"), "it is read from models, dgo.from_onnx(path)"
    ),
    **dict.fromkeys(("clip", "hardtanh", "relu6"), "clamp"),
    "hardsigmoid": "hard_sigmoid",
    **dict.fromkeys(("silu", "swish"), "x * dgo.ops.sigmoid(x)"),
}
# names that are not in the package itself: where they are
_FROM_ONNX: Final = "a model is read and compiled by dgo.from_onnx(path).compile(), and the Net is called"
_BY_ONNX: Final = "export the model to ONNX, then dgo.from_onnx(path)"
_COMPILED: Final = "see Graph.compile, whose Net is called"
PACKAGE: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("partition", "op", "logical_tensor", "stream", "tensor", "graph", "compiled_partition", "native", "allocator"),
        "the objects of the C++ API are in dnnl_graph_ops.graph_api",
    ),
    **dict.fromkeys(
        ("optimize", "optimise", "report", "warm_up", "refresh"),
        "dnnl_graph_ops.torch has it, import dnnl_graph_ops.torch as dgt",
    ),
    **dict.fromkeys(
        ("tensor", "array", "zeros", "ones", "from_numpy", "asarray"),
        "tensors are NumPy arrays, and a Value in a Graph",
    ),
    **dict.fromkeys(
        ("float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64"),
        "dtypes are NumPy's, such as np.float32 and ml_dtypes.bfloat16, or names such as 'f32'",
    ),
    **dict.fromkeys(("set_threads", "threads", "num_threads"), "it is dgo.set_num_threads(n)"),
    **dict.fromkeys(("device", "devices"), "it is dgo.engine('cpu'); dgo.engines() lists them"),
    "version": "it is dgo.__version__",
    "save": "a net has it, net.save(path)",
    **dict.fromkeys(("inferencesession", "load_onnx", "read_model", "compile_model", "core", "load_model"), _FROM_ONNX),
    **dict.fromkeys(("from_keras", "from_tf", "from_tensorflow", "from_jax", "from_flax", "from_paddle"), _BY_ONNX),
    **dict.fromkeys(("from_pytorch", "load_torch"), "it is dgo.from_torch(torch.export.export(model.eval(), inputs))"),
    **dict.fromkeys(("jit", "run", "session", "executor"), _COMPILED),
    **dict.fromkeys(("model", "module", "sequential", "layer"), "see dgo.Graph, dgo.nn and dnnl_graph_ops.torch"),
    **dict.fromkeys(("calibrate", "quantize_static", "quantize_dynamic"), "it is dgo.quantize.calibrate"),
    **dict.fromkeys(("export", "to_onnx"), "a calibration has it, calibration.to_onnx(path)"),
}
# an op that a graph computes, on arrays
ON_ARRAYS: Final = "in one call on arrays: g = dgo.Graph(); g.compile(dgo.ops.{0}(g.input('x', x.shape)))(x)"
# methods and functions of other packages, by the class or module that lacks them here
_CALLED: Final = "a net is called, net(x) or net.run({name: array})"
_ENGINE: Final = "a net runs where its graph was compiled for: dgo.Graph(engine=dgo.engine('gpu'))"
_INFERS: Final = "a net only infers; leave it out"
_COMPILE_FIRST: Final = "compile the graph first: net = g.compile(y); net(x)"
_NO_EXPORT: Final = "net.save(path) writes a file for dgo.load; calibration.to_onnx(path) writes ONNX"
BUILDERS: Final = "ops are functions of dgo.ops on Values, such as dgo.ops.relu(x)"
_PLAIN_CONVOLUTIONS: Final = "nn has Conv1d to Conv3d and ConvTranspose1d to 3d"
_OPTIMIZE: Final = "it is dgt.optimize(model)"
MEMBERS: Final[dict[str, dict[str, str]]] = {
    "Net": {
        **dict.fromkeys(
            ("predict", "forward", "infer", "apply", "execute", "invoke", "__call__", "start_async"), _CALLED
        ),
        **dict.fromkeys(("to", "cuda", "cpu", "xpu", "device"), _ENGINE),
        **dict.fromkeys(("eval", "train", "requires_grad_", "zero_grad"), _INFERS),
        **dict.fromkeys(("export", "to_onnx", "save_model", "export_model"), _NO_EXPORT),
        **dict.fromkeys(("get_inputs", "input"), "it is net.inputs, or net.input_names"),
        **dict.fromkeys(("get_outputs", "output"), "it is net.outputs, or net.output_names"),
        **dict.fromkeys(("compile", "optimize"), "the net is compiled; another one is net.graph.compile(...)"),
        "summary": "print(net.explain()) lists what runs",
        **dict.fromkeys(("weights", "parameters", "state_dict"), "constants are in net.graph.constants"),
        **dict.fromkeys(("shape", "input_shape", "output_shape"), "see the shapes of net.inputs and net.outputs"),
        "quantize": "it is dgo.quantize.calibrate(net, samples).compile()",
        **dict.fromkeys(
            ("reshape", "resize", "set_shape", "set_batch_size"),
            "a dim that is None takes any size at a call, and dgo.from_onnx(path, shapes=) fixes it",
        ),
        **dict.fromkeys(("warm_up", "warmup"), "it is net.prepare(sizes)"),
    },
    "Calibration": {
        **dict.fromkeys(
            ("save", "explain", "profile", "benchmark", "run", "predict", "inputs"),
            "compile it first: net = calibration.compile(); net.save(path)",
        ),
        **dict.fromkeys(("export", "to_qdq", "onnx"), "it is calibration.to_onnx(path)"),
        **dict.fromkeys(("report", "summary", "snr"), "print(calibration) shows errors and scales of layers"),
        "net": "it is calibration.compile()",
    },
    "Pool": {
        **dict.fromkeys(
            ("map", "imap", "starmap", "apply", "apply_async", "run", "execute", "call"),
            "it is pool.submit(net, x).result(), and for many arrays [pool.submit(net, x) for x in arrays]",
        ),
        **dict.fromkeys(("shutdown", "terminate", "join", "stop", "wait"), "it is pool.close(cancel=True, timeout=10)"),
        **dict.fromkeys(("size", "queue", "qsize", "pending", "active", "stats"), "see pool.running and pool.queued"),
        "warm_up": "it is pool.prepare(net, sizes)",
    },
    "Module": {
        **dict.fromkeys(("forward", "predict", "apply"), "a module is called, m(x)"),
        **dict.fromkeys(
            ("to", "cuda", "cpu"), "the engine is chosen when it is made, Conv2d(..., engine=dgo.engine('gpu'))"
        ),
        **dict.fromkeys(("train", "eval"), "leave it out: a module computes the same in both"),
        **dict.fromkeys(("parameters", "named_parameters"), "they are m.weight and m.bias, or m.state_dict()"),
        **dict.fromkeys(
            ("zero_grad", "requires_grad_"), "m.backward(diff_dst) sets m.weight_grad and m.bias_grad anew"
        ),
    },
    "Graph": {
        **dict.fromkeys(("run", "forward", "predict", "execute", "save", "explain", "profile"), _COMPILE_FIRST),
        **dict.fromkeys(("add_node", "add_op", "node", "op", "add_layer", "append"), BUILDERS),
        **dict.fromkeys(("optimize", "optimise", "finalize", "build"), "g.compile(y) does it"),
        **dict.fromkeys(("add_input", "placeholder"), "it is g.input(name, shape)"),
        **dict.fromkeys(("add_output", "output", "mark_output"), "outputs are given to compile, g.compile({name: y})"),
        **dict.fromkeys(("initializer", "add_initializer", "parameter", "weight"), "it is g.constant(array)"),
        "to_onnx": "only calibrations are written as ONNX; g.to_json() writes benchdnn's format",
    },
    "Value": {
        **dict.fromkeys(
            ("numpy", "detach", "item", "tolist", "cpu", "data", "value", "eval"),
            "a Value has no numbers before its graph is compiled and called: g.compile(y)(x)",
        ),
        **dict.fromkeys(("size", "rank"), "see its shape and ndim"),
        **dict.fromkeys(("to", "float", "half"), "use dgo.ops.type_cast"),
        "contiguous": "leave it out",
    },
    "dnnl_graph_ops.nn": {
        "linear": f"dgo.ops.matmul computes it in a graph; {_PLAIN_CONVOLUTIONS}",
        **dict.fromkeys(
            ("sequential", "module", "modulelist", "functional", "parameter", "init", "identity", "flatten"),
            f"build a graph of dgo.ops; {_PLAIN_CONVOLUTIONS}",
        ),
        **dict.fromkeys(
            ("adam", "adamw", "sgd", "rmsprop", "optim"),
            f"update module.weight by module.weight_grad yourself, or train in PyTorch with dnnl_graph_ops.torch; "
            f"{_PLAIN_CONVOLUTIONS}",
        ),
        **dict.fromkeys(("mseloss", "crossentropyloss", "bceloss", "l1loss"), "compute the loss in NumPy"),
    },
    "dnnl_graph_ops.torch": {
        "compile": "it is torch.compile(model, backend='dnnl_graph_ops'), or dgt.optimize(model)",
        **dict.fromkeys(("optimise", "accelerate", "jit", "convert", "wrap"), _OPTIMIZE),
        **dict.fromkeys(("quantize", "calibrate"), "it is dnnl_graph_ops.quantize.calibrate(model, samples)"),
        **dict.fromkeys(("profile", "benchmark", "summary", "explain"), "it is dgt.report(model, *inputs)"),
        **dict.fromkeys(
            ("from_torch", "export"), "it is dnnl_graph_ops.from_torch(torch.export.export(model, inputs))"
        ),
    },
    "dnnl_graph_ops.graph_api": {
        "memory": "memory is a tensor here, tensor(logical_tensor, engine, array)",
        "primitive": "what is compiled is a partition, partition.compile",
        "dnnl": "its names are here, such as graph and engine",
    },
    "dnnl_graph_ops.quantize": dict.fromkeys(
        ("quantize", "quantize_static", "quantize_dynamic", "prepare", "convert", "quantize_"),
        "it is dgo.quantize.calibrate(model, samples).compile()",
    ),
}
# keywords of calls of a net in other packages
CALLS: Final[dict[str, str]] = {
    **dict.fromkeys(("iterations", "iters", "n", "number", "runs", "repeats"), "repeat"),
    **dict.fromkeys(("output", "outputs"), "out"),
    "timeout": "net.run(feeds, timeout=)",
}
# what reads a file of another kind, by the end of its name
_TORCH_FILE: Final = "load it in PyTorch, then dgo.from_torch(torch.export.export(model.eval(), inputs))"
FILES: Final[dict[str, str]] = {
    ".onnx": "dgo.from_onnx(path).compile() reads it",
    ".pt2": "dgo.from_torch(torch.export.load(path)).compile() reads it",
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".safetensors"), _TORCH_FILE),
    **dict.fromkeys((".h5", ".keras", ".tflite", ".pb", ".mlmodel"), "export the model to ONNX first"),
    ".json": "dgo.Graph.from_json(path) reads it",
    ".net": "dgo.load(path) reads it",
    ".npy": "it holds an array, np.load(path)",
    ".npz": "it holds arrays, np.load(path)",
}


def of_file(path: object, but: str) -> str:
    """Returns "; ..." with what reads the file, by the end of its name; "" for unknown ends and the end `but`."""
    end = str(path)[str(path).rfind(".") :].lower() if "." in str(path) else ""
    return f"; {FILES[end]}" if end in FILES and end != but else ""


def counted(count: int | str | None, noun: str) -> str:
    """Returns "1 row", "2 rows", "3 spatial axes"."""
    plural = f"{noun[:-2]}es" if noun.endswith("axis") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
