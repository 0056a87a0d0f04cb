"""What a C++ header declares for all to use, by qualified names: types, enumerators, methods and functions."""

import re
from collections.abc import Iterator

_SCOPE = re.compile(r"\b(namespace|class|struct|enum class|enum)\s+(\w+)[^;]*$")
_CALLABLE = re.compile(r"(operator\s*(?:\(\)|[^\s\w(]+|bool|\w+)|~?\w+)\s*\(")
_LABEL = re.compile(r"^(?:(public|private|protected)\s*:\s*)+")
_OPEN = {"namespace", "struct", "enum class", "enum"}


def names(text: str) -> list[str]:
    """Qualified names in the order of the header, each once."""
    return list(dict.fromkeys(_names(_plain(text), "", True)))


def _plain(text: str) -> str:
    """Without comments, the preprocessor's lines, macros on their own and template heads; texts are emptied."""
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    text = re.sub(r"(?m)^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text)
    text = re.sub(r"(?m)^\s*DNNL_\w+\([^)]*\);?$", "", text)
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    return re.sub(r"\btemplate\s*<[^{};]*?>\s*(?=\w)", "", text)


def _names(text: str, scope: str, seen_by_all: bool) -> Iterator[str]:
    for head, body in _statements(text):
        while label := _LABEL.match(head):
            seen_by_all, head = label[1] == "public", head[label.end() :]
        if body is None or not (opened := _SCOPE.search(head)) or "(" in head:
            if seen_by_all:
                yield from _declared(head, scope)
            continue
        kind, name = opened.groups()
        inner = f"{scope}::{name}" if scope else name
        if not seen_by_all:
            continue
        if kind.startswith("enum"):
            yield inner
            yield from (f"{inner}::{part.split('=')[0].strip()}" for part in body.split(",") if part.strip())
        else:
            if kind != "namespace":
                yield inner
            yield from _names(body, inner, kind in _OPEN)


def _declared(head: str, scope: str) -> Iterator[str]:
    """The name of a method, function or alias."""
    if alias := re.match(r"using\s+(\w+)\s*=", head):
        yield f"{scope}::{alias[1]}"
    elif not head.startswith(("using", "friend", "extern", "return")) and (called := _CALLABLE.search(head)):
        yield f"{scope}::{' '.join(called[1].split())}"


def _statements(text: str) -> Iterator[tuple[str, str | None]]:
    """Each statement's text, and the text between its braces if it has some."""
    start = at = depth = 0
    while at < len(text):
        letter = text[at]
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth == 0:
            yield text[start:at].strip(), None
            start = at + 1
        elif letter == "{" and depth == 0:
            end = _closing(text, at)
            yield text[start:at].strip(), text[at + 1 : end]
            start, at = end + 1, end
        at += 1


def _closing(text: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    raise ValueError("a brace is never closed")
