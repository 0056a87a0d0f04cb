"""Reads ops.json: every op kind of the oneDNN Graph API and of this package, with slots, attributes and versions.

The table covers oneDNN 3.0 to 3.13; meaning.json has the words for ops and arguments. Columns:
slots: "name:group" with "?" for optional, "!" for an optional output made on request, "*" for any number and "@version"
for the first version with the slot; slots of one group have one dtype. An optional input "x_input" replaces the
attribute "x".
"row_major": the operands that kernels misread, refuse or write past unless they are dense and row-major: "all",
"vectors", or "batches" of matrices; "@version" as for slots.
"partly": "equal" where another op replaces a missing kernel for some attributes only.
"post_op": oneDNN fuses the op after a ConvTranspose.
"narrow": the part of an f32 op that mixed precision may compute in bf16 or f16: its "operands", whose products are
summed in f32, or "all" of the op, which then has its operands' dtype. Other ops need f32's range or accuracy.
"traits": words of the table "traits", each a fact about some kinds.
"behind": how the second operand of a binary post-op may broadcast over the op's result, in words of
lowering.broadcasts. oneDNN 3.2 misreads other operands, with AVX2 and AVX-512.
"reference": a word of the table "reference": the uses that oneDNN 3.2 computes by a slow reference kernel, by its log.
"nanoseconds": time per element of an element-wise op after a layer, for vectors of 8 floats: in builtin kernels, in
oneDNN's convolutions, and in oneDNN's matrix products without AVX-512 (with AVX-512 these equal the convolutions).
"empty": a reduction's result over no elements.
"pytorch": the weights format of PyTorch and ONNX, with data in NCX.
"own": an op of this package that oneDNN lacks; its kind and attributes have no native codes.
"keywords": the attributes of a family of ops as functions of this package take them, with more defaults and formats
than oneDNN has, some under another name. An op names the family of its builder's keywords.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

Version: TypeAlias = tuple[int, ...]

FIRST: Final[Version] = (3, 0)
# the number of kinds and attributes that oneDNN lacks
NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output of an op."""

    name: str
    group: str
    dtypes: tuple[str, ...]  # empty: any
    required: bool
    variadic: bool
    since: Version
    on_request: bool


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of an op."""

    name: str
    code: int  # NONE: an attribute of ops that oneDNN lacks
    type: str  # s64, s64[], f32, f32[], bool, string
    required: bool
    default: Any  # None: none
    fill: int | None  # the value of every element that oneDNN fills in for a list that is left out
    allowed: tuple[str, ...]
    length: str | None  # "spatial": one value per spatial axis, "rank": one per axis
    since: Version
    required_in_3_2: bool


class Keyword(NamedTuple):
    """An attribute of a family of ops, in the user's spelling."""

    name: str
    attribute: str
    type: str  # see Attr
    default: int | str | None  # None: required
    least: int  # smallest number
    choices: tuple[str, ...]  # allowed strings


class Stated(NamedTuple):
    """An input of sizes or axes, and the attribute of the same meaning."""

    position: int
    attribute: str
    is_shape: bool  # of the first output


@dataclass(frozen=True, slots=True)
class Past:
    """Restrictions of the versions before `until`."""

    until: Version
    dtypes: Mapping[str, tuple[str, ...]]
    same: tuple[str, ...]  # dtype groups that had to be equal
    required: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSchema:
    """An op kind."""

    kind: str
    builder: str
    value: int = NONE  # of an op that oneDNN lacks
    since: Version
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    input_counts: tuple[int, ...]  # empty: any number
    output_counts: tuple[int, ...]
    attrs: Mapping[str, Attr]
    past: tuple[Past, ...]
    cpu_since: Version | None  # first version with a CPU kernel for the op alone; None: no version has one
    row_major: str  # all, vectors, batches or empty: operands that must be dense and row-major
    row_major_since: Version
    partly: tuple[str, ...]  # equal: another op replaces a missing kernel for some attributes only
    stated: Stated | None
    post_op: bool = False
    narrow: str = ""  # operands, all or empty: the part that may be bf16 or f16 in place of f32
    own: bool = False  # oneDNN lacks the op
    traits: frozenset[str]  # see TRAITS
    behind: frozenset[str]  # how operands of post-ops after it may broadcast; empty: in any way
    reference: str = ""  # see REFERENCE; empty: oneDNN has optimized kernels for all uses
    nanoseconds: tuple[float, ...]
    empty: float | None
    pytorch: str = ""
    keywords: str = ""  # a key of KEYWORDS, or empty

    @property
    def binary(self) -> bool:
        """Whether the op is a post-op with a second operand."""
        return self.post_op and len(self.inputs) > 1

    @property
    def has_wide_integers(self) -> bool:
        """Whether the op reads 64-bit integers, which float64 cannot represent."""
        return any("s64" in slot.dtypes for slot in self.inputs)

    @property
    def page(self) -> str:
        """The name of the op's page in oneDNN's developer guide."""
        return f"dev_guide_op_{self.kind.lower()}"


def version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def _slots(text: str, types: Mapping[str, str]) -> tuple[Slot, ...]:
    slots = []
    for word in text.split():
        word, _, since = word.partition("@")
        name, _, group = word.partition(":")
        mark = group[-1] if group[-1] in "?!*" else ""
        group = group.rstrip("?!*")
        dtypes = () if types[group] == "*" else tuple(types[group].split())
        slots.append(Slot(name, group, dtypes, not mark, mark == "*", version(since) if since else FIRST, mark == "!"))
    return tuple(slots)


def _counts(slots: tuple[Slot, ...], given: Any) -> tuple[int, ...]:
    if isinstance(given, list):
        return tuple(given)
    if isinstance(given, dict):
        return tuple(range(1, given["max"] + 1))
    if any(slot.variadic for slot in slots):
        return ()
    return tuple(range(sum(slot.required for slot in slots), len(slots) + 1))


def _stated(inputs: tuple[Slot, ...], attrs: Mapping[str, Attr]) -> Stated | None:
    for position, slot in enumerate(inputs):
        attribute = slot.name.removesuffix("_input")
        if attribute != slot.name and attribute in attrs:
            return Stated(position, attribute, attrs[attribute].length == "rank")
    return None


# columns that need no parsing
_PLAIN = ("builder", "value", "post_op", "narrow", "own", "reference", "pytorch", "keywords")


def _op(kind: str, row: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> OpSchema:
    past = tuple(
        Past(
            version(entry["until"]),
            {group: tuple(names) for group, names in entry.get("types", {}).items()},
            tuple(entry.get("same", ())),
            tuple(entry.get("required", ())),
        )
        for entry in row.get("history", ())
    )
    once_required = {name for entry in past for name in entry.required}
    required, optional, since = row.get("required", "").split(), row.get("optional", {}), row.get("since", "3.0")
    attrs = {}
    for name in (*required, *optional):
        fact = {**shared[name], **row.get("details", {}).get(name, {})}
        default = optional.get(name)
        fill = default["fill"] if isinstance(default, dict) else None
        attrs[name] = Attr(
            name=name,
            code=fact.get("code", NONE),
            type=fact["type"],
            required=name in required,
            default=None if fill is not None else default,
            fill=fill,
            allowed=tuple(fact.get("choices", ())),
            length=fact.get("length"),
            since=version(fact.get("since", since)),
            required_in_3_2=name in required or name in once_required,
        )
    inputs, outputs = (_slots(row[name], row["types"]) for name in ("inputs", "outputs"))
    arity = row.get("arity", {})
    kernel = None if "own" in row else row.get("cpu", since)
    row_major, _, row_major_since = row.get("row_major", "").partition("@")
    return OpSchema(
        kind=kind,
        since=version(since),
        inputs=inputs,
        outputs=outputs,
        input_counts=_counts(inputs, arity.get("inputs")),
        output_counts=_counts(outputs, arity.get("outputs")),
        attrs=attrs,
        past=past,
        cpu_since=version(kernel) if kernel else None,
        row_major=row_major,
        row_major_since=version(row_major_since) if row_major_since else FIRST,
        partly=tuple(row.get("partly", "").split()),
        stated=_stated(inputs, attrs),
        traits=frozenset(row.get("traits", "").split()),
        behind=frozenset(row.get("behind", "").split()),
        nanoseconds=tuple(row.get("nanoseconds", ())),
        empty=float(row["empty"]) if "empty" in row else None,
        **{name: row[name] for name in _PLAIN if name in row},
    )


def _keywords(row: Mapping[str, Any], rows: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Keyword]:
    required, changes = row.get("required", "").split(), row.get("changes", {})
    found = {}
    for attribute, own in {**rows.get(row.get("like", ""), row), **row.get("more", {})}.items():
        fact = {**shared[attribute], **own, **changes.get(attribute, {})}
        name, default = fact.get("name", attribute), None if attribute in required else fact["default"]
        choices = tuple(fact.get("choices", ()))
        found[name] = Keyword(name, attribute, fact["type"], default, fact.get("least", 0), choices)
    return found


_DATA: Final = json.loads(Path(__file__).with_name("ops.json").read_text("utf-8"))

OPS: Final[dict[str, OpSchema]] = {kind: _op(kind, row, _DATA["attributes"]) for kind, row in _DATA["ops"].items()}
KEYWORDS: Final[dict[str, dict[str, Keyword]]] = {
    family: _keywords(row, _DATA["keywords"], _DATA["attributes"]) for family, row in _DATA["keywords"].items()
}
BUILDERS: Final[dict[str, str]] = {op.builder: kind for kind, op in OPS.items()}
# facts about some op kinds, by their words
TRAITS: Final[dict[str, str]] = _DATA["traits"]
# by word, the uses for which oneDNN's kernel is a reference kernel
REFERENCE: Final[dict[str, str]] = _DATA["reference"]


@cache
def kinds(trait: str) -> frozenset[str]:
    """Returns the op kinds of a trait."""
    if trait not in TRAITS:
        raise KeyError(trait)
    return frozenset(kind for kind, op in OPS.items() if trait in op.traits)


POST_OPS: Final[frozenset[str]] = frozenset(kind for kind, op in OPS.items() if op.post_op)
ATTR_CODES: Final[dict[str, int]] = {
    name: attr.code for op in OPS.values() for name, attr in op.attrs.items() if attr.code != NONE
}
