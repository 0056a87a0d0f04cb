"""Checks what choices of algorithms cost by recorded times; to be run after a fit, and where forms count otherwise.

Each file of times/ says on which CPU, with which library, and how far layers were halved; a row holds the least seconds
of every form of one layer, which ran in turn. `bench.fit --save` writes such files, `nearest.py` regresses them.

Exits with 1 where a mean or a single loss is above its limit, or where the package's rows are not those of these files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import nearest as bench
import numpy as np

from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.bench import fit, regression, times
from dnnl_graph_ops.bench import rates as bench_rates
from dnnl_graph_ops.convolution.problem import DGRAD, FPROP, WGRAD
from dnnl_graph_ops.cost import fits, nearest
from dnnl_graph_ops.cost import model as cost
from dnnl_graph_ops.runtime import cpu, rates

RELEASE = "3.2.0"
TIMES = Path(__file__).with_name("times")
DIRECTIONS = (DGRAD, FPROP, WGRAD)
# what choosing may cost in the mean, and once: dgrad, fprop, wgrad
LIMITS = {
    "zen5_f32": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_f32_both_ops": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_f32_whole": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_bf16": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_bf16_whole": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "zen5_f16": ((1.03, 2), (1.03, 2), (1.03, 2)),
    "granite_rapids_f32": ((1.02, 2), (1.02, 2), (1.02, 2)),
    # builtin bf16 kernels were slower then
    "granite_rapids_bf16": ((1.02, 2), (1.025, 2), (1.02, 2)),
    "granite_rapids_f16": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "emerald_rapids_amx_bf16": ((1.025, 2), (1.02, 3), (1.02, 2)),
    "emerald_rapids_amx_f16": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "sapphire_rapids_f32": ((1.02, 2), (1.02, 2), (1.02, 2)),
    "sapphire_rapids_bf16": ((1.02, 2), (1.03, 2), (1.02, 2)),
    "sapphire_rapids_f16": ((1.02, 2), (1.02, 2), (1.02, 2)),
}
# machines that constants were fitted to
OWN = ("zen5", "granite_rapids")
# what the package's tables of recorded layers are made of: files of times, the first of the constants' machine
MADE_OF = {
    "avx512_f32": ("zen5_f32_both_ops", "zen5_f32", "zen5_f32_whole", "zen5_f16", "sapphire_rapids_f32"),
    "avx512_bf16": ("zen5_bf16", "zen5_bf16_whole"),
    "avx512_amx_f32": ("granite_rapids_f32", "sapphire_rapids_f32"),
    "avx512_amx_bf16": ("granite_rapids_bf16", "emerald_rapids_amx_bf16", "sapphire_rapids_bf16"),
    "avx512_amx_f16": ("granite_rapids_f16", "emerald_rapids_amx_f16", "sapphire_rapids_f16"),
}
# by what layers of other names say of each: what corrections are worth for a layer that nobody recorded
LIMITS_BY_OTHERS = {
    "avx512_f32": (1.05, 1.06, 1.045),
    "avx512_bf16": (1.055, 1.05, 1.045),
    "avx512_amx_f32": (1.055, 1.055, 1.05),
    "avx512_amx_bf16": (1.075, 1.08, 1.065),
    "avx512_amx_f16": (1.04, 1.055, 1.025),
}

# machines that are left out: the file of constants that is taken away, with its recorded rows, so that those of a
# smaller instruction set stand in, and the machine's rates alone are known; and what choosing may cost in the mean, by
# file of times. None: no more than without rates
LEFT_OUT: dict[str, tuple[str, dict[str, tuple[float, float, float] | None]]] = {
    "emerald_rapids": ("", {"f32": (1.036, 1.052, 1.028), "bf16": (1.07, 1.04, 1.04), "f16": (1.05, 1.06, 1.02)}),
    "emerald_rapids_amx": ("", {"bf16_held_out": (1.04, 1.045, 1.06)}),
    "sapphire_rapids": ("avx512_amx", {"f32": None, "bf16": None, "f16": None}),
    "granite_rapids": ("avx512_amx", {"f32": None, "bf16": None, "f16": None}),
    "zen5": ("avx512", {"f32_both_ops": None, "bf16": None}),
}
PACE = 1.2  # how far it may be off
# layers of 8-bit integers, by the instruction set of their products: a file of times for each; what choosing may cost
INTEGERS = {"amxint8": "emerald_rapids_s8_amx", "avx512vnni": "zen5_s8_vnni", "avx2words": "zen5_s8_words"}
LIMIT_OF_INTEGERS = 1.05


def read(name: str) -> times.Recorded:
    return times.read(TIMES / f"{name}.json")


def judged(what: str, losses: list[regression.Loss], limit: float, once: float = np.inf) -> bool:
    """Prints a row; whether it keeps its limits."""
    mean, worst = regression.mean(losses), max(losses)
    keeps = mean < limit and worst.times < once
    print(
        f"{'' if keeps else 'ABOVE ITS LIMIT: '}{what}: {mean - 1:.1%} in the mean; "
        f"{worst.times - 1:.0%} at {worst.where}, {worst.took} for {worst.best}"
    )
    return keeps


def losses(
    recorded: times.Recorded, taken: Callable[[fit.Sample], fit.Sample] = lambda sample: sample
) -> dict[str, list[regression.Loss]]:
    """The loss of choosing by the present estimates in each row, by direction."""
    by_direction: dict[str, list[regression.Loss]] = {direction: [] for direction in DIRECTIONS}
    for sample in map(taken, fit.samples(recorded)):
        by_direction[sample.direction].append(fit.loss(sample, fit.present(sample), fit.factors(sample)))
    return by_direction


def by_estimates() -> Iterator[bool]:
    for name, limits in LIMITS.items():
        for (direction, found), limit in zip(losses(read(name)).items(), limits, strict=True):
            yield judged(f"{name}, {direction}", found, *limit)


def by_pace() -> Iterator[bool]:
    """Whether estimates exceed measured seconds by what the package's constants say of their own machines."""
    for name in (name for name in LIMITS if name.startswith(OWN)):
        by_direction: dict[str, list[float]] = {direction: [] for direction in DIRECTIONS}
        for sample in fit.samples(read(name)):
            factors, constants = nearest.factors(sample.problem, sample.env), fit.present(sample)
            estimates = [fit.estimated(form, sample, constants) * factors.get(form.name, 1.0) for form in sample.forms]
            by_direction[sample.direction].append(min(estimates) / min(form.seconds for form in sample.forms))
        for direction, found in by_direction.items():
            stated = fits.pace(sample.env.isa, sample.env.release, sample.dtype, direction)
            if stated != 1:
                median = float(np.median(found))
                print(f"{name}, {direction}: estimates are {median:.2f} times the measured seconds, {stated} as stated")
                yield 1 / PACE < median / stated < PACE


def by_implied_rates() -> Iterator[bool]:
    """Whether the files of constants state the rates that the constants imply."""
    for key in sorted({row.fit for row in cpu.SETS}):
        file = fits.package(key)
        implied: dict[str, float] = {}
        for dtype in file.constants.keys() - {fits.INTEGERS}:
            implied |= bench_rates.by_constants(file.isa, RELEASE, dtype)
        rounded = {unit: round(rate, 1) for unit, rate in implied.items()}
        stated = all(abs(file.rates.get(unit, 0.0) / rate - 1) < 0.02 for unit, rate in rounded.items())
        print(f"{'' if stated else 'NOT AS STATED: '}{key}: the constants imply the rates {json.dumps(rounded)}")
        yield stated


def by_rates() -> Iterator[bool]:
    """Whether the rates of a machine that is left out mend the constants of another one."""
    for machine, (key, files) in LEFT_OUT.items():
        with without(key):
            for name, limits in files.items():
                rows = fit.samples(read(f"{machine}_{name}"))
                for i, direction in enumerate(DIRECTIONS):
                    mine = [sample for sample in rows if sample.direction == direction]
                    before, by = (losses_by(mine, record) for record in (None, rates.package(machine)))
                    mean = regression.mean(before)
                    limit = limits[i] if limits is not None else mean + 2e-3
                    yield judged(f"{machine} left out, {name} {direction}, {mean - 1:.1%} without rates", by, limit)


@contextmanager
def without(key: str) -> Iterator[None]:
    """Takes away the package's constants of a key."""
    there = fits.package_file
    fits.package_file = lambda name: there("absent" if name == key else name)
    try:
        forget()
        yield
    finally:
        fits.package_file = there
        forget()


def forget() -> None:
    """Empties what holds constants."""
    fits.forget()
    for function in (fits.package, cost.corrections):
        function.cache_clear()


def losses_by(rows: list[fit.Sample], record: rates.Rates | None) -> list[regression.Loss]:
    """The loss of choosing in each row on the CPU of a record."""
    there = [sample._replace(env=replace(sample.env, record=record)) for sample in rows]
    return [fit.loss(sample, fit.present(sample), fit.factors(sample)) for sample in there]


def by_other_layers() -> Iterator[bool]:
    """All rows of a layer are left out of what corrects its estimates; and the package's tables are those of today."""
    for name, limits in LIMITS_BY_OTHERS.items():
        if name in ("avx512_f32", "avx512_bf16") and not kernels.bf16_isa()[0]:
            print(f"{name}: left out, as this CPU lacks the vectors of its forms")
            continue
        samples = bench.gathered([read(part) for part in MADE_OF[name]])
        key, dtype = name.rsplit("_", 1)
        for direction, limit in zip(DIRECTIONS, limits, strict=True):
            rows = nearest.read(key, dtype, direction)
            assert rows is not None
            mine = [(sample, away) for sample, away in samples if sample.direction == direction]
            regressed = bench.regressed(mine)
            every = bench.losses([sample for sample, _ in mine], regressed.others)
            here = [loss for loss, (_, away) in zip(every, mine, strict=True) if not away]
            yield judged(f"{name}, {direction}, by other layers", here, limit)
            current = (
                rows.forms == regressed.forms
                and np.allclose(rows.features, regressed.features, rtol=0, atol=0.01)
                and np.allclose(rows.weights, regressed.weights, rtol=0, atol=0.05)
            )
            if not current:
                print(f"{name}, {direction}: forms count otherwise; make the table again by nearest.py")
            yield current


def by_integers() -> Iterator[bool]:
    """Whether choosing in layers of integers keeps its limit: by the package's prices, and by those of other layers."""
    for isa, name in INTEGERS.items():
        if isa != kernels.int8_isa()[0]:
            print(f"{name}: left out, as this process does not multiply integers by {isa}")
            continue
        rows = fit.samples(read(name))
        yield judged(name, [fit.loss(sample, fit.present(sample)) for sample in rows], LIMIT_OF_INTEGERS)
        others = [fit.loss(sample, constants) for sample, constants in regression.crossed(rows, fit.fit)]
        yield judged(f"{name}, by other layers", others, LIMIT_OF_INTEGERS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    # the package's constants, not those that were fitted to this machine
    fits.user_file = lambda key: Path(os.devnull) / key
    verdicts = [*by_estimates(), *by_pace(), *by_other_layers(), *by_implied_rates(), *by_rates(), *by_integers()]
    print(f"{verdicts.count(False)} of {len(verdicts)} failed")
    return int(not all(verdicts))


if __name__ == "__main__":
    sys.exit(main())
