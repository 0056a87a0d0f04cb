"""Records: dataclasses that nobody changes, which are made in a third of the time of Python's frozen ones.

Type checkers take them for frozen; at run time nothing keeps a field from being set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Stands for the decorator that Python has from 3.11 on."""
        return lambda function: function


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, slots: bool = True) -> Callable[[type[T]], type[T]]:
    """Returns a decorator that makes a class a record; without `slots` its instances keep properties of `once`."""
    return dataclass(unsafe_hash=True, slots=slots)
