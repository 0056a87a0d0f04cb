"""Partitions by the C API alone: ctypes, the C headers' numbers, and a reader of benchdnn's format of its own."""

import ctypes
from ctypes import byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_void_p
from typing import Any

from bindings.headers import declared

UNKNOWN = -(1 << 63)
CODES = declared("3.13")["enumerators"]
PROPERTIES = {"undef": 0, "variable": 1, "constant": 2, "host_scalar": 3}
# op kinds whose enumerator is not their name in small letters
OTHER = {"BatchNormTrainingBackward": "batchnormbackward"}


class Layout(ctypes.Union):
    _fields_ = [("strides", c_int64 * 12), ("layout_id", c_size_t)]


class LogicalTensor(ctypes.Structure):
    """dnnl_graph_logical_tensor_t"""

    _fields_ = [
        ("id", c_size_t),
        ("ndims", c_int),
        ("dims", c_int64 * 12),
        ("data_type", c_int),
        ("property", c_int),
        ("layout_type", c_int),
        ("layout", Layout),
    ]


class Refused(Exception):
    """A call that returned a status other than success."""


class CApi:
    """Functions of a libdnnl.so.3 that is loaded already, or can be by its path alone."""

    def __init__(self, path: str, release: str) -> None:
        self.library = ctypes.CDLL(path)
        # 3.2 takes kinds that it does not know, and crashes on them later
        self.codes = declared(release)["enumerators"]
        self.kinds = {name.replace("_", ""): value for name, value in self.codes.items()}

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, f"dnnl_graph_{name}")(*arguments)
        if status != 0:
            raise Refused(f"{name}: {status}")

    def read(self, name: str, handle: Any, kind: Any) -> Any:
        value = kind()
        self.call(name, handle, byref(value))
        return value.value

    def partitions(self, document: dict[str, Any], policy: int) -> list[tuple[list[int], bool]]:
        """The ids of each partition's ops, and whether it is supported."""
        graph = c_void_p()
        kind = CODES["dnnl_" + document.get("engine_kind", "cpu")]
        mode = CODES["dnnl_fpmath_mode_" + document.get("fpmath_mode", "strict")]
        self.call("graph_create_with_fpmath_mode", byref(graph), kind, mode)
        try:
            for op in document["graph"]:
                self._add(graph, op)
            self.call("graph_finalize", graph)
            self.call("graph_filter", graph, policy)
            count = self.read("graph_get_partition_num", graph, c_size_t)
            handles = (c_void_p * count)()
            if count:
                self.call("graph_get_partitions", graph, c_size_t(count), handles)
            return [self._told(c_void_p(handle)) for handle in handles]
        finally:
            self.call("graph_destroy", graph)

    def _told(self, partition: c_void_p) -> tuple[list[int], bool]:
        count = self.read("partition_get_op_num", partition, c_size_t)
        ids = (c_size_t * count)()
        self.call("partition_get_ops", partition, c_size_t(count), ids)
        supported = self.read("partition_is_supported", partition, c_uint8)
        self.call("partition_destroy", partition)
        return list(ids), bool(supported)

    def _add(self, graph: c_void_p, item: dict[str, Any]) -> None:
        op = c_void_p()
        code = self.kinds.get("dnnlgraphop" + OTHER.get(item["kind"], item["kind"]).lower())
        if code is None:
            raise Refused(f"op kind {item['kind']}")
        title = str(item.get("name", "")).encode()
        self.call("op_create", byref(op), c_size_t(item["id"]), code, c_char_p(title))
        try:
            for side, tensors in (("input", item["inputs"]), ("output", item["outputs"])):
                for tensor in tensors:
                    self.call(f"op_add_{side}", op, byref(self.logical_tensor(tensor)))
            for attr, entry in item.get("attrs", {}).items():
                self._set(op, attr, entry["type"], entry["value"])
            self.call("add_op", graph, op)
        finally:
            self.call("op_destroy", op)

    def _set(self, op: c_void_p, attr: str, kind: str, value: Any) -> None:
        code = self.codes.get(f"dnnl_graph_op_attr_{attr}")
        if code is None:
            raise Refused(f"attribute {attr}")
        if kind == "string":
            text = value.encode()
            self.call("op_set_attr_str", op, code, c_char_p(text), c_size_t(len(text)))
            return
        name, item = {"s64": ("s64", c_int64), "f32": ("f32", c_float), "bool": ("bool", c_uint8)}[kind.rstrip("[]")]
        values = value if isinstance(value, list) else [value]
        self.call(f"op_set_attr_{name}", op, code, (item * len(values))(*values), c_size_t(len(values)))

    def logical_tensor(self, item: dict[str, Any]) -> LogicalTensor:
        lt = LogicalTensor()
        shape = [UNKNOWN if n in (-1, UNKNOWN) else n for n in item["shape"]]
        dtype = CODES[f"dnnl_{item['dtype']}"] if item["dtype"] != "undef" else 0
        layout = item.get("layout_type", "strided")
        head = byref(lt), c_size_t(item["id"]), dtype, c_int32(len(shape)), (c_int64 * 12)(*shape)
        use = PROPERTIES[item.get("property_type", "undef")]
        stride = item.get("stride")
        if layout == "strided" and stride and len(stride) == len(shape) and UNKNOWN not in stride:
            self.call("logical_tensor_init_with_strides", *head, (c_int64 * 12)(*stride), use)
        else:
            code = CODES["dnnl_graph_layout_type_" + ("any" if layout == "opaque" else layout)]
            self.call("logical_tensor_init_with_dims", *head, code, use)
        return lt
