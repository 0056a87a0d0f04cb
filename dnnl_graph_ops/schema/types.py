"""Checks the dtypes of ops, and which versions of oneDNN have an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from ..errors import InvalidArgumentError
from .attributes import op_schema
from .table import OPS, OpSchema, Slot, Version


def slots_of(slots: Sequence[Slot], counts: Sequence[int], number: int, what: str, where: str) -> list[Slot]:
    """Returns the slot of each of `number` inputs or outputs; the variadic slot repeats."""
    if counts and number not in counts:
        wanted = f"{counts[0]} to {counts[-1]}" if len(counts) > 3 else " or ".join(map(str, counts))
        names = ", ".join(slot.name for slot in slots)
        raise InvalidArgumentError(
            f"{where}: takes {wanted} {what if tuple(counts) != (1,) else what[:-1]} ({names}), got {number}"
        )
    return [slots[min(i, len(slots) - 1)] for i in range(number)]


def check_inputs(kind: str, dtypes: Sequence[str], where: str) -> dict[str, str | None]:
    """Checks the number and the dtypes of the inputs of an op.

    Returns:
        The dtype of each type group that the outputs use; None if the inputs do not determine it.

    Raises:
        InvalidArgumentError: names the input, its dtype, and the dtypes that the op takes.
    """
    op = op_schema(kind, where)
    groups: dict[str, tuple[str, str]] = {}
    for slot, dtype in zip(slots_of(op.inputs, op.input_counts, len(dtypes), "inputs", where), dtypes, strict=True):
        if slot.dtypes and dtype not in slot.dtypes:
            raise InvalidArgumentError(
                f"{where}: {slot.name} has dtype {dtype}, but {kind} takes {', '.join(slot.dtypes)}; "
                "convert it with type_cast, quantize or dequantize"
            )
        if not slot.dtypes:
            continue
        name, known = groups.setdefault(slot.group, (slot.name, dtype))
        if known != dtype:
            raise InvalidArgumentError(
                f"{where}: {name} ({known}) and {slot.name} ({dtype}) must have the same dtype; cast one with type_cast"
            )
    if "Norm" in kind and groups.get("T2", ("", ""))[1] == "bf16" != groups["T1"][1]:
        raise InvalidArgumentError(
            f"{where}: {groups['T2'][0]} is bf16 but {groups['T1'][0]} is {groups['T1'][1]}; "
            f"use {groups['T1'][1]} or f32 for the former, or bf16 for both"
        )
    return {slot.group: groups.get(slot.group, ("", None))[1] for slot in op.outputs}


def output_dtypes(kind: str, dtypes: Sequence[str], where: str, wanted: str | None = None) -> tuple[str, ...]:
    """Returns the dtype of every output slot.

    Args:
        kind: op kind.
        dtypes: canonical dtypes of the inputs.
        where: the op's name in messages.
        wanted: dtype of the first output where the inputs do not determine it (Quantize, TypeCast, MatMul, Add).
            TypeCast, quantizing ops, and binary ops of mixed dtypes need it; other ops keep the inputs' dtype.

    Raises:
        InvalidArgumentError: inputs that do not fit, a dtype that the op cannot return.
    """
    groups = check_inputs(kind, dtypes, where)
    op = OPS[kind]
    result = []
    for i, slot in enumerate(op.outputs):
        dtype = groups[slot.group]
        asked = wanted if i == 0 else None
        if dtype is None:
            dtype = asked or _default(op, slot, dtypes, where)
            groups[slot.group] = dtype
            if slot.dtypes and dtype not in slot.dtypes:
                raise InvalidArgumentError(
                    f"{where}: {kind} gives {', '.join(slot.dtypes)}, not {dtype}; choose one of these"
                )
        elif asked and asked != dtype:
            raise InvalidArgumentError(
                f"{where}: {kind} of {dtype} gives {dtype}, not {asked}; convert the result with type_cast"
            )
        result.append(dtype)
    allowed, rule = _PAIRS.get(kind, (None, ""))
    if allowed and not allowed(dtypes[0], result[0]):
        raise InvalidArgumentError(f"{where}: {kind} cannot turn {dtypes[0]} into {result[0]}; {rule}")
    return tuple(result)


def availability(
    kind: str,
    dtypes: Sequence[str],
    version: Version,
    attrs: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[str] = (),
) -> str | None:
    """Returns why a version of oneDNN cannot run an op, or None if by the table it can.

    `dtypes` and `outputs`: dtypes of the op's actual inputs and outputs. An op without a CPU kernel counts as missing
    on a GPU, too.
    """
    op = op_schema(kind, kind)
    if op.own:
        return f"{kind} is an op of this package, which oneDNN does not have"
    loaded = f"oneDNN {_text(version)} is loaded"
    if version < op.since:
        return f"{kind} needs oneDNN {_text(op.since)} or later; {loaded}"
    for name, value in (attrs or {}).items():
        attr = op.attrs[name]
        if version < attr.since and value != attr.default:
            return f"{name}={value!r} of {kind} needs oneDNN {_text(attr.since)} or later; {loaded}"
    if len(outputs) > 1:
        for slot in op.outputs[: len(outputs)]:
            if version < slot.since:
                return f"the output {slot.name} of {kind} needs oneDNN {_text(slot.since)} or later; {loaded}"
    reason = _past_dtypes(op, dtypes, outputs, version)
    if reason:
        return f"{reason}; {loaded}"
    if op.cpu_since is None:
        return f"no version of oneDNN has a CPU kernel for {kind}"
    if version < op.cpu_since:
        return f"oneDNN has a CPU kernel for {kind} from {_text(op.cpu_since)} on; {loaded}"
    return None


def _past_dtypes(op: OpSchema, dtypes: Sequence[str], outputs: Sequence[str], version: Version) -> str | None:
    pairs = [*_paired(op.inputs, dtypes), *_paired(op.outputs, outputs)]
    for past in op.past:
        if version >= past.until:
            continue
        for slot, dtype in pairs:
            if dtype not in past.dtypes.get(slot.group, (dtype,)):
                return f"{op.kind} with {slot.name} of {dtype} needs oneDNN {_text(past.until)} or later"
        alike = {dtype for slot, dtype in pairs if slot.group in past.same}
        if len(alike) > 1:
            names = ", ".join(sorted(alike))
            return f"{op.kind} of mixed dtypes ({names}) needs oneDNN {_text(past.until)} or later"
    return None


def _paired(slots: Sequence[Slot], dtypes: Sequence[str]) -> list[tuple[Slot, str]]:
    return [(slots[min(i, len(slots) - 1)], dtype) for i, dtype in enumerate(dtypes)]


@cache
def _text(version: Version) -> str:
    return ".".join(map(str, version[:2]))


def _default(op: OpSchema, slot: Slot, dtypes: Sequence[str], where: str) -> str:
    if len(slot.dtypes) == 1:
        return slot.dtypes[0]
    if op.kind in ("TypeCast", "Quantize", "DynamicQuantize", "Wildcard"):
        choices = f": one of {', '.join(slot.dtypes)}" if slot.dtypes else ""
        raise InvalidArgumentError(f"{where}: {op.kind} needs the dtype of its result{choices}; pass dtype=")
    if "Norm" in op.kind:
        # mean and variance
        return "f32"
    if len(set(dtypes)) > 1:
        names = " and ".join(f"{slot.name} ({dtype})" for slot, dtype in _paired(op.inputs, dtypes))
        raise InvalidArgumentError(
            f"{where}: {names} have different dtypes; cast one with type_cast, or give the result's with dtype="
        )
    return dtypes[0]


# allowed pairs of source and result dtypes that the schema has in different groups
_PAIRS: Final[dict[str, tuple[Callable[[str, str], bool], str]]] = {
    "TypeCast": (
        lambda src, dst: src != dst and {src, dst} != {"f16", "bf16"},
        "it converts between f32 and bf16 or f16 only",
    ),
    "MatMul": (lambda src, dst: dst in (src, "f32"), "it gives the dtype of src or f32"),
    "SoftMax": (lambda src, dst: src == dst or "f32" in (src, dst), "it gives the dtype of src or f32"),
    "SoftMaxBackward": (lambda src, dst: dst in (src, "f32"), "it gives the dtype of diff_dst or f32"),
}
