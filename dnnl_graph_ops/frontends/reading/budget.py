"""How much one model may compute as it is read."""

from __future__ import annotations

from ...errors import UnsupportedError

# What one model may compute as it is read, in bytes: a few hundred bytes of file must not fill the memory. A model
# that holds more itself may compute more: a weight can be cast, turned and packed.
_BUDGET = 1 << 28
_TIMES_OWN = 4
# Tensors of one number each, as models without their weights have in the place of these. They are views of the number
# until a net is compiled, so that a small file may ask for weights of a real model, and for no more.
_FILLS = 1 << 30


class Budget:
    """How many bytes may still be computed for one model: results, those that constants keep, and what is read."""

    def __init__(self, own: int, total: int | None = None) -> None:
        self.total = self.left = _BUDGET + _TIMES_OWN * own if total is None else total
        self.fills = _FILLS
        self._refusal = ""

    @property
    def exceeded(self) -> bool:
        """Whether something was refused, which nothing else can make good."""
        return bool(self._refusal)

    def take(self, count: int) -> bool:
        """Whether `count` bytes more fit; they are counted then."""
        fits = count <= self.left
        self.left -= count if fits else 0
        return fits

    def spend(self, count: int, where: str) -> None:
        """Count what cannot be done without.

        Raises:
            UnsupportedError: that is more than is left; always about the first such node, as the others follow.
        """
        if not self.take(count):
            self._refuse(
                f"{where}: needs {count} bytes of results that are known as the model is read; of the {self.total} "
                f"for a whole model ({_BUDGET}, and {_TIMES_OWN} times what it stores itself) {self.left} are left"
            )

    def fill(self, count: int, where: str) -> None:
        """Count a tensor of one number.

        Raises:
            UnsupportedError: as `spend` does.
        """
        if count > self.fills:
            self._refuse(f"{where}: needs {count} bytes of one number; of {_FILLS} for a model {self.fills} are left")
        self.fills -= count

    def _refuse(self, text: str) -> None:
        self._refusal = self._refusal or f"{text}; store large constants as initializers"
        raise UnsupportedError(self._refusal)
