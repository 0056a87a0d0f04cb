"""Tells which fused int8 partitions of the library are trusted, by a table of the partitions that it computes exactly.

`python -m dnnl_graph_ops.trial` makes the table of a library: a file with the exact combinations of features by
instruction set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from math import prod
from operator import contains, gt, mod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, schema
from ..convolution.nodes import CONV_KINDS, format_of
from ..graph import Node, Value
from ..ir.env import Env
from ..program import post_op_errors
from ..runtime import cache_files, cpu
from ..shapes import Attributes, resolved
from ..shapes.attributes import Geometry
from ..shapes.common import channel_axes
from .broadcasts import AXIS_1, FULL, LAST, ONE, spread

QUANTIZING = schema.kinds("quantizes")
_POOLS = schema.kinds("pools")
_COMMUTING = schema.kinds("commutes")
MULTIPLYING = schema.kinds("multiplies")
# results of other ops are no multiples of the scales, such as the bounds of a Clamp or of Tanh
_SUMS = MULTIPLYING | schema.kinds("keeps_ties")
# a ratio of scales with two halfway multiples among these is a fraction of small numbers, or of powers of two
_INTEGERS = np.unique([*range(512), *(odd << power for power in range(8, 23) for odd in (1, 3))])
_AT_ONCE = 32  # ratios, whose multiples stay in the near caches

Scales = np.ndarray[Any, Any]


class Features(NamedTuple):
    """The features of an int8 partition that decide whether the library computes it exactly.

    Integers are written as "u8", "s8 channel" (one scale for each channel) or "u8 zp" (with a zero point). `form`:
    properties of the head's attributes, such as "strided". `post_ops`: in order, each with its other operand, of
    which "source" is the head's first. `skip`: the integers that are dequantized and added.
    """

    head: str
    rank: int
    form: str
    src: str
    weights: str
    post_ops: str
    skip: str
    dst: str


def quantizes(nodes: Sequence[Node]) -> bool:
    """Whether any of the nodes quantizes or dequantizes."""
    return any(node.kind in QUANTIZING for node in nodes)


def multiplied(nodes: Sequence[Node]) -> str:
    """Returns the dtype of the integers that a product among the nodes multiplies; "" if it multiplies floats.

    A product multiplies integers if the nodes dequantize both of its operands.
    """
    for product in nodes:
        if product.kind in MULTIPLYING:
            makers = [node for node in nodes if node.kind == "Dequantize" and node.outputs[0] in product.inputs[:2]]
            if {node.outputs[0] for node in makers} == set(product.inputs[:2]):
                return next(node.inputs[0].dtype for node in makers if node.outputs[0] is product.inputs[0])
    return ""


def trusted(nodes: Sequence[Node], env: Env) -> bool:
    """Whether the library computes the nodes, some of which quantize or dequantize, exactly as one partition."""
    # the machine's own instruction set, as env.isa may be another one, by whose prices algorithms are chosen
    runtime, row = env.engine.runtime, features(nodes)
    if row is None or env.engine.kind != "cpu":
        return False
    known = table(runtime.cpu_runtime, runtime.version, cpu.isa(env.engine)).knows(row)
    # ties take the longest to tell
    return known and not _badly(nodes, row, env) and (env.tune == "off" or not turns_ties(nodes))


def _badly(nodes: Sequence[Node], row: Features, env: Env) -> bool:
    """Whether the library computes a post-op badly whose result is not quantized at once.

    What is quantized is within half a step whatever the error in units in the last place.
    """
    if row.head not in MULTIPLYING:
        return False
    quantized = {node.inputs[0] for node in nodes if node.kind == "Quantize"}
    post_ops = (node for node in nodes if node.kind in schema.POST_OPS and node.outputs[0] not in quantized)
    return any(post_op_errors.refusal(node.kind, node.attrs, row.head, "f32", env, finite=True) for node in post_ops)


def untried(nodes: Sequence[Node], env: Env) -> str:
    """Returns that no int8 partition was tried on this CPU, for explanations; "" if some were, or nodes need none."""
    if env.engine.kind != "cpu" or not multiplied(nodes):
        return ""
    runtime, isa = env.engine.runtime, cpu.isa(env.engine)
    if table(runtime.cpu_runtime, runtime.version, isa).exact:
        return ""
    return (
        f"oneDNN {runtime.version} was never tried on {isa}, so builtin code computes what its int8 partitions could; "
        f"`python -m {__package__.partition('.')[0]}.trial` tries them"
    )


def features(nodes: Sequence[Node]) -> Features | None:
    """Returns the features of a partition, or None if features cannot describe it; such a partition is not trusted.

    Features describe one product or pool of dequantized operands, its post-ops, and at most one Quantize at the end.
    """
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
    """Returns the axis of the output channels in the weights of a head."""
    rank = len(head.inputs[1].shape)
    if head.kind == "MatMul":
        return rank - (2 if head.attrs.get("transpose_b") else 1)
    return channel_axes(_record(head).weights_format, rank)[1]


def _record(head: Node) -> Attributes:
    return resolved(head.kind, [value.shape for value in head.inputs], head.attrs, head.name)


def integer_words(node: Node, channels: int | None = None) -> str:
    """Returns the integers that a Dequantize reads, or a Quantize writes, in words such as "s8 channel zp".

    `channels`: the axis along which scales by channel lie; along another axis they read "axis". Zero points that are no
    integers of the dtype read "zp beyond".
    """
    value = node.inputs[0] if node.kind == "Dequantize" else node.outputs[0]
    words = [value.dtype]
    if node.attrs["qtype"] != "per_tensor" and len(node.attrs["scales"]) > 1:
        by_channel = node.attrs["qtype"] == "per_channel" and node.attrs["axis"] % len(value.shape) == channels
        words.append("channel" if by_channel else "axis")
    if any(node.attrs.get("zps") or ()):
        words.append("zp" if points_fit(node) else "zp beyond")
    return " ".join(words)


def points_fit(node: Node) -> bool:
    """Whether the stated zero points of a Dequantize or Quantize are integers of its 8-bit dtype."""
    integers = node.outputs[0] if node.kind == "Quantize" else node.inputs[0]
    kinds = np.iinfo(dtypes.numpy_dtype(integers.dtype))
    return all(kinds.min <= point <= kinds.max for point in node.attrs.get("zps") or ())


def _form(head: Node) -> str:
    attrs = head.attrs
    if head.kind == "MatMul":
        named = {name: bool(attrs.get(name)) for name in ("transpose_a", "transpose_b")}
        batches = [value.shape[:-2] for value in head.inputs[:2]]
        named |= {"batched": bool(batches[1]), "broadcast": bool(batches[1]) and batches[0] != batches[1]}
    elif head.kind in CONV_KINDS:
        g = _record(head).geometry
        groups = "depthwise" if g.groups in (g.in_channels, g.out_channels) else "groups"
        named = {"strided": max(g.strides) > 1, "dilated": max(g.dilations) > 1, groups: g.groups > 1}
        if head.kind == "ConvTranspose":
            # uneven: strides that do not divide the sizes of the result
            named |= {"gaps": _has_gaps(g), "uneven": any(map(mod, g.dst, g.strides))}
            # several channels of src for the only channel of dst of a group: without VNNI the library's sums saturate
            named["contracted"] = g.groups > 1 and g.out_channels == g.groups != g.in_channels
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
    """Whether a ConvTranspose has positions of dst that no tap reaches, at the end or between taps."""
    ends = any(map(gt, g.output_padding, g.pads_end))
    return ends or any(map(gt, g.strides, g.kernel))  # type: ignore[arg-type]


def _post_op(node: Node, head: Node, nodes: Sequence[Node], skips: Collection[Value]) -> str | None:
    """Returns a post-op of a head in words, with its other operand, such as "Add skip"; None for any other node."""
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
    """Whether `operand` is the only operand of the op that gives `result`, such as x of Sigmoid(x)."""
    return result.node is not None and result.node.inputs == (operand,)


def _spread(value: Value, result: Value, head: Node) -> str:
    """Returns how an operand is broadcast over the head's result, in one word."""
    channels = LAST if format_of(head) == "NXC" or len(result.shape) == 2 else AXIS_1
    return {ONE: "one", FULL: "full", channels: "channel"}.get(spread(value, result), "otherwise")


# ---- halfway between two integers ------------------------------------------------------------------------------------


def turns_ties(nodes: Sequence[Node]) -> bool:
    """Whether the library may round ties in a partition to other integers than Quantize by its definition.

    The library adds the zero point before it rounds to even. With an odd zero point, ties go to the other neighbour
    then.
    """
    *rest, dst = nodes
    if dst.kind != "Quantize" or not any(zero % 2 for zero in dst.attrs.get("zps") or ()):
        return False
    sources = [node for node in rest if node.kind == "Dequantize"]
    if any(node.kind == "MaxPool" for node in rest):
        # integers that are only compared stay as they are
        return any(_grid(node) != _grid(dst) for node in sources)
    if not _SUMS.issuperset(node.kind for node in rest):
        return True
    (head,) = (node for node in rest if node.kind in MULTIPLYING)
    factors = [_scales(node) for node in sources if node.outputs[0] in head.inputs]
    read = {value for node in rest if node is not head for value in node.inputs}
    added = [[_scales(node)] for node in sources if node.outputs[0] in read]
    return any(_may_be_halfway(steps, _scales(dst)) for steps in (factors, *added))


def _grid(node: Node) -> tuple[Any, Any]:
    return node.attrs["scales"], node.attrs.get("zps") or ()


def _scales(node: Node) -> Scales:
    return np.array(node.attrs["scales"], np.float32).astype(np.float64)


def _may_be_halfway(factors: Sequence[Scales], step: Scales) -> bool:
    """Whether multiples of the factors' product are k + 0.5 times `step`, up to rounding, more often than by chance.

    Scales that were measured have no such multiples. Scales that someone has set may have them, and a `step` of few
    binary digits always counts; so do factors and steps with scales along several axes, which are not compared.
    """
    if len({scales.size for scales in (*factors, step)} - {1}) > 1:
        return True
    if (np.ldexp(np.frexp(step)[0], 8) % 1 == 0).any():
        return True
    with np.errstate(all="ignore"):
        ratios = (prod(factors) / step).ravel()
        return sum(_halfway(ratios[i : i + _AT_ONCE]) for i in range(0, len(ratios), _AT_ONCE)) > len(ratios)


def _halfway(ratios: Scales) -> int:
    """Returns how many multiples of ratios below 256 are k + 0.5, up to rounding."""
    numbers = np.multiply.outer(ratios, _INTEGERS)
    distances = np.floor(numbers)
    np.subtract(numbers, distances, out=distances)
    np.abs(distances - 0.5, out=distances)
    return int(np.count_nonzero((numbers < 256) & (distances <= numbers * 2.0**-21)))


# ---- the table -------------------------------------------------------------------------------------------------------

# a unary post-op that was tried in more combinations than others; two ops that count as one unary post-op
RELU, SWISH = "ReLU", "Sigmoid, Multiply own"


class Table(NamedTuple):
    """The int8 partitions that a library computes exactly with an instruction set.

    `like_relu`: by kind of the head, the post-ops that it computes exactly wherever it does so with ReLU. `exact`:
    combinations of features, each as a set of values for every feature.
    """

    like_relu: Mapping[str, Collection[str]]
    exact: Sequence[tuple[Collection[str | int], ...]]

    def knows(self, row: Features) -> bool:
        """Whether the library computes partitions with these features exactly; False if this was not tried."""
        like = self.like_relu.get(row.head, ())
        post_ops = row.post_ops.replace(SWISH, RELU) if SWISH in like else row.post_ops
        row = row._replace(post_ops=", ".join(RELU if word in like else word for word in post_ops.split(", ")))
        return any(all(map(contains, box, row)) for box in self.exact)


@cache
def table(runtime: str, release: str, isa: str) -> Table:
    """Returns the int8 partitions that a release of the library computes exactly with an instruction set.

    The table comes from the user's file, else from the package's; it is empty where there is none.

    A damaged file is ignored with a RuntimeWarning.
    """

    def of_isa(path: Path) -> Table | None:
        return next((parse(one) for one in cache_files.read(path)["tables"] if isa in one["isa"]), None)

    paths = user_file(runtime, release), package_file(runtime, release)
    return cache_files.first(paths, of_isa, "int8 partitions") or Table({}, ())


def parse(content: Any) -> Table:
    """Returns the table in the content of a file.

    Content of another format raises ValueError, TypeError, KeyError or AttributeError.
    """
    boxes = [tuple(map(frozenset, box)) for box in content["exact"]]
    if any(len(box) != len(Features._fields) for box in boxes):
        raise ValueError(boxes)
    return Table({head: frozenset(texts) for head, texts in content["like ReLU"].items()}, boxes)


def package_file(runtime: str, release: str) -> Path:
    """Returns the path of the package's table for a library."""
    return Path(__file__).with_name("trusted") / f"{runtime}-{release}.json"


def user_file(runtime: str, release: str) -> Path:
    """Returns the path at which `python -m dnnl_graph_ops.trial` writes a table; it precedes the package's."""
    return cache_files.folder("trusted") / package_file(runtime, release).name
