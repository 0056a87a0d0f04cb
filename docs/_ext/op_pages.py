"""A page for each op, from the op table, what it says of meanings, and the routes by version of the library."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

from sphinx.application import Sphinx

from dnnl_graph_ops import functional, ops, schema
from dnnl_graph_ops.ops.document import attribute, example, tensor
from dnnl_graph_ops.reports.supported import REFERENCE, VERSIONS, rows
from dnnl_graph_ops.runtime import cpu
from dnnl_graph_ops.schema.meaning import kinds, meaning

_OLDER = "ConvTransposeBackpropFilters"
_PAGES = "https://uxlfoundation.github.io/oneDNN/"
_ONNX = "https://onnx.ai/onnx/operators/onnx__"
# what letters stand for in formulas of a family
_WINDOWS = "$p$ and $q$ positions, $k$ kernel elements, $s$ strides, $b$ pads_begin, $d$ dilations"
_LETTERS = {
    "conv_transpose": f"{_WINDOWS}, $n$ the batch, $i$ and $o$ input and output channels (of one group)",
    "convolution": f"{_WINDOWS}, $n$ the batch, $i$ and $o$ input and output channels (of one group)",
    "pool": f"{_WINDOWS}, $W_p$ the window of a position, $n_p$ how many positions count in it",
    "batch_norm": r"$\mu$ and $\sigma^2$ mean and variance of a channel, $n$ how many values it has",
    "layer_norm": r"$\mu$ and $\sigma^2$ mean and variance of the normalised axes, $n$ how many values they have",
    "quantize": "$s$ scales, $z$ zps",
    "reduce": "sums and products are over the reduced axes, of $n$ values",
}


def builder_of(kind: str) -> str:
    """The name of a kind's function in `dgo.ops`."""
    return schema.OPS[kind].builder if kind in schema.OPS else "conv_transpose_backprop_filters"


def _cell(text: str) -> str:
    return text.replace("|", "\\|") or "-"


def _table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for line in lines:
        yield "| " + " | ".join(map(_cell, line)) + " |"


def _operands(kind: str, signature: inspect.Signature) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    told = meaning(kind)
    operands, attributes = [], []
    for name, parameter in signature.parameters.items():
        words = told.of(name)
        if words.shape and "Value" in str(parameter.annotation):
            text, shape, dtypes = tensor(kind, name)
            operands.append((f"`{name}`", text + (" (optional)" if parameter.default is None else ""), shape, dtypes))
            continue
        needed = parameter.default is inspect.Parameter.empty
        default = "required" if needed else "" if parameter.default is None else f"`{parameter.default!r}`"
        attributes.append((f"`{name}`", words.text, attribute(kind, name, parameter), default))
    return operands, attributes


def _standing(kind: str) -> Iterator[str]:
    row = next((row for row in rows() if row.kind == kind), None)
    if row is None:
        yield "It runs as [](conv_transpose_backward_weights.md) does."
        return
    names = [".".join(map(str, version)) for version in VERSIONS]
    yield from _table(
        ("in oneDNN since", *(f"with {name}" for name in names)), [(row.since.replace("-", "never"), *row.how)]
    )
    yield ""
    if row.reason:
        yield f"Where another backend than oneDNN runs the op, the reason is: {row.reason}."
        yield ""
    if kind in REFERENCE:
        yield f'With `tune="off"` oneDNN runs the op with a reference kernel, which is slow: {REFERENCE[kind]}.'
        yield ""
    dtypes = sorted({entry.dtype for entry in cpu.REFERENCE if kind in entry.ops})
    if dtypes:
        yield f"The op runs in f32 for {' and '.join(dtypes)} where oneDNN has only reference kernels."
        yield ""


def page(kind: str) -> Iterator[str]:
    told, spec, builder = meaning(kind), schema.OPS.get(kind), builder_of(kind)
    signature = inspect.signature(getattr(ops, builder))
    like = told.family
    yield f"# {builder}"
    yield ""
    yield f"**{kind}.** {told.does}"
    yield ""
    yield f"$$\n{told.formula}\n$$"
    yield ""
    letters = f"; {_LETTERS[like]}" if like in _LETTERS else ""
    yield f"In the formula $x$ is the input, $y$ the result, and a bar marks a gradient{letters}."
    yield ""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    call = f"dgo.ops.{builder}{inspect.Signature(bare)}"
    yield "```python"
    yield from wrap(call, 84, subsequent_indent="    ")
    yield "```"
    yield ""
    operands, attributes = _operands(kind, signature)
    yield "## Operands\n"
    yield from _table(("operand", "meaning", "shape", "dtypes"), operands)
    yield "\n## Attributes\n"
    yield from _table(("attribute", "meaning", "type", "default"), attributes)
    yield "\n## Results\n"
    slots = [slot.name for slot in spec.outputs] if spec else ["filter_delta"]
    if slots:
        yield from _table(("result", "meaning", "shape", "dtypes"), [(f"`{n}`", *tensor(kind, n)) for n in slots])
    else:
        yield "None."
    if told.example:
        yield "\n## Example\n"
        yield "```pycon\n>>> import numpy as np\n>>> import dnnl_graph_ops as dgo"
        yield from example(builder, told.example)
        yield "```"
    if hasattr(functional, builder):
        yield f"\n`dgo.{builder}` does the same for arrays at once: [](../api/dnnl_graph_ops.md)."
    yield "\n## How it runs\n"
    yield from _standing(kind)
    if spec and not spec.own:
        yield f"oneDNN's page: [{kind}]({_PAGES}{spec.page}.html)."
        yield ""
    if told.onnx:
        yield f"ONNX operator: [{told.onnx}]({_ONNX}{told.onnx}.html)."


def index() -> Iterator[str]:
    yield "# Ops"
    yield ""
    yield "One function of `dgo.ops` for each op of the oneDNN Graph API up to 3.13, and for some others."
    yield ""
    listed = sorted((builder_of(kind), kind) for kind in kinds())
    yield from _table(("function", "op", ""), [(f"[{b}]({b}.md)", kind, meaning(kind).does) for b, kind in listed])
    yield "\n```{toctree}\n:hidden:\n"
    yield from (builder for builder, _ in listed)
    yield "```"


def write(app: Sphinx) -> None:
    folder = Path(app.srcdir, "ops")
    pages = {builder_of(kind): page(kind) for kind in kinds()} | {"index": index()}
    for name, lines in pages.items():
        put(folder / f"{name}.md", lines)


def put(path: Path, lines: Iterator[str]) -> None:
    """Write a page if it changed, so that another build reads it no more."""
    path.parent.mkdir(exist_ok=True)
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
