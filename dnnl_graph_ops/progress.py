"""Progress of long work: reported to a function, or drawn as a bar on a terminal or in a notebook.

The bar is tqdm's where tqdm is installed, else a line of text on a terminal, and nothing in a notebook.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, TypeAlias

# called with the number of parts done, the number of all parts, and a text on the part
Progress: TypeAlias = Callable[[int, int, str], object]

_WIDTH = 24
_CLEAR_LINE = "\r\x1b[K"

_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


def check(progress: Any, where: str) -> None:
    """Raises: TypeError: `progress` is neither None nor a function."""
    if progress is not None and not callable(progress):
        raise TypeError(
            f"{where}: 'progress' is a function of done, total and a text, or None; got {type(progress).__name__}"
        )


def listener() -> Progress | None:
    """The function of the current `telling`; a net keeps it for the work of its first calls."""
    return _current.get()


@contextmanager
def telling(progress: Progress | None) -> Iterator[None]:
    """Within this context, work without a function of its own reports to `progress`; None keeps the outer function."""
    token = _current.set(progress or _current.get())
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def shown(progress: Progress | None = None) -> Iterator[Progress]:
    """Yields the function to report to: `progress`, else that of `telling`, else a bar, else one that does nothing."""
    progress = progress or _current.get()
    bar = _bar(sys.stderr) if progress is None else None
    if bar is None:
        yield progress or silent
        return
    try:
        yield bar.tell
    finally:
        bar.close()


def drawn(done: int, total: int) -> str:
    """A bar as text: [####....] 3/10."""
    filled = int(done / max(1, total) * _WIDTH)
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}"


def write_line(stream: TextIO, text: str) -> None:
    """Writes `text` instead of the terminal's last line, cut to its width."""
    stream.write(_CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
    stream.flush()


def silent(done: int, total: int, text: str) -> None:
    """Tells nobody."""
    del done, total, text


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


class _Line:
    """A bar in the terminal's last line, cleared at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def tell(self, done: int, total: int, text: str) -> None:
        write_line(self._stream, f"{drawn(done, total)}  {text}")

    def close(self) -> None:
        write_line(self._stream, "")


class _Tqdm:
    """tqdm's bar, made when the total is known."""

    def __init__(self, make: Callable[..., Any], stream: TextIO) -> None:
        self._make, self._stream = make, stream
        self._bar: Any = None

    def tell(self, done: int, total: int, text: str) -> None:
        if self._bar is None:
            self._bar = self._make(total=total, file=self._stream, leave=False)
        self._bar.set_description(text, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar(stream: TextIO | None) -> _Line | _Tqdm | None:
    """Returns the bar for standard error; None where nobody would see one."""
    terminal = _is_terminal(stream)
    if stream is None or not (terminal or "ipykernel" in sys.modules):
        return None
    try:
        # without ipywidgets it warns, and draws its bar as text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return _Line(stream) if terminal else None
    return _Tqdm(tqdm, stream)
