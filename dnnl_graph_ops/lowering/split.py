"""Which groups run as the library's partitioning has them, and which are taken apart first."""

from __future__ import annotations

from collections.abc import Sequence

from . import chain, dense, norms, patterned, tail, trust
from .broadcasts import misread
from .env import Env
from .family import MEMBERS
from .groups import Group, literal_attributes
from .rewrites import Rewrite
from .routes import runs_natively

ONEDNN_PARTITION = Rewrite(
    "onednn_partition",
    "several ops run as one partition of the library",
    ("its integers are known to be exact", "no broadcast operand is misread", "no channels are miscounted"),
)


def split(groups: Sequence[Group], env: Env) -> list[Group]:
    """The groups, those that cannot be lowered as they are in parts."""
    return [one for item in groups for one in _split(item, env)]


def _split(item: Group, env: Env) -> list[Group]:
    """A group with a family op that cannot be seen as head and post-ops is taken apart when it must be lowered."""
    if len(item.nodes) == 1 or norms.leads(item.nodes[0]) or dense.takes(item.nodes[0], env):
        return [item]
    if item.integer or chain.takes(item.nodes, env) or patterned.takes(item.nodes, env):
        return [item]
    if not item.supported:
        return _one_by_one(item, env)
    head, *rest = item.nodes
    if any(0 in value.shape for node in item.nodes for value in (*node.inputs, *node.outputs)):
        return _one_by_one(item, env)
    if head.kind not in MEMBERS and not trust.quantizes(item.nodes) and misread(item.nodes):
        ONEDNN_PARTITION.declined(rest[-1], "no broadcast operand is misread")
        return _one_by_one(item, env)
    if head.kind not in MEMBERS:
        if any(node.kind in MEMBERS and literal_attributes(node) is None for node in rest):
            return _one_by_one(item, env)
        ONEDNN_PARTITION.fired(rest[-1])
        return [item]
    shape = head.outputs[0].shape
    if all(n.kind in tail.KINDS and n.outputs[0].shape == shape for n in rest):
        return [item]
    return _one_by_one(item, env)


def _one_by_one(item: Group, env: Env) -> list[Group]:
    return [Group((node,), runs_natively(node, env)) for node in item.nodes]
