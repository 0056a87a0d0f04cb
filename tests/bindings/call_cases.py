"""Arguments of nets and one-shot functions: usual ones, and those that the native call path leaves to Python."""

import numpy as np

from .plans import callback_plan, declare


def sum_plan(shape=(2, 3)):
    """total, difference = a + b, a - b"""

    def both(a, b, total, difference):
        np.add(a, b, out=total)
        np.subtract(a, b, out=difference)

    return callback_plan(both, [declare(shape)] * 2, [declare(shape)] * 2, name="sum")


def ones(*shape):
    return np.ones(shape, np.float32)


class Subclass(np.ndarray):
    pass


def unaligned(shape):
    memory = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)
    return np.frombuffer(memory.data, np.float32, int(np.prod(shape)), 1).reshape(shape)


def read_only(array):
    array.setflags(write=False)
    return array


X = ones(2, 3)
UNUSUAL = {
    "nothing": ((), {}),
    "too many": ((X, X), {}),
    "twice": ((X,), {"src": X}),
    "unknown name": ((), {"source": X}),
    "unknown beside": ((X,), {"source": X}),
    "none": ((None,), {}),
    "list": (([[1.0] * 3] * 2,), {}),
    "object": ((object(),), {}),
    "subclass": ((X.view(Subclass),), {}),
    "shape": ((ones(3, 2),), {}),
    "rank": ((ones(6),), {}),
    "strides": ((ones(3, 2).T,), {}),
    "negative strides": ((X[::-1],), {}),
    "float64": ((X.astype(np.float64),), {}),
    "byte order": ((X.astype(">f4"),), {}),
    "objects": ((X.astype(object),), {}),
    "record": ((np.zeros((2, 3), [("a", np.float32)]),), {}),
    "unaligned": ((unaligned((2, 3)),), {}),
    "out list": ((X,), {"out": [np.empty((2, 3), np.float32)]}),
    "out dict": ((X,), {"out": {"dst": np.empty((2, 3), np.float32)}}),
    "out number": ((X,), {"out": 3}),
    "out shape": ((X,), {"out": np.empty((3, 2), np.float32)}),
    "out strides": ((X,), {"out": np.empty((3, 2), np.float32).T}),
    "out dtype": ((X,), {"out": np.empty((2, 3), np.float16)}),
    "out read-only": ((X,), {"out": read_only(np.empty((2, 3), np.float32))}),
    "out unaligned": ((X,), {"out": unaligned((2, 3))}),
    "out is src": ((X,), {"out": X}),
}
