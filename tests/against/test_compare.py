"""Dumps of two versions: what differs is found and said, a rename moves nothing."""

import json

import pytest

from .compare import compared, differences, expected, renamed, unexpected


def record(net="net", label="own copy", kernel="copy", strides=(4, 1), result="a0", refused=""):
    step = {
        "step": "kernel",
        "label": label,
        "made by": {kernel: {"src_strides": list(strides)}},
        "operands": ["input 0"],
    }
    plans = [] if refused else [{"threads": 1, "arrays": ["input 0: f32 [4]"], "steps": [step]}]
    return {"net": net, "plans": plans, "results": [] if refused else [result], "refused": refused}


def found(old, new):
    return differences({"net": old}, {"net": new})


def test_equal_dumps():
    assert found(record(), record()) == []


def test_a_changed_argument():
    (item,) = found(record(), record(strides=(1, 4)))
    assert item.kind == "plan"
    assert [line.strip() for line in item.lines[2:]] == ["made by/copy/src_strides:", "was [4, 1]", "is  [1, 4]"]


def test_a_changed_byte():
    (item,) = found(record(), record(result="a1"))
    assert (item.kind, item.lines) == ("results", ("results differ",))


def test_a_refusal():
    (item,) = found(record(), record(refused="ShapeError: no"))
    assert item.kind == "refusal" and "is  ShapeError: no" in "\n".join(item.lines)


def test_a_net_of_one_version():
    (item,) = differences({}, {"net": record()})
    assert item.kind == "missing"


def test_further_steps():
    new = record()
    new["plans"][0]["steps"] *= 2
    (item,) = found(record(), new)
    assert item.lines[0] == "step 2 (1 steps -> 2; 1 differ)"


def test_scratch_that_moved_is_no_cause():
    old, new = record(), record()
    for plan, offset in ((old, 0), (new, 64)):
        (step,) = plan["plans"][0]["steps"]
        step["operands"] = [f"scratch 0: 64 bytes at {offset} + 0"]
    (item,) = found(old, new)
    assert item.lines[0] == "step 1 (1 steps -> 1; 1 differ)"
    new["plans"][0]["steps"].append({"step": "kernel", "label": "fill", "operands": []})
    (item,) = found(old, new)
    assert item.lines[0] == "step 2 (1 steps -> 2; 2 differ)"


def test_renames():
    old = renamed(record(), {"copy": "move", "src_strides": "x_strides"}, {"own": "builtin"})
    new = json.loads(json.dumps(record(label="builtin copy", kernel="move")).replace("src_strides", "x_strides"))
    assert found(old, new) == []
    assert renamed("owner of own", {}, {"own": "builtin"}) == "owner of builtin"


def test_files(tmp_path):
    for side in ("old", "new"):
        lines = (json.dumps(record(net, result=side if net == "b" else "a0")) for net in "ab")
        (tmp_path / side).write_text("\n".join(lines))
    count, items = compared(tmp_path / "old", tmp_path / "new")
    assert count == 2 and [item.net for item in items] == ["b"]


@pytest.mark.parametrize(("globs", "left"), [("", 1), ("net  # a rounding less\n", 0), ("zoo *\n# net\n", 1)])
def test_expected_differences(tmp_path, globs, left):
    file = tmp_path / "expected"
    file.write_text(globs)
    assert len(unexpected(found(record(), record(result="a1")), expected(file))) == left
