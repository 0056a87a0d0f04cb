"""Fuses consecutive convolutions into one step by row tiling, so that results between them stay in the near caches.

The step computes a band: a few rows of the first layer, then the rows of the next layer that depend on them, and so on
to the last layer; then the next band. Rows are indices of the first spatial axis. Results between layers are larger
than the near caches and read by the next layer alone. The kernels are those of builtin algorithms, made for rows of a
band. Layers are fused only where the estimate is below that of the layers one by one by their chosen algorithms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from ..algorithms import table
from ..algorithms.lower import Decision
from ..algorithms.views import channels_last_strides
from ..backends.backend import FusionGroup
from ..convolution.nodes import CONV_KINDS
from ..cost import model as cost
from ..cost import speeds
from ..ir.env import Env
from ..ir.rewrites import Rewrite
from ..program import epilogue as post
from ..program.program import Buffer, HostStep, KernelStep, Place, Program
from ..symbolic import current, kernels
from . import bands
from .bands import Layer
from .row_tiles import Packing, RowTiles
from .traced_tiles import Tiled

# what a band moves: rows kept from the band before, and weights that exceed NEAR
_MOVED, _CALL = map(speeds.seconds, ("BAND_BYTE", "BAND_CALL"))
TILE_ROWS = Rewrite(
    "tile_rows",
    "successive convolutions run a few rows at a time",
    (
        "the next layer alone reads what lies between, which is dense and channels last",
        "the estimate says that it is faster",
    ),
)


def layers(decisions: Sequence[tuple[FusionGroup, Decision]]) -> list[Layer]:
    """Returns the convolutions of a program, as far as a candidate can compute them by rows: the cheapest such one.

    It need not be the algorithm that the convolution was lowered by.
    """
    found = []
    for number, (group, decision) in enumerate(decisions):
        problem = decision.problem
        if problem is not None and group.nodes[0].kind in CONV_KINDS:
            weighed = (table.named(name, problem.direction) for name, _ in decision.candidates)
            algorithm = next((a for a in weighed if a is not None and a.tiles_rows), None)
            if algorithm is not None:
                found.append(Layer(number, problem, algorithm, decision))
    return found


def tile_rows(program: Program, layers: Sequence[Layer], env: Env) -> None:
    """Replaces the steps of consecutive layers by one step that computes bands of rows, where this saves time."""
    if not env.prefers_builtin:
        return
    # steps that pack weights, by what the packed weights depend on; the first of equal ones
    packing: Packing = {
        (step.cache_key, step.reads): step
        for step in reversed(program.steps)
        if isinstance(step, KernelStep) and step.cache_key is not None and step.reads and step.condition is None
    }
    trace = current()
    for run in _runs(program, layers):
        chains = _chains([layer.at_values() for layer in run], env)
        if not chains:
            TILE_ROWS.declined(run[-1].algorithm.name, "the estimate says that it is faster")
        for chain in chains:
            tiles = RowTiles(program, chain, env, packing, traced=trace is not None)
            if tiles.complete:
                TILE_ROWS.fired(chain[-1].algorithm.name)
                packing = tiles.packing
                groups = [layer.group for layer in chain]
                traced = [layer for layer in run if layer.group in groups]
                tiles.replace_steps(tiles.kernel() if trace is None else Tiled(trace, tiles, traced), traced)


def _chains(run: Sequence[Layer], env: Env) -> list[Sequence[Layer]]:
    """Returns the parts of a run of layers that should each become one step, so that they save the most seconds."""
    best: list[tuple[float, list[Sequence[Layer]]]] = [(0.0, [])]  # by number of layers
    for stop in range(1, len(run) + 1):
        ways = [best[-1]]
        for start in range(stop - 1):
            saved = saving(run[start:stop], env)
            if saved > 0:
                ways.append((best[start][0] + saved, [*best[start][1], run[start:stop]]))
        best.append(max(ways, key=itemgetter(0)))
    return best[-1][1]


def _runs(program: Program, layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    """Yields the longest runs of layers in which each layer alone reads the result of the layer before."""
    readers = {layer.source.buffer: layer for layer in layers}
    touching: dict[Buffer, set[int | None]] = {}
    for step in program.steps:
        group = None if isinstance(step, HostStep) or step.condition else step.group
        for view in (*step.reads, *step.writes):
            touching.setdefault(view.buffer, set()).add(group)
    joined: dict[int, Layer] = {}
    for layer in layers:
        after = readers.get(layer.target.buffer)
        if after is None:
            continue
        if touching[layer.target.buffer] != {layer.group, after.group} or not _fits(layer, after):
            TILE_ROWS.declined(
                after.algorithm.name, "the next layer alone reads what lies between, which is dense and channels last"
            )
        else:
            joined[layer.group] = after
    behind = {layer.group for layer in joined.values()}
    for layer in layers:
        if layer.group in joined and layer.group not in behind:
            run = [layer]
            while run[-1].group in joined:
                run.append(joined[run[-1].group])
            yield run


def _fits(first: Layer, after: Layer) -> bool:
    """Whether the result of `first` can stay in bands: scratch that `after` reads once, as its source.

    The result must be dense and channels last, and fill its buffer.
    """
    between = first.target
    alone = between.buffer.place is Place.SCRATCH and between.buffer.elements == between.size
    others = (*post.views(after.problem.epilogue), after.problem.w, after.problem.bias)
    read_once = all(view is None or view.buffer is not between.buffer for view in others)
    return alone and read_once and after.source == between and between.strides == channels_last_strides(between)


def saving(chain: Sequence[Layer], env: Env) -> float:
    """Returns the seconds that computing the chain by bands saves; negative if it takes longer.

    Bands save writing and reading the bytes of results between layers that exceed the near caches. If no bytes exceed
    the near caches, or not even one row fits into them, 0 is returned.
    """
    beyond = sum(max(cost.nbytes(layer.target) - bands.NEAR * env.threads, 0) for layer in chain[:-1])
    if not beyond:
        return 0.0
    divided = bands.bands_of([layer.rows for layer in chain], chain[-1].target.shape[0], env.threads)
    if not divided.count:
        return 0.0
    alone = sum(layer.chosen(env) for layer in chain)
    # bytes beyond the near caches would be written, and read again
    return alone + 2 * cost.passing(beyond, env.threads) - _tiled(chain, divided, env)


def _tiled(chain: Sequence[Layer], divided: kernels.RowBands, env: Env) -> float:
    """Estimates the seconds of a chain by bands.

    The estimate includes rows that several threads compute, and the time of threads that have fewer parts than others.
    """
    images, each = chain[-1].target.shape[0], divided.tasks
    seconds = chain[-1].by_rows(env)
    moved = max(sum(cost.nbytes(layer.problem.w) for layer in chain) - bands.NEAR, 0)
    for layer, after in pairwise(chain):
        # rows of the result between them that two neighbouring bands both read
        overlap = max(after.rows.reach - after.rows.stride, 0)
        seconds += layer.by_rows(env) * (1 + (each - 1) * overlap / layer.rows.target)
        moved += overlap * layer.rows.nbytes
    seconds += images * -(-chain[-1].rows.target // divided.count) * (moved * _MOVED + len(chain) * _CALL) / env.threads
    turns = -(-images * each // env.threads)
    return seconds * turns * env.threads / (images * each)
