"""The smallest form of what fails, whatever it is: a model, or a program."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")


def smallest(item: Item, smaller: Callable[[Item], Iterable[Item]], fails: Callable[[Item], bool]) -> Item:
    """An item of whose `smaller` forms none fails; a form that cannot be judged does not fail."""

    def still(one: Item) -> bool:
        try:
            return fails(one)
        except Exception:
            return False

    while (less := next(filter(still, smaller(item)), None)) is not None:
        item = less
    return item


def cut(array: Any, size: int, less: int) -> Any:
    """The first `less` elements along all axes of `size`, of an array or a tensor."""
    return array[tuple(slice(less if n == size else n) for n in array.shape)]
