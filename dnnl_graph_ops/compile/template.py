"""Templates: the plan of a net with unknown dims as a function of these dims.

A net is lowered once on sizes that remember how they follow from the unknown dims (`dnnl_graph_ops.symbolic`). The
steps, their order and operands, the algorithms and packed weights are then those of all dims that meet the conditions
which lowering has asked; shapes, offsets, kernels and places in the arena are evaluated again for each. A template is
for sizes near those of its trace, as algorithms are chosen by sizes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from math import log, prod
from typing import Any, NamedTuple

from .._core import check_fork
from ..errors import Error, Timeout
from ..graph import Node, Value
from ..ir import stages
from ..ir.env import Env
from ..program.program import HostStep, KernelStep, Place, Step, data_of
from ..strides import dense_strides
from ..symbolic import Trace, formula, total, tracing
from .check_written import check
from .evaluate import Kernels, Mixed, flag_of
from .pack_weights import fold_constants
from .place_memory import Use
from .plan import bytes_of, estimated, worked_around
from .specialise import STAGES, Compilation, Options, passed
from .traced_tiles import Tiled

Ints = tuple[int, ...]
# a template is for unknown dims from 1 / _RANGE of their sizes in the trace to _RANGE times these sizes, whose product
# is from 1 / _LESS to _MORE times that of the trace: for other sizes, other algorithms may be better
_RANGE, _LESS, _MORE = 6, 8, 5
# the most templates of a net, how many of them are made before any serves another size, and one more for so many
# served sizes
MOST_TEMPLATES, _TRIED, _SERVED = 8, 2, 8


class Refused(Exception):
    """The plan of a net is no function of its unknown dims, as far as a trace can tell: each size is compiled."""


class Traceable(NamedTuple):
    """A net as templates need it: its values, and functions that infer shapes and return the nodes to compile."""

    inputs: Sequence[Value]
    outputs: Sequence[Value]
    constants: Sequence[Value]
    infer: Callable[[Sequence[Ints]], dict[Value, Value]]
    nodes: Callable[[Mapping[Value, Value]], Sequence[Node]]
    env: Env
    options: Options
    name: str


def _range(size: int) -> tuple[int, int]:
    return max(size // _RANGE, 1), size * _RANGE


def _is_near(traced: Sequence[int], unknown: Sequence[int]) -> bool:
    """Whether a template of a trace at these dims may be for other ones."""
    ranges = zip(map(_range, traced), unknown, strict=True)
    inside = all(least <= size <= most for (least, most), size in ranges)
    return inside and prod(traced) <= _LESS * prod(unknown) <= _LESS * _MORE * prod(traced)


def _dim(trace: Trace, size: int) -> Any:
    dim = trace.dim(size, *_range(size))
    trace.dims.append(dim)
    return dim


class Template:
    """A plan as a function of the unknown dims of a net's inputs; `traced` at these ones."""

    def __init__(self, net: Traceable, shapes: Sequence[Ints], exploits: bool = True) -> None:
        """Traces the compilation for inputs of these shapes, all row-major. Raises Refused.

        `exploits`: see `Trace`.
        """
        self.env = net.env
        self._name = net.name
        with tracing() as trace:
            trace.exploits = exploits
            given = [
                tuple(_dim(trace, size) if dim is None else size for dim, size in zip(value.shape, shape, strict=True))
                for value, shape in zip(net.inputs, shapes, strict=True)
            ]
            self.traced = tuple(dim.value for dim in trace.dims)
            values = net.infer(given)
            results = [values[value].shape for value in net.outputs]
            self._shapes = formula(trace, trace.dims, trace.conditions, tuple(results))
            inferred = len(trace.conditions)
            c = passed(
                net.nodes(values),
                [(values[v], (shape, dense_strides(shape))) for v, shape in zip(net.inputs, given, strict=True)],
                [values[value] for value in net.constants],
                [(values[value], None) for value in net.outputs],
                net.env,
                net.options,
            )
            stages.run(STAGES, c)
            self._assemble(trace, c, inferred)
        c.let_go()

    def _assemble(self, trace: Trace, c: Compilation, inferred: int) -> None:
        program = c.lowering.program
        moved = total(bytes_of(step) for step in program.steps if not (step.condition and step.condition.wanted))
        steps = fold_constants(worked_around(program, c.env.engine))
        with trace.apart():
            # what is written in the trace is for all sizes that its conditions hold for
            check([_at_values(step) for step in steps], [view.at_values() for view in c.targets])
        if any(isinstance(step, HostStep) for step in steps):
            raise Refused("a step is a NumPy function, which may depend on sizes in ways that nobody sees")
        kind = Kernels if all(isinstance(step, KernelStep) for step in steps) else Mixed
        buffers = dict.fromkeys(view.buffer for step in steps for view in (*step.reads, *step.writes, *flag_of(step)))
        constants = [buffer for buffer in buffers if buffer.place is Place.CONSTANT]
        self._parts = kind(steps, c, constants, self._name)
        result = (self._parts.varying, moved, c.lowering.macs)
        conditions = trace.conditions[inferred:] + trace.exploited
        self._plan = formula(trace, trace.dims, conditions, result)
        self._exploited = formula(trace, trace.dims, trace.exploited, ()) if trace.exploited else None
        # the arrays are kept until the first plan has them; from then on plans alone keep them
        self._arrays: Sequence[Any] = [data_of(buffer) for buffer in constants]
        self._constants = [(weakref.ref(array), b.shared) for array, b in zip(self._arrays, constants, strict=True)]
        self._parts.close()
        for step in steps:
            if isinstance(step, KernelStep) and isinstance(step.kernel, Tiled):
                step.kernel.close()

    @property
    def alive(self) -> bool:
        """Whether a plan keeps the constants alive, so that other plans may share them."""
        return all(reference() is not None for reference, _ in self._constants)

    def exploits(self, unknown: Sequence[int]) -> bool:
        """Whether these unknown dims allow what the plan exploits; True for dims far from the trace."""
        if self._exploited is None or not _is_near(self.traced, unknown):
            return True
        return self._exploited(unknown) is not None

    def shapes(self, unknown: Sequence[int]) -> tuple[Ints, ...] | None:
        """Returns the shapes of the results for these unknown dims; None where the template is not for them."""
        if not _is_near(self.traced, unknown):
            return None
        shapes: tuple[Ints, ...] | None = self._shapes(unknown)
        return shapes

    def executor(self, unknown: Sequence[int]) -> Any:
        """Returns the executor of the plan for these unknown dims; None where the template is not for them."""
        check_fork()
        try:
            values = None if self.shapes(unknown) is None else self._plan(unknown)
        except Error:
            # a kernel refuses such sizes
            return None
        constants = [(reference(), is_shared) for reference, is_shared in self._constants]
        if values is None or any(array is None for array, _ in constants):
            return None
        varying, moved, macs = values
        executor = self._parts.executor(unknown, varying, constants, estimated(moved, macs), self.env)
        if executor is not None:
            self._arrays = ()
        return executor


def _at_values(step: Step) -> Use:
    reads, writes = ([view.at_values() for view in views] for views in ((*step.reads, *flag_of(step)), step.writes))
    return Use(reads, writes, (), step.label)


class Templates:
    """The templates of a net, which are made as new sizes come: the first size of all is compiled without one.

    A template is traced at a compiled size near the new one, whose algorithms are ranked and whose weights are packed.
    Few are made beyond those that serve other sizes, since a trace takes longer than to compile one size. A net of a
    file knows the unknown dims of templates that another process made: it makes those again that a size is near to,
    from the first size on.

    Attributes:
        refusal: why no template can be made of the net; "" as long as none was refused.
    """

    def __init__(self, known: Sequence[Ints] = ()) -> None:
        """`known`: the unknown dims of templates of the same net in another process."""
        self.refusal = ""
        self._all: list[Template] = []
        self._known = list(known)
        self._compiled: list[Ints] = []
        self._traced = self._served = 0

    def shapes(self, unknown: Sequence[int]) -> tuple[Ints, ...] | None:
        """Returns the shapes of the results for unknown dims that a template is for; None where none is."""
        return next((shapes for one in self._all if (shapes := one.shapes(unknown)) is not None), None)

    def add(self, unknown: Sequence[int]) -> None:
        """Remembers a size that was compiled without a template."""
        if all(unknown):
            self._compiled = [*self._compiled, tuple(unknown)][-MOST_TEMPLATES:]

    def executor(self, unknown: Sequence[int], net: Traceable, shapes: Sequence[Ints]) -> Any:
        """Returns the executor of a plan for the dims; None where no template can be made, or not for this size.

        `shapes`: of the inputs, in which the unknown dims are. Call it from one thread at a time.
        """
        exploits = True
        for template in self._all:
            executor = template.executor(unknown) if template.env == net.env else None
            if executor is not None:
                self._served += 1
                return executor
            exploits &= template.exploits(unknown)
        nearest = _nearest(self._known, unknown)
        if nearest is not None:
            executor, _ = self._made(net, nearest, unknown, exploits)
            self._known.remove(nearest)
            if executor is not None:
                return executor
        enough = self._traced >= _TRIED + self._served // _SERVED
        if enough or self.refusal or not (self._compiled or self._all) or not all(unknown):
            return None
        nearest = _nearest(self._compiled, unknown)
        if nearest is None:
            # of sizes that do not fit the net, no trace learns that the net has no template
            net.infer(shapes)
        else:
            self._compiled.remove(nearest)
        self._traced += 1
        executor, self.refusal = self._made(net, nearest or tuple(unknown), unknown, exploits)
        return executor

    def _made(self, net: Traceable, dims: Ints, unknown: Sequence[int], exploits: bool) -> tuple[Any, str]:
        """Makes a template at unknown dims, and keeps it if it is for a size.

        `exploits`: see `Template`. Returns the executor of the size; or None, and why there can be no template, ""
        where there is one.
        """
        rest = iter(dims)
        shapes = [tuple(next(rest) if dim is None else dim for dim in value.shape) for value in net.inputs]
        try:
            template = Template(net, shapes, exploits)
            executor = template.executor(unknown)
            if executor is None and not template.exploits(unknown):
                template = Template(net, shapes, exploits=False)
                executor = template.executor(unknown)
        except Timeout:
            raise
        except Exception as error:
            # sizes of a trace are no integers: code that takes nothing else refuses them in ways of its own
            return None, f"{type(error).__name__}: {error}"
        if executor is not None:
            self._all = [template, *(one for one in self._all if one.alive)][:MOST_TEMPLATES]
        return executor, ""

    def traced(self) -> list[Ints]:
        """Returns the unknown dims that templates were traced at, of the newest template first."""
        return [*(template.traced for template in self._all), *self._known][:MOST_TEMPLATES]


def _nearest(all_dims: Sequence[Ints], unknown: Sequence[int]) -> Ints | None:
    """Returns the dims nearest to a size among those whose template may be for it; None where there are none."""
    near = [dims for dims in all_dims if _is_near(dims, unknown)]
    return min(near, key=lambda dims: abs(log(prod(dims) / prod(unknown))), default=None)
