"""A long run: `python -m rewrites [COUNT [SEED]]` in tests/ draws COUNT hits of each claim, and prints what it drew."""

import sys

from dnnl_graph_ops.ir.rewrites import REWRITES

from .harness import Count, prove


def main(count: int = 50, seed: int = 1) -> None:
    graphs = conditions = 0
    for name, rewrite in REWRITES.items():
        counts = Count()
        for unmet in (None, *rewrite.conditions):
            prove(name, unmet, count, seed, counts=counts)
        declined = ", ".join(f"{counts.reports[name, unmet]} {unmet!r}" for unmet in rewrite.conditions)
        print(
            f"{name}: {counts.graphs} graphs, fired {counts.reports[name, '']}; declined {declined or 'never'}",
            flush=True,
        )
        graphs, conditions = graphs + counts.graphs, conditions + len(rewrite.conditions)
    print(f"{len(REWRITES)} rewrites, {conditions} conditions, {graphs} graphs, 0 wrong (seed {seed})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
