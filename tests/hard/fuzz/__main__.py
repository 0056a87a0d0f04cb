"""The child process of the fuzzers; see the package for its arguments."""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import sys
import warnings
import zlib
from pathlib import Path

from . import TARGETS
from .recent import Recent
from .target import LONGEST, Target, place_of

ADDRESS_SPACE = 6 << 30
RESIDENT_MB = 3000
# a deadlock, or a machine that is much too busy
SECONDS_UNTIL_HUNG = 60
# resident bytes that a process may have gained since a fifth of its cases
GROWTH = 96 << 20


def watched(target: Target, data: bytes) -> bool:
    """The judgement of a case; the process ends if there is none in time."""
    faulthandler.dump_traceback_later(SECONDS_UNTIL_HUNG, exit=True)
    try:
        return target.judge(data)
    finally:
        faulthandler.cancel_dump_traceback_later()


def repeat(target: Target, files: list[str]) -> int:
    for name in files:
        print(f"{target.name} {name}", flush=True)
        print("refused" if watched(target, Path(name).read_bytes()) else "done", flush=True)
    return 0


def resident() -> int:
    """Bytes of this process in memory once the caches are empty."""
    import dnnl_graph_ops as dgo

    dgo.clear_caches()
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def numbered(target: Target, seed: int, start: int, stop: int) -> int:
    """Prints the number of each case before it runs, FAILURE for each that breaks the rules, DONE at the end."""
    failures, refused = 0, 0
    begin, early = start + max((stop - start) // 5, 1), 0
    for number in range(start, stop):
        again = f"python -m hard.fuzz {target.name} {seed} {number} {number + 1}"
        print(f"CASE {again}", flush=True)
        try:
            refused += watched(target, target.case(seed, number))
        except Exception as error:
            failures += 1
            print(f"FAILURE {number}: {place_of(error)}: {str(error)[:300]!r}: {again}")
        if number == begin:
            early = resident()
    grown = resident() - early if early else 0
    if grown > GROWTH:
        failures += 1
        print(f"FAILURE {start} to {stop}: the process grew by {grown >> 20} MB")
    print(f"DONE {stop - start} cases, {refused} refused, {failures} failures, grew by {grown >> 10} KB", flush=True)
    return int(failures > 0)


def guided(target: Target, seconds: int, into: Path) -> int:
    """atheris. Errors are written to `into` and go on; a signal, a hang or too much memory ends the process.

    What ran last is in `into`/recent: libFuzzer's own handlers of signals allocate, which a damaged heap forbids.
    """
    import random

    import atheris

    # before anything of the package is imported
    with atheris.instrument_imports(include=["dnnl_graph_ops"]):
        import dnnl_graph_ops
        import dnnl_graph_ops.compile
        import dnnl_graph_ops.frontends.onnx  # noqa: F401

        one = target.judge
        one(b"")
    seen: set[str] = set()
    recent = Recent(into / "recent")

    def run(data: bytes) -> None:
        recent.note(data)
        try:
            one(data)
        except Exception as error:
            place = place_of(error)
            if place not in seen:
                seen.add(place)
                file = into / f"error-{zlib.crc32(place.encode()):08x}"
                file.write_bytes(data)
                print(f"FINDING {place}: {str(error)[:300]!r}: python -m hard.fuzz {target.name} {file}", flush=True)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        made = atheris.Mutate(data, max_size) if rng.random() < 0.2 else target.change(rng, data)
        return made[:max_size]

    corpus = into / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed{number}").write_bytes(seed)
    options = {
        "max_total_time": seconds,
        "timeout": SECONDS_UNTIL_HUNG,
        "rss_limit_mb": RESIDENT_MB,
        "max_len": LONGEST,
        "artifact_prefix": f"{into}/",
        "print_final_stats": 1,
        **{f"handle_{signal}": 0 for signal in ("segv", "bus", "abrt", "ill", "fpe")},
    }
    atheris.Setup(
        ["hard.fuzz", *(f"-{name}={value}" for name, value in options.items()), str(corpus)],
        run,
        **({"custom_mutator": change} if target.has_mutator else {}),
    )
    faulthandler.enable()
    atheris.Fuzz()
    return 0


def main(arguments: list[str]) -> int:
    name, *rest = arguments
    target = TARGETS[name]
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE if hard < 0 else min(ADDRESS_SPACE, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    if rest[:1] == ["--seconds"]:
        import tempfile

        into = Path(rest[3]) if rest[2:3] == ["--into"] else Path(tempfile.mkdtemp(prefix="hard_fuzz_"))
        return guided(target, int(rest[1]), into)
    faulthandler.enable()
    if rest and all(word.isdigit() for word in rest):
        return numbered(target, *map(int, rest))
    return repeat(target, rest)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
