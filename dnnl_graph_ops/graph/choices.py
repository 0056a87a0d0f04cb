"""Types of the string arguments of graphs, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from ..progress import Progress
    from .algorithm_info import Selection

FpmathMode: TypeAlias = Literal["strict", "bf16", "f16", "any", "tf32"]
Policy: TypeAlias = Literal["fusion", "debug"]
Tune: TypeAlias = Literal["off", "heuristic", "measure"]
Algorithm: TypeAlias = Literal["auto", "direct", "fast"]
Precision: TypeAlias = Literal["bf16", "f16", "auto", "bfloat16", "float16"]


class CompileOptions(TypedDict, total=False):
    """The options of `Graph.compile`."""

    policy: Policy
    tune: Tune
    algorithm: Algorithm | None
    precision: Precision | None
    samples: Iterable[Any] | None
    max_error: float | None
    algorithms: Mapping[str, Selection] | None
    progress: Progress | None
    threads: int | None
