"""Random programs, drawn call by call by how eager PyTorch runs them; eager judges what the package makes of them.

A long run that says which cells it seldom drew, in the folder tests: python -m pytorch.programs SEED COUNT
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from random_runs import Aim, Cell, long_run, nearest, properties
from reference.closeness import distance, is_exact, largest
from smaller import smallest

from . import program_layers, program_moves, program_ops  # noqa: F401  (fill the table)
from .drawing import KINDS, NAMES, ROWS, Again, Draw, back, extents, where
from .program import NUMPY, Program, Step, Tensors, array_of, computed, results_of, tolerances, values_of
from .program_shrinking import script, smaller
from .program_ways import LIMITS, THEIRS, WAYS, Left, Theirs, planned

MOST_CALLS, MOST_TRIES = 12, 60
# beyond it a result is drawn again
MOST = {"f16": 300.0, "bf16": 1e3}
REFUSED = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)


# ---- drawing ---------------------------------------------------------------------------------------------------------


def drawn(seed: int, case: int, aim: Aim | None = None) -> Program:
    """A program that eager runs; of a few that have some of the cells of an aim, the one with most of them."""
    rng = random.Random(f"{seed} {case}")
    return nearest(lambda: _drawn(rng, aim or {}), aim or {}, cells)


def _drawn(rng: random.Random, aim: Aim) -> Program | None:
    """A program, mostly of the ops of an aim and with some of its properties; None: nothing could be drawn."""
    texts = properties(rng, aim, KINDS)
    extent = rng.choice((1, 2, 3, 4)) if "equal extents" in texts else extents(rng)
    program = Program(dynamic=bool(texts & {"dynamic", "grown"}) or rng.random() < 0.25, equal=extent is not None)
    d = Draw(rng, extent)
    wanted = rng.randint(len(aim) + 1, MOST_CALLS)
    for _ in range(MOST_TRIES):
        op = rng.choice(list(aim if aim and rng.random() < 0.9 else ROWS))
        d.aim(properties(rng, {op: aim[op]}, KINDS) if op in aim else texts)
        _extend(program, d, op, not aim)
        if len(program.steps) == wanted or program.refused:
            break
    if not program.steps:
        return None
    reads = {name for step in program.steps for name in step.reads}
    names = [step.name for step in program.steps]
    share = 1 if "inner output" in texts else 0.25
    program.outputs = [name for name in names if name not in reads or rng.random() < share]
    program = program.pruned()
    return replace(program, grown=_grown(rng, program)) if program.dynamic and not program.refused else program


def _extend(program: Program, d: Draw, op: str, may_end: bool) -> None:
    """One more line, if eager runs the call that is drawn and its result is small; seldom one that eager refuses."""
    row = ROWS[op]
    d.start(op.removesuffix(".in_place"), row.flags)
    name, text, result = f"v{len(d.values)}", "", None
    try:
        text = row.draw(d)
        leaves = {leaf: tensor.clone() for leaf, tensor in d.leaves.items()}
        result = computed(text, {**d.values, **leaves})
    except (Again, *REFUSED):
        program.refused = may_end and bool(text) and "m" in row.flags and bool(program.steps) and d.chance(0.1)
    if not program.refused and not _fits(result):
        if op.endswith(("_", ".in_place")):
            # a call in vain may have changed them
            d.values = values_of(program, program.inputs)
            d.given = {where(d.values[leaf]) for leaf in (*program.inputs, *program.parameters)}
        return
    for leaf, tensor in d.leaves.items():
        (program.parameters if leaf[0] == "p" else program.inputs)[leaf] = tensor
    kind = None if program.refused else NUMPY.get(NAMES[result.dtype])
    rounds = kind is not None and "m" not in row.flags and ("r" in row.flags or not is_exact(array_of(result), kind))
    program.steps.append(Step(op, name, text, rounds))
    if program.refused:
        return
    d.values |= {**leaves, name: result}
    d.given |= set(map(where, leaves.values()))
    if rounds or d.inexact.intersection(program.steps[-1].reads):
        d.inexact |= {other for other, one in d.values.items() if where(one) == where(result)}


def _fits(result: Any) -> bool:
    if not isinstance(result, torch.Tensor) or result.dtype not in NAMES or result.ndim > 5 or result.numel() > 2000:
        return False
    return largest(array_of(result)) <= MOST.get(NAMES[result.dtype], 1e4)


def _grown(rng: random.Random, program: Program) -> Tensors:
    """Inputs of which all axes of a size are longer by one, if eager takes them; else none."""
    sizes = sorted({n for tensor in program.inputs.values() for n in tensor.shape if n > 1})
    if not sizes:
        return {}
    size = rng.choice(sizes)
    grown = {}
    for name, tensor in program.inputs.items():
        order = tensor.dim_order()
        for axis in (axis for axis, n in enumerate(tensor.shape) if n == size):
            tensor = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
        # it lies as the other, which calls by strides count on
        grown[name] = tensor.permute(order).contiguous().permute(back(order))
    try:
        values = values_of(program, grown)
    except REFUSED:
        return {}
    return grown if all(_fits(values[step.name]) for step in program.steps) else {}


# ---- judging ---------------------------------------------------------------------------------------------------------


def verdict(program: Program, way: str) -> str:
    """What is wrong: "refused: ...", "wrong: ..." or "limit: ...", nothing if all is right."""
    if program.refused:
        return _refusal(program, way)
    wanted = [results_of(program, values_of(program, inputs)) for inputs in program.calls]
    try:
        results = WAYS[way](program)
    except Theirs as error:
        return f"limit: {error}"
    except Exception as error:
        if not isinstance(error, Left) and _raises(lambda: WAYS[THEIRS[way]](program)):
            return f"limit: {type(error).__name__} of PyTorch itself"
        limits = (f"limit: {why}" for part, why in LIMITS.items() if part in str(error))
        return next(limits, f"refused: {type(error).__name__}: {error}")
    for inputs, wants, got in zip(program.calls, wanted, results, strict=False):
        errors = tolerances(program, inputs, wants)
        # a net gives no inputs
        names = [*program.outputs, *program.inputs][: len(got)]
        for name, mine, want, error in zip(names, got, wants, errors, strict=False):
            if text := difference(mine, want, error, way != "export"):
                return _theirs(program, way, inputs, got, errors) or f"wrong: {name} {text}"
    return ""


def _refusal(program: Program, way: str) -> str:
    """What is wrong where eager refuses the program: a result, unless PyTorch's own compiler gives one."""
    assert _raises(lambda: values_of(program, program.inputs))
    if _raises(lambda: WAYS[way](program)):
        return ""
    return "wrong: runs" if _raises(lambda: WAYS["aot_eager"](program)) else "limit: eager refuses what aot_eager runs"


def _raises(run: Callable[[], object]) -> bool:
    try:
        run()
    except Exception:
        return True
    return False


def difference(mine: torch.Tensor, want: torch.Tensor, error: float, strides: bool) -> str:
    """In what one result is not the other."""
    if (mine.dtype, mine.shape) != (want.dtype, want.shape):
        return f"{mine.dtype}{list(mine.shape)}, not {want.dtype}{list(want.shape)}"
    if strides and place(mine) != place(want):
        return f"strides {mine.stride()} from {mine.storage_offset()}, not {want.stride()} from {want.storage_offset()}"
    off = distance(array_of(mine), array_of(want))
    return f"is off by {off:.3g}, more than {error:.3g}" if off > error else ""


def place(tensor: torch.Tensor) -> tuple[list[int], int]:
    """Strides without those of single elements, which say nothing, and the offset."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size != 1] if tensor.numel() else [], tensor.storage_offset()


def _theirs(program: Program, way: str, inputs: Tensors, got: list[torch.Tensor], errors: list[float]) -> str:
    """That each result is as eager's or as that of PyTorch's own way, in numbers and in strides; or nothing."""
    own = THEIRS[way]
    alone = replace(program, inputs=inputs, grown={})
    wanted, (results, *_) = results_of(program, values_of(program, inputs)), WAYS[own](alone)
    plans = planned(program)[0 if inputs is program.inputs else -1] if way != "export" else wanted
    for mine, error, *others, plan in zip(got, errors, wanted, results, plans, strict=False):
        if all(difference(mine, other, error, False) for other in others):
            return ""
        if way != "export" and place(mine) not in map(place, (*others, plan)):
            return ""
    return f"limit: eager and PyTorch, {own}, differ"


def check(program: Program, way: str, where: str) -> str:
    """Fail with the smallest program that shows the same fault, as a script; the limit that it meets, or nothing.

    Raises:
        AssertionError: wrong results, or a refusal that is no known limit.
    """
    text = verdict(program, way)
    if text and not text.startswith("limit"):
        small = smallest(program, smaller, lambda one: fault(verdict(one, way)) == fault(text))
        raise AssertionError(f"{where}, {way}: {text}\nthe smallest: {verdict(small, way)}\n{script(small, way)}")
    return text


def agree(lines: str, outputs: list[str], way: str, rounding: Sequence[str] = (), **program: Any) -> None:
    """Compare the results of a script's program with eager's."""
    pairs = (line.strip().split(" = ", 1) for line in lines.strip().splitlines())
    steps = [Step("", name, text, name in rounding) for name, text in pairs]
    text = verdict(Program(steps=steps, outputs=outputs, **program), way)
    assert not text or text.startswith("limit"), text


def fault(text: str) -> str:
    """A verdict's kind and the first of its words that are no names or numbers."""
    return " ".join(word for word in text.split() if word.strip(":,.()").isalpha())[:60]


def cells(program: Program) -> set[Cell]:
    """An op and a property of its line or of the program, for each line."""
    reads = Counter(name for step in program.steps for name in step.reads)
    found: set[Cell] = set()

    def seen(step: Step, tensors: list[torch.Tensor]) -> None:
        data = [tensors[0], tensors[-1]]
        properties = {
            "equal extents": program.equal,
            "dynamic": program.dynamic,
            "grown": bool(program.grown),
            "second reader": any(reads[name] > 1 for name in (*step.reads, step.name)),
            "inner output": reads[step.name] > 0 and step.name in program.outputs,
            "strided": any(not one.is_contiguous() for one in data),
        }
        texts = {*(NAMES[one.dtype] for one in data), *(f"rank {one.ndim}" for one in data)}
        found.update((step.op, text) for text in (*texts, *(name for name, holds in properties.items() if holds)))

    values_of(replace(program, steps=program.steps[: -1 if program.refused else None]), program.inputs, seen=seen)
    return found


def judged(seed: int, case: int, aim: Aim) -> tuple[set[Cell], list[str]]:
    """The cells of a program, and what came of it by each way: a limit, nothing, or how it failed."""
    program = drawn(seed, case, aim)
    texts = []
    for way in ("export", "compile", "divided"):
        try:
            texts.append(f"{way}: {check(program, way, f'drawn{(seed, case, aim)}') or 'agrees'}")
        except AssertionError as error:
            texts.append(str(error))
    return cells(program), texts


if __name__ == "__main__":
    long_run(judged, ROWS, *map(int, sys.argv[1:]))
