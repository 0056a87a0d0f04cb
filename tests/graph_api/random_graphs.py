"""Random graphs in benchdnn's format: chains and branches of ops that fit each other."""

from collections.abc import Callable
from random import Random
from typing import Any

UNKNOWN = -(1 << 63)
UNARY = {
    "Abs": {}, "Clamp": {"min": ("f32", -1.0), "max": ("f32", 2.0)}, "Elu": {"alpha": ("f32", 0.5)}, "Exp": {},
    "GELU": {}, "HardSigmoid": {"alpha": ("f32", 0.2), "beta": ("f32", 0.5)}, "HardSwish": {},
    "LeakyReLU": {"alpha": ("f32", 0.1)}, "Log": {}, "Mish": {}, "ReLU": {}, "Round": {}, "Sigmoid": {},
    "SoftPlus": {}, "Sqrt": {}, "Square": {}, "Tanh": {}, "SoftMax": {"axis": ("s64", -1)}, "Reciprocal": {},
    "LogSoftmax": {"axis": ("s64", 1)}, "Wildcard": {}, "Pow": {"beta": ("f32", 2.0)},
}  # fmt: skip
MAKING_NAN = {"Wildcard", "Reciprocal", "Pow", "Log", "Sqrt", "Divide", "Exp"}
POOLING = {"kernel": 3, "strides": 1, "pads_begin": 1, "pads_end": 1}
BINARY = ("Add", "Multiply", "Maximum", "Minimum", "Divide", "Subtract", "SquaredDifference")
KERNELS = {"Convolution": "XIO", "ConvTranspose": "XOI"}


class Builder:
    """A graph that grows by one op at a time from tensors that are there.

    `plain`: all sizes are known, all layouts strided, and no op makes NaN of small numbers.
    """

    def __init__(self, random: Random, plain: bool = False) -> None:
        self.random, self.plain = random, plain
        self.unary = {kind: attrs for kind, attrs in UNARY.items() if not plain or kind not in MAKING_NAN}
        self.two = [kind for kind in BINARY if not plain or kind not in MAKING_NAN]
        self.ops: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self.next_id = random.choice((0, 1, 1000, 2**40))
        self.known = plain or random.random() < 0.7

    def tensor(self, shape: list[int], dtype: str, made: bool = False) -> dict[str, Any]:
        self.next_id += self.random.choice((1, 1, 1, 7))
        unknown = made and not self.plain and (not self.known or self.random.random() < 0.1)
        layout = self.random.choice(("strided", "any")) if made and not self.plain else "strided"
        sizes = [UNKNOWN] * len(shape) if unknown else list(shape)
        strides = [UNKNOWN] * len(shape) if unknown else dense(shape)
        use = self.random.choice(("variable", "variable", "undef", "constant")) if not made else "variable"
        record = {"id": self.next_id, "dtype": dtype, "shape": sizes, "stride": strides}
        return {**record, "layout_type": layout, "property_type": use, "true": list(shape)}

    def input(self, shape: list[int], dtype: str = "f32") -> dict[str, Any]:
        return self.tensor(shape, dtype)

    def pick(self, good: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        recent = [t for t in self.tensors[-6:] if good(t)]
        return self.random.choice(recent) if recent else None

    def add(self, kind: str, inputs: list[Any], shape: list[int], dtype: str, attrs: dict[str, Any]) -> dict[str, Any]:
        result = self.tensor(shape, dtype, made=True)
        typed = {name: {"type": entry[0], "value": entry[1]} for name, entry in attrs.items()}
        number = len(self.ops) * self.random.choice((1, 1)) + 1
        op = {"id": number, "name": f"{kind}_{number}", "kind": kind, "attrs": typed}
        self.ops.append({**op, "inputs": inputs, "outputs": [result]})
        self.tensors.append(result)
        return result

    def step(self) -> None:
        random = self.random
        source = self.pick(lambda t: True) or self.fresh()
        if source["dtype"] in ("u8", "s8"):
            self.add("Dequantize", [source], source["true"], "f32", scaling(random))
            return
        choice = random.random()
        if choice < 0.4:
            kind = random.choice(list(self.unary))
            self.add(kind, [source], source["true"], source["dtype"], self.unary[kind])
        elif choice < 0.65:
            self.binary(source)
        elif choice < 0.8:
            self.product(source)
        elif choice < 0.87 and source["dtype"] == "f32":
            self.add("Quantize", [source], source["true"], random.choice(("u8", "s8")), scaling(random))
        elif choice < 0.9:
            other = random.choice([d for d in ("f32", "bf16", "f16") if d != source["dtype"]])
            if "f32" in (other, source["dtype"]):
                self.add("TypeCast", [source], source["true"], other, {})
        elif choice < 0.94 and len(source["true"]) > 2:
            self.reduce(source)
        elif choice < 0.96 and len(source["true"]) == 4:
            self.pool(source)
        elif choice < 0.97:
            self.add("Reorder", [source], source["true"], source["dtype"], {})
        else:
            self.tensors.append(self.fresh())

    def fresh(self) -> dict[str, Any]:
        rank = self.random.choice((2, 3, 4, 4))
        dtype = self.random.choice(("f32", "f32", "f32", "bf16", "u8"))
        return self.input([self.random.choice((1, 2)), *(4,) * (rank - 2), self.random.choice((3, 8, 16))], dtype)

    def binary(self, source: dict[str, Any]) -> None:
        shape = source["true"]
        other = self.pick(lambda t: t["true"] == shape and t["dtype"] == source["dtype"])
        if other is None or self.random.random() < 0.5:
            sizes = self.random.choice((shape, [1] * len(shape), [1] * (len(shape) - 1) + shape[-1:]))
            other = self.input(list(sizes), source["dtype"])
        pair = [source, other] if self.random.random() < 0.8 else [other, source]
        self.add(self.random.choice(self.two), pair, shape, source["dtype"], {})

    def product(self, source: dict[str, Any]) -> None:
        shape, dtype, random = source["true"], source["dtype"], self.random
        channels = random.choice((4, 8))
        rank = len(shape) - 2
        if rank == 0:
            weights = self.input([shape[1], channels], dtype)
            bias = [self.input([channels], dtype)] if random.random() < 0.3 else []
            self.add("MatMul", [source, weights, *bias], [shape[0], channels], dtype, {})
            return
        kind = random.choice(list(KERNELS))
        weights_shape = [*(1,) * rank, shape[-1], channels]
        if kind == "ConvTranspose":
            weights_shape[-2:] = channels, shape[-1]
        bias = [self.input([channels], dtype)] if random.random() < 0.3 else []
        attrs = {
            "strides": ("s64[]", [1] * rank), "dilations": ("s64[]", [1] * rank),
            "pads_begin": ("s64[]", [0] * rank), "pads_end": ("s64[]", [0] * rank),
            "data_format": ("string", "NXC"), "weights_format": ("string", KERNELS[kind]),
        }  # fmt: skip
        self.add(kind, [source, self.input(weights_shape, dtype), *bias], [*shape[:-1], channels], dtype, attrs)

    def pool(self, source: dict[str, Any]) -> None:
        attrs: dict[str, Any] = {name: ("s64[]", [n] * 2) for name, n in POOLING.items()}
        kind = self.random.choice(("MaxPool", "AvgPool"))
        if kind == "AvgPool":
            attrs["exclude_pad"] = ("bool", 1)
        self.add(kind, [source], source["true"], source["dtype"], attrs)

    def reduce(self, source: dict[str, Any]) -> None:
        axis = self.random.randrange(len(source["true"]))
        shape = [1 if i == axis else n for i, n in enumerate(source["true"])]
        kind = self.random.choice(("ReduceSum", "ReduceMean", "ReduceMax"))
        self.add(kind, [source], shape, source["dtype"], {"axes": ("s64[]", [axis]), "keep_dims": ("bool", 1)})

    def document(self) -> dict[str, Any]:
        ops = list(self.ops)
        if self.random.random() < 0.3:
            self.random.shuffle(ops)
        plain = [
            {**op, **{side: [{k: v for k, v in t.items() if k != "true"} for t in op[side]] for side in SIDES}}
            for op in ops
        ]
        mode = self.random.choice(("strict", "strict", "bf16", "any"))
        return {"version": "3.2.0", "engine_kind": "cpu", "fpmath_mode": mode, "graph": plain}


SIDES = ("inputs", "outputs")


def dense(shape: list[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def scaling(random: Random) -> dict[str, Any]:
    return {
        "qtype": ("string", "per_tensor"),
        "scales": ("f32[]", [random.choice((0.5, 0.1))]),
        "zps": ("s64[]", [random.choice((0, 0, 3))]),
    }


def random_graph(seed: int, number: int, plain: bool = False) -> dict[str, Any]:
    random = Random(f"{seed} {number}")
    builder = Builder(random, plain)
    builder.tensors.append(builder.fresh())
    for _ in range(random.choice((1, 2, 4, 8, 16))):
        builder.step()
    return builder.document()
