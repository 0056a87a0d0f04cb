"""Formats signatures and docstrings for stubs, with the formatter's line breaks."""

from __future__ import annotations

from inspect import Parameter, Signature
from textwrap import wrap

# {spelled-out type of a signature: its alias in a stub}
_ALIASES = {"Value | Array": "Tensor", "int | Sequence[int]": "Ints"}
WIDTH = 120

# arguments that take other packages' words, and an op kind that has all their choices
FORMATS = {"data_format": "conv_transpose", "weights_format": "conv_transpose"}
FORMATS |= {"filter_format": "conv_transpose_backprop_filters", "auto_pad": "conv_transpose"}


def alias(name: str) -> str:
    return name.title().replace("_", "")


def _annotation(text: str, name: str) -> str:
    if name in FORMATS:
        return alias(name) + (" | None" if text.endswith(" | None") else "")
    for long, short in _ALIASES.items():
        text = text.replace(long, short)
    return text.replace("'", '"')


class _Code(str):
    """Text that inspect prints unquoted."""

    __repr__ = str.__str__


def _parameter(parameter: Parameter) -> str:
    if parameter.annotation is not Parameter.empty:
        parameter = parameter.replace(annotation=_Code(_annotation(str(parameter.annotation), parameter.name)))
    if parameter.default is ...:
        parameter = parameter.replace(default=_Code("..."))
    return str(parameter).replace("'", '"')


def function(name: str, made: Signature, says: str, indent: int = 0) -> list[str]:
    """Yields the lines of a signature and its docstring, with the formatter's line breaks."""
    parameters = [_parameter(parameter) for parameter in made.parameters.values()]
    kinds = [parameter.kind for parameter in made.parameters.values()]
    if Parameter.KEYWORD_ONLY in kinds and Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
    if Parameter.POSITIONAL_ONLY in kinds:
        parameters.insert(kinds.count(Parameter.POSITIONAL_ONLY), "/")
    whole, width = ", ".join(parameters), WIDTH - indent
    last = f") -> {made.return_annotation}:" + ("" if says else " ...")
    text = [*quoted(says, indent), ""] if says else []
    if len(f"def {name}({whole}{last}") <= width:
        return [f"def {name}({whole}{last}", *text]
    rows = [whole] if 4 + len(whole) <= width and len(parameters) > 1 else [f"{one}," for one in parameters]
    return [f"def {name}(", *(f"    {row}" for row in rows), last, *text]


def quoted(says: str, indent: int = 0) -> list[str]:
    paragraphs = [wrap(paragraph, WIDTH - 12 - indent) for paragraph in says.split("\n\n")]
    lines = [line for paragraph in paragraphs for line in ("", *paragraph)][1:]
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" if line else "" for line in lines[1:]), '    """']
