"""What kernels declare in C++, as Python sees it: names, defaults, refusals and operands."""

import inspect

import numpy as np
import pytest
from commas import at_commas

from dnnl_graph_ops import _core, errors

kernels = _core.kernels
F32 = int(_core.DataType.f32)
ROWS = [row for row in kernels.table() if not row[2] and row[3]]


def called(scope, name):
    return getattr(getattr(kernels, scope) if scope else kernels, name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}.{row[1]}".lstrip("."))
def test_signatures(row):
    scope, name, _, parameters, _, operands, _ = row
    function = called(scope, name)
    shown = inspect.signature(function).parameters
    assert [*shown] == [parameter for parameter, _, _ in parameters]
    assert [p.default is inspect.Parameter.empty for p in shown.values()] == [not default for *_, default in parameters]
    assert operands in function.__doc__


def test_everything_is_declared():
    declared = {scope or name for scope, name, *_ in kernels.table()} | {"Kernel", "ScratchKernel", "table"}
    assert {name for name in dir(kernels) if not name.startswith("__")} == declared


COPY = {"shape": (2,), "src_dtype": F32, "src_strides": (1,), "dst_dtype": F32, "dst_strides": (1,)}


@pytest.mark.parametrize("count", range(len(COPY) + 1))
def test_positions_and_keywords(count):
    values = [*COPY.values()]
    kernel = kernels.copy(*values[:count], **dict([*COPY.items()][count:]))
    src, dst = np.array([3, 5], np.float32), np.full(2, np.nan, np.float32)
    kernel.run(src, dst)
    np.testing.assert_array_equal(dst, src)


@pytest.mark.parametrize("sizes", [list, np.array, iter, set, lambda values: (n for n in values)])
def test_sequences(sizes):
    """Any iterable of integers is a list of sizes, as for other functions of the extension."""
    kernel = kernels.fill(sizes([3]), F32, sizes([1]), 7)
    dst = np.full(3, np.nan, np.float32)
    kernel.run(dst)
    assert (dst == 7).all()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"shape": None}, "shape takes Sequence"),
        ({"shape": "2"}, "shape takes Sequence"),
        ({"shape": {2: 2}}, "shape takes Sequence"),
        ({"shape": (2.0,)}, "shape takes Sequence"),
        ({"shape": (2**63,)}, "shape takes Sequence"),
        ({"src_dtype": 2**31}, "src_dtype takes int"),
        ({"src_dtype": "f32"}, "src_dtype takes int"),
        ({"value": 3}, "no argument 'value'"),
    ],
)
def test_wrong_types(change, message):
    with pytest.raises(TypeError, match=message):
        kernels.copy(**{**COPY, **change})


def test_wrong_calls():
    with pytest.raises(TypeError, match="misses the argument 'dst_strides'"):
        kernels.copy((2,), F32, (1,), F32)
    with pytest.raises(TypeError, match="takes 5 arguments"):
        kernels.copy(*COPY.values(), 1)
    with pytest.raises(TypeError, match="more than one value for 'shape'"):
        kernels.copy((2,), **COPY)
    with pytest.raises(TypeError, match="layer takes LayerSizes"):
        kernels.few_channels_refusal(kernels.Epilogue())
    with pytest.raises(TypeError, match="cannot create"):
        kernels.Work()
    with pytest.raises(TypeError, match="calls takes"):
        kernels.row_tiling(kernels.RowBands([(1, 1, 1, 1, 0, 4)], 1, 1, 0), [[(None, [])]], 2, 0)


def test_wrong_values():
    with pytest.raises(errors.Error):
        kernels.copy(**{**COPY, "src_dtype": 99})
    with pytest.raises(errors.InvalidArgumentError):
        kernels.scatter(kernels.IndexProblem(1, [2], 1, 4, 1), "xor")
    assert not kernels.col2im_takes_epilogue(64, [1])


def test_items_that_empty_their_list():
    """Code of an item runs while its list is read."""

    class Size:
        def __index__(self):
            sizes.clear()
            return 2

    sizes = [Size(), Size(), Size()]
    with pytest.raises(errors.Error):
        kernels.copy(sizes, F32, (1,), F32, (1,))


def test_objects_go_with_the_last_reference():
    problem = kernels.IndexProblem(1, [2], 1, 4, 1, each=True)
    kernel = kernels.gather_elements(problem)
    del problem
    dst = np.full(1, np.nan, np.float32)
    kernel.run(np.array([3, 5], np.float32), np.array([-1]), dst)
    assert dst == [5]


@pytest.mark.parametrize(
    "make, optional, several",
    [
        (lambda: kernels.copy(**COPY), 0, {}),
        (
            lambda: kernels.elementwise((2,), [("add", 64, 65, 0, 0.0, 0.0)], [(F32, (1,))] * 2, F32, (1,)),
            0,
            {"operands": 2},
        ),
        (lambda: kernels.row_product(1, 1, 1, 1, *(F32, (1, 1, 1)) * 3, bias_dtype=F32), 1, {"epilogue's": 0}),
        (lambda: kernels.row_product(1, 1, 1, 1, *(F32, (1, 1, 1)) * 3), 0, {"epilogue's": 0}),
        (lambda: kernels.topk(1, 2, 1, 1, has_values=False), 0, {}),
    ],
)
def test_operands(make, optional, several):
    """The declaration counts them as the kernel does: [optional ones], so many..."""
    kernel = make()
    (operands,) = (row[5] for row in kernels.table() if row[1] == kernel.name)
    names = at_commas(operands)
    assert {name.split()[0].rstrip(".") for name in names if name.endswith("...")} == {*several}
    plain = sum(not name.startswith("[") and not name.endswith("...") for name in names)
    assert kernel.arity == plain + optional + sum(several.values())
