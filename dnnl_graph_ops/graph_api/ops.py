"""Ops of the Graph API, before they are added to a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes, schema
from .._core import Op
from ..errors import Error, InvalidArgumentError, UnsupportedError
from ..graph import json_format
from ..ops.typed import WORDS
from ..runtime import Runtime
from ..schema.arguments import one_of, show, suggest
from ..schema.attributes import scalar
from ..schema.types import slots_of
from .arguments import boolean, identifier, instance, instances, member, sequence
from .enumerators import OpNames, data_type, layout_type, op_attr, op_kind, property_type
from .logical_tensors import logical_tensor

# op kinds and attributes by their numbers
FIXED_SCALES = schema.kinds("fixed_scales")
_KINDS = {spec.value: kind for kind, spec in schema.OPS.items() if not spec.own}
_ATTRS = {code: name for name, code in schema.ATTR_CODES.items()}
_TYPES = {name: attr.type for spec in schema.OPS.values() for name, attr in spec.attrs.items()}
_PYTHON = {"s64[]": "ints", "f32[]": "floats"}


# bool, int, float, str, or a tuple of ints or floats
AttrValue = bool | int | float | str | Sequence[int] | Sequence[float] | np.ndarray[Any, Any]


class op(OpNames):
    """An op of a graph: plain data, independent of a library, which `graph.add_op` copies.

    Args:
        id: unique in its graph.
        akind: `op.kind`, such as `op.kind.ConvTranspose` or `op.ConvTranspose`.
        inputs: its input logical tensors in the order of the op's page; or its name, if they are added later.
        outputs: its output logical tensors.
        verbose_name: the name in messages, verbose lines and dumps.

    Raises:
        TypeError: arguments of other types. InvalidArgumentError: an unknown kind.

    C++: dnnl::graph::op (dnnl_graph_op_create).
    """

    __slots__ = ("_attrs", "_id", "_inputs", "_kind", "_name", "_outputs")

    def __init__(
        self,
        id: int,
        akind: op_kind,
        inputs: Sequence[logical_tensor] | str = (),
        outputs: Sequence[logical_tensor] = (),
        verbose_name: str = "",
    ) -> None:
        read: Sequence[logical_tensor] = ()
        if isinstance(inputs, str):
            verbose_name = inputs
        else:
            read = inputs
        self._id = identifier(id, "op: 'id'")
        self._kind = _KINDS[member(op_kind, akind, f"op {self._id}: 'akind'")]
        self._name = instance(str, verbose_name, f"op {self._id}: 'verbose_name'")
        if "\0" in self._name:
            raise InvalidArgumentError(f"op {self._id}: 'verbose_name' holds a NUL character")
        self._inputs: list[logical_tensor] = []
        self._outputs: list[logical_tensor] = []
        self._attrs: dict[str, Any] = {}
        self.add_inputs(read)
        self.add_outputs(outputs)

    @property
    def _where(self) -> str:
        return f"op {self._id} ({self._kind}{f' {self._name!r}' if self._name else ''})"

    def get_id(self) -> int:
        """The id. C: dnnl_graph_op_get_id."""
        return self._id

    def get_kind(self) -> op_kind:
        """An `op.kind`. C: dnnl_graph_op_get_kind."""
        return op_kind[self._kind]

    def get_name(self) -> str:
        """The name in messages and verbose lines."""
        return self._name

    def add_input(self, t: logical_tensor) -> None:
        """Append an input. C++: add_input (dnnl_graph_op_add_input)."""
        self._inputs.append(instance(logical_tensor, t, f"{self._where}: an input"))

    def add_inputs(self, ts: Sequence[logical_tensor]) -> None:
        """Append inputs, a list or tuple. C++: add_inputs."""
        self._inputs += instances(logical_tensor, ts, f"{self._where}: inputs")

    def add_output(self, t: logical_tensor) -> None:
        """Append an output. C++: add_output (dnnl_graph_op_add_output)."""
        self._outputs.append(instance(logical_tensor, t, f"{self._where}: an output"))

    def add_outputs(self, ts: Sequence[logical_tensor]) -> None:
        """Append outputs, a list or tuple. C++: add_outputs."""
        self._outputs += instances(logical_tensor, ts, f"{self._where}: outputs")

    def set_attr(self, name: op_attr, value: AttrValue) -> op:
        """Set an attribute; a second call replaces the value.

        Args:
            name: `op.attr`, such as `op.attr.strides`.
            value: of the attribute's type: bool, int, float, str, or a sequence or one-dimensional array of ints or
                floats. Strings that the op's page lists are accepted in any case.

        Returns:
            The op itself.

        Raises:
            TypeError: a value of another type. InvalidArgumentError: an empty list, a number beyond 64 bits or float32.
            Whether the op has the attribute is checked by `graph.add_op`.

        C++: set_attr (dnnl_graph_op_set_attr_s64, _f32, _bool, _str).
        """
        attr = _ATTRS.get(member(op_attr, name, f"{self._where}: set_attr: 'name'"))
        if attr is None:
            raise InvalidArgumentError(f"{self._where}: set_attr: op.attr.undef is no attribute")
        self._attrs[attr] = _value(value, _TYPES[attr], f"{self._where}: attribute {attr!r}")
        return self

    def __repr__(self) -> str:
        tensors = (", ".join(str(t.get_id()) for t in some) for some in (self._inputs, self._outputs))
        return f"<{self._where}: {' -> '.join(tensors)}>"

    def _copy(self) -> op:
        copy = op(self._id, op_kind[self._kind], list(self._inputs), list(self._outputs), self._name)
        copy._attrs = dict(self._attrs)
        return copy

    __copy__ = _copy


def _value(value: Any, kind: str, where: str) -> Any:
    """Returns a value converted to an attribute's type."""
    if not kind.endswith("[]"):
        return _scalar(value, kind, where)
    items = sequence(value)
    if items is None:
        raise TypeError(f"{where} must be a sequence of {_PYTHON[kind]}, got {show(value)}")
    if not items:
        raise InvalidArgumentError(f"{where} is empty; give a value for each axis or channel")
    return tuple(_scalar(item, kind.removesuffix("[]"), f"{where}: each item") for item in items)


def _scalar(value: Any, kind: str, where: str) -> Any:
    if kind == "bool":
        return boolean(value, where)
    if kind == "string":
        return instance(str, value, where)
    return scalar(kind, value, where)


def checked(o: op, version: tuple[int, ...]) -> None:
    """Checks an op against the op table of this version: names and values of attributes, tensors, dtypes.

    Raises:
        InvalidArgumentError: the op fits no version. UnsupportedError: the op fits a later version.
    """
    spec = schema.OPS[o._kind]
    where = o._where
    if version < spec.since:
        raise UnsupportedError(f"{where}: {o._kind} needs oneDNN {_text(spec.since)}, {_text(version)} is loaded")
    for name in o._attrs:
        if name not in spec.attrs:
            raise InvalidArgumentError(
                f"{where}: {o._kind} has no attribute {name!r}; {_other_way(o._kind, name, spec)}"
            )
        if version < spec.attrs[name].since:
            raise UnsupportedError(
                f"{where}: attribute {name!r} needs oneDNN {_text(spec.attrs[name].since)}, {_text(version)} is loaded"
            )
    for name, attr in spec.attrs.items():
        if name not in o._attrs and (attr.required_in_3_2 if version < (3, 3) else attr.required):
            raise InvalidArgumentError(f"{where}: the attribute {name!r} of {o._kind} is required; call set_attr")
        if attr.type == "string" and name in o._attrs:
            try:
                o._attrs[name] = one_of(o._attrs[name], f"{where}: {name}", attr.allowed)
            except InvalidArgumentError as error:
                words = schema.KEYWORDS.get(WORDS.get(o._kind, ""), {}).values()
                more = any(word.attribute == name and set(word.choices) - set(attr.allowed) for word in words)
                raise InvalidArgumentError(f"{error}{_builder(o._kind) if more else ''}") from None
    _check_tensors(o)
    _check_scales(o)
    slots_of(spec.outputs, spec.output_counts, len(o._outputs), "outputs", where)
    schema.check_inputs(o._kind, [_dtype(t, where) for t in o._inputs], where)


def _check_tensors(o: op) -> None:
    """Raises for an op that writes a tensor twice, writes its own input, or describes a tensor in two ways."""
    made = [t.get_id() for t in o._outputs]
    read = {t.get_id(): t for t in o._inputs}
    for t in o._outputs:
        number = t.get_id()
        if number in read:
            raise InvalidArgumentError(f"{o._where}: tensor {number} is both an input and an output")
        if made.count(number) > 1:
            raise InvalidArgumentError(f"{o._where}: tensor {number} is more than one output")
    for t in o._inputs:
        if (other := read[t.get_id()]) != t:
            raise InvalidArgumentError(f"{o._where}: tensor {t.get_id()} is {t!r} here and {other!r} elsewhere")


def _check_scales(o: op) -> None:
    """Checks that Quantize and Dequantize have one scale, or one per channel of axis, and as many zero points."""
    if o._kind not in FIXED_SCALES:
        return
    scales = len(o._attrs["scales"])
    points = len(o._attrs.get("zps", o._attrs["scales"]))
    if scales > 1 and o._attrs.get("qtype", "per_tensor") == "per_tensor":
        raise InvalidArgumentError(
            f"{o._where}: got {scales} scales, but qtype='per_tensor' takes one; give one, or set qtype='per_channel'"
        )
    if scales != points:
        raise InvalidArgumentError(f"{o._where}: got {scales} scales and {points} zps; give as many zps as scales")


def _other_way(kind: str, name: str, spec: schema.OpSchema) -> str:
    """Returns advice for a message: the op's attributes, or the function of this package that has the wanted one."""
    words = schema.KEYWORDS.get(WORDS.get(kind, ""), {})
    if any(word.attribute == name for word in words.values()):
        return f"oneDNN has none there{_builder(kind)}"
    return f"it takes {', '.join(spec.attrs) or 'none'}{suggest(name, spec.attrs)}"


def _builder(kind: str) -> str:
    """Returns the name of the builder that computes more of an op than oneDNN does."""
    return f"; dgo.ops.{schema.OPS[kind].builder} computes it" if kind.startswith("Conv") else ""


def _dtype(t: logical_tensor, where: str) -> str:
    code = t.get_data_type()
    name = dtypes.NAMES.get(code)
    if name is None:
        raise InvalidArgumentError(f"{where}: tensor {t.get_id()} is {code.name}, which no op takes")
    return name


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version[:2]))


def native(o: op, runtime: Runtime) -> Op:
    """Returns the op as a native object of a library."""
    spec = schema.OPS[o._kind]
    for t in (*o._inputs, *o._outputs):
        t._check_layout(runtime.path, o._where)
    made = Op(runtime._library, o._id, spec.value, o._name)
    for t in o._inputs:
        made.add_input(t._native)
    for t in o._outputs:
        made.add_output(t._native)
    for name, value in o._attrs.items():
        attr = spec.attrs[name]
        made.set_attr(attr.code, attr.type, list(value) if isinstance(value, tuple) else value)
    return made


def refused(o: op, runtime: Runtime) -> Error:
    """Returns the error for an op that fits the op table but that a library refuses; later versions may accept it."""
    reads, makes = ([_dtype(t, o._where) for t in tensors] for tensors in (o._inputs, o._outputs))
    if reason := schema.availability(o._kind, reads, runtime.version_info, outputs=makes):
        return UnsupportedError(f"{o._where}: {reason}")
    attrs = ", ".join(
        f"{name}={show(list(value) if isinstance(value, tuple) else value)}" for name, value in o._attrs.items()
    )
    return InvalidArgumentError(
        f"{o._where}: oneDNN {runtime.version} refuses {', '.join(reads) or 'nothing'} -> "
        f"{', '.join(makes) or 'nothing'} with the attributes {attrs or 'none'}; compare "
        f"https://uxlfoundation.github.io/oneDNN/dev_guide_op_{o._kind.lower()}.html"
    )


def record(o: op, source: str = "graph") -> json_format.Op:
    """Returns the op as a record of benchdnn's format; messages name its source."""
    spec = schema.OPS[o._kind]
    attrs = {name: json_format.Attr(spec.attrs[name].type, _plain(value)) for name, value in o._attrs.items()}
    inputs, outputs = (tuple(map(_tensor, tensors)) for tensors in (o._inputs, o._outputs))
    return json_format.Op(o._id, o._name or f"op_{o._id}", o._kind, attrs, inputs, outputs, source)


def _plain(value: Any) -> Any:
    """Returns a value as benchdnn writes it: 0 and 1 for booleans."""
    return list(value) if isinstance(value, tuple) else int(value) if isinstance(value, bool) else value


def _tensor(t: logical_tensor) -> json_format.Tensor:
    native = t._native
    dims, strides = native.dims, native.strides or ()
    if dims is None:
        # oneDNN's dumps write one unknown size for an unknown rank; () is a scalar
        dims, strides = (None,), (None,) if t.get_layout_type() == layout_type.strided else ()
    return json_format.Tensor(
        native.id,
        _dtype(t, "graph.to_json"),
        dims,
        tuple(json_format.UNKNOWN if stride is None else stride for stride in strides),
        layout_type(native.layout_type).name,
        property_type(native.property).name,
    )


def of_record(item: json_format.Op) -> op:
    """Returns the op of a file's record."""
    if item.kind not in op_kind.__members__:
        raise InvalidArgumentError(
            f"{item.where}: there is no op kind {item.kind!r}{suggest(item.kind, op_kind.__members__)}"
        )
    made = op(item.id, op_kind[item.kind], item.name)
    for tensors, add in ((item.inputs, made.add_input), (item.outputs, made.add_output)):
        for tensor in tensors:
            add(_logical_tensor(tensor))
    for name, attr in item.attrs.items():
        known = _ATTRS.get(op_attr.__members__.get(name, op_attr.undef))
        if known is None:
            raise InvalidArgumentError(
                f"{item.where}: there is no attribute {name!r}{suggest(name, op_attr.__members__)}"
            )
        if attr.type != _TYPES[known]:
            raise InvalidArgumentError(
                f"{item.where}: attribute {name!r} has the type {attr.type}, but {item.kind} takes {_TYPES[known]}"
            )
        made.set_attr(op_attr[name], bool(attr.value) if attr.type == "bool" else attr.value)
    return made


def _logical_tensor(tensor: json_format.Tensor) -> logical_tensor:
    # oneDNN's dumps write one unknown size for every tensor with an unknown size or rank
    open_rank = tensor.shape == (None,)
    dims: Any = -1 if open_rank else [-1 if dim is None else dim for dim in tensor.shape]
    known = tensor.is_strided and tensor.stride and json_format.UNKNOWN not in tensor.stride
    layout: Any = list(tensor.stride) if known else layout_type[tensor.layout if tensor.layout != "opaque" else "any"]
    return logical_tensor(tensor.id, data_type[tensor.dtype], dims, layout, property_type[tensor.use])
