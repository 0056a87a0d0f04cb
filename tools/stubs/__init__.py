"""Type stubs of the functions made from the op table and of builtin kernels; `python tools/make_stubs.py`."""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from inspect import Parameter, Signature
from textwrap import wrap
from typing import Any

from dnnl_graph_ops import functional, ops, schema, words
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.errors import InvalidArgumentError
from dnnl_graph_ops.ops.generic import NAMES, signature
from dnnl_graph_ops.ops.typed import WORDS
from dnnl_graph_ops.schema.arguments import one_of
from dnnl_graph_ops.schema.meaning import meaning

from .core import core
from .text import FORMATS, WIDTH, alias, function, quoted

_HEADER = '''"""Made by `python tools/make_stubs.py`; a test compares."""

from collections.abc import Sequence
from typing import Any, {names}

import numpy as np

{imports}

Array: TypeAlias = np.ndarray[Any, Any]
Ints: TypeAlias = int | Sequence[int]
{formats}
'''

# builders of the convolution ops
TYPED = sorted([*(name for name, kind in schema.BUILDERS.items() if kind in WORDS), "conv_transpose_backprop_filters"])


def _understood(name: str) -> list[str]:
    """Returns the strings that an argument takes, in their usual spelling."""
    choices = schema.KEYWORDS[FORMATS[name]][name].choices
    if name == "auto_pad":
        return [item for word in choices for item in dict.fromkeys((word.lower(), word)) if item != "None"]
    others = []
    for word in words.VALUES:
        with suppress(InvalidArgumentError):
            one_of(word, name, choices)
            others.append(word if word in words.FRAMEWORKS or "_" in word else word.upper())
    return [*choices, *others]


def _formats() -> str:
    """Returns the types of the arguments that take other packages' words."""
    lines = []
    for name in FORMATS:
        items = ", ".join(f'"{word}"' for word in _understood(name))
        begin = f"{alias(name)}: TypeAlias = Literal["
        if len(begin) + len(items) < WIDTH:
            lines.append(f"{begin}{items}]")
            continue
        rows = [items] if 4 + len(items) <= WIDTH else [f"{item}," for item in items.split(", ")]
        lines += [begin, *(f"    {row}" for row in rows), "]"]
    return "\n".join(lines)


def _spellings(made: Signature) -> list[Signature]:
    """Yields signatures with other packages' names of arguments: next to ours if they have defaults, else apart."""
    known = made.parameters
    others = {word: ours for word, ours in words.ARGUMENTS.items() if ours[0] in known}
    required = {name for ours in others.values() for name in ours if known[name].default is Parameter.empty}
    kept, beside = [], []
    for name, parameter in known.items():
        word = next((word for word, ours in others.items() if name in ours), "")
        if name not in required:
            kept.append(parameter)
        elif others[word][0] == name:
            kept.append(parameter.replace(name=word))
        if word and name == others[word][-1] and name not in required:
            beside.append(parameter.replace(name=word, default=None, annotation="int | Sequence[int] | None"))
    after = next((place for place, parameter in enumerate(kept) if parameter.name in ("out", "name")), len(kept))
    theirs = made.replace(parameters=[*kept[:after], *beside, *kept[after:]])
    return [made, theirs] if required else [theirs]


def _does(name: str) -> str:
    """Returns the first sentence of a builder's docstring."""
    kind = schema.BUILDERS.get(name, "ConvTransposeBackpropFilters")
    return f"{kind}: {meaning(kind).does}"


_ONE, _THREE = "Value", "tuple[Value, Value, Value]"
_Change = Mapping[str, tuple[str, Any]]


def _three(single: _Change, several: _Change) -> Sequence[tuple[_Change, str]]:
    """Yields overloads: one output by an argument or on request, else three."""
    return (
        (single, _ONE),
        ({"outputs": ("Literal[1]", ...)}, _ONE),
        ({**several, "outputs": ("Literal[3] | None", None)}, _THREE),
    )


_STATS = _three({"keep_stats": ("Literal[False]", ...)}, {"keep_stats": ("Literal[True]", True)})
_ON_REQUEST = (
    ({"outputs": ("Literal[1] | None", None)}, _ONE),
    ({"outputs": ("Literal[2]", ...)}, "tuple[Value, Value]"),
)
# return types of a builder by its arguments: annotation and default, `...` for none
_BY_ARGUMENTS: dict[str, Sequence[tuple[_Change, str]]] = {
    "softmax": _ON_REQUEST,
    "dropout": _ON_REQUEST,
    "layer_norm": _STATS,
    "group_norm": _STATS,
    "layer_norm_backward": _three({"use_affine": ("Literal[False]", ...)}, {"use_affine": ("Literal[True]", True)}),
    "batch_norm_backward": _three({"gamma": ("None", None)}, {"gamma": ("Tensor", ...)}),
}


def _overloads(name: str, made: Signature) -> Iterator[Signature]:
    for changes, returns in _BY_ARGUMENTS[name]:
        changed = {
            word: made.parameters[word].replace(
                annotation=annotation, default=Parameter.empty if default is ... else default
            )
            for word, (annotation, default) in changes.items()
        }
        yield made.replace(parameters=[*{**made.parameters, **changed}.values()], return_annotation=returns)


def _overloaded(name: str, every: Sequence[Signature], says: str) -> Iterator[str]:
    for made in every:
        if len(every) > 1:
            yield "@overload"
        yield from function(name, made, says)


def builders() -> str:
    """Returns the stub of all builders of `ops`."""
    imports = "from ..graph import Value\nfrom .wildcard import wildcard as wildcard"
    lines = [
        _HEADER.format(names="Literal, TypeAlias, overload", imports=imports, formats=_formats())
        + "Tensor: TypeAlias = Value | Array\n"
    ]
    for name in TYPED:
        lines += _overloaded(name, _spellings(inspect.signature(getattr(ops, name))), _does(name))
    for name in NAMES:
        made = signature(schema.BUILDERS[name])
        every = [*_overloads(name, made)] if name in _BY_ARGUMENTS else _spellings(made)
        lines += _overloaded(name, every, _does(name))
    return "\n".join(lines).rstrip() + "\n"


def one_shots() -> str:
    """Returns the stub of `functional`."""
    imports = "from .runtime.engines import Engine"
    lines = [_HEADER.format(names="Literal, TypeAlias, overload", imports=imports, formats=_formats())]
    for name in (*TYPED, "conv_transpose_output_shape", "convolution_output_shape"):
        made = getattr(functional, name)
        lines += _overloaded(name, _spellings(inspect.signature(made)), str(inspect.getdoc(made)).splitlines()[0])
    return "\n".join(lines).rstrip() + "\n"


_KERNELS = '''"""Made by `python tools/make_stubs.py`; a test compares.

dtypes are DataType values, strides count elements.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

class Kernel:
    """One step of a plan."""

    @property
    def arity(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def by(self) -> str:
        """The name of the code that computes, as 'dot_bf16_avx512bf16_8x32', or ''."""

    def run(self, *operands: np.ndarray[Any, Any] | int) -> None:
        """Sources first, destination last; the operands are not checked."""

class ScratchKernel(Kernel):
    """Takes room to work in, aligned to 64 bytes, as the operand before its destination."""

    @property
    def scratch_bytes(self) -> int: ...
    @property
    def over_operands(self) -> bool:
        """Whether an operand of post-ops that lies as the destination does may be where that is."""
    @property
    def products(self) -> int: ...

def table() -> tuple[tuple[str, str, bool, tuple[tuple[str, str, str], ...], str, str, str], ...]:
    """Declarations: class, name, whether it is a value, parameters (name, type, default), result, operands, text."""

'''


def _declared(parameters: Sequence[tuple[str, str, str]], returns: str) -> Signature:
    """Returns the names, types and defaults of a kernel's parameters, from its declaration."""
    return Signature(
        [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD,
                annotation=Parameter.empty if name == "self" else kind,
                default=literal_eval(default) if default else Parameter.empty,
            )
            for name, kind, default in parameters
        ],
        return_annotation=returns.replace("Sequence[", "list["),
    )


def _member(plain: bool, name: str, made: Signature, says: str) -> list[str]:
    """Yields the lines of a method, a property or a constant."""
    if plain and not made.parameters:
        return [*(f"# {line}" for line in wrap(says, WIDTH - 12)), f"{name}: ClassVar[{made.return_annotation}]"]
    lines = function(name, made, says, 4)[:-1]
    return ["@property", *lines] if plain else lines


def kernel_functions() -> str:
    """Returns the stub of `_core.kernels`, from the kernels' declarations in C++."""
    classes: dict[str, list[str]] = {}
    functions: list[str] = []
    for scope, name, plain, parameters, returns, operands, says in kernels.table():
        if scope:
            classes[scope] += _member(plain, name, _declared(parameters, returns), says)
        elif returns == name:
            classes[name] = [*(line.removeprefix("    ") for line in quoted(says)), ""]
            if parameters:
                classes[name] += function("__init__", _declared([("self", "", ""), *parameters], "None"), "", 4)
        else:
            run = f"run({operands})" + (": " if says else ".") if operands else ""
            functions += function(name, _declared(parameters, returns), run + says)
    lines = [
        line
        for name, members in classes.items()
        for line in ("@final", f"class {name}:", *(f"    {member}" if member else "" for member in members), "")
    ]
    return _KERNELS + "\n".join([*lines, *functions]).rstrip() + "\n"


_ENUMERATORS = '''"""Made by `python tools/make_stubs.py`; a test compares."""

from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

'''


def enumerator_names() -> str:
    """Returns the stub of the enumerations of graph_api and of the classes that hold them."""
    from dnnl_graph_ops.graph_api import enumerators as module

    lines = [*(f"{name}: Final[dict[str, str]]" for name in ("OTHER_KINDS", "OTHER_ATTRS")), ""]
    own = [
        name for name, item in vars(module).items() if getattr(item, "__module__", "") == module.engine_kind.__module__
    ]
    names = {item: name for name in own if issubclass(item := getattr(module, name), IntEnum)}
    for enumeration, name in names.items():
        members = (f"    {key} = {item.value}" for key, item in enumeration.__members__.items())
        lines += [f"class {name}(IntEnum):", *members, ""]
    for name in own:
        if name in names.values():
            continue
        members = vars(getattr(module, name)).items()
        values = [f"    {key}: ClassVar[{names[type(item)]}]" for key, item in members if isinstance(item, IntEnum)]
        aliases = [f"    {key}: TypeAlias = {names[item]}" for key, item in members if item in names]
        lines += [f"class {name}:", *values, *aliases, ""]
    return _ENUMERATORS + "\n".join(lines).rstrip() + "\n"


FILES: dict[str, Callable[[], str]] = {
    "_core.pyi": core,
    "graph_api/enumerators.pyi": enumerator_names,
    "ops/__init__.pyi": builders,
    "_functional.pyi": one_shots,
    "_kernels.pyi": kernel_functions,
}
