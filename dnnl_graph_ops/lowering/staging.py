"""Views that the library cannot describe, or describes and misreads: copies around the steps that use them."""

from __future__ import annotations

from dataclasses import replace

from .program import NativeOp, NativeStep, Operand, Program, Step, View, describable, order_of


def staged(step: NativeStep) -> list[Step]:
    """The step, working on row-major copies of the views that the library cannot describe."""
    program = Program(step.group, step.condition)
    if len(step.ops) == 1 and step.ops[0].outputs[0].dtype != "f32" and wrong_when_narrow(step.ops[0]):
        return _in_f32(program, step)
    ops = tuple(_with_zeros_in_front(program, op) for op in step.ops)
    if program.steps:
        step = replace(step, ops=ops)
    reads, writes = dict.fromkeys(step.reads), dict.fromkeys(step.writes)
    odd = [view for view in reads | writes if view.size and not _taken(view)]
    if not odd:
        return [*program.steps, step]
    twins: dict[Operand, View] = {view: program.scratch(view.shape, view.dtype) for view in odd}
    for view in odd:
        if view in reads:
            program.copy(view, twins[view], "copy of a strided view")
    program.steps.append(_on(step, twins))
    for view in odd:
        if view in writes:
            program.copy(twins[view], view, "copy to a strided view")
    return program.steps


def _taken(view: View) -> bool:
    """Whether the library reads this view as it is.

    Seen in 3.2: elementwise ops, PReLU and BatchNorm end in SIGSEGV on one element that stands for all.
    """
    spread = [stride for stride, size in zip(view.strides, view.shape, strict=True) if size > 1]
    return describable(view) and (not spread or any(spread))


def _on(step: NativeStep, twins: dict[Operand, View]) -> NativeStep:
    def op(item: NativeOp) -> NativeOp:
        inputs, outputs = (tuple(twins.get(o, o) for o in some) for some in (item.inputs, item.outputs))
        return replace(item, inputs=inputs, outputs=outputs)

    fallback = step.fallback
    if fallback is not None:
        reads, writes = (tuple(twins.get(v, v) for v in some) for some in (fallback.reads, fallback.writes))
        fallback = replace(fallback, reads=reads, writes=writes)
    return replace(step, ops=tuple(map(op, step.ops)), fallback=fallback)


# kind: the input over which the window of taps moves
_WINDOWED = {"ConvolutionBackwardWeights": 0, "ConvTransposeBackwardWeights": 1}


def _with_zeros_in_front(program: Program, op: NativeOp) -> NativeOp:
    """The op, or where it would be wrong, the same on a copy whose first spatial axis begins with its padding."""
    if op.kind not in _WINDOWED:
        return op
    position, (target,) = _WINDOWED[op.kind], op.outputs
    source, moved = op.inputs[position], op.inputs[1 - position]
    if len(target.shape) != 5 or not (isinstance(source, View) and isinstance(moved, View)):
        return op
    attrs = op.attrs
    axis = 1 if attrs.get("data_format", "NXC") == "NXC" else 2
    kernel = target.shape[0 if attrs.get("weights_format", "X").startswith("X") else 2]
    pad, stride, dilation = (attrs[name][0] for name in ("pads_begin", "strides", "dilations"))
    size = source.shape[axis]
    if not _goes_wrong(size, moved.shape[axis], dilation * (kernel - 1) + 1, stride, pad):
        return op
    shape = (*source.shape[:axis], pad + size, *source.shape[axis + 1 :])
    padded = program.scratch(shape, source.dtype, order_of(source))
    program.fill(padded.narrow(axis, 0, pad), 0.0, "zeros in front")
    program.copy(source, padded.narrow(axis, pad, size), "behind zeros")
    inputs = [*op.inputs]
    inputs[position] = padded
    return replace(op, attrs={**attrs, "pads_begin": (0, *attrs["pads_begin"][1:])}, inputs=tuple(inputs))


def wrong_when_narrow(op: NativeOp) -> bool:
    """Whether the library, computing in bf16, gets this gradient of weights wrong or writes behind its memory.

    Seen in oneDNN 3.2 on a CPU with AVX512-BF16, of all layers drawn in these alone: where the window is longer
    than the source on an axis, or with padding as long, or has one place and padding. In f32 the same layers are right.
    """
    if op.kind not in _WINDOWED:
        return False
    source, moved, target = op.inputs[_WINDOWED[op.kind]], op.inputs[1 - _WINDOWED[op.kind]], op.outputs[0]
    if not all(isinstance(operand, View) for operand in (source, moved, target)):
        return False
    attrs = op.attrs
    sizes, places = (
        operand.shape[1:-1] if attrs.get("data_format", "NXC") == "NXC" else operand.shape[2:]
        for operand in (source, moved)
    )
    kernel = target.shape[:-2] if attrs.get("weights_format", "X").startswith("X") else target.shape[2:]
    pads = zip(attrs["pads_begin"], attrs["pads_end"], strict=True)
    axes = zip(sizes, places, kernel, attrs["dilations"], pads, strict=True)
    return any(d * (k - 1) + 1 > size - any(pad) or (n == 1 and any(pad)) for size, n, k, d, pad in axes)


def _in_f32(program: Program, step: NativeStep) -> list[Step]:
    """The step's only op on copies in f32."""
    (op,) = step.ops
    views = [operand for operand in (*op.inputs, *op.outputs) if isinstance(operand, View)]
    twins: dict[Operand, View] = {view: program.scratch(view.shape, "f32", order_of(view)) for view in views}
    for view in op.inputs:
        if isinstance(view, View):
            program.copy(view, twins[view], f"{view.dtype} to f32")
    program.steps += staged(_on(step, twins))
    for view in op.outputs:
        if isinstance(view, View):
            program.copy(twins[view], view, f"f32 to {view.dtype}")
    return program.steps


def _goes_wrong(size: int, places: int, window: int, stride: int, pad: int) -> bool:
    """Whether a window of taps that leaves the padding in front reaches over the end.

    Seen in oneDNN 3.2 on CPUs with AVX-512, in f32 and bf16: taps are wrong, or memory behind them is written.
    """
    first_inside = -(-pad // stride)
    leaves = pad > stride and first_inside < places and first_inside * stride - pad + window > size
    return pad > 0 and (window > size or leaves)
