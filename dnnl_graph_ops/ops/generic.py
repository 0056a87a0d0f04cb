"""Makes the builders of all other op kinds from the op table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

from .. import schema
from ..schema.arguments import bound, spelt
from .annotations import Written, annotation
from .build import apply, label
from .document import document
from .typed import WORDS

Builder = Callable[..., Any]

_KEYWORD = Parameter.KEYWORD_ONLY


def signature(op: str) -> Signature:
    """Returns the signature: slots, attributes as keywords, then name (and dtype, outputs where the op needs them)."""
    spec = schema.OPS[op]
    parameters = []
    for slot in spec.inputs:
        if slot.variadic:
            parameters.append(Parameter(slot.name, Parameter.VAR_POSITIONAL, annotation=Written("Value | Array")))
        else:
            default: Any = Parameter.empty if slot.required else None
            kind = Written("Value | Array" + ("" if slot.required else " | None"))
            parameters.append(Parameter(slot.name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind))
    for attr in spec.attrs.values():
        default = Parameter.empty if attr.required else attr.default
        if default == "None":
            default = "none"  # the convolution ops' spelling
        typed = annotation(attr.type, attr.allowed, attr.name)
        kind = Written(f"{typed} | None") if default is None else typed
        parameters.append(Parameter(attr.name, _KEYWORD, default=default, annotation=kind))
    if _open_dtype(spec):
        parameters.append(Parameter("dtype", _KEYWORD, default=None, annotation=Written("Any")))
    if len(spec.outputs) > 1 and not all(slot.required for slot in spec.outputs):
        parameters.append(Parameter("outputs", _KEYWORD, default=None, annotation=Written("int | None")))
    parameters.append(Parameter("name", _KEYWORD, default=None, annotation=Written("str | None")))
    return Signature(parameters, return_annotation=Written(returns(spec)))


def returns(spec: schema.OpSchema) -> str:
    """Returns the return annotation of a builder: a Value, a tuple, or either, depending on the arguments."""
    counts = spec.output_counts
    if counts == (0,):
        return "None"
    if 1 not in counts:
        return f"tuple[{', '.join(['Value'] * len(spec.outputs))}]"
    several = " | ".join(f"tuple[{', '.join(['Value'] * count)}]" for count in counts if count > 1)
    return f"Value | {several}" if several else "Value"


def _open_dtype(spec: schema.OpSchema) -> bool:
    """Whether the inputs do not determine the dtype of the first output."""
    groups = {slot.group for slot in spec.inputs}
    return bool(spec.outputs) and spec.outputs[0].group not in groups


def make(kind: str) -> Builder:
    """Returns a new builder of an op kind."""
    spec = schema.OPS[kind]
    shape = signature(kind)
    slots = [slot.name for slot in spec.inputs]
    variadic = any(slot.variadic for slot in spec.inputs)
    several = len(spec.outputs) > 1

    def builder(*args: Any, **kwargs: Any) -> Any:
        kwargs = spelt(spec.builder, kwargs, shape.parameters.keys())
        if variadic and args and isinstance(args[0], list | tuple):
            raise TypeError(
                f"{spec.builder}: takes the tensors one by one, {spec.builder}(a, b, ...), got a "
                f"{type(args[0]).__name__} of {len(args[0])}; write {spec.builder}(*tensors, ...)"
            )
        given = bound(spec.builder, shape, args, kwargs)
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
    """Returns the builder of this name, made at its first use."""
    return make(schema.BUILDERS[name])
