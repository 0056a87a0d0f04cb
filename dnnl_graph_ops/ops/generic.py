"""Builders of all other op kinds, made from the op table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

from .. import schema
from ..schema.arguments import unexpected
from .build import apply, label
from .document import document
from .typed import WORDS

Builder = Callable[..., Any]

_KEYWORD = Parameter.KEYWORD_ONLY
_TYPES = {
    "s64": "int",
    "s64[]": "int | Sequence[int]",
    "f32": "float",
    "f32[]": "Sequence[float]",
    "bool": "bool",
    "string": "str",
}


def signature(kind: str) -> Signature:
    """Slots first, then the attributes as keywords, then name (and dtype, outputs where the op leaves them open)."""
    spec = schema.OPS[kind]
    parameters = []
    for slot in spec.inputs:
        if slot.variadic:
            parameters.append(Parameter(slot.name, Parameter.VAR_POSITIONAL, annotation="Value | Array"))
        else:
            default = Parameter.empty if slot.required else None
            annotation = "Value | Array" + ("" if slot.required else " | None")
            parameters.append(
                Parameter(slot.name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
            )
    for attr in spec.attrs.values():
        default = Parameter.empty if attr.required else attr.default
        annotation = _TYPES[attr.type] + (" | None" if default is None else "")
        parameters.append(Parameter(attr.name, _KEYWORD, default=default, annotation=annotation))
    if _open_dtype(spec):
        parameters.append(Parameter("dtype", _KEYWORD, default=None, annotation="Any"))
    if len(spec.outputs) > 1 and not all(slot.required for slot in spec.outputs):
        parameters.append(Parameter("outputs", _KEYWORD, default=None, annotation="int | None"))
    parameters.append(Parameter("name", _KEYWORD, default=None, annotation="str | None"))
    return Signature(parameters, return_annotation=returns(spec))


def returns(spec: schema.OpSchema) -> str:
    """What a builder gives: a Value, a tuple, or either, by attributes and by how many outputs are asked for."""
    counts = spec.output_counts
    if counts == (0,):
        return "None"
    if 1 not in counts:
        return f"tuple[{', '.join(['Value'] * len(spec.outputs))}]"
    several = " | ".join(f"tuple[{', '.join(['Value'] * count)}]" for count in counts if count > 1)
    return f"Value | {several}" if several else "Value"


def _open_dtype(spec: schema.OpSchema) -> bool:
    """Whether the inputs leave the dtype of the first output open."""
    groups = {slot.group for slot in spec.inputs}
    return bool(spec.outputs) and spec.outputs[0].group not in groups


def make(kind: str) -> Builder:
    """The builder of one op kind."""
    spec = schema.OPS[kind]
    shape = signature(kind)
    slots = [slot.name for slot in spec.inputs]
    variadic = any(slot.variadic for slot in spec.inputs)
    several = len(spec.outputs) > 1

    def builder(*args: Any, **kwargs: Any) -> Any:
        for word in kwargs:
            if word not in shape.parameters:
                raise unexpected(spec.builder, word, shape.parameters.keys())
        if variadic and args and isinstance(args[0], list | tuple):
            raise TypeError(
                f"{spec.builder}: takes the tensors one by one, {spec.builder}(a, b, ...), got a "
                f"{type(args[0]).__name__} of {len(args[0])}; write {spec.builder}(*tensors, ...)"
            )
        try:
            bound = shape.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(
                "*" + word if parameter.kind is parameter.VAR_POSITIONAL else word
                for word, parameter in shape.parameters.items()
            )
            raise TypeError(f"{spec.builder}: {error}; its arguments are {names}, attributes by name") from None
        given = dict(bound.arguments)
        operands: list[Any] = []
        for slot in slots:
            value = given.pop(slot, () if variadic else None)
            operands.extend(value if variadic else (value,))
        while operands and operands[-1] is None:
            operands.pop()
        name, dtype, outputs = (given.pop(key, None) for key in ("name", "dtype", "outputs"))
        missing = next((slot for slot, operand in zip(slots, operands, strict=False) if operand is None), None)
        if missing is not None:
            raise TypeError(f"{label(spec.builder, name)}: '{missing}' must be given when a later operand is")
        values = apply(kind, operands, given, name=name, dtype=dtype, outputs=outputs)
        if not spec.outputs:
            return None
        return values if several and len(values) != 1 else values[0]

    builder.__name__ = builder.__qualname__ = spec.builder
    builder.__doc__ = document(kind, spec.builder, shape)
    builder.__signature__ = shape  # type: ignore[attr-defined]
    builder.__module__ = "dnnl_graph_ops.ops"
    return builder


NAMES = tuple(name for name, kind in schema.BUILDERS.items() if kind not in WORDS and kind != "Wildcard")


@cache
def builder_of(name: str) -> Builder:
    """The builder of this name, made when it is first asked for."""
    return make(schema.BUILDERS[name])
