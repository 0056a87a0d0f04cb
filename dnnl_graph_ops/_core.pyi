"""Made by `python tools/make_stubs.py`; a test compares.

The oneDNN Graph C API one to one, and what runs compiled plans. Enumerated arguments take the enums below or their
integer values. Strides count elements. Errors are those of `dnnl_graph_ops.errors`; the GIL is released around
everything that computes or waits.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from . import _kernels

kernels = _kernels

# A NumPy array of any dtype, an object with the buffer protocol, or the address of memory.
_Memory: TypeAlias = np.ndarray[Any, Any] | bytearray | memoryview | int
_Ref: TypeAlias = tuple[int, int]  # slot, byte offset
# slot, byte offset, dtype, shape, strides
_View: TypeAlias = tuple[int, int, int, Sequence[int], Sequence[int]]
_Arrays: TypeAlias = list[Any] | tuple[Any, ...]
_Items: TypeAlias = tuple[Any, ...]
_Slow: TypeAlias = Callable[[_Items, _Items, Any, Any], Any]
_Layout: TypeAlias = tuple[int, Sequence[int], Sequence[int]]  # dtype, shape, strides
_Start: TypeAlias = tuple[int, float, int]

class OpKind(enum.IntEnum):
    abs = 0
    abs_backward = 1
    add = 2
    avg_pool = 3
    avg_pool_backward = 4
    batch_norm_backward = 5
    batch_norm_forward_training = 6
    batch_norm_inference = 7
    bias_add = 8
    bias_add_backward = 9
    clamp = 10
    clamp_backward = 11
    concat = 12
    convolution = 13
    convolution_backward_data = 14
    convolution_backward_weights = 15
    conv_transpose = 16
    conv_transpose_backward_data = 17
    conv_transpose_backward_weights = 18
    dequantize = 19
    divide = 20
    dynamic_dequantize = 21
    dynamic_quantize = 22
    elu = 23
    elu_backward = 24
    end = 25
    exp = 26
    gelu = 27
    gelu_backward = 28
    hard_swish = 29
    hard_swish_backward = 30
    interpolate = 31
    interpolate_backward = 32
    layer_norm = 33
    layer_norm_backward = 34
    leaky_relu = 35
    log = 36
    log_softmax = 37
    log_softmax_backward = 38
    matmul = 39
    maximum = 40
    max_pool = 41
    max_pool_backward = 42
    minimum = 43
    mish = 44
    mish_backward = 45
    multiply = 46
    prelu = 47
    prelu_backward = 48
    quantize = 49
    reciprocal = 50
    reduce_l1 = 51
    reduce_l2 = 52
    reduce_max = 53
    reduce_mean = 54
    reduce_min = 55
    reduce_prod = 56
    reduce_sum = 57
    relu = 58
    relu_backward = 59
    reorder = 60
    round = 61
    sigmoid = 62
    sigmoid_backward = 63
    softmax = 64
    softmax_backward = 65
    softplus = 66
    softplus_backward = 67
    sqrt = 68
    sqrt_backward = 69
    square = 70
    squared_difference = 71
    static_reshape = 72
    static_transpose = 73
    subtract = 74
    tanh = 75
    tanh_backward = 76
    type_cast = 77
    wildcard = 78
    hard_sigmoid = 79
    hard_sigmoid_backward = 80
    select = 81
    pow = 82
    group_norm = 83
    gen_index = 84
    greater_equal = 85
    rms_norm = 86
    dropout = 87

class OpAttr(enum.IntEnum):
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
    group_shape = 78
    accumulation_mode = 136

class DataType(enum.IntEnum):
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

class LayoutType(enum.IntEnum):
    undef = 0
    any = 1
    strided = 2
    opaque = 3

class TensorProperty(enum.IntEnum):
    undef = 0
    variable = 1
    constant = 2
    host_scalar = 3

class PartitionPolicy(enum.IntEnum):
    fusion = 1
    debug = 2

class EngineKind(enum.IntEnum):
    any = 0
    cpu = 1
    gpu = 2

class FpmathMode(enum.IntEnum):
    strict = 0
    bf16 = 1
    f16 = 2
    any = 3
    tf32 = 4

class Status(enum.IntEnum):
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

class StreamFlags(enum.IntEnum):
    in_order = 1
    out_of_order = 2

class CpuIsa(enum.IntEnum):
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

class CpuIsaHints(enum.IntEnum):
    no_hints = 0
    prefer_ymm = 1

class DumpMode(enum.IntEnum):
    none = 0
    subgraph = 1
    graph = 2

class Library:
    """A libdnnl, opened by path after the libraries in `preload`; stays loaded until the process ends.

    Raises RuntimeUnavailableError when it is missing, older than 3.2 or built without the Graph API.
    """

    def __init__(self, path: str, preload: Sequence[str] = ()) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def version(self) -> tuple[int, int, int]: ...
    @property
    def hash(self) -> str: ...
    @property
    def cpu_runtime(self) -> str:
        """none, sequential, omp, tbb, threadpool or sycl."""
    @property
    def gpu_runtime(self) -> str:
        """none, ocl, sycl or ze."""
    def functions(self) -> dict[str, bool]:
        """Every C function this extension knows, and whether the library has it."""
    def has(self, symbol: str) -> bool: ...
    def engine_count(self, kind: int) -> int: ...
    @property
    def verbose(self) -> int:
        """The level set last, 0 to 2; before that the one that ONEDNN_VERBOSE or DNNL_VERBOSE includes."""
    def set_verbose(self, level: int) -> None: ...
    def effective_cpu_isa(self) -> int:
        """A dnnl_cpu_isa_t."""
    def set_max_cpu_isa(self, isa: int) -> None:
        """Before the library has looked at the CPU."""
    def get_cpu_isa_hints(self) -> int: ...
    def set_cpu_isa_hints(self, hints: int) -> None: ...
    def get_default_fpmath_mode(self) -> FpmathMode: ...
    def set_default_fpmath_mode(self, mode: int) -> None: ...
    def set_jit_dump(self, enable: bool) -> None: ...
    def set_jit_profiling_flags(self, flags: int) -> None: ...
    def set_jit_profiling_jitdumpdir(self, folder: str) -> None: ...
    def get_compiled_partition_cache_capacity(self) -> int: ...
    def set_compiled_partition_cache_capacity(self, capacity: int) -> None: ...
    def get_constant_tensor_cache(self) -> bool: ...
    def set_constant_tensor_cache(self, flag: bool) -> None: ...
    def get_constant_tensor_cache_capacity(self, kind: int) -> int:
        """Megabytes; oneDNN 3.4 and later."""
    def set_constant_tensor_cache_capacity(self, kind: int, megabytes: int) -> None:
        """Drops what is cached; oneDNN 3.4 and later."""
    def drop_caches(self) -> None:
        """Empties its caches of primitives, compiled partitions and constants; their capacities stay."""
    def set_dump_mode(self, mode: int) -> None:
        """A mask of DumpMode; oneDNN 3.11 and later."""

class LogCapture:
    """Keeps the lines that oneDNN prints through C's stdout, from now until stop(); needs glibc.

    `pass_on`: they are printed as well. Raises UnsupportedError with another C library.
    """

    def __init__(self, pass_on: bool = False) -> None: ...
    def stop(self) -> list[tuple[int, str]]:
        """The lines, each with the native id of the thread that printed it."""

class Allocator:
    """Memory functions for an engine, by address of C functions; 0 stands for aligned host memory."""

    @staticmethod
    def host(library: Library, allocate: int = 0, deallocate: int = 0) -> Allocator: ...
    @staticmethod
    def sycl(library: Library, allocate: int = 0, deallocate: int = 0) -> Allocator: ...

class Engine:
    """A device. Partitions run only on the very object they were compiled for."""

    def __init__(
        self,
        library: Library,
        kind: int,
        index: int = 0,
        allocator: Allocator | None = None,
        device_memory: bool = False,
    ) -> None:
        """device_memory: a CPU engine is treated like a GPU's, whose partitions never see memory of the host."""
    @staticmethod
    def from_sycl(
        library: Library,
        device: int,
        context: int,
        index: int = 0,
        device_memory: bool = False,
        allocator: Allocator | None = None,
    ) -> Engine: ...
    @staticmethod
    def of_queue(library: Library, queue: int, index: int = 0, device_memory: bool = False) -> Engine:
        """In the context of a sycl::queue, given by its address."""
    @property
    def sycl_identity(self) -> tuple[int, int]:
        """The same for engines on one sycl::device in one sycl::context."""
    def sycl_context_capsule(self) -> object:
        """What dpctl takes for a context."""
    def reaches(self, address: int) -> bool:
        """Whether this is USM of the engine's SYCL context."""
    @property
    def library(self) -> Library: ...
    @property
    def kind(self) -> EngineKind: ...
    @property
    def index(self) -> int: ...
    @property
    def on_device(self) -> bool: ...
    @property
    def sycl_device(self) -> int: ...
    @property
    def sycl_context(self) -> int: ...

class Stream:
    def __init__(self, engine: Engine, flags: int = 1) -> None: ...
    @staticmethod
    def from_sycl(engine: Engine, queue: int) -> Stream: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def sycl_queue(self) -> int: ...
    def wait(self) -> None: ...

class LogicalTensor:
    """Description of a tensor. `dims=None`: unknown rank; None among dims or strides: unknown value.

    Strided tensors of known dims get dense row-major strides where none are given.
    """

    def __init__(
        self,
        id: int,
        dtype: int,
        dims: Sequence[int | None] | None = None,
        strides: Sequence[int | None] | None = None,
        layout: int = 2,
        property: int = 0,
        layout_id: int | None = None,
    ) -> None:
        """layout_id: of LayoutType.opaque, as a compiled partition tells it."""
    @property
    def id(self) -> int: ...
    @property
    def dtype(self) -> DataType: ...
    @property
    def dims(self) -> tuple[int | None, ...] | None: ...
    @property
    def strides(self) -> tuple[int | None, ...] | None: ...
    @property
    def layout_type(self) -> LayoutType: ...
    @property
    def layout_id(self) -> int | None: ...
    def mem_size(self, library: Library) -> int:
        """Bytes."""
    def is_equal(self, library: Library, other: LogicalTensor) -> bool: ...
    @property
    def property(self) -> TensorProperty: ...

class Op:
    def __init__(self, library: Library, id: int, kind: int, name: str) -> None: ...
    def add_input(self, tensor: LogicalTensor) -> None: ...
    def add_output(self, tensor: LogicalTensor) -> None: ...
    def set_attr(self, code: int, type: str, value: float | bool | str | Sequence[float]) -> None:
        """type: f32, f32[], s64, s64[], bool or string."""
    @property
    def id(self) -> int: ...
    @property
    def kind(self) -> OpKind: ...
    @property
    def name(self) -> str: ...

class Tensor:
    """Memory with a description. Arrays are kept alive and must be as large as the description says."""

    def __init__(self, logical_tensor: LogicalTensor, engine: Engine, buffer: _Memory) -> None: ...
    @staticmethod
    def scalar(logical_tensor: LogicalTensor, engine: Engine, value: _Memory) -> Tensor:
        """A host scalar (TensorProperty.host_scalar); oneDNN 3.9 and later."""
    @property
    def logical_tensor(self) -> LogicalTensor: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def writable(self) -> bool: ...
    @property
    def data_handle(self) -> int: ...
    def set_data_handle(self, buffer: _Memory) -> None: ...
    def get_logical_tensor(self) -> LogicalTensor:
        """As the library has it; oneDNN 3.6 and later."""

class CompiledPartition:
    @property
    def engine(self) -> Engine: ...
    @property
    def inputs(self) -> list[LogicalTensor]:
        """In the order given to compile."""
    @property
    def outputs(self) -> list[LogicalTensor]:
        """In the order given to compile, with the shapes and layouts that the library chose."""
    def query(self, id: int) -> LogicalTensor: ...
    @property
    def inplace_ports(self) -> list[tuple[int, int]]:
        """(input id, output id) pairs that may share memory."""
    @property
    def scratchpad_size(self) -> int:
        """Bytes; 0 before oneDNN 3.13, which allocates by itself."""
    @property
    def scratchpad(self) -> LogicalTensor | None: ...
    def execute(self, stream: Any, inputs: Sequence[Any], outputs: Sequence[Any], scratchpad: Any = None, /) -> None:
        """Lists or tuples of tensors in the order given to compile. Returns at once on a GPU: `stream.wait()`.

        Takes `Stream` and `Tensor`, or objects with one as `_native`.
        """

class Partition:
    @staticmethod
    def create_with_op(op: Op, engine_kind: int) -> Partition: ...
    @property
    def id(self) -> int: ...
    @property
    def op_count(self) -> int: ...
    @property
    def op_ids(self) -> list[int]: ...
    @property
    def is_supported(self) -> bool: ...
    @property
    def engine_kind(self) -> EngineKind: ...
    @property
    def input_ports(self) -> list[LogicalTensor]: ...
    @property
    def output_ports(self) -> list[LogicalTensor]: ...
    def compile(
        self,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        engine: Engine,
        one_thread: bool = False,
    ) -> CompiledPartition:
        """Inputs: known dims, strided or opaque. Outputs: also of unknown shape or LayoutType.any.

        one_thread: make one for each thread that runs it, which are the process's first and one of the
        package's own for all others, where an OpenMP library may tie what it makes to a thread: without it,
        oneDNN 3.2 runs gradients of convolutions only in the thread that compiles them.

        Raises UnsupportedError where this library or CPU has no kernel.
        """

class Graph:
    def __init__(self, library: Library, engine_kind: int, fpmath_mode: int = 0) -> None: ...
    @property
    def library(self) -> Library: ...
    @property
    def engine_kind(self) -> EngineKind: ...
    def add_op(self, op: Op) -> None:
        """Copies the op. Raises InvalidArgumentError where it does not fit its schema or its id is taken."""
    def finalize(self) -> None: ...
    @property
    def is_finalized(self) -> bool: ...
    def filter(self, policy: int = 1) -> None: ...
    @property
    def partition_count(self) -> int: ...
    def partitions(self) -> list[Partition]:
        """In topological order; unsupported ops come as partitions of their own."""
    def set_fpmath_mode(self, mode: int, apply_to_int: bool = False) -> None:
        """oneDNN 3.7 and later."""
    def get_fpmath_mode(self) -> tuple[int, bool]:
        """oneDNN 3.7 and later."""
    def set_deterministic(self, on: bool) -> None:
        """oneDNN 3.14 and later."""
    def get_deterministic(self) -> bool:
        """oneDNN 3.14 and later."""

def get_num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def require_threads(n: int) -> None:
    """Error unless so many threads can be started in this process; numbers that could are remembered."""

def set_call_threads(n: int) -> int:
    """For calls of this thread; 0: the net's number, or the default. Returns the number before."""

def call_threads() -> int:
    """What set_call_threads has set for this thread."""

def set_call_deadline(at: float) -> float:
    """Calls of this thread end unfinished at this time of time.monotonic(); inf: never. Returns the time before."""

def call_deadline() -> float:
    """What set_call_deadline has set for this thread."""

def check_deadline(what: str) -> None:
    """Raises Timeout if the deadline of this thread has passed; `what` begins the message."""

def follow_caller(thread: int) -> bool:
    """Let this thread, SYCL's host-task thread, run on the CPU of whoever calls."""

def stop_following() -> None:
    """Let it run anywhere again."""

def following_thread() -> int:
    """The thread that follows, 0 if none."""

def dlpack_import(capsule: object, dtypes: dict[tuple[int, int], np.dtype[Any]]) -> np.ndarray[Any, Any]: ...
def dlpack_open(
    capsule: object,
) -> tuple[int, int, tuple[int, ...], tuple[int, ...] | None, tuple[int, int], bool, object]:
    """The device type, address, shape, strides in elements, (type code, bits), whether writable, owner."""

def dlpack_export_memory(
    owner: object,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: tuple[int, int],
    device: tuple[int, int],
    writable: bool,
    versioned: bool,
) -> object: ...
def dlpack_export(array: np.ndarray[Any, Any], code: int, bits: int, versioned: bool) -> object: ...
def lent_array(tensor: object) -> np.ndarray[Any, Any] | None:
    """An array over the memory of a tensor whose type has DLPack's C exchange functions, asked for nothing else;
    None where the memory does not hold its elements.
    """

class Size:
    """A polynomial of the atoms of a trace, and its value in the trace."""

    @property
    def value(self) -> int:
        """The value in the trace, without a condition."""
    @property
    def number(self) -> int:
        """The number in the trace."""
    @property
    def trace(self) -> Any:
        """The trace."""
    def __getattr__(self, name: str) -> Any: ...
    def __index__(self) -> int: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __neg__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __add__(self, value: Any, /) -> Any: ...
    def __radd__(self, value: Any, /) -> Any: ...
    def __sub__(self, value: Any, /) -> Any: ...
    def __rsub__(self, value: Any, /) -> Any: ...
    def __mul__(self, value: Any, /) -> Any: ...
    def __rmul__(self, value: Any, /) -> Any: ...
    def __floordiv__(self, value: Any, /) -> Any: ...
    def __rfloordiv__(self, value: Any, /) -> Any: ...
    def __mod__(self, value: Any, /) -> Any: ...
    def __rmod__(self, value: Any, /) -> Any: ...
    def __lt__(self, value: Any, /) -> bool: ...
    def __le__(self, value: Any, /) -> bool: ...
    def __gt__(self, value: Any, /) -> bool: ...
    def __ge__(self, value: Any, /) -> bool: ...

class SizeTrace:
    """Sizes that follow from unknown dims, and the conditions under which all answers about them hold."""

    def __init__(self) -> None: ...
    def close(self) -> None:
        """From here on, answers add no conditions."""
    def dim(self, value: int, least: int, most: int) -> Size:
        """An unknown dim with its value in this trace, and its range in all dims that the trace is for."""
    def bounds(self, size: Size) -> tuple[int, int]:
        """The least and the largest value for all dims in the trace's range."""
    def total(self, sizes: Sequence[Any]) -> Any:
        """The sum."""
    def is_multiple(self, a: Size | int, b: Size) -> bool:
        """Whether a is a multiple of b for all dims, where b is one product of atoms."""
    def atom_of(self, size: Size) -> int:
        """The number of the atom that a size consists of."""
    def answers(self) -> list[tuple[Any, str, Any]]:
        """The conditions, in the order in which they were met: sizes that are below 0 or equal 0, or not."""
    def begin_apart(self) -> None:
        """Conditions are apart from here on, and answers given again."""
    def end_apart(self) -> list[tuple[Any, str, Any]]:
        """The conditions since `begin_apart`."""

class Recording:
    """What a trace knows of arguments: sizes, and objects that calls returned."""

    def __init__(self, traced: type[Any]) -> None: ...
    def frozen(self, value: Any) -> Any:
        """A key of arguments, in which sizes are their numbers."""
    def plain(self, value: Any) -> Any:
        """Arguments with the values that their sizes and objects have in the trace, without conditions."""
    def first(self, value: Any) -> Any:
        """A size or a traced object among arguments, or None."""

class Formula:
    """A program on a stack of integers and objects, whose first values are `dims` integers."""

    def __init__(self, dims: int, code: Sequence[int], constants: tuple[Any, ...]) -> None:
        """Raises InvalidArgumentError for code that is no program."""
    def __call__(self, dims: Sequence[int]) -> Any:
        """The result for these dims; None where a condition does not hold, or a number has more than 64 bits."""
    @staticmethod
    def written(
        trace: SizeTrace,
        dims: Sequence[Size],
        conditions: Sequence[tuple[Any, str, Any]],
        result: Any,
        made_by: dict[int, tuple[Any, str]],
        traced: type[Any],
        functions: Any,
    ) -> Formula:
        """The function of dims that returns what a trace returned, or None where a condition does not hold."""
    @staticmethod
    def ops() -> dict[str, int]:
        """The numbers of the code's instructions, by name."""

def register_dtype(dtype: np.dtype[Any], code: int) -> None:
    """Make arrays of a NumPy dtype known as elements of an oneDNN data type; results get the first one."""

def new_array(dtype: int, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """A row-major array as calls return it: from 32 KB on at a cache line."""

class DeviceArrayBase:
    """An array in memory of an engine: newly allocated and row-major, or over memory of another owner."""

    @overload
    def __init__(self, engine: Engine, dtype: int, shape: Sequence[int]) -> None: ...
    @overload
    def __init__(
        self,
        engine: Engine,
        dtype: int,
        shape: Sequence[int],
        strides: Sequence[int],
        address: int,
        writable: bool,
        owner: object,
    ) -> None: ...
    @property
    def extent(self) -> int:
        """Bytes from the first element to behind the last one."""
    @property
    def writable(self) -> bool: ...
    @property
    def address(self) -> int: ...
    def _read(self, target: np.ndarray[Any, Any]) -> None:
        """All `extent` bytes into a contiguous array."""
    def _write(self, source: np.ndarray[Any, Any]) -> None: ...

def check_fork() -> None:
    """Raise Error in a child of fork() that cannot compute: threads of its parent did meanwhile, or a library's."""

def forked_with_one_thread() -> bool:
    """Whether this is a child of fork() whose parent had computed, which may start no threads."""

def threads_were_started() -> None:
    """OpenMP's threads, by others in this process: a child of fork() has none of them."""

def idle_scratch_bytes() -> int:
    """Scratch memory that no plan is using just now, kept for the next one."""

def drop_idle_scratch() -> None: ...

class ScratchLives:
    """The first and the last step that touch each buffer of scratch."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None: ...
    def by_size(self, nbytes: Sequence[int]) -> tuple[list[int], int, list[bool]]:
        """The buffers' byte offsets, the arena's size, and whether each shares memory with larger buffers. Large
        ones come first, each at the lowest offset that is free while it lives.
        """

class Executor:
    """A compiled plan: slots for arrays and the steps that work on them.

    Built by one thread, then finalized; from then on any number of threads may run it at once.
    """

    def __init__(self, engine: Engine | None, name: str = "") -> None: ...
    def add_input(self, dtype: int, shape: Sequence[int], strides: Sequence[int]) -> int:
        """The slot of an array that run() is given."""
    def add_output(self, dtype: int, shape: Sequence[int], strides: Sequence[int]) -> int: ...
    def add_constant(self, array: np.ndarray[Any, Any], shared: bool = False) -> int:
        """A contiguous array; kept alive, not copied. shared: others keep it too, so it counts as theirs."""
    def add_scratch(self, offset: int, nbytes: int) -> int:
        """Part of the arena that a run has for itself; offset is a multiple of 64."""
    def add_partition(
        self, partition: CompiledPartition, inputs: Sequence[_Ref], outputs: Sequence[_Ref], label: str = ""
    ) -> None: ...
    def add_kernel(
        self, kernel: kernels.Kernel, refs: Sequence[_Ref], label: str = "", nbytes: Sequence[int] = ()
    ) -> None:
        """nbytes: how far each operand reaches; engines on a device need it."""
    def add_callback(self, callback: Callable[..., object], refs: Sequence[_View], label: str = "") -> None:
        """Call with NumPy views that are valid until it returns; inputs and constants are read-only."""
    def only_if(self, flag: _Ref, wanted: bool) -> None:
        """The step added last runs only where the s32 at `flag` is, or is not, 0; for engines of the host."""
    def finalize(self, release_gil: bool, threads: int = 0) -> None:
        """threads: OpenMP threads of every run; 0 for what the calling thread has set."""
    def run(self, inputs: _Arrays, outputs: _Arrays) -> None:
        """Raises TypeError, ShapeError or InvalidArgumentError for arrays other than declared."""
    def benchmark(self, inputs: _Arrays, outputs: _Arrays, repeat: int) -> list[float]:
        """Seconds per execution of the native loop alone."""
    def profile(self, inputs: _Arrays, outputs: _Arrays, repeat: int) -> list[tuple[str, float]]:
        """(label, median seconds) of each step."""
    def describe(self) -> list[dict[str, Any]]:
        """Per step: label, kind (partition, kernel, callback), kernel (a name or None), scratchpad_bytes."""
    @property
    def inputs(self) -> list[tuple[list[int], list[int]]]:
        """Shape and strides in elements of each; strides are 0 where an axis has a single element."""
    @property
    def outputs(self) -> list[tuple[list[int], list[int]]]: ...
    @property
    def constants(self) -> list[np.ndarray[Any, Any]]:
        """The arrays that were added as such."""
    @property
    def name(self) -> str: ...
    @property
    def arena_bytes(self) -> int: ...
    @property
    def constant_bytes(self) -> int: ...
    @property
    def idle_contexts(self) -> int: ...
    @property
    def standing(self) -> list[tuple[int, int]]:
        """Ranges of steps that one team of threads runs, known after a run with several threads."""
    @property
    def release_gil(self) -> bool: ...
    @property
    def threads(self) -> int: ...
    @property
    def steps(self) -> int: ...

class PlanSteps:
    """The steps of a plan of kernels, as far as they are the same for all sizes."""

    def __init__(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        places: Sequence[int],
        steps: Sequence[tuple[str, Sequence[int], tuple[_Ref, bool] | None]],
    ) -> None:
        """inputs, outputs: dtypes. places: of scratch buffers, which may share one. steps: a label, slots of
        operands, and a condition: its flag, and whether that must be set.
        """
    def fill(
        self,
        plan: Executor,
        inputs: Sequence[tuple[Sequence[int], Sequence[int]]],
        outputs: Sequence[tuple[Sequence[int], Sequence[int]]],
        nbytes: Sequence[int],
        starts: Sequence[int],
        constants: Sequence[tuple[Any, bool]],
        steps: list[Any],
    ) -> None:
        """Adds all to a plan. inputs, outputs: shapes and strides. nbytes: of scratch buffers. starts: byte
        offsets of places. constants: each with whether others keep it. steps: a kernel, byte offsets and
        extents.
        """

class NetBase:
    """A callable over compiled plans. Calls that no plan fits go to the subclass's `_slow_call`."""

    _input_names: tuple[str, ...]
    _plans: PlanCache
    def __init__(
        self, names: Sequence[str], n_outputs: int, plans: PlanCache, row_major: bool = True, threads: int = 0
    ) -> None:
        """row_major: new results are; otherwise calls without out= go to `_slow_call`. threads: of calls, 0: any."""
    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any: ...
    def _slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

class PlanCache:
    """Plans of a net or of one-shot functions, which all share a limit of bytes.

    Where results are to lie row-major, calls with and without `out` share a plan. attrs hold None, bool,
    int, float, str, bytes, types, and tuples or lists of these; they are compared by type and value.
    """

    def call(self, name: str, arrays: _Items, attrs: _Items, out: Any, engine: Any, slow: _Slow | None, /) -> Any:
        """Run the plan inserted for such a call, else `slow(arrays, attrs, out, engine)`; without slow: None."""
    def executor(self, name: str, arrays: _Items, attrs: _Items, out: Any, engine: Any, /) -> Executor | None:
        """Of the plan inserted for such a call, which now counts as the one used last."""
    def insert(
        self,
        name: str,
        arrays: _Items,
        attrs: _Items,
        out: Any,
        engine: Any,
        executor: Executor,
        start: _Start = ...,
        /,
    ) -> bool:
        """The plan's inputs are the arrays that are not None. What took long to make since its start is kept
        longer.

        False: such a call is never looked up, or the cache was cleared since the start.
        """
    def add(self, executor: Executor, payload: object, start: _Start = ..., /) -> bool:
        """For nets: the plan is found by its own declared arrays. Returns as insert().

        The payload is kept until another plan is added or this one is dropped.
        """
    def find(self, inputs: Sequence[_Layout], results: Sequence[_Layout] | None, /) -> Executor | None:
        """The plan added for such arrays, which now counts as the one used last."""
    def executors(self) -> tuple[Executor, ...]:
        """Of all plans, the one used last first."""
    def latest(self) -> Executor | None:
        """Of the plan used last."""
    def payload(self, executor: object, /) -> Any:
        """What was added with it, if that was the last plan that was added; else None."""
    def threads(self, executor: object, /) -> int:
        """The number of threads that this plan was added for; 0 if it is none of these plans."""
    def clear(self) -> None:
        """Forget all plans and counts; begins a new generation."""
    def start(self) -> _Start:
        """The generation, the time and the number of threads: to be read before what a plan is made for."""
    def info(self) -> dict[str, int]:
        """hits, misses, size"""

class TensorCall:
    """A call of a net, or of a one-shot function, on tensors that came before: looked up and run without
    arrays.
    """

    def __init__(
        self,
        plans: PlanCache,
        name: str | None,
        attributes: tuple[Any, ...],
        tensors: tuple[Any, ...],
        make: Callable[[], Any],
    ) -> None:
        """A net's plans have no name. tensors: as they will come, None for what is absent; make(): for the result."""
    def __call__(self, *tensors: Any) -> Any:
        """The result; None where tensors differ in type, dtype, shape or strides, or where there is no plan."""

class TensorMarks:
    """PyTorch's tensors as they are now: the objects, where and how their elements lie, their versions, and
    their elements at 16 places of 16 bytes.
    """

    def __init__(self, tensors: Sequence[Any]) -> None: ...
    def fit(self, tensors: list[Any] | tuple[Any, ...], /) -> bool:
        """Whether these are the same, and have the same version and the same elements at some fixed places.
        Inference tensors have no version.
        """

def noting_freed(also: Callable[[Any], object]) -> Callable[[Any], None]:
    """For weak references with an attribute `nbytes`: once many bytes went so, memory goes back to the system
    soon.

    Calls `also` first, and no Python code besides.
    """

def give_back() -> None:
    """Free memory goes back to the system now."""

def clear_plans() -> None:
    """Forget the plans and counts of every PlanCache; begins a new generation of each."""

def set_plan_limit(bytes: int) -> None:
    """For every PlanCache together."""

def plan_totals() -> dict[str, int]:
    """Over every PlanCache: net_plans; bytes that plans hold: constants, library, objects; and their limit."""

def set_plan_threads(n: int) -> None:
    """Calls find plans for so many threads, where the calling thread or the net has no number."""

def plan_threads() -> int:
    """The number of threads that calls of this thread find plans for."""

class Message:
    """A kind of protobuf's messages, read as named tuples of the fields asked for."""

    def __init__(self, made: type[Any]) -> None:
        """made: a class of named tuples with an item for each field."""
    def take(self, fields: Sequence[tuple[int, str, Any]]) -> None:
        """Takes fields as (number, form, of): text, bytes, int, float; texts, blobs, ints, floats; message and
        messages of a Message; made by a function of bytes; whole: the message's bytes, b"" where it has the
        field `of`.
        """
    @property
    def absent(self) -> Any:
        """Returns what stands for a message that another one lacks."""
    def read(self, data: bytes) -> Any:
        """Returns the named tuple of a message. ValueError: these are no such bytes."""

def thinned(
    descriptor: int, size: int, whole: int, route: Sequence[int], large: int
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Returns the bytes of a file of one message without large tensors, and for each of these the number of the
    item that has it, offset and bytes.

    route: numbers of fields that lead to the data of an item. large: bytes from which data is left out. A file
    of fewer than `whole` bytes is read as a whole. ValueError: no message, or an item with its data more than
    once.
    """

def similar_sums(rows: np.ndarray[Any, Any], place: Sequence[float]) -> list[float]:
    """Returns the sums of rows' weights by the similarity of their features to those of a place.

    rows: int16, hundredths of features and weights.
    """
