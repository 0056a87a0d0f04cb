"""Which tests run: the default tier, those of --all, and every random case with --random=full."""

from itertools import combinations
from pathlib import Path

import pytest

# marks of tests that the default tier leaves to --all
LEFT_OUT = ("child", "corpus", "docs", "bench", "cookbook", "slow")
BY_TIER = {"amount", "start", "number"}  # what tests take of which each tier has more


def tier(config: pytest.Config) -> int:
    """0 by default, 1 with --all or --hard, 2 with --random=full."""
    option = config.option
    return 2 if option.random == "full" else int(option.all or option.hard)


def amount(config: pytest.Config, *numbers: int) -> int:
    """The tier's number, of cases to draw, say: three numbers, or two if the default's and --all's are the same."""
    return numbers[max(0, tier(config) + len(numbers) - 3)]


def split(config: pytest.Config, items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """`items` that run and those that do not. An -m expression alone decides; tests named by node id always run.

    With --rest those that the default tier runs, in the same way, do not.
    """
    rest = config.option.rest
    if config.option.markexpr or (tier(config) and not rest):
        return items, []
    names = [argument.partition("::")[::2] for argument in config.args if "::" in argument]
    left_out = {item for item in items if any(map(item.get_closest_marker, LEFT_OUT))} | _uncovered(items)
    left_out -= {item for item in left_out if any(_is_named(item, *name) for name in names)}
    if rest:
        left_out = {item for item in items if item not in left_out and not BY_TIER & set(item.fixturenames)}
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]


def _is_named(item: pytest.Item, path: str, name: str) -> bool:
    own = item.nodeid.partition("::")[2]
    return item.path.name == Path(path).name and own.startswith(name) and own[len(name) :][:1] in ("", "[", ":")


def _uncovered(items: list[pytest.Item]) -> set[pytest.Item]:
    """Cases of each test marked `sweep` beyond the default tier's selection."""
    sweeps: dict[object, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sweep"):
            sweeps.setdefault(item.function, []).append(item)
    return {item for cases in sweeps.values() for item in set(cases) - set(_selection(cases))}


def _selection(cases: list[pytest.Item]) -> list[pytest.Item]:
    mark = cases[0].get_closest_marker("sweep")
    if "every" in mark.kwargs:
        return cases[:: mark.kwargs["every"]]
    return covering({case: _axes(case) for case in cases}, *mark.args)


def _axes(case: pytest.Item) -> dict[tuple[str, ...], tuple[int, ...]]:
    """The case's values by the names that one `parametrize` gives together: {("rows", "columns"): ids of both}."""
    params = case.callspec.params
    texts = [mark.args[0] for mark in case.iter_markers("parametrize")]
    together = [tuple(n.strip() for n in text.split(",")) if isinstance(text, str) else tuple(text) for text in texts]
    alone = [(name,) for name in params if not any(name in names for names in together)]
    return {names: tuple(id(params[name]) for name in names) for names in together + alone}


def covering(cases: dict, strength: int = 2) -> list:
    """Few of `cases`, each a dict from axes to values, with every `strength` values that stand together in one."""
    rest = {case: set(combinations(sorted(axes.items()), strength)) for case, axes in cases.items()}
    selection = []
    while rest:
        best = max(rest, key=lambda case: len(rest[case]))
        selection.append(best)
        covered = rest.pop(best)
        rest = {case: new for case, values in rest.items() if (new := values - covered)}
    return selection
