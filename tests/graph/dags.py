"""Random graphs of up to 40 ops together with what NumPy says of every value."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from reference.ops import Slot, evaluate
from reference.rounding import DTYPES

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

MOST_OPS = 40
LARGEST = 50.0  # values beyond are not used again: their errors would grow

UNARY: dict[str, dict[str, float]] = {
    "abs": {},
    "clamp": {"min": -1.5, "max": 2.0},
    "elu": {"alpha": 0.7},
    "gelu": {},
    "hard_sigmoid": {"alpha": 0.3, "beta": 0.4},
    "hard_swish": {},
    "leaky_relu": {"alpha": 0.1},
    "mish": {},
    "relu": {},
    "sigmoid": {},
    "softplus": {},
    "square": {},
    "tanh": {},
}
# on values of at least 0.1
POSITIVE: dict[str, dict[str, float]] = {"log": {}, "pow": {"beta": 1.5}, "reciprocal": {}, "sqrt": {}}
BINARY = ("add", "maximum", "minimum", "multiply", "squared_difference", "subtract")


@dataclass
class Dag:
    """A graph being built; `data` has the arrays of the inputs and the expected ones of everything else."""

    rng: np.random.Generator
    graph: dgo.Graph
    data: dict[dgo.Value, np.ndarray] = field(default_factory=dict)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def array(self, shape, dtype: str = "f32") -> np.ndarray:
        return self.rng.standard_normal(shape).astype(DTYPES[dtype])

    def input(self, shape, dtype: str = "f32") -> dgo.Value:
        array = self.rng.random(shape) < 0.5 if dtype == "boolean" else self.array(shape, dtype)
        value = self.graph.input(f"in{len(self.graph.inputs)}", shape, dtype)
        self.data[value] = array
        return value

    def constant(self, shape) -> dgo.Value:
        array = self.array(shape) * np.float32(0.5)
        value = self.graph.constant(array)
        self.data[value] = array
        return value

    def either(self, shape) -> dgo.Value:
        return self.constant(shape) if self.rng.random() < 0.6 else self.input(shape)

    def keep(self, made: dgo.Value | tuple[dgo.Value, ...]) -> None:
        outputs = made if isinstance(made, tuple) else (made,)
        node = outputs[0].node
        for value in node.inputs:
            if value.constant is not None:
                self.data.setdefault(value, value.constant)
        slots = [Slot(v.dtype, v.shape) for v in node.outputs]
        results = evaluate(node.kind, [self.data[v] for v in node.inputs], node.attrs, slots)
        self.data.update(zip(node.outputs, results, strict=True))

    def fit(self, value: dgo.Value, ranks, least: float) -> bool:
        array = self.data[value]
        good = value.dtype == "f32" and value.ndim in ranks and 0 < array.size < 20000
        return bool(good and np.abs(array).max() < LARGEST and array.min() >= least)

    def pick(self, *ranks: int, least: float = -np.inf) -> dgo.Value:
        """One of the later values as often as an early one: chains and values used twice."""
        found = [v for v in self.data if self.fit(v, ranks or range(1, 6), least)]
        if not found:
            return self.input((2, 4, 5, 5)) if least == -np.inf else self.shifted()
        if self.rng.random() < 0.5:
            found = found[-4:]
        return found[self.integer(0, len(found) - 1)]

    def shifted(self) -> dgo.Value:
        value = ops.sigmoid(self.pick())
        self.keep(value)
        made = value + 0.25
        self.keep(made)
        return made


def unary(dag: Dag) -> None:
    name = str(dag.rng.choice(list(UNARY)))
    dag.keep(getattr(ops, name)(dag.pick(), **UNARY[name]))


def positive(dag: Dag) -> None:
    name = str(dag.rng.choice(list(POSITIVE)))
    dag.keep(getattr(ops, name)(dag.pick(least=0.1), **POSITIVE[name]))


def binary(dag: Dag) -> None:
    first = dag.pick()
    same = [v for v in dag.data if v.shape == first.shape and dag.fit(v, (first.ndim,), -np.inf)]
    if dag.rng.random() < 0.5:
        second = same[dag.integer(0, len(same) - 1)]
    else:
        second = dag.either([n if dag.rng.random() < 0.5 else 1 for n in first.shape])
    pair = (first, second) if dag.rng.random() < 0.7 else (second, first)
    dag.keep(getattr(ops, str(dag.rng.choice(BINARY)))(*pair))


def divide(dag: Dag) -> None:
    below = dag.pick(least=0.1)
    dag.keep(dag.either(below.shape) / below)


def window(dag: Dag, most: int = 3) -> dict[str, object]:
    return {"strides": dag.integer(1, 2), "pads_begin": dag.integer(0, 1), "pads_end": dag.integer(0, 1)}


def conv_transpose(dag: Dag) -> None:
    src = dag.pick(3, 4)
    channels, rank = src.shape[1], src.ndim - 2
    groups = channels if dag.rng.random() < 0.2 else 1
    out = dag.integer(1, 6)
    weights = dag.either((channels, out, *(dag.integer(2, 3),) * rank))
    bias = (dag.either((out * groups,)),) if dag.rng.random() < 0.4 else ()
    made = ops.conv_transpose(
        src, weights, *bias, **window(dag), groups=groups, data_format="NCX", weights_format="IOX"
    )
    dag.keep(made)
    # what the library fuses, and what it does not
    for _ in range(dag.integer(0, 4)):
        chain(dag, next(reversed(dag.data)))


def chain(dag: Dag, value: dgo.Value) -> None:
    if not dag.fit(value, (3, 4), -np.inf):
        return
    if dag.rng.random() < 0.4:
        dag.keep(value * dag.either([1, value.shape[1], *(1,) * (value.ndim - 2)]))
        return
    name = str(dag.rng.choice(list(UNARY)))
    dag.keep(getattr(ops, name)(value, **UNARY[name]))


def convolution(dag: Dag) -> None:
    src = dag.pick(4)
    if min(src.shape[2:]) < 3:
        return
    weights = dag.either((dag.integer(1, 6), src.shape[1], 3, 3))
    dag.keep(ops.convolution(src, weights, **window(dag), dilations=1, data_format="NCX", weights_format="OIX"))


def pool(dag: Dag) -> None:
    src = dag.pick(4)
    if min(src.shape[2:]) < 2:
        return
    common = {"kernel": 2, "strides": dag.integer(1, 2), "pads_begin": 0, "pads_end": 0, "data_format": "NCX"}
    if dag.rng.random() < 0.5:
        dag.keep(ops.max_pool(src, **common))
    else:
        rounding = str(dag.rng.choice(["floor", "ceil"]))
        dag.keep(ops.avg_pool(src, exclude_pad=bool(dag.rng.random() < 0.5), rounding_type=rounding, **common))


def mat_mul(dag: Dag) -> None:
    src = dag.pick(2, 3, 4)
    dag.keep(ops.matmul(src, dag.either((src.shape[-1], dag.integer(1, 5)))))


def reduce(dag: Dag) -> None:
    src = dag.pick(2, 3, 4)
    axes = sorted({dag.integer(0, src.ndim - 1) for _ in range(2)})
    name = str(dag.rng.choice(["reduce_mean", "reduce_max", "reduce_min", "reduce_sum", "reduce_l1"]))
    dag.keep(getattr(ops, name)(src, axes=axes, keep_dims=bool(dag.rng.random() < 0.5)))


def softmax(dag: Dag) -> None:
    src = dag.pick(2, 3, 4)
    dag.keep(ops.softmax(src, axis=dag.integer(-src.ndim, src.ndim - 1)))


def transpose(dag: Dag) -> None:
    src = dag.pick(2, 3, 4)
    dag.keep(ops.static_transpose(src, order=[int(a) for a in dag.rng.permutation(src.ndim)]))


def reshape(dag: Dag) -> None:
    src = dag.pick(2, 3, 4)
    dag.keep(ops.static_reshape(src, shape=(src.shape[0], -1), special_zero=False))


def concat(dag: Dag) -> None:
    src = dag.pick()
    axis = dag.integer(0, src.ndim - 1)
    other = dag.either([dag.integer(1, 3) if a == axis else n for a, n in enumerate(src.shape)])
    dag.keep(ops.concat(src, other, src, axis=axis))


def select(dag: Dag) -> None:
    src = dag.pick()
    dag.keep(ops.select(dag.input(src.shape, "boolean"), src, dag.either(src.shape)))


def layer_norm(dag: Dag) -> None:
    src = dag.pick(2, 3, 4)
    if src.shape[-1] < 3 or dag.data[src].std(axis=-1).min() < 0.1:
        return
    axis = src.ndim - 1
    scale = [dag.either((src.shape[-1],)) for _ in range(2)]
    dag.keep(ops.layer_norm(src, *scale, begin_norm_axis=axis, keep_stats=bool(dag.rng.random() < 0.5)))


def batch_norm(dag: Dag) -> None:
    src = dag.pick(4)
    scale = [dag.either((src.shape[1],)) for _ in range(3)]
    variance = dag.graph.constant(np.abs(dag.array((src.shape[1],))) + np.float32(0.5))
    dag.keep(ops.batch_norm_inference(src, *scale, variance, epsilon=1e-3, data_format="NCX"))


STEPS: list[tuple[float, Callable[[Dag], None]]] = [
    (5, unary),
    (1, positive),
    (4, binary),
    (1, divide),
    (3, conv_transpose),
    (1, convolution),
    (1, pool),
    (1, mat_mul),
    (1, reduce),
    (1, softmax),
    (1, transpose),
    (1, reshape),
    (1, concat),
    (1, select),
    (1, layer_norm),
    (1, batch_norm),
]
_CHANCES = np.array([chance for chance, _ in STEPS]) / sum(chance for chance, _ in STEPS)


def draw(seed: int, number: int, **options) -> Dag:
    """The graph of one case."""
    rng = np.random.default_rng([seed, number])
    dag = Dag(rng, dgo.Graph(**options))
    for _ in range(dag.integer(1, 3)):
        dag.input([2, dag.integer(1, 8), *(dag.integer(3, 6),) * dag.integer(1, 2)])
    count = dag.integer(1, MOST_OPS - 6)
    while len(dag.graph.nodes) < count:
        STEPS[int(rng.choice(len(STEPS), p=_CHANCES))][1](dag)
    return dag
