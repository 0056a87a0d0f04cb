"""How an op runs here: natively, as another op, by own code, in NumPy on the host, or not at all; and why so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from .. import schema, shapes
from ..dtypes import PACKED
from ..graph import Node
from ..shapes import Meta
from . import chain, own
from .env import Env
from .equal import EQUAL
from .family import MEMBERS
from .groups import ops_of
from .host_ops import HOST
from .rewrites import Rewrite

Version = tuple[int, ...]


RUN_AS_ANOTHER = Rewrite(
    "run_as_another",
    "an op without a kernel runs as an equal one that has one",
    ("an op of another kind is equal", "the other op runs here"),
)


class How(Enum):
    """Ways to run an op; the first that is open is taken."""

    NATIVELY = "natively"
    AS_ANOTHER = "as another op"
    BY_OWN_CODE = "by own code"
    ON_HOST = "on the host"
    NOWHERE = "nowhere"


class Route(NamedTuple):
    """The way that is taken, why the library's own is closed, and the other op where that is the way of a node."""

    how: How
    reason: str = ""
    twin: Node | None = None


def _as_it_is(dtype: str, *ops: str) -> str:
    return dtype


class Target(NamedTuple):
    """What runs an op: the library's version, its instruction set, and the dtype that it computes ops of one in.

    prefers_own: whether own code goes before the library's.
    """

    version: Version
    isa: str = ""
    compute_dtype: Callable[..., str] = _as_it_is
    prefers_own: bool = False

    @classmethod
    def of(cls, env: Env) -> Target:
        return cls(env.version, env.isa, env.compute_dtype, env.prefers_own)


KEEPS_NAN = "the library's kernels lose NaN"
_TURNS_TIES = "the library adds the zero point before it rounds, which turns ties by an odd one"
# what falls away where the library computes in another dtype, but not in memory
_CONVERSIONS = schema.kinds("converts")


def route(kind: str, target: Target, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Route:
    """How ops of a kind run as far as dtypes tell (none: of ordinary data); attributes and shapes may close a way."""
    if kind in MEMBERS:
        return Route(How.NATIVELY)
    if target.prefers_own and kind in own.KEEPING_NAN and chain.FLOATS.issuperset(inputs):
        return Route(How.BY_OWN_CODE, KEEPS_NAN)
    reason = _not_in_memory(kind, target, inputs, outputs)
    if reason is None:
        ins, outs = ([target.compute_dtype(dtype, kind) for dtype in some] for some in (inputs, outputs))
        reason = schema.availability(kind, ins, target.version, outputs=outs)
    if reason is None:
        return Route(How.NATIVELY)
    equal = kind in EQUAL and "equal" not in schema.OPS[kind].partly
    return Route(_way_around(kind, equal, kind in own.OWN), reason)


def route_of(node: Node, env: Env) -> Route:
    """How a node runs, whose shapes are known."""
    reason = why_not(node, env)
    if node.host is not None:
        return Route(How.ON_HOST, str(reason))
    if reason is None:
        return Route(How.NATIVELY)
    twin = _twin(node, env)
    return Route(_way_around(node.kind, twin is not None, own.serves(node)), reason, twin)


def _twin(node: Node, env: Env) -> Node | None:
    """An equal op that the library or own code runs."""
    if node.kind not in EQUAL:
        return None
    twin = EQUAL[node.kind](node)
    if twin is None:
        RUN_AS_ANOTHER.declined(node, "an op of another kind is equal")
        return None
    if not (runs_natively(twin, env) or own.serves(twin)):
        RUN_AS_ANOTHER.declined(node, "the other op runs here")
        return None
    RUN_AS_ANOTHER.fired(node)
    return twin


def _way_around(kind: str, equal: bool, by_own_code: bool) -> How:
    """The way of an op that the library does not run; `equal`: it is another op that has a kernel."""
    if equal:
        return How.AS_ANOTHER
    if by_own_code:
        return How.BY_OWN_CODE
    return How.ON_HOST if kind in HOST else How.NOWHERE


def runs_natively(node: Node, env: Env) -> bool:
    """Whether the loaded library is to run this node; its shapes may be unknown."""
    return why_not(node, env) is None


def why_not(node: Node, env: Env) -> str | None:
    """Why the loaded library does not run this node as it is, or None."""
    kind, attrs = node.kind, node.attrs
    if kind in MEMBERS:
        return None
    if own.preferred(node, env):
        return KEEPS_NAN if kind in own.KEEPING_NAN else f"own kernels of {kind} are faster than the library's"
    if kind == "DynamicQuantize" and len(node.inputs) > 2 and env.prefers_own:
        return _TURNS_TIES
    if kind == "Wildcard":
        return "it stands for an op outside of oneDNN, which nothing here can compute; end the graph before it"
    given = [[value.dtype for value in some] for some in (node.inputs, node.outputs)]
    reason = _not_in_memory(kind, Target.of(env), *given)
    if reason is not None:
        return reason
    if len(set(attrs.get("zps") or ())) > 1:
        # 3.2 takes them and uses the first for all channels, later versions refuse
        return f"oneDNN has a kernel for {kind} with one zero point only"
    ops = ops_of([node])
    ins, outs = (
        [Meta(value.shape, env.compute_dtype(value.dtype, *ops)) for value in some]
        for some in (node.inputs, node.outputs)
    )
    found = [meta.shape for meta in (*ins, *outs)]
    if any(None in shape for shape in found):
        types = [meta.dtype for meta in ins]
        return schema.availability(kind, types, env.version, attrs, outputs=[meta.dtype for meta in outs])
    reason = shapes.unsupported(kind, ins, outs, attrs, env.version)
    if reason is None and any(0 in shape for shape in found):
        reason = f"oneDNN has no kernel for {kind} of tensors without elements"
    if reason is None and () in found:
        reason = f"oneDNN has no kernel for {kind} of tensors without axes"
    return reason


def _not_in_memory(kind: str, target: Target, inputs: Sequence[str], outputs: Sequence[str]) -> str | None:
    """What speaks against the library whatever it computes: how dtypes lie in memory, or change there only."""
    dtypes = (*inputs, *outputs)
    packed = [dtype for dtype in dtypes if dtype in PACKED]
    if packed:
        return f"{kind} of {packed[0]}: the library packs 4-bit integers in pairs, NumPy does not"
    if kind in _CONVERSIONS and dtypes:
        computed = list(map(target.compute_dtype, dtypes))
        lacking = next((dtype for dtype, found in zip(dtypes, computed, strict=True) if dtype != found), None)
        if lacking is not None and computed[0] == computed[-1]:
            return f"the library has no {lacking} kernels for {target.isa}"
    return None
