"""Compiles the plans of many sizes before a net is called with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core import Executor, PlanCache, plan_totals
from ..errors import InvalidArgumentError, warn
from ..graph import Value
from ..progress import Progress, check, shown, silent, telling
from .sizes import Parts, Shapes, all_shapes

# the plans of a size, each with its cache
_Plans = Sequence[tuple[PlanCache, Executor]]


def prepare(
    where: str, inputs: Sequence[Value], parts_at: Callable[[Shapes], Parts], sizes: Any, progress: Progress | None
) -> int:
    """Implements `Net.prepare`; `parts_at` returns what a call with these shapes needs."""
    check(progress, where)
    wanted = all_shapes(inputs, sizes, where)
    compiled, late, plans = 0, dict[str, None](), list[_Plans]()
    with shown(progress) as tell, telling(silent):
        for shapes in wanted:
            tell(len(plans), len(wanted), ", ".join(map(str, shapes)))
            try:
                parts = parts_at(shapes)
                before = [cache.executors() for cache, _ in parts.plans]
                plans.append([(cache, plan()) for cache, plan in parts.plans])
            except InvalidArgumentError as error:
                raise type(error)(f"{where}: the size {shapes}: {error}") from None
            late.update(dict.fromkeys(parts.late))
            compiled += sum(plan not in known for (_, plan), known in zip(plans[-1], before, strict=True))
            if (kept := _kept(plans)) < len(plans):
                warn(
                    f"{where}: {kept} of {len(wanted)} sizes have plans, and the rest is not compiled: plans of all "
                    f"nets are limited to {plan_totals()['limit']} bytes, and older ones are dropped; raise "
                    "set_cache_limit, or prepare fewer sizes"
                )
                break
    if late:
        warn(f"{where}: sizes that depend on data are compiled by the first call: {', '.join(late)}")
    return compiled


def _kept(plans: Sequence[_Plans]) -> int:
    """Returns for how many sizes all plans are there still."""
    now = {cache: {*cache.executors()} for some in plans for cache, _ in some}
    return sum(all(plan in now[cache] for cache, plan in some) for some in plans)
