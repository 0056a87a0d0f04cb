"""Facts about op kinds stand in the op table alone, read from all literals and comparisons of the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dnnl_graph_ops
from dnnl_graph_ops.schema import OPS

ROOT = Path(dnnl_graph_ops.__file__).parent
# rooms whose literals are operators of other packages, some of which have the name of an op kind
OTHERS = {"frontends", "onnxruntime"}
CONTAINERS = {"dict", "float", "frozenset", "int", "list", "set", "str", "tuple"}


def is_kind(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in OPS


def kinds_of(nodes: list[ast.expr | None]) -> int:
    return len({node.value for node in nodes if is_kind(node)})


def is_code(node: ast.expr, data: set[str]) -> bool:
    """Whether a value of a table is code: a name, an attribute, a lambda, a call, or a tuple of these."""
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(is_code(item, data) for item in node.elts)
    if isinstance(node, ast.Call):
        return not (isinstance(node.func, ast.Name) and node.func.id in CONTAINERS)
    return isinstance(node, ast.Attribute | ast.Lambda) or (isinstance(node, ast.Name) and node.id not in data)


def constants_of(tree: ast.Module) -> set[str]:
    """Names of a module that stand for plain data."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Lambda):
            try:
                ast.literal_eval(node.value)
            except ValueError:
                continue
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def compared(node: ast.BoolOp) -> list[list[ast.expr]]:
    """What each expression is compared with by == and != in one condition."""
    sides: dict[str, list[ast.expr]] = {}
    for value in node.values:
        if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Eq | ast.NotEq):
            sides.setdefault(ast.unparse(value.left), []).append(value.comparators[0])
    return list(sides.values())


def facts(node: ast.AST, data: set[str]) -> Iterator[int]:
    """Lines of literals and comparisons that hold two op kinds or more; tables of code may have them as keys."""
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Dict):
        if all(is_code(value, data) for value in node.values):
            children = list(node.values)
        elif kinds_of(node.keys) > 1:
            yield node.lineno
    elif isinstance(node, ast.Set | ast.List | ast.Tuple):
        if kinds_of(node.elts) > 1:
            yield node.lineno
    elif isinstance(node, ast.BoolOp):
        if any(kinds_of(side) > 1 for side in compared(node)):
            yield node.lineno
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        words = node.func.value
        if isinstance(words, ast.Constant) and len(OPS.keys() & str(words.value).split()) > 1:
            yield node.lineno
    for child in children:
        yield from facts(child, data)


def literals(path: Path) -> list[int]:
    tree = ast.parse(path.read_text("utf-8"))
    return list(facts(tree, constants_of(tree)))


def in_room(room: str) -> list[str]:
    paths = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] == room]
    return [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in literals(path)]


ROOMS = sorted({path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")})


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "schema"])
def test_no_fact_stands_outside_the_op_table(room):
    assert bool(in_room(room)) == (room in OTHERS), in_room(room)


PLANTED = """\
WORD = "always"
A = {"Add", "Divide"}
B = dict.fromkeys(("Add", "Divide"), WORD)
C = {"Add": 1, "Divide": add}
D = {"Add": WORD, "Divide": WORD}
E = {"Add": frozenset(x), "Divide": frozenset(y)}
F = {"a": ["Add", "Divide"]}
G = node.kind in ("Add", "Divide")
H = node.kind == "Add" or node.kind == "Divide"
I = "Add Divide".split()
J = {"Add": (add, 1), "Divide": (add, 2)}
K = {"Add": add, "Divide": {"Add": 1, "Exp": 2}}
"""
INNOCENT = """\
A = {"Add", "Subtraction", "Add"}
B = {"Add": add, "Divide": ops.divide, "Exp": lambda x: x, "Log": partial(log, 2), **MORE}
C = {("Pad", "Convolution"): FOLD, ("Convolution", "Slice"): FOLD}
D = {"Add": ((RULE, add), (RULE, sum_up)), "Divide": ((RULE, divide),)}
E = first.kind != "Add" or second.kind != "Divide"
F = "an Add or a Divide"
"""


def test_the_reader_sees_planted_facts(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(PLANTED, "utf-8")
    assert sorted(set(literals(path))) == list(range(2, PLANTED.count("\n") + 1))


def test_the_reader_lets_code_pass(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(INNOCENT, "utf-8")
    assert literals(path) == []
