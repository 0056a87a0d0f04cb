"""Models of a few hundred bytes that ask for gigabytes or for no end: refused in time, under a limit of memory."""

import pytest
from children import child

pytestmark = pytest.mark.child

pytest.importorskip("onnx", reason="needs the extra 'onnx'")

# what each is refused with; - is read
FUNCTIONS = {
    "three levels": "-",
    "sixty levels": "InvalidArgumentError",
    "two thousand levels": "InvalidArgumentError",
    "a chain of 5000": "-",
    "itself": "InvalidArgumentError",
    "each other": "InvalidArgumentError",
    "itself in a branch": "InvalidArgumentError",
    "never called": "InvalidArgumentError",
    "twice": "InvalidArgumentError",
    "colons": "UnsupportedError",
    "wide nodes": "InvalidArgumentError",
    "long signatures": "InvalidArgumentError",
    "heavy constants": "UnsupportedError",
    "many unused": "InvalidArgumentError",
    "too many inputs": "InvalidArgumentError",
}
FOLDING = {
    "ConstantOfShape": "UnsupportedError",
    "Expand": "UnsupportedError",
    "Expand to all axes": "ShapeError",
    "Range": "UnsupportedError",
    "Range of all integers": "UnsupportedError",
    "Range to infinity": "InvalidArgumentError",
    "Range to NaN": "InvalidArgumentError",
    "Range by 0": "InvalidArgumentError",
    "Range by infinity": "InvalidArgumentError",
    "Range by next to nothing": "UnsupportedError",
    "Range by arrays": "ShapeError",
    "negative size": "ShapeError",
    "sizes in millions": "InvalidArgumentError",
    "axes in millions": "InvalidArgumentError",
    "long products": "UnsupportedError",
    "Max": "-",
    "Where": "-",
    "Gather": "UnsupportedError",
    "Concat": "-",
    "Cast": "UnsupportedError",
    "Div": "UnsupportedError",
    "constants under many names": "UnsupportedError",
    "outputs": "UnsupportedError",
    "slopes": "UnsupportedError",
    "statistics that broadcast": "ShapeError",
    "resized points": "UnsupportedError",
}
SECONDS = 5


@pytest.mark.parametrize("which, expected", [("functions", FUNCTIONS), ("folding", FOLDING)])
def test_bounds(which, expected):
    done = child("-m", "frontends.hostile_models", which, seconds=120)
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["DONE"], f"exit {done.returncode} after {lines[-1:]}\n{done.stderr[-2000:]}"
    found = [line.split("|", 3) for line in lines[:-1] if not line.startswith("CASE")]
    assert {name: error for name, error, *_ in found} == expected, done.stdout
    slow = [name for name, _, milliseconds, _ in found if int(milliseconds) > SECONDS * 1000]
    assert not slow


def test_the_refusal_states_the_budget_once():
    done = child("-m", "frontends.hostile_models", "folding", seconds=120)
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("ConstantOfShape|")]
    for part in ("1 part of", "'c16'", "needs 67108864 bytes of one number", "1073741824", "initializers"):
        assert part in line
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("Expand|")]
    for part in ("1 part of", "'c4'", "needs 67108864 bytes of results", "2684354", "initializers"):
        assert part in line
