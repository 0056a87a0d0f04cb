"""Tells which post-ops the library's kernels compute well, by a table of measured errors.

`python -m dnnl_graph_ops.trial` measures a library: the largest error of each post-op after each kind of head over the
whole range of a dtype, in units in the last place, and whether NaN becomes a number or a number NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from ... import schema
from ...ir.env import Env
from ...once import answered
from ...runtime import cache_files, cpu

# units in the last place that a post-op may be off
MOST: Final = 16
# the library's transposed and ordinary convolutions compute each other: one word for both
_CONVOLUTIONS: Final = schema.kinds("convolves")
# the head of an op that is a step of its own
ALONE: Final = "alone"
HEADS: Final = (ALONE, *sorted(schema.kinds("multiplies")))
LOST, MADE = "makes a number of NaN", "makes NaN of a number"


class Measured(NamedTuple):
    """The largest error of a post-op in units in the last place, and what it does to NaN; "" if it keeps NaN."""

    ulps: float
    nan: str = ""

    @property
    def text(self) -> str:
        if self.ulps > MOST:
            return f"is {self.ulps:.2g} units in the last place off"
        return self.nan


# (head, dtype, post-op) -> what was measured
Table = Mapping[tuple[str, str, str], Measured]


def name_of(kind: str, attrs: Mapping[str, Any]) -> str:
    """Returns the name of a post-op in the table: its kind, and the mode that its attributes select, if any.

    A BiasAdd is an Add of a vector.
    """
    kind = "Add" if kind == "BiasAdd" else kind
    mode = attrs.get("mode", schema.OPS[kind].attrs["mode"].default if "mode" in schema.OPS[kind].attrs else "")
    return f"{kind} {mode}".rstrip()


def refusal(kind: str, attrs: Mapping[str, Any], head: str, dtype: str, env: Env, finite: bool = False) -> str:
    """Returns why the library must not compute an op on this dtype as a post-op of its op `head`; "" where it may.

    `head` ALONE: as a step of its own. A library that was not measured on an instruction set is taken for as bad as the
    worst that was. Where builtin kernels are switched off, or operands are `finite`, post-ops may lose NaN. A
    device is not judged.
    """
    if kind not in schema.POST_OPS:
        return f"the library has no post-op {kind}"
    key = refusal, kind, tuple(attrs.items()), head, dtype, finite
    return answered(env.answers, key, lambda: _refusal(kind, attrs, head, dtype, env, finite))


def _refusal(kind: str, attrs: Mapping[str, Any], head: str, dtype: str, env: Env, finite: bool) -> str:
    reason = schema.availability(kind, [], env.version, attrs)
    if reason is not None or not env.engine.on_host:
        return reason or ""
    # a head with a bias may be computed in another dtype than one without
    computed = dict.fromkeys(
        env.compute_dtype(dtype, kind if head == ALONE else op) for op in (head, f"{head} with bias")
    )
    finite = finite or not env.prefers_builtin
    return next(filter(None, (_measured(name_of(kind, attrs), head, one, env, finite) for one in computed)), "")


def _measured(post_op: str, head: str, dtype: str, env: Env, finite: bool) -> str:
    """Returns why the library must not compute a post-op in a dtype, by what was measured; "" where it may."""
    runtime, isa = env.engine.runtime, cpu.isa(env.engine)
    errors = table(runtime.cpu_runtime, runtime.version, isa, head, dtype)
    measured = (worst() if errors is None else errors).get((head, dtype, post_op))
    place = "after its convolution" if head in _CONVOLUTIONS else head if head == ALONE else f"after its {head}"
    where = f"{post_op} {place}"
    if measured is None:
        return f"the library's {where} in {dtype} was not measured"
    if finite:
        measured = measured._replace(nan="")
    if not measured.text:
        return ""
    told = "" if errors is not None else f", as far as is known: oneDNN {runtime.version} was not measured with {isa}"
    return f"the library's {where} in {dtype} {measured.text}{told}"


def joined(rows: Iterable[Measured]) -> Measured:
    """Returns the worst of several measurements of a post-op."""
    rows = list(rows)
    return Measured(max(row.ulps for row in rows), max((row.nan for row in rows), key=["", LOST, MADE].index))


@cache
def table(runtime: str, release: str, isa: str, head: str, dtype: str) -> Table | None:
    """Returns what was measured of post-ops of a head in a dtype; None if nothing was of the instruction set at all.

    The table comes from the user's file, else from the package's. A damaged file is ignored with a RuntimeWarning.
    """

    def of_head(path: Path) -> Table | None:
        content = _content(path, isa)
        if content is None:
            return None
        # few nets have several heads
        key = f"{head} {dtype}"
        return parse({key: content[key]} if key in content else {})

    return cache_files.first(
        (user_file(runtime, release), package_file(runtime, release)), of_head, "errors of post-ops"
    )


@cache
def _content(path: Path, isa: str) -> Any:
    return cache_files.item(cache_files.text(path), isa)


@cache
def worst() -> Table:
    """Returns for each post-op the worst that the package's tables have of any library and instruction set."""
    tables = [
        parse(one) for path in sorted(_FOLDER.glob(f"{_PREFIX}*.json")) for one in cache_files.read(path).values()
    ]
    keys = {key for one in tables for key in one}
    return {key: joined(one[key] for one in tables if key in one) for key in keys}


def parse(content: Any) -> Table:
    """Returns the table in the content of a file for an instruction set: {"head dtype": {post-op: [ulps, NaN]}}.

    Content of another format raises ValueError, TypeError, KeyError or AttributeError.
    """
    return {
        (*names, post_op): Measured(float(ulps), *map(_NAN.__getitem__, nan))
        for head, by_op in content.items()
        for names in [head.split()]
        for post_op, (ulps, *nan) in by_op.items()
    }


_NAN = {"lost": LOST, "made": MADE}
_PREFIX = "post-ops-"
_FOLDER = Path(__file__).parent


def package_file(runtime: str, release: str) -> Path:
    """Returns the path of the package's table for a library."""
    return _FOLDER / f"{_PREFIX}{runtime}-{release}.json"


def user_file(runtime: str, release: str) -> Path:
    """Returns the path at which `python -m dnnl_graph_ops.trial` writes a table; it precedes the package's."""
    return cache_files.folder("trusted") / package_file(runtime, release).name
