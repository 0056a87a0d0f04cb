"""Bytes as a row of choices, so that a fuzzer that changes bytes changes calls.

The choices are our own and not atheris's, whose provider reads from both ends: a kept seed means the same call with and
without atheris. Bytes that are not there count as 0, and choice 0 is everywhere the plain, valid one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# where counts, sizes, offsets and their products stop fitting somewhere
EDGES = (
    0, 1, -1, 2, 64, 127, 255, 256, 2**15, 2**16, 2**24, 2**31, 2**32, 2**33, 2**52, 2**53, 2**60, 2**61, 2**62, 2**63,
    2**64, 10**30, 3037000500, 46341, 2**63 // 3, 2**63 // 24, 2**61 // 3,
)  # fmt: skip


class Choices:
    """Reads `data` from its begin."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def bytes(self, count: int) -> bytes:
        return bytes(self.byte() for _ in range(count))

    def below(self, most: int) -> int:
        """From 0 to most - 1."""
        value = self.byte()
        return (value if most <= 256 else value << 8 | self.byte()) % most

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def often(self) -> bool:
        return self.byte() % 2 == 1

    def rarely(self) -> bool:
        return self.byte() > 216

    def number(self) -> int:
        """Any integer, mostly one near a border."""
        kind = self.byte() % 8
        if kind < 2:
            return self.byte() % 9
        if kind < 5:
            return int(self.pick(EDGES)) * (-1 if kind == 4 else 1) + self.byte() % 5 - 2
        if kind == 5:
            return -(self.byte() % 9)
        if kind == 6:
            return 2 ** (self.byte() % 66) + self.byte() % 5 - 2
        return int.from_bytes(self.bytes(8), "little", signed=True)

    def real(self) -> float:
        return float(self.pick((0.0, 1.0, -1.0, 0.5, 1e-5, 1e38, 3.4e38, 1e308, 1e-45, float("inf"), float("nan"))))

    def odd(self) -> Any:
        """Something that is no number."""
        return self.pick((None, True, 1.5, "", "1", b"1", (), [], {}, [1, [2]], 1j, object(), "\0", "x" * 300, [None]))
