"""Which fused int8 partitions of the library are trusted: their features, and a table of what it computes exactly.

`python -m dnnl_graph_ops.trial` makes the table of a library, a file with the exact combinations by instruction set.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from operator import contains, gt, mod
from pathlib import Path
from typing import Any, NamedTuple

from .. import schema
from ..graph import Node, Value
from ..runtime import cache_files, cpu
from ..shapes import Attributes, resolved
from ..shapes.attributes import Geometry
from ..shapes.weights import channel_axes
from .broadcasts import AXIS_1, FULL, LAST, ONE, spread
from .env import Env
from .family import MEMBERS
from .post_ops import format_of
from .ties import MULTIPLYING, turns_ties

QUANTIZING = schema.kinds("quantizes")
_POOLS = schema.kinds("pools")
_COMMUTING = schema.kinds("commutes")


class Features(NamedTuple):
    """Features of an int8 partition that decide whether it is exact. Integers read "u8", "s8 channel", "u8 zp".

    `form`: what the head's attributes say. `tail`: post-ops in order, each with what its other operand is: "source" is
    the head's own. `skip`: the integers that are dequantized and added.
    """

    head: str
    rank: int
    form: str
    src: str
    weights: str
    tail: str
    skip: str
    dst: str


def quantizes(nodes: Sequence[Node]) -> bool:
    """Whether integers become floats or floats integers among the nodes."""
    return any(node.kind in QUANTIZING for node in nodes)


def multiplied(nodes: Sequence[Node]) -> str:
    """The integers of a product whose operands are dequantized among the nodes, by their dtype; "" of any other."""
    for product in nodes:
        if product.kind in MULTIPLYING:
            makers = [node for node in nodes if node.kind == "Dequantize" and node.outputs[0] in product.inputs[:2]]
            if {node.outputs[0] for node in makers} == set(product.inputs[:2]):
                return next(node.inputs[0].dtype for node in makers if node.outputs[0] is product.inputs[0])
    return ""


def trusted(nodes: Sequence[Node], env: Env) -> bool:
    """Whether the library computes the nodes, of which some quantize, right as one partition."""
    # the set is a fact of the machine, whatever the prices are that env chooses by
    runtime, row = env.engine.runtime, features(nodes)
    if row is None or env.engine.kind != "cpu" or (env.tune != "off" and turns_ties(nodes)):
        return False
    return table(runtime.cpu_runtime, runtime.version, cpu.isa(env.engine)).knows(row)


def features(nodes: Sequence[Node]) -> Features | None:
    """The features of a partition; None where it is of a kind that has none, which is not to be trusted."""
    heads = [node for node in nodes if node.kind in MULTIPLYING | _POOLS]
    reads = Counter(value for node in nodes for value in node.inputs)
    wide = {node.outputs[0]: node for node in nodes if node.kind == "Dequantize"}
    if len(heads) != 1:
        return None
    (head,) = heads
    if head.inputs.count(head.inputs[0]) > 1 or any(reads[v] > 1 for v in wide if v is not head.inputs[0]):
        return None
    operands = [wide.get(value) for value in head.inputs[: 1 if head.kind in _POOLS else 2]]
    src, *weights = operands
    if src is None or None in weights:
        return None
    rest = [node for node in nodes if node is not head and node not in operands]
    dst = rest.pop() if rest and rest[-1].kind == "Quantize" else None
    skips = [node for node in rest if node.kind == "Dequantize"]
    biases = ["bias" if len(value.shape) == 1 else None for value in head.inputs[2:]]
    words = biases + [_post_op(node, head, nodes, wide) for node in rest if node.kind != "Dequantize"]
    if len(skips) > 1 or None in words:
        return None
    return Features(
        head.kind,
        len(head.inputs[0].shape) - 2 * (head.kind != "MatMul"),
        _form(head),
        integer_words(src),
        "".join(integer_words(node, channels(head)) for node in weights if node is not None),
        ", ".join(word for word in words if word is not None),
        "".join(integer_words(node) for node in skips),
        "f32" if dst is None else integer_words(dst),
    )


def channels(head: Node) -> int:
    """The axis of the output channels of a head's weights."""
    rank = len(head.inputs[1].shape)
    if head.kind == "MatMul":
        return rank - (2 if head.attrs.get("transpose_b") else 1)
    return channel_axes(_record(head).weights_format, rank)[1]


def _record(head: Node) -> Attributes:
    return resolved(head.kind, [value.shape for value in head.inputs], head.attrs, head.name)


def integer_words(node: Node, channels: int | None = None) -> str:
    """The integers that a Dequantize reads, or a Quantize writes, in words; their scales lie along `channels`."""
    value = node.inputs[0] if node.kind == "Dequantize" else node.outputs[0]
    words = [value.dtype]
    if node.attrs["qtype"] != "per_tensor" and len(node.attrs["scales"]) > 1:
        by_channel = node.attrs["qtype"] == "per_channel" and node.attrs["axis"] % len(value.shape) == channels
        words.append("channel" if by_channel else "axis")
    return " ".join(words + ["zp"] * any(node.attrs.get("zps") or ()))


def _form(head: Node) -> str:
    attrs = head.attrs
    if head.kind == "MatMul":
        named = {name: bool(attrs.get(name)) for name in ("transpose_a", "transpose_b")}
        batches = [value.shape[:-2] for value in head.inputs[:2]]
        named |= {"batched": bool(batches[1]), "broadcast": bool(batches[1]) and batches[0] != batches[1]}
    elif head.kind in MEMBERS:
        g = _record(head).geometry
        groups = "depthwise" if g.groups in (g.in_channels, g.out_channels) else "groups"
        named = {"strided": max(g.strides) > 1, "dilated": max(g.dilations) > 1, groups: g.groups > 1}
        if head.kind == "ConvTranspose":
            # uneven: strides that do not divide the sizes of the result
            named |= {"gaps": _has_gaps(g), "uneven": any(map(mod, g.dst, g.strides))}
    else:
        named = {
            "strided": max(attrs["strides"]) > 1,
            "dilated": max(attrs.get("dilations") or (1,)) > 1,
            "padded": any((*attrs["pads_begin"], *attrs["pads_end"])) or attrs.get("auto_pad", "None") != "None",
            "exclude_pad": bool(attrs.get("exclude_pad")),
            "ceil": attrs.get("rounding_type") == "ceil",
        }
    return " ".join(word for word, holds in named.items() if holds)


def _has_gaps(g: Geometry) -> bool:
    """Whether a transposed convolution has places that no tap reaches, at its end or between others."""
    ends = any(map(gt, g.output_padding, g.pads_end))
    return ends or any(map(gt, g.strides, g.kernel))  # type: ignore[arg-type]


def _post_op(node: Node, head: Node, nodes: Sequence[Node], skips: Collection[Value]) -> str | None:
    """A post-op of a head in words, with what else it reads; None for all else."""
    result, made = head.outputs[0], {value for one in nodes for value in one.outputs}
    if node.kind not in schema.POST_OPS or node.outputs[0].shape != result.shape:
        return None
    if node.kind == "BiasAdd":
        return "bias"
    if len(node.inputs) == 1:
        return node.kind
    first, second = node.inputs
    if node.kind in _COMMUTING and (first not in made or first in skips or _made_of(first, second)):
        first, second = second, first
    if first not in made or first in skips:
        return None
    if second is head.inputs[0]:
        return f"{node.kind} source"
    if second in skips:
        return f"{node.kind} skip"
    if second in made:
        return f"{node.kind} own" if _made_of(second, first) else None
    return f"{node.kind} {_spread(second, result, head)}"


def _made_of(operand: Value, result: Value) -> bool:
    """Whether a result is of an op whose only operand is the other value."""
    return result.node is not None and result.node.inputs == (operand,)


def _spread(value: Value, result: Value, head: Node) -> str:
    """How an operand lies over a result, in one word."""
    channels = LAST if format_of(head) == "NXC" and len(result.shape) > 2 else AXIS_1
    return {ONE: "one", FULL: "full", channels: "channel"}.get(spread(value, result), "otherwise")


# ---- the table -------------------------------------------------------------------------------------------------------

# tried in more combinations than other post-ops of one operand, and what counts as one
RELU, SWISH = "ReLU", "Sigmoid, Multiply own"


class Table(NamedTuple):
    """The int8 partitions that a library computes exactly with an instruction set.

    `like_relu`: for each head the post-ops that it gets right wherever it does ReLU. `exact`: combinations, as a set of
    values for each feature.
    """

    like_relu: Mapping[str, Collection[str]]
    exact: Sequence[tuple[Collection[str | int], ...]]

    def knows(self, row: Features) -> bool:
        """Whether it computes a combination exactly; one that was not tried is not."""
        like = self.like_relu.get(row.head, ())
        tail = row.tail.replace(SWISH, RELU) if SWISH in like else row.tail
        row = row._replace(tail=", ".join(RELU if word in like else word for word in tail.split(", ")))
        return any(all(map(contains, box, row)) for box in self.exact)


@cache
def table(runtime: str, release: str, isa: str) -> Table:
    """The table for a library and an instruction set: the user's, or the package's; none of what was not tried."""
    for path in (user_file(runtime, release), package_file(runtime, release)):
        try:
            for one in cache_files.read(path)["tables"]:
                if isa in one["isa"]:
                    return parse(one)
        except OSError:
            continue
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            warnings.warn(f"the int8 partitions in {path} are damaged and are ignored", RuntimeWarning, stacklevel=2)
    return Table({}, ())


def parse(content: Any) -> Table:
    """A table as a file has it. ValueError, TypeError, KeyError, AttributeError: it is anything else."""
    boxes = [tuple(map(frozenset, box)) for box in content["exact"]]
    if any(len(box) != len(Features._fields) for box in boxes):
        raise ValueError(boxes)
    return Table({head: frozenset(texts) for head, texts in content["like ReLU"].items()}, boxes)


def package_file(runtime: str, release: str) -> Path:
    """The package's table for a library."""
    return Path(__file__).with_name("trusted") / f"{runtime}-{release}.json"


def user_file(runtime: str, release: str) -> Path:
    """Where `python -m dnnl_graph_ops.trial` puts a table for this machine, which comes before the package's."""
    return cache_files.folder("trusted") / package_file(runtime, release).name
