"""Bounds the bytes that reading a model may compute."""

from __future__ import annotations

from ...errors import UnsupportedError

# Bytes that reading a model may compute: a file of a few hundred bytes must not fill the memory. A larger model may
# compute more, since a weight may be cast, transposed and packed.
_BUDGET = 1 << 28
_TIMES_OWN = 4
# Bytes of fills, tensors of one repeated number, which models without weights have in place of these. A fill is a view
# until a net is compiled, so a small file may ask for the weights of a real model, but for no more.
_FILLS = 1 << 30


class Budget:
    """The bytes that may still be computed for a model: results, kept constants, and reads of arrays."""

    def __init__(self, own: int, total: int | None = None) -> None:
        self.total = self.left = _BUDGET + _TIMES_OWN * own if total is None else total
        self.fills = _FILLS
        self._refusal = ""

    @property
    def exceeded(self) -> bool:
        """Whether a `spend` was refused, which is final."""
        return bool(self._refusal)

    def take(self, count: int) -> bool:
        """Counts `count` more bytes if they fit; returns whether they fit."""
        fits = count <= self.left
        self.left -= count if fits else 0
        return fits

    def spend(self, count: int, where: str) -> None:
        """Counts bytes of a required result.

        Raises:
            UnsupportedError: more bytes than are left; names the first such node, as the others follow from it.
        """
        if not self.take(count):
            self._refuse(
                f"{where}: needs {count} bytes of results that are known as the model is read; of the {self.total} "
                f"for a whole model ({_BUDGET}, and {_TIMES_OWN} times what it stores itself) {self.left} are left"
            )

    def fill(self, count: int, where: str) -> None:
        """Counts the bytes of a fill.

        Raises:
            UnsupportedError: as `spend` does.
        """
        if count > self.fills:
            self._refuse(f"{where}: needs {count} bytes of one number; of {_FILLS} for a model {self.fills} are left")
        self.fills -= count

    def _refuse(self, text: str) -> None:
        self._refusal = self._refusal or f"{text}; store large constants as initializers"
        raise UnsupportedError(self._refusal)
