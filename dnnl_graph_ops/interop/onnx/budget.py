"""How much one model may compute as it is read."""

from __future__ import annotations

from ...errors import UnsupportedError

# What one model may compute as it is read, in bytes: a few hundred bytes of file must not fill the memory. A model
# that holds more itself may compute more: a weight can be cast, turned and packed.
_BUDGET = 1 << 28
_TIMES_OWN = 4


class Budget:
    """How many bytes may still be computed for one model: results, those that constants keep, and what is read."""

    def __init__(self, own: int, total: int | None = None) -> None:
        self.total = self.left = _BUDGET + _TIMES_OWN * own if total is None else total
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
            self._refusal = self._refusal or (
                f"{where}: needs {count} bytes of results that are known as the model is read; of the {self.total} "
                f"for a whole model ({_BUDGET}, and {_TIMES_OWN} times what it stores itself) {self.left} are left; "
                f"store large constants as initializers"
            )
            raise UnsupportedError(self._refusal)
