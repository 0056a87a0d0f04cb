"""Reads meaning.json: what each op and each of its arguments and results means, in words and as a formula.

A row is read with those of its family and what arguments of one name mean everywhere; its own words win. Of a tensor
there are its meaning and its shape, and its dtypes where the op table has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple


class Words(NamedTuple):
    """What an argument or a result means."""

    text: str
    shape: str = ""  # empty: no tensor
    dtypes: str = ""  # empty: as the op table says


class Example(NamedTuple):
    """Operands and attributes to try an op with: lists of float32 numbers, or expressions."""

    inputs: Mapping[str, Any]
    attributes: Mapping[str, Any] = MappingProxyType({})
    of_it: str = ""  # an index into the result
    gives: Sequence[str] = ()  # lines that it prints


class Meaning(NamedTuple):
    """An op in words."""

    does: str
    formula: str  # LaTeX: x, y and their gradients with a bar
    family: str  # of ops that share words; empty: none
    words: Mapping[str, Words]
    example: Example | None
    onnx: str = ""  # the ONNX operator that the frontend reads as this op

    def of(self, name: str) -> Words:
        """The words for an argument or a result."""
        return self.words[name]


@cache
def _data() -> Mapping[str, Mapping[str, Any]]:
    data: Mapping[str, Mapping[str, Any]] = json.loads(Path(__file__).with_name("meaning.json").read_text("utf-8"))
    return data


def kinds() -> Sequence[str]:
    """The op kinds of the table."""
    return tuple(_data()["ops"])


def keyword(name: str) -> str:
    """The meaning of an attribute, alike in all ops that have it."""
    text: str = _data()["arguments"][name]
    return text


@cache
def meaning(kind: str) -> Meaning:
    """The row of an op kind."""
    data = _data()
    row = data["ops"][kind]
    rows = {**data["arguments"], **data["families"].get(row.get("like"), {}), **row.get("arguments", {})}
    words = {name: Words(given) if isinstance(given, str) else Words(*given) for name, given in rows.items()}
    example = Example(**row["example"]) if "example" in row else None
    return Meaning(row["does"], row["formula"], row.get("like", ""), words, example, row.get("onnx", ""))
