"""Makes ops of the library's graphs, and numbers the library's fpmath modes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from .. import schema
from .._core import Op
from ..runtime.engines import Engine

FPMATH = {"strict": 0, "bf16": 1, "f16": 2, "any": 3, "tf32": 4}

# Ids are unique in the process, so that no cache inside the library takes one plan's tensors for another's.
_ids = itertools.count(1)


def fresh_id() -> int:
    return next(_ids)


def native_op(
    engine: Engine,
    kind: str,
    attrs: Mapping[str, Any],
    name: str,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
) -> Op:
    """Returns an op object of the library with logical tensors as inputs and outputs.

    Defaults of attributes that the library's version lacks are left out.
    """
    spec = schema.OPS[kind]
    op = Op(engine.runtime._library, fresh_id(), spec.value, name or kind)
    for tensor in inputs:
        op.add_input(tensor)
    for tensor in outputs:
        op.add_output(tensor)
    for key, value in schema.native_attrs(kind, attrs, engine.runtime.version_info).items():
        attr = spec.attrs[key]
        op.set_attr(attr.code, attr.type, list(value) if isinstance(value, tuple) else value)
    return op
