"""Made by `python tools/make_stubs.py`; a test compares."""

from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

OTHER_KINDS: Final[dict[str, str]]
OTHER_ATTRS: Final[dict[str, str]]

class engine_kind(IntEnum):
    any = 0
    cpu = 1
    gpu = 2

class stream_flags(IntEnum):
    in_order = 1
    out_of_order = 2
    default_flags = 1

class data_type(IntEnum):
    undef = 0
    f16 = 1
    bf16 = 2
    f32 = 3
    s32 = 4
    s8 = 5
    u8 = 6
    f64 = 7
    boolean = 8
    f8_e5m2 = 9
    f8_e4m3 = 10
    s4 = 11
    u4 = 12
    e8m0 = 13
    f4_e2m1 = 14
    f4_e3m0 = 15
    s64 = 16
    dt_undef = 0

class layout_type(IntEnum):
    undef = 0
    any = 1
    strided = 2
    opaque = 3
    lt_undef = 0

class property_type(IntEnum):
    undef = 0
    variable = 1
    constant = 2
    host_scalar = 3
    pt_undef = 0

class op_kind(IntEnum):
    Abs = 0
    AbsBackward = 1
    Add = 2
    AvgPool = 3
    AvgPoolBackward = 4
    BatchNormTrainingBackward = 5
    BatchNormForwardTraining = 6
    BatchNormInference = 7
    BiasAdd = 8
    BiasAddBackward = 9
    Clamp = 10
    ClampBackward = 11
    Concat = 12
    Convolution = 13
    ConvolutionBackwardData = 14
    ConvolutionBackwardWeights = 15
    ConvTranspose = 16
    ConvTransposeBackwardData = 17
    ConvTransposeBackwardWeights = 18
    Dequantize = 19
    Divide = 20
    DynamicDequantize = 21
    DynamicQuantize = 22
    Elu = 23
    EluBackward = 24
    End = 25
    Exp = 26
    GELU = 27
    GELUBackward = 28
    HardSwish = 29
    HardSwishBackward = 30
    Interpolate = 31
    InterpolateBackward = 32
    LayerNorm = 33
    LayerNormBackward = 34
    LeakyReLU = 35
    Log = 36
    LogSoftmax = 37
    LogSoftmaxBackward = 38
    MatMul = 39
    Maximum = 40
    MaxPool = 41
    MaxPoolBackward = 42
    Minimum = 43
    Mish = 44
    MishBackward = 45
    Multiply = 46
    PReLU = 47
    PReLUBackward = 48
    Quantize = 49
    Reciprocal = 50
    ReduceL1 = 51
    ReduceL2 = 52
    ReduceMax = 53
    ReduceMean = 54
    ReduceMin = 55
    ReduceProd = 56
    ReduceSum = 57
    ReLU = 58
    ReLUBackward = 59
    Reorder = 60
    Round = 61
    Sigmoid = 62
    SigmoidBackward = 63
    SoftMax = 64
    SoftMaxBackward = 65
    SoftPlus = 66
    SoftPlusBackward = 67
    Sqrt = 68
    SqrtBackward = 69
    Square = 70
    SquaredDifference = 71
    StaticReshape = 72
    StaticTranspose = 73
    Subtract = 74
    Tanh = 75
    TanhBackward = 76
    TypeCast = 77
    Wildcard = 78
    HardSigmoid = 79
    HardSigmoidBackward = 80
    Select = 81
    Pow = 82
    GroupNorm = 83
    GenIndex = 84
    GreaterEqual = 85
    RMSNorm = 86
    Dropout = 87
    ConvTransposeBackpropFilters = 18

class op_attr(IntEnum):
    undef = 0
    alpha = 1
    beta = 2
    epsilon = 3
    max = 4
    min = 5
    momentum = 6
    scales = 32
    axis = 48
    begin_norm_axis = 49
    groups = 50
    axes = 64
    dilations = 65
    dst_shape = 66
    kernel = 67
    order = 68
    output_padding = 69
    pads_begin = 70
    pads_end = 71
    shape = 72
    sizes = 73
    src_shape = 74
    strides = 75
    weights_shape = 76
    zps = 77
    group_shape = 78
    exclude_pad = 96
    keep_dims = 97
    keep_stats = 98
    per_channel_broadcast = 99
    special_zero = 100
    transpose_a = 101
    transpose_b = 102
    use_affine = 103
    use_dst = 104
    auto_broadcast = 128
    auto_pad = 129
    coordinate_transformation_mode = 130
    data_format = 131
    mode = 132
    qtype = 133
    rounding_type = 134
    weights_format = 135
    accumulation_mode = 136
    filter_shape = 76

class partition_policy(IntEnum):
    fusion = 1
    debug = 2

class fpmath_modes(IntEnum):
    strict = 0
    bf16 = 1
    f16 = 2
    any = 3
    tf32 = 4

class status(IntEnum):
    success = 0
    out_of_memory = 1
    invalid_arguments = 2
    unimplemented = 3
    last_impl_reached = 4
    runtime_error = 5
    not_required = 6
    invalid_graph = 7
    invalid_graph_op = 8
    invalid_shape = 9
    invalid_data_type = 10

class dump_mode(IntEnum):
    none = 0
    subgraph = 1
    graph = 2

class cpu_isa(IntEnum):
    isa_default = 0
    sse41 = 1
    avx = 3
    avx2 = 7
    avx2_vnni = 15
    avx2_vnni_2 = 31
    avx512_core = 39
    avx512_core_vnni = 103
    avx512_core_bf16 = 231
    avx512_core_fp16 = 495
    avx512_core_amx = 4079
    avx512_core_amx_fp16 = 8175
    avx10_1_512 = 495
    avx10_1_512_amx = 4079
    avx10_1_512_amx_fp16 = 8175
    avx10_2 = 131583
    avx10_2_512 = 131583
    avx10_2_amx_2 = 143359
    avx10_2_512_amx_2 = 143359

class cpu_isa_hints(IntEnum):
    no_hints = 0
    prefer_ymm = 1

class EngineNames:
    any: ClassVar[engine_kind]
    cpu: ClassVar[engine_kind]
    gpu: ClassVar[engine_kind]
    kind: TypeAlias = engine_kind

class StreamNames:
    in_order: ClassVar[stream_flags]
    out_of_order: ClassVar[stream_flags]
    default_flags: ClassVar[stream_flags]
    flags: TypeAlias = stream_flags

class LogicalTensorNames:
    f16: ClassVar[data_type]
    bf16: ClassVar[data_type]
    f32: ClassVar[data_type]
    s32: ClassVar[data_type]
    s8: ClassVar[data_type]
    u8: ClassVar[data_type]
    f64: ClassVar[data_type]
    boolean: ClassVar[data_type]
    f8_e5m2: ClassVar[data_type]
    f8_e4m3: ClassVar[data_type]
    s4: ClassVar[data_type]
    u4: ClassVar[data_type]
    e8m0: ClassVar[data_type]
    f4_e2m1: ClassVar[data_type]
    f4_e3m0: ClassVar[data_type]
    s64: ClassVar[data_type]
    dt_undef: ClassVar[data_type]
    any: ClassVar[layout_type]
    strided: ClassVar[layout_type]
    opaque: ClassVar[layout_type]
    lt_undef: ClassVar[layout_type]
    variable: ClassVar[property_type]
    constant: ClassVar[property_type]
    host_scalar: ClassVar[property_type]
    pt_undef: ClassVar[property_type]
    data_type: TypeAlias = data_type
    layout_type: TypeAlias = layout_type
    property_type: TypeAlias = property_type

class OpNames:
    Abs: ClassVar[op_kind]
    AbsBackward: ClassVar[op_kind]
    Add: ClassVar[op_kind]
    AvgPool: ClassVar[op_kind]
    AvgPoolBackward: ClassVar[op_kind]
    BatchNormTrainingBackward: ClassVar[op_kind]
    BatchNormForwardTraining: ClassVar[op_kind]
    BatchNormInference: ClassVar[op_kind]
    BiasAdd: ClassVar[op_kind]
    BiasAddBackward: ClassVar[op_kind]
    Clamp: ClassVar[op_kind]
    ClampBackward: ClassVar[op_kind]
    Concat: ClassVar[op_kind]
    Convolution: ClassVar[op_kind]
    ConvolutionBackwardData: ClassVar[op_kind]
    ConvolutionBackwardWeights: ClassVar[op_kind]
    ConvTranspose: ClassVar[op_kind]
    ConvTransposeBackwardData: ClassVar[op_kind]
    ConvTransposeBackwardWeights: ClassVar[op_kind]
    Dequantize: ClassVar[op_kind]
    Divide: ClassVar[op_kind]
    DynamicDequantize: ClassVar[op_kind]
    DynamicQuantize: ClassVar[op_kind]
    Elu: ClassVar[op_kind]
    EluBackward: ClassVar[op_kind]
    End: ClassVar[op_kind]
    Exp: ClassVar[op_kind]
    GELU: ClassVar[op_kind]
    GELUBackward: ClassVar[op_kind]
    HardSwish: ClassVar[op_kind]
    HardSwishBackward: ClassVar[op_kind]
    Interpolate: ClassVar[op_kind]
    InterpolateBackward: ClassVar[op_kind]
    LayerNorm: ClassVar[op_kind]
    LayerNormBackward: ClassVar[op_kind]
    LeakyReLU: ClassVar[op_kind]
    Log: ClassVar[op_kind]
    LogSoftmax: ClassVar[op_kind]
    LogSoftmaxBackward: ClassVar[op_kind]
    MatMul: ClassVar[op_kind]
    Maximum: ClassVar[op_kind]
    MaxPool: ClassVar[op_kind]
    MaxPoolBackward: ClassVar[op_kind]
    Minimum: ClassVar[op_kind]
    Mish: ClassVar[op_kind]
    MishBackward: ClassVar[op_kind]
    Multiply: ClassVar[op_kind]
    PReLU: ClassVar[op_kind]
    PReLUBackward: ClassVar[op_kind]
    Quantize: ClassVar[op_kind]
    Reciprocal: ClassVar[op_kind]
    ReduceL1: ClassVar[op_kind]
    ReduceL2: ClassVar[op_kind]
    ReduceMax: ClassVar[op_kind]
    ReduceMean: ClassVar[op_kind]
    ReduceMin: ClassVar[op_kind]
    ReduceProd: ClassVar[op_kind]
    ReduceSum: ClassVar[op_kind]
    ReLU: ClassVar[op_kind]
    ReLUBackward: ClassVar[op_kind]
    Reorder: ClassVar[op_kind]
    Round: ClassVar[op_kind]
    Sigmoid: ClassVar[op_kind]
    SigmoidBackward: ClassVar[op_kind]
    SoftMax: ClassVar[op_kind]
    SoftMaxBackward: ClassVar[op_kind]
    SoftPlus: ClassVar[op_kind]
    SoftPlusBackward: ClassVar[op_kind]
    Sqrt: ClassVar[op_kind]
    SqrtBackward: ClassVar[op_kind]
    Square: ClassVar[op_kind]
    SquaredDifference: ClassVar[op_kind]
    StaticReshape: ClassVar[op_kind]
    StaticTranspose: ClassVar[op_kind]
    Subtract: ClassVar[op_kind]
    Tanh: ClassVar[op_kind]
    TanhBackward: ClassVar[op_kind]
    TypeCast: ClassVar[op_kind]
    Wildcard: ClassVar[op_kind]
    HardSigmoid: ClassVar[op_kind]
    HardSigmoidBackward: ClassVar[op_kind]
    Select: ClassVar[op_kind]
    Pow: ClassVar[op_kind]
    GroupNorm: ClassVar[op_kind]
    GenIndex: ClassVar[op_kind]
    GreaterEqual: ClassVar[op_kind]
    RMSNorm: ClassVar[op_kind]
    Dropout: ClassVar[op_kind]
    ConvTransposeBackpropFilters: ClassVar[op_kind]
    undef: ClassVar[op_attr]
    alpha: ClassVar[op_attr]
    beta: ClassVar[op_attr]
    epsilon: ClassVar[op_attr]
    max: ClassVar[op_attr]
    min: ClassVar[op_attr]
    momentum: ClassVar[op_attr]
    scales: ClassVar[op_attr]
    axis: ClassVar[op_attr]
    begin_norm_axis: ClassVar[op_attr]
    groups: ClassVar[op_attr]
    axes: ClassVar[op_attr]
    dilations: ClassVar[op_attr]
    dst_shape: ClassVar[op_attr]
    kernel: ClassVar[op_attr]
    order: ClassVar[op_attr]
    output_padding: ClassVar[op_attr]
    pads_begin: ClassVar[op_attr]
    pads_end: ClassVar[op_attr]
    shape: ClassVar[op_attr]
    sizes: ClassVar[op_attr]
    src_shape: ClassVar[op_attr]
    strides: ClassVar[op_attr]
    weights_shape: ClassVar[op_attr]
    zps: ClassVar[op_attr]
    group_shape: ClassVar[op_attr]
    exclude_pad: ClassVar[op_attr]
    keep_dims: ClassVar[op_attr]
    keep_stats: ClassVar[op_attr]
    per_channel_broadcast: ClassVar[op_attr]
    special_zero: ClassVar[op_attr]
    transpose_a: ClassVar[op_attr]
    transpose_b: ClassVar[op_attr]
    use_affine: ClassVar[op_attr]
    use_dst: ClassVar[op_attr]
    auto_broadcast: ClassVar[op_attr]
    auto_pad: ClassVar[op_attr]
    coordinate_transformation_mode: ClassVar[op_attr]
    data_format: ClassVar[op_attr]
    mode: ClassVar[op_attr]
    qtype: ClassVar[op_attr]
    rounding_type: ClassVar[op_attr]
    weights_format: ClassVar[op_attr]
    accumulation_mode: ClassVar[op_attr]
    filter_shape: ClassVar[op_attr]
    kind: TypeAlias = op_kind
    attr: TypeAlias = op_attr

class GraphNames:
    strict: ClassVar[fpmath_modes]
    bf16: ClassVar[fpmath_modes]
    f16: ClassVar[fpmath_modes]
    any: ClassVar[fpmath_modes]
    tf32: ClassVar[fpmath_modes]
    fpmath_mode: TypeAlias = fpmath_modes

class PartitionNames:
    fusion: ClassVar[partition_policy]
    debug: ClassVar[partition_policy]
    policy: TypeAlias = partition_policy
