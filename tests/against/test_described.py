"""Arguments of the extension's calls: equal however a call writes them."""

from types import SimpleNamespace

import pytest

from .described import Descriptions, arguments, digest, signature

DOC = (
    "copy(shape: Sequence[int], dtype: int | None = None, zeros: int = 0, tail: Tail = <Tail object at 0x7f>) -> Kernel"
)
FORMS = pytest.mark.parametrize(
    "function",
    [SimpleNamespace(__doc__=DOC), lambda shape, dtype=None, zeros=0, tail=...: None],
    ids=["text", "signature"],
)


@FORMS
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [(((4,), None, 0), {}), (((4,),), {"zeros": 0}), ((), {"shape": (4,), "tail": ""}), (((4,),), {})],
)
def test_arguments_at_their_defaults(function, args, kwargs):
    assert arguments(signature(function), args, kwargs) == {"shape": (4,)}


@FORMS
def test_arguments_by_place_and_name(function):
    names = signature(function)
    assert arguments(names, ((4,), 3), {}) == arguments(names, (), {"dtype": 3, "shape": (4,)})


def test_without_a_signature():
    assert arguments(signature(SimpleNamespace(__doc__=None)), (1, 2), {}) == {"argument 0": 1, "argument 1": 2}


def test_a_description_goes_with_its_object():
    class Item:
        pass

    items = Descriptions()
    item = Item()
    items[item] = {"made": 1}
    assert items.plain([item, (1, True, None)]) == [{"made": 1}, [1, True, None]]
    del item
    assert items.plain([Item()]) == ["a Item"]


def test_an_object_without_weak_references_is_kept():
    items, item = Descriptions(), object()
    items[item] = "an object"
    assert items.get(item) == "an object" and items.get(object()) is None


def test_digest_sees_dtype_shape_and_bytes(rng):
    array = rng.standard_normal((2, 3))
    assert digest(array) == digest(array.copy(order="F"))
    assert len({digest(array), digest(array.T), digest(array.astype("f4")), digest(-array)}) == 4
