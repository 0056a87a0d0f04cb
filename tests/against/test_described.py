"""Arguments of the extension's calls: equal however a call writes them."""

import pytest

from .described import Descriptions, arguments, digest, signature

DOC = (
    "copy(shape: Sequence[int], dtype: int | None = None, zeros: int = 0, tail: Tail = <Tail object at 0x7f>) -> Kernel"
)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [(((4,), None, 0), {}), (((4,),), {"zeros": 0}), ((), {"shape": (4,), "tail": ""}), (((4,),), {})],
)
def test_arguments_at_their_defaults(args, kwargs):
    assert arguments(signature(DOC), args, kwargs) == {"shape": (4,)}


def test_arguments_by_place_and_name():
    assert arguments(signature(DOC), ((4,), 3), {}) == arguments(signature(DOC), (), {"dtype": 3, "shape": (4,)})


def test_without_a_signature():
    assert arguments(signature(None), (1, 2), {}) == {"argument 0": 1, "argument 1": 2}


def test_a_description_goes_with_its_object():
    class Item:
        pass

    items = Descriptions()
    item = Item()
    items[item] = {"made": 1}
    assert items.plain([item, (1, True, None)]) == [{"made": 1}, [1, True, None]]
    del item
    assert items.plain([Item()]) == ["a Item"]


def test_digest_sees_dtype_shape_and_bytes(rng):
    array = rng.standard_normal((2, 3))
    assert digest(array) == digest(array.copy(order="F"))
    assert len({digest(array), digest(array.T), digest(array.astype("f4")), digest(-array)}) == 4
