"""python -m bindings.hostile SEED START STOP: raw objects and functions, called with what their signatures admit but
their authors may not have thought of."""

import inspect
import mmap
import re
import resource
import sys
from random import Random

import numpy as np

from dnnl_graph_ops import _core, errors

from . import raw

# takes addresses, which nobody can check, or what would change this process for all cases after it
TAKES_ADDRESSES = {
    "Allocator.host", "Allocator.sycl", "Engine.from_sycl", "Engine.of_queue", "Stream.from_sycl", "Tensor.__init__",
    "Tensor.set_data_handle",
    "DeviceArrayBase.__init__", "dlpack_export_memory",
}  # fmt: skip
CHANGES_MUCH = {"register_dtype", "Library.set_verbose", "Library.set_constant_tensor_cache", "follow_caller"}
INTS = (
    -(2**70), -(2**63), -(2**31), -1, 0, 1, 2, 3, 4, 64, 257, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
    2**64,
)  # fmt: skip
SMALL = (0, 1, 2, 3, 4, 8)
TEXTS = ("", "x", "a\0b", "\udc80", "op", "s64", "s64[]", "bool", "f32", "string", "/", "x" * 70000)
ARRAYS = (
    np.zeros(4, np.float32), np.zeros((2, 3), np.float32)[:, ::-1], np.zeros(0, np.float32), np.zeros((), np.float32),
    np.zeros(3, object), np.zeros(2, "S0"), np.zeros(8, np.uint8)[1:5].view(np.float32),
    np.zeros(4, ">f4"),
)  # fmt: skip
FOREIGN = (
    TypeError, ValueError, OverflowError, MemoryError, IndexError, KeyError, AttributeError, RuntimeError, BufferError,
    OSError,
)  # fmt: skip


def instances():
    """Some objects of each class, in as many states as can be."""
    library, engine = raw.library(), raw.engine()
    relu, x, y = raw.relu(4)
    part, sources, _ = raw.deconv()
    graph = _core.Graph(library, _core.EngineKind.cpu)
    fresh = _core.Executor(engine, "fresh")
    slots = [fresh.add_input(_core.DataType.f32, [4], [1]), fresh.add_output(_core.DataType.f32, [4], [1])]
    fresh.add_partition(relu, [(slots[0], 0)], [(slots[1], 0)])
    done = _core.Executor(engine, "done")
    slots = [done.add_input(_core.DataType.f32, [4], [1]), done.add_output(_core.DataType.f32, [4], [1])]
    done.add_partition(relu, [(slots[0], 0)], [(slots[1], 0)])
    done.finalize(True)
    return {
        "Library": [library],
        "Engine": [engine],
        "Stream": [_core.Stream(engine)],
        "Allocator": [_core.Allocator.host(library)],
        "LogicalTensor": [x, y, *sources, raw.tensor(None, 2), raw.tensor(0, 3), relu.outputs[0]],
        "Op": [raw.make_op(_core.OpKind.relu, [x], [y]), _core.Op(library, 5, _core.OpKind.matmul, "bare")],
        "Tensor": [raw.bind(x, np.zeros(4, np.float32)), raw.bind(y, mmap.mmap(-1, 16))],
        "_TensorBase": [raw.bind(x, np.zeros(4, np.float32))],
        "Graph": [graph],
        "Partition": [part],
        "CompiledPartition": [relu],
        "Executor": [fresh, done, _core.Executor(None, "bare")],
        "PlanCache": [_core.PlanCache()],
        "NetBase": [_core.NetBase(["x"], 1, _core.PlanCache()), _core.NetBase.__new__(_core.NetBase)],
        "DeviceArrayBase": [_core.DeviceArrayBase(engine, _core.DataType.f32, [4])],
        "Kernel": [_core.kernels.fill([4], _core.DataType.f32, [1], 1.0)],
    }


class Values:
    """What to give for a type that a signature names."""

    def __init__(self, random):
        self.random = random
        self.objects = instances()

    def of(self, annotation):
        random = self.random
        if random.random() < 0.06:
            return self.anything()
        union = [part.strip() for part in _split(annotation, "|")]
        if len(union) > 1:
            return self.of(random.choice(union))
        inner = re.fullmatch(r"[\w.]*(?:Sequence|list|List|Iterable)\[(.*)\]", annotation)
        if inner:
            return [self.of(inner[1]) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 13)))]
        inner = re.fullmatch(r"[\w.]*(?:tuple|Tuple)\[(.*)\]", annotation)
        if inner:
            return tuple(self.of(part) for part in _split(inner[1], ","))
        name = annotation.split(".")[-1]
        if name in self.objects:
            return random.choice(self.objects[name])
        if name in ("int", "SupportsInt", "SupportsIndex"):
            return random.choice(SMALL if random.random() < 0.6 else INTS)
        if name in ("float", "SupportsFloat"):
            return random.choice((0.0, 1.0, -1.0, float("nan"), float("inf"), 1e308))
        if name == "str":
            return random.choice(TEXTS)
        if name == "bool":
            return random.random() < 0.5
        if name == "None":
            return None
        return self.anything()

    def anything(self):
        random = self.random
        choice = random.randrange(8)
        if choice == 0:
            return random.choice(INTS)
        if choice == 1:
            return random.choice(TEXTS)
        if choice == 2:
            return random.choice(ARRAYS)
        if choice == 3:
            return random.choice([None, (), [], {}, b"x", 1.5, True, int, len, object()])
        if choice == 4:
            return [self.anything() for _ in range(random.randrange(3))]
        if choice == 5:
            return tuple(self.anything() for _ in range(random.randrange(6)))
        return random.choice(random.choice(list(self.objects.values())))


def _split(text, separator):
    """At separators outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def signatures(function):
    """The annotations of each overload, as pybind11 writes them into the docstring."""
    doc = inspect.getdoc(function) or ""
    for found in re.finditer(r"^(?:\d+\. )?[\w<>]+\((.*)\)(?: -> .*)?$", doc, re.MULTILINE):
        arguments = [part for part in _split(found[1], ",") if part not in ("", "/", "*")]
        yield [part.split(":", 1)[1].split(" = ")[0].strip() if ":" in part else "object" for part in arguments]


def callables():
    """(name, function, its overloads) of everything but the kernels."""
    for name, value in sorted(vars(_core).items()):
        if isinstance(value, type) and not hasattr(value, "__members__"):
            for method, function in sorted(vars(value).items()):
                full = f"{name}.{method}"
                function = value if method == "__init__" else getattr(value, method)
                if callable(function) and full not in TAKES_ADDRESSES | CHANGES_MUCH and not method.startswith("__r"):
                    known = list(signatures(value.__init__ if method == "__init__" else function))
                    known = [item[1:] if method == "__init__" else item for item in known]
                    yield full, function, known
        elif callable(value) and not isinstance(value, type) and name not in TAKES_ADDRESSES | CHANGES_MUCH:
            yield name, value, list(signatures(value))


def skip(name):
    return name.startswith("Kernel.run") or name.split(".")[-1] in (
        "__class__", "__subclasshook__", "__init_subclass__", "__getattribute__", "__sizeof__", "__dir__",
        "__setattr__", "__delattr__", "__getstate__",
    )  # fmt: skip


def main(seed, start, stop):
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, -1))
    everything = [item for item in callables() if not skip(item[0])]
    refused = 0
    for case in range(start, stop):
        random = Random(f"{seed} {case}")
        values = Values(random)
        name, function, known = everything[case % len(everything)]
        if known and random.random() < 0.9:
            arguments = [values.of(annotation) for annotation in random.choice(known)]
        else:
            arguments = [values.anything() for _ in range(random.randrange(7))]
        print(case, name, [_text(item) for item in arguments], flush=True)
        try:
            function(*arguments)
        except (errors.Error, *FOREIGN):
            refused += 1
        except Exception as error:
            print(f"FAILURE {case} {name}: {error!r}")
        finally:
            _core.set_num_threads(2)
    print(f"DONE {stop - start}, {refused} refused")


def _text(item):
    if isinstance(item, np.ndarray):
        return f"array({item.dtype}, {item.shape}, {item.strides})"
    if isinstance(item, list | tuple):
        return [_text(part) for part in item]
    try:
        return ascii(item)[:60]
    except Exception as error:
        return type(error).__name__


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
