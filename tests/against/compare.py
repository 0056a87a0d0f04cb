"""Two dumps held against each other: for every net that differs the first step that does, as it was and as it is."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

RENAMES = Path(__file__).with_name("renames.json")
Record = Mapping[str, Any]
_OFFSET = re.compile(r"(?<= bytes) at \d+")


@dataclass(frozen=True)
class Difference:
    """`lines`: for a reader. `kind`: plan, results, refusal, or missing in one of the versions."""

    net: str
    kind: str
    lines: tuple[str, ...]


def read(file: Path) -> dict[str, Record]:
    """A dump's records by net."""
    with file.open(encoding="utf-8") as lines:
        return {record["net"]: record for record in map(json.loads, lines)}


def renamed(value: Any, names: Mapping[str, str], labels: Mapping[str, str]) -> Any:
    """`value` with new names: `names` of kernels, arguments and ops as a whole, `labels` as words of any text."""
    if isinstance(value, str):
        for old, new in labels.items():
            value = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, value)
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {names.get(key, key): renamed(item, names, labels) for key, item in value.items()}
    return [renamed(item, names, labels) for item in value] if isinstance(value, list) else value


def differences(old: Mapping[str, Record], new: Mapping[str, Record]) -> list[Difference]:
    return [item for net in {**old, **new} if (item := difference(net, old.get(net), new.get(net)))]


def difference(net: str, old: Record | None, new: Record | None) -> Difference | None:
    if old is None or new is None:
        return Difference(net, "missing", (f"only the {'old' if new is None else 'new'} version has it",))
    if old["refused"] != new["refused"]:
        return Difference(net, "refusal", tuple(_was_is("", old["refused"] or "runs", new["refused"] or "runs")))
    plan = tuple(_of_plans(old["plans"], new["plans"]))
    results = ("results differ",) if old["results"] != new["results"] else ()
    if not plan and not results:
        return None
    return Difference(net, "plan" if plan else "results", (*plan, *results))


def _of_plans(old: Sequence[Record], new: Sequence[Record]) -> Iterator[str]:
    if len(old) != len(new):
        yield from _was_is("number of plans", len(old), len(new))
    for number, (before, after) in enumerate(zip(old, new, strict=False)):
        if before == after:
            continue
        where = f"plan {number + 1} of {len(new)}, " if len(new) > 1 else ""
        yield from _was_is(f"{where}arrays", before["arrays"], after["arrays"])
        yield from _was_is(f"{where}threads", before["threads"], after["threads"])
        yield from _of_steps(where, before["steps"], after["steps"])
        return


def _of_steps(where: str, old: Sequence[Record], new: Sequence[Record]) -> Iterator[str]:
    count = max(len(old), len(new))
    differing = [i for i in range(count) if old[i : i + 1] != new[i : i + 1]]
    if not differing:
        return
    # a buffer more or less moves all others: the first step that differs in anything else says more
    first = next((i for i in differing if _unplaced(old[i : i + 1]) != _unplaced(new[i : i + 1])), differing[0])
    yield f"{where}step {first + 1} ({len(old)} steps -> {len(new)}; {len(differing)} differ)"
    before, after = (steps[first] if first < len(steps) else {} for steps in (old, new))
    if before.get("label") == after.get("label"):
        yield f"  {after['label']!r}"
    for path, (was, now) in leaves(before, after):
        yield from (f"  {line}" for line in _was_is(path, was, now))


def _unplaced(steps: Sequence[Record]) -> str:
    """Without where in scratch memory the operands lie."""
    return _OFFSET.sub("", json.dumps(steps))


def leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The innermost parts that differ, by their path: "made by/copy/src_strides"."""
    if isinstance(old, Mapping) and isinstance(new, Mapping) and old and new:
        for key in {**old, **new}:
            yield from leaves(old.get(key), new.get(key), f"{path}/{key}" if path else key)
    elif _nested(old) and _nested(new) and len(old) == len(new):
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from leaves(before, after, f"{path}[{i}]")
    elif old != new:
        yield path, (old, new)


def _nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, (list, Mapping, str)) for item in value)


def _was_is(name: str, old: Any, new: Any) -> list[str]:
    if old == new:
        return []
    return [*([f"{name}:"] if name else []), f"  was {_short(old)}", f"  is  {_short(new)}"]


def _short(value: Any, most: int = 400) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def expected(file: Path | None) -> list[str]:
    """Globs of nets and rows that may differ: a line each, what moved and why behind '#'."""
    lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
    return [glob for line in lines if (glob := line.partition("#")[0].strip())]


def allowed(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def unexpected(found: Sequence[Difference], globs: Sequence[str]) -> list[Difference]:
    return [item for item in found if not allowed(item.net, globs)]


def compared(old: Path, new: Path, renames: Path = RENAMES) -> tuple[int, list[Difference]]:
    """The number of nets, and what differs between the dumps in two files."""
    table = json.loads(renames.read_text(encoding="utf-8"))
    before = {net: renamed(record, table["names"], table["labels"]) for net, record in read(old).items()}
    after = read(new)
    return len(after), differences(before, after)
