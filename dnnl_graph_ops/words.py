"""How other packages call what this one has: words that are understood, and words that messages answer with ours."""

from __future__ import annotations

from typing import Final

# arguments that are understood; what is one there may be several here
ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "stride": ("strides",),
    "padding": ("pads_begin", "pads_end"),
    "dilation": ("dilations",),
}
# strings that are understood in any case; of several the first that an argument takes. An op of the transposed
# family lists its own orders of weights first
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
# of these the words whose order depends on the op
FRAMEWORKS: Final = frozenset({"pytorch", "torch", "onnx", "keras", "tensorflow"})
# names of data types that are understood in any case, besides ours, NumPy's and those of ml_dtypes; with or without
# "torch." before them
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

# what messages answer: data types of two meanings, or that oneDNN has not
OTHER_DTYPES: Final[dict[str, str]] = {
    **dict.fromkeys(("float", "f64", "fp64", "float64", "double"), "f32"),
    "int": "s32",
    "long": "s64",
}
# arguments of another shape or sense, and which may be meant
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
# arguments that an op has not, and what says the same
NO_ARGUMENTS: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("kernel_size", "kernel", "in_channels", "out_channels"), "the shape of 'weights' says it; leave it out"
    ),
    "output_padding": "only conv_transpose and gradients of data have it",
}
# words of padding where the end gets what is odd
PADDINGS: Final[dict[str, str]] = {"same": "same_upper"}
# values that are none, and what is meant
OTHER_VALUES: Final[dict[str, str]] = {
    **{word: f"did you mean {ours!r}?" for word, ours in PADDINGS.items()},
    "ohwi": "move its axes: weights.transpose(1, 2, 3, 0) is XIO",
}
# ops under other names; what has a space is a formula
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
# names that the package itself has not, and where they are
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
