"""Makes the docstrings of builders from the op table and meaning.json."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, Signature
from textwrap import wrap

from .. import schema
from ..schema.meaning import Example, Words, meaning
from .typed import WORDS

_WIDTH = 112


def document(kind: str, builder: str, shape: Signature) -> str:
    """Returns the docstring of the builder of an op kind."""
    told, spec = meaning(kind), schema.OPS.get(kind)
    lines = [*wrap(f"{kind}: {told.does}", _WIDTH), "", "Args:"]
    for name, parameter in shape.parameters.items():
        lines += _item(name, ", ".join(argument(kind, name, parameter)))
    lines += ["", "Returns:"]
    slots = [slot.name for slot in spec.outputs] if spec else ["filter_delta"]
    for name in slots:
        lines += _item(name, "; ".join(tensor(kind, name)))
    lines += [
        *([] if slots else ["    nothing."]),
        "",
        "Raises:",
        "    ShapeError: shapes that disagree. InvalidArgumentError: dtypes or attributes out of range.",
        "    TypeError: wrong Python types.",
    ]
    if told.example:
        lines += ["", "Example:", *(f"    {line}" for line in example(builder, told.example))]
    page = f" ({spec.page})" if spec else ""
    own = spec is not None and spec.own
    return "\n".join(
        [
            *lines,
            "",
            "Source: this package; oneDNN does not have this op."
            if own
            else f"Source: oneDNN Graph API, {kind}{page}.",
        ]
    )


def _item(name: str, text: str) -> list[str]:
    return wrap(f"{name}: {text}.", _WIDTH, initial_indent="    ", subsequent_indent="        ")


def tensor(kind: str, name: str) -> tuple[str, str, str]:
    """Returns the meaning, shape and dtypes of an input or a result as text."""
    words, spec = meaning(kind).of(name), schema.OPS.get(kind)
    slots = {slot.name: slot for slot in (*spec.inputs, *spec.outputs)} if spec else {}
    dtypes = words.dtypes or ", ".join(slots[name].dtypes) if name in slots else words.dtypes
    return words.text, words.shape, dtypes or "any dtype"


def argument(kind: str, name: str, parameter: Parameter) -> Iterator[str]:
    """Yields the parts of an argument's text: meaning, shape and dtypes or type, default."""
    words: Words = meaning(kind).of(name)
    if words.shape and "Value" in str(parameter.annotation):
        text, shape, dtypes = tensor(kind, name)
        yield f"{text}; {shape}; {dtypes}"
        if parameter.default is None:
            yield "optional"
        return
    yield f"{words.text}; {attribute(kind, name, parameter)}"
    if parameter.default is not Parameter.empty and parameter.default is not None:
        yield f"default {parameter.default!r}"
    elif parameter.default is Parameter.empty and parameter.kind is not Parameter.VAR_POSITIONAL:
        yield "required"


def attribute(kind: str, name: str, parameter: Parameter) -> str:
    """Returns the type, length and choices of an attribute as text."""
    spec = schema.OPS.get(kind)
    attr = spec.attrs.get(name) if spec else None
    text = str(parameter.annotation).replace(" | None", "")
    if attr is not None and attr.length:
        text = "an int for all spatial axes or one each" if attr.length == "spatial" else "one for each axis"
    if attr is not None and attr.type == "f32[]" and attr.length:
        text = "one for each spatial axis"
    word = schema.KEYWORDS[WORDS[kind]].get(name) if kind in WORDS else None
    choices = word.choices if word else attr.allowed if attr else ()
    if choices:
        # choices in any case; those of padding in the convolution ops' spelling
        text = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
        text = text.lower() if word and name == "auto_pad" else text
    return {"Any": "a dtype or its name"}.get(text, text)


def example(builder: str, given: Example) -> Iterator[str]:
    """Yields the lines of a doctest."""
    yield ">>> g = dgo.Graph()"
    for name, value in given.inputs.items():
        yield f">>> {name} = {value if isinstance(value, str) else f'np.array({value}, np.float32)'}"
    operands = []
    for name, value in given.inputs.items():
        other = isinstance(value, str) and "np.float32" not in value
        operands.append(f'g.input("{name}", {name}.shape{f", {name}.dtype" if other else ""})')
    attributes = [f"{name}={value!r}" for name, value in given.attributes.items()]
    call = f"dgo.ops.{builder}({', '.join([*operands, *attributes])})"
    if len(call) > _WIDTH - 30:
        yield f">>> ports = [{', '.join(operands)}]"
        call = f"dgo.ops.{builder}({', '.join(['*ports', *attributes])})"
    yield f">>> net = g.compile({call})"
    yield f">>> net({', '.join(given.inputs)}){given.of_it}"
    yield from given.gives
