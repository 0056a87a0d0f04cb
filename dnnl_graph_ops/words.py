"""Words of other packages: some are accepted as synonyms, others are named in messages with this package's word."""

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
    "group": ("groups",),
    "kernel_size": ("kernel",),
    "weight": ("weights",),
    "input": ("src",),
    "dim": ("axis", "axes"),
    **dict.fromkeys(("keepdim", "keepdims"), ("keep_dims",)),
    "eps": ("epsilon",),
}
# refused arguments that an op lacks: what to use instead
NO_ARGUMENTS: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("kernel_size", "kernel", "in_channels", "out_channels"), "the shape of 'weights' says it; leave it out"
    ),
    "output_padding": "only conv_transpose and gradients of data have it",
}
# words of padding that put an odd position at the end
PADDINGS: Final[dict[str, str]] = {"same": "same_upper"}
# refused values: what is meant
OTHER_VALUES: Final[dict[str, str]] = {
    **{word: f"did you mean {ours!r}?" for word, ours in PADDINGS.items()},
    "ohwi": "move its axes: weights.transpose(1, 2, 3, 0) is XIO",
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
    **dict.fromkeys(("batch_norm", "batchnorm", "batch_normalization"), "batch_norm_inference"),
    **dict.fromkeys(("resize", "upsample"), "interpolate"),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "maxpool"), "max_pool"),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d", "average_pool", "avgpool"), "avg_pool"),
    **dict.fromkeys(("cat", "concatenate", "hstack", "vstack", "stack"), "concat"),
    **dict.fromkeys(("where", "cond"), "select"),
    **dict.fromkeys(("cast", "astype"), "type_cast"),
    **dict.fromkeys(("clip", "hardtanh", "relu6"), "clamp"),
    "hardsigmoid": "hard_sigmoid",
    **dict.fromkeys(("silu", "swish"), "x * dgo.ops.sigmoid(x)"),
}
# names that are not in the package itself: where they are
PACKAGE: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("partition", "op", "logical_tensor", "stream", "tensor", "graph", "compiled_partition", "native", "allocator"),
        "the objects of the C++ API are in dnnl_graph_ops.graph_api",
    ),
    "optimize": "dnnl_graph_ops.torch has it, import dnnl_graph_ops.torch as dgt",
    "report": "dnnl_graph_ops.torch has it, import dnnl_graph_ops.torch as dgt",
    **dict.fromkeys(("Tensor", "Array", "array"), "tensors are NumPy arrays, and a Value in a Graph"),
    "save": "a net has it, net.save(path)",
    **dict.fromkeys(("jit", "run", "session", "InferenceSession"), "see Graph.compile, whose Net is called"),
    "calibrate": "it is dgo.quantize.calibrate",
}
