"""Reads meaning.json: the meaning of each op, argument and result in words, and the op's formula.

An argument's words come from the op's row, else from the row of its family, else from the table of arguments. A tensor
has a meaning and a shape, and dtypes where the op table has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple


class Words(NamedTuple):
    """The meaning of an argument or a result."""

    text: str
    shape: str = ""  # empty: not a tensor
    dtypes: str = ""  # empty: the op table's


class Example(NamedTuple):
    """Operands and attributes of an example: lists of float32 numbers, or expressions."""

    inputs: Mapping[str, Any]
    attributes: Mapping[str, Any] = MappingProxyType({})
    of_it: str = ""  # an index into the result
    gives: Sequence[str] = ()  # the printed lines


class Meaning(NamedTuple):
    """An op in words."""

    does: str
    formula: str  # LaTeX: x, y and their gradients with a bar
    family: str  # the family of ops that share words; empty: none
    words: Mapping[str, Words]
    example: Example | None
    onnx: str = ""  # the ONNX operator that the frontend reads as this op

    def of(self, name: str) -> Words:
        """Returns the words for an argument or a result."""
        return self.words[name]


@cache
def _data() -> Mapping[str, Mapping[str, Any]]:
    data: Mapping[str, Mapping[str, Any]] = json.loads(Path(__file__).with_name("meaning.json").read_text("utf-8"))
    return data


def kinds() -> Sequence[str]:
    """Returns the op kinds of the table."""
    return tuple(_data()["ops"])


def keyword(name: str) -> str:
    """Returns the meaning of an attribute in all ops that have it."""
    text: str = _data()["arguments"][name]
    return text


@cache
def meaning(kind: str) -> Meaning:
    """Returns the row of an op kind."""
    data = _data()
    row = data["ops"][kind]
    rows = {**data["arguments"], **data["families"].get(row.get("like"), {}), **row.get("arguments", {})}
    words = {name: Words(given) if isinstance(given, str) else Words(*given) for name, given in rows.items()}
    example = Example(**row["example"]) if "example" in row else None
    return Meaning(row["does"], row["formula"], row.get("like", ""), words, example, row.get("onnx", ""))
