"""Smaller forms of a random program, and a script of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from smaller import cut

from .drawing import back
from .program import Program, values_of


def smaller(program: Program) -> Iterator[Program]:
    """Fewer results, fewer lines, fixed sizes, shorter axes, plainer numbers."""
    if len(program.outputs) > 1:
        yield from (replace(program, outputs=[name]) for name in program.outputs)
    for i in reversed(range(len(program.steps))):
        yield from _without(program, i)
    if program.grown:
        yield replace(program, grown={})
    if program.dynamic:
        yield replace(program, dynamic=False, grown={})
    leaves = {**program.inputs, **program.parameters}
    if not program.grown:
        for size in sorted({n for tensor in leaves.values() for n in tensor.shape if n > 1}, reverse=True):
            for less in (1, size - 1):
                yield _mapped(program, lambda tensor, size=size, less=less: cut(tensor, size, less))
        for name, tensor in leaves.items():
            if tensor.ndim > 1 and not tensor.is_contiguous():
                yield _mapped(program, torch.Tensor.contiguous, name)
            if tensor.numel() > 1 and tensor.unique().numel() > 1:
                yield _mapped(program, torch.ones_like, name)


def _without(program: Program, index: int) -> Iterator[Program]:
    """The program without a line, whose result becomes an input if it is read."""
    step = program.steps[index]
    steps = [*program.steps[:index], *program.steps[index + 1 :]]
    outputs = [name for name in program.outputs if name != step.name]
    if not outputs:
        before = [name for name in step.reads if name[0] == "v"]
        outputs = before[-1:]
    if not steps or not outputs:
        return
    if any(step.name in other.reads for other in steps):
        if program.grown:
            return
        value = values_of(replace(program, steps=program.steps[: index + 1]), program.inputs)[step.name]
        program = replace(program, inputs={**program.inputs, step.name: value.clone()})
    yield program.pruned(steps=steps, outputs=outputs)


def _mapped(program: Program, change: Callable[[torch.Tensor], torch.Tensor], only: str = "") -> Program:
    """With other inputs and parameters."""
    inputs, parameters = (
        {name: tensor if only and name != only else change(tensor).clone() for name, tensor in part.items()}
        for part in (program.inputs, program.parameters)
    )
    return replace(program, inputs=inputs, parameters=parameters)


def script(program: Program, way: str) -> str:
    """Runs in the folder tests, and raises where the program fails."""
    lines = "\n".join(f"    {step.name} = {step.text}" for step in program.steps)
    rounding = [step.name for step in program.steps if step.rounds]
    parts = ("inputs", "parameters", *["grown"] * bool(program.grown))
    tensors = "".join(f"\n    {part}={_tensors(getattr(program, part))}," for part in parts)
    return (
        "import torch\nfrom pytorch.programs import agree\n\n"
        f'agree(\n    """\n{lines}\n    """,{tensors}\n    outputs={program.outputs}, way={way!r}, '
        f"dynamic={program.dynamic}, rounding={rounding},\n)"
    )


def _tensors(tensors: dict[str, torch.Tensor]) -> str:
    return f"{{{', '.join(f'{name!r}: {_tensor(tensor)}' for name, tensor in tensors.items())}}}"


def _tensor(tensor: torch.Tensor) -> str:
    """As it lies: of axes from the slowest to the fastest, turned."""
    order = tensor.dim_order()
    text = f"torch.tensor({tensor.permute(order).tolist()}, dtype={tensor.dtype})"
    if tensor.numel() > 1 and tensor.unique().numel() == 1:
        text = (
            f"torch.full({[tensor.shape[axis] for axis in order]}, {tensor.flatten()[0].item()}, dtype={tensor.dtype})"
        )
    text = text.replace("nan", "float('nan')").replace("inf", "float('inf')")
    return text if order == tuple(range(tensor.ndim)) else f"{text}.permute({back(order)})"
