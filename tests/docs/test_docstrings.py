"""What `help` shows: every argument has its line, examples print what they say."""

import inspect
import re

import doctests
import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops, schema
from dnnl_graph_ops.schema import meaning

BUILDERS = sorted(ops.__all__)
KINDS = {**schema.BUILDERS, "conv_transpose_backprop_filters": "ConvTransposeBackpropFilters"}
# what computes nothing alone
WITHOUT_EXAMPLE = {"end", "wildcard"}


def words(name):
    return inspect.getdoc(getattr(ops, name))


def test_every_op_has_its_row():
    assert set(meaning.kinds()) == {*schema.OPS, "ConvTransposeBackpropFilters"}


@pytest.mark.parametrize("kind", sorted(schema.OPS))
def test_every_slot_has_words_and_a_shape(kind):
    told, spec = meaning.meaning(kind), schema.OPS[kind]
    assert told.does.endswith(".") and told.formula
    for slot in (*spec.inputs, *spec.outputs):
        assert told.of(slot.name).text and told.of(slot.name).shape, slot.name
    for name in spec.attrs:
        assert told.of(name).text, name
    read = {slot.name for slot in (*spec.inputs, *spec.outputs)} | set(spec.attrs)
    own = set(meaning._data()["ops"][kind].get("arguments", ()))
    assert own <= read | set(inspect.signature(getattr(ops, spec.builder)).parameters), "words for nothing"


@pytest.mark.parametrize("name", BUILDERS)
def test_every_argument_of_a_builder_has_its_line(name):
    listed = re.findall(r"^    (\w+): ", words(name).partition("Args:")[2].partition("Returns:")[0], re.MULTILINE)
    if name == "wildcard":
        assert {"srcs", "shapes", "dtype"} <= set(listed)
    else:
        assert listed == list(inspect.signature(getattr(ops, name)).parameters)
    assert re.search(r"^(Returns|Raises):$", words(name), re.MULTILINE) and "Source: " in words(name)


@pytest.mark.parametrize("name", sorted(set(BUILDERS) - WITHOUT_EXAMPLE))
def test_example_of_a_builder(name):
    assert doctests.run(words(name), name) >= 3


def test_what_is_checked():
    about = doctests.About()
    assert about.check_output("array([0.333, 2.])", "array([0.33333, 2.  ])", 0)
    assert not about.check_output("array([0.333])", "array([0.334])", 0)
    assert not about.check_output("array([1., 2.])", "array([1.])", 0)
    assert not about.check_output("array([1.])", "array([1.], dtype=float16)", 0)
    with pytest.raises(AssertionError, match="Expected"):
        doctests.run(">>> 1 + 1\n3\n", "wrong")


def test_softmax_is_shown_as_what_it_returns():
    assert inspect.signature(ops.softmax).return_annotation == "Value | tuple[Value, Value]"
    assert inspect.signature(ops.batch_norm_forward_training).return_annotation.count("Value") == 5
    x = dgo.Graph().input("x", (2, 3))
    assert isinstance(ops.softmax(x), dgo.Value) and len(ops.softmax(x, outputs=2)) == 2


def members(name, thing):
    yield name, thing
    if inspect.isclass(thing):
        for key, value in vars(thing).items():
            method = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not key.startswith("_") and inspect.isroutine(method):
                yield f"{name}.{key}", method
            elif not key.startswith("_") and isinstance(value, property):
                yield f"{name}.{key}", value


def public():
    pytorch = pytest.importorskip("dnnl_graph_ops.torch") if _has_torch() else None
    for module in filter(None, (dgo, dgo.nn, dgo.quantize, pytorch)):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                yield from members(f"{module.__name__}.{name}", thing)


def _has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


PUBLIC = dict(public())
# words that stand for many arguments, or for none that a user gives
_MANY = {"self", "cls", "args", "kwargs", "others", "attributes", "options"}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_things_say_what_they_take_and_raise(name):
    thing = PUBLIC[name]
    text = inspect.getdoc(thing)
    assert text and text.strip()[-1] in ".`)", name
    if not inspect.isroutine(thing):
        return
    taken = [word for word in inspect.signature(thing).parameters if word not in _MANY]
    assert not [word for word in taken if not re.search(rf"\b{word}\b", text)]
    if len(taken) > 1:
        assert re.search(r"\b[Rr]aise[sd]?\b", text), "says nothing of errors"


def test_one_shot_functions_give_shapes_and_a_source():
    for name in (n for n in dgo.__all__ if n.startswith("conv")):
        text = inspect.getdoc(getattr(dgo, name))
        if not name.endswith(("output_shape", "convert_weights")):
            assert "Returns:" in text and "(N, spatial...," in text and "Raises:" in text, name
            assert "Source: " in text or name.endswith("backprop_filters"), name


@pytest.mark.parametrize("name", [n for n in sorted(dgo.__all__) if n.startswith("conv") and n != "convert_weights"])
def test_example_of_a_one_shot_function(name):
    assert doctests.run(inspect.getdoc(getattr(dgo, name)), name) >= 1


def test_examples_have_numpy_arrays_only():
    told = [meaning.meaning(kind).example for kind in meaning.kinds()]
    for example in filter(None, told):
        for value in example.inputs.values():
            assert isinstance(value, str) or np.asarray(value, np.float32).size
