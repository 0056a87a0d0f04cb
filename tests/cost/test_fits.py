"""The fitted constants: those of the package, and a user's own, which come first if they are of this machine."""

import json
import os
import warnings
from datetime import date

import pytest
from constants import USER_FILE, forget

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import filtering
from dnnl_graph_ops.algorithms.table import ALGORITHMS, candidates
from dnnl_graph_ops.bench.times import Elsewhere
from dnnl_graph_ops.compile import measure_rates
from dnnl_graph_ops.cost import fits, speeds
from dnnl_graph_ops.cost import model as cost
from dnnl_graph_ops.runtime import cpu, rates
from dnnl_graph_ops.runtime.cpuinfo import cpu_family, cpu_model

ISA, RELEASE = "avx512_core_bf16", "3.2.0"
FAMILIES = {form.key for form in ALGORITHMS if form.is_fitted}
OWN = filtering.DIRECT["dgrad"].family


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """An empty cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fits, "user_file", USER_FILE)
    forget()
    yield tmp_path / "dnnl_graph_ops" / "fits"
    forget()


@pytest.mark.parametrize("key", sorted({row.fit for row in cpu.SETS}))
def test_the_packages_files(key):
    """A file for every key of the table, each whole, and each says where its numbers are from."""
    content = json.loads(fits.package_file(key).read_text("utf-8"))
    assert {"cpu", "isa", "onednn", "threads", "rows", "constants"} <= content.keys()
    assert fits.keys(content["isa"])[0] == key
    read = fits.parse(content)
    assert "f32" in read
    for dtype, prices in read.items():
        assert prices.keys() == FAMILIES or dtype == fits.INTEGERS


@pytest.mark.parametrize("row", cpu.SETS, ids=lambda row: row.name)
def test_every_native_dtype_has_constants_of_its_set(row):
    f32 = fits.find(row.name, RELEASE, "f32")
    assert f32 is fits.package(row.fit).constants["f32"]
    if "bf16" in cpu.native(row.name):
        assert fits.find(row.name, RELEASE, "bf16") is fits.package(row.fit).constants["bf16"]


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("row", cpu.SETS, ids=lambda row: row.name)
def test_every_combination_has_constants_and_says_whose(row, dtype):
    found = fits.find(row.name, RELEASE, dtype)
    assert found.keys() == FAMILIES
    isa, fitted = fits.origin(row.name, RELEASE, dtype)
    assert isa in {fits.package(key).isa for key in fits.keys(row.name)}
    assert found is next(
        file.constants[fitted] for key in fits.keys(row.name) if (file := fits.package(key)).isa == isa
    )
    # of the dtype itself wherever a set below has it, and never of a wider one than that needs
    names = {name for key in fits.keys(row.name) for name in fits.package(key).constants}
    assert fitted == next(name for name in fits.INSTEAD.get(dtype, ("f32",)) if name in names)


@pytest.mark.parametrize(
    ("isa", "dtype", "expected"),
    [
        ("avx512_core_bf16", "f32", ("avx512_core_bf16", "f32")),
        ("avx512_core_fp16", "bf16", ("avx512_core_bf16", "bf16")),
        ("avx512_core_fp16", "f16", ("avx512_core_bf16", "bf16")),
        ("avx2_vnni_2", "bf16", ("avx2", "f32")),
        ("sse41", "f32", ("avx2", "f32")),
        ("avx10_2_amx_2", "f16", ("avx512_core_amx", "f16")),
        ("isa 0x1", "f32", ("avx2", "f32")),
    ],
)
def test_whose_constants(isa, dtype, expected):
    assert fits.origin(isa, RELEASE, dtype) == expected


def test_a_set_without_a_file_takes_the_nearest_below(monkeypatch, folder):
    there = fits.package_file
    monkeypatch.setattr(fits, "package_file", lambda key: there("absent" if key == "avx512_amx" else key))
    fits.package.cache_clear()
    assert fits.find("avx512_core_amx", RELEASE, "f32") == fits.package("avx512").constants["f32"]
    fits.package.cache_clear()


def mine(**changes):
    """A user's file in which everything costs the same."""
    prices = {direction: {} for _, direction in FAMILIES}
    for family, direction in FAMILIES:
        prices[direction][family] = [1e-9] * fits.FIELDS
    return {
        "cpu": cpu_model(),
        "cpu_family": cpu_family(),
        "isa": ISA,
        "onednn": RELEASE,
        "constants": {"f32": prices},
        **changes,
    }


def put(folder, text):
    folder.mkdir(parents=True)
    (folder / "avx512.json").write_text(text, "utf-8")


def is_mine(fit):
    return set(fit.values()) == {(1e-9,) * fits.FIELDS}


def test_a_users_file_comes_first(folder):
    assert fits.recorded(ISA, RELEASE, "f32") == ("avx512", "f32")
    fits.source.cache_clear()
    put(folder, json.dumps(mine()))
    assert is_mine(fits.find(ISA, RELEASE, "f32"))
    # the package's recorded layers correct the package's constants
    assert fits.recorded(ISA, RELEASE, "f32") is None
    assert fits.recorded(ISA, RELEASE, "bf16") == ("avx512", "bf16")
    assert fits.find(ISA, RELEASE, "bf16") is fits.package("avx512").constants["bf16"]


@pytest.mark.parametrize(
    "change", [{"cpu": "another"}, {"cpu_family": "0/0/0"}, {"onednn": "3.3.0"}, {"isa": "avx512_core"}]
)
def test_one_of_another_machine_or_release_does_not(folder, change):
    put(folder, json.dumps(mine(**change)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_mine(fits.find(ISA, RELEASE, "f32"))


def damaged():
    lacking = mine()
    del lacking["constants"]["f32"]["dgrad"][OWN]
    negative, infinite, words, short = mine(), mine(), mine(), mine()
    negative["constants"]["f32"]["dgrad"][OWN] = [-1e-9] * fits.FIELDS
    infinite["constants"]["f32"]["dgrad"][OWN] = [float("inf")] * fits.FIELDS
    words["constants"]["f32"]["dgrad"][OWN] = ["a"] * fits.FIELDS
    short["constants"]["f32"]["dgrad"][OWN] = [1e-9]
    no_mapping = mine(constants=[1, 2])
    older = mine()
    older["constants"]["f32"]["forward"] = older["constants"]["f32"].pop("dgrad")
    return ["", "{", "[]", "7", '{"cpu": 3}', "[" * 5000, "\x00" * 40, json.dumps(mine()) + " " * (1 << 17)] + [
        json.dumps(content) for content in (lacking, negative, infinite, words, short, no_mapping, older)
    ]


@pytest.mark.parametrize("text", damaged(), ids=range(len(damaged())))
def test_a_damaged_one_is_named_and_ignored(folder, text):
    put(folder, text)
    with pytest.warns(RuntimeWarning, match=r"avx512\.json are damaged"):
        assert not is_mine(fits.find(ISA, RELEASE, "f32"))


def test_what_is_no_file_is_ignored(folder):
    (folder / "avx512.json").mkdir(parents=True)
    with pytest.warns(RuntimeWarning):
        fits.find(ISA, RELEASE, "f32")
    fits.source.cache_clear()
    (folder / "avx512.json").rmdir()
    os.mkfifo(folder / "avx512.json")
    with pytest.warns(RuntimeWarning):
        fits.find(ISA, RELEASE, "f32")


def test_pace_is_that_of_the_constants(folder):
    """Of dtypes of the package's file; 1 where nobody recorded it, and for constants that a user fitted."""
    content = json.loads(fits.package_file("avx512").read_text("utf-8"))
    for dtype, directions in content["pace"].items():
        for direction, times in directions.items():
            assert fits.pace(ISA, RELEASE, dtype, direction) == times > 1
    assert fits.pace("avx2", RELEASE, "f32", "dgrad") == 1
    folder.mkdir(parents=True)
    mine = {**content, "cpu": cpu_model(), "cpu_family": cpu_family(), "isa": ISA, "onednn": RELEASE}
    (folder / "avx512.json").write_text(json.dumps(mine), "utf-8")
    fits.source.cache_clear()
    assert fits.pace(ISA, RELEASE, "f32", "dgrad") == 1


@pytest.mark.parametrize("key", sorted({row.fit for row in cpu.SETS}))
def test_every_file_states_the_rates_that_its_constants_imply(key):
    """Of each dtype that it has constants of, and for each unit that multiplies in it."""
    file = fits.package(key)
    units = {f"{op} {dtype}" for op in ("convolution", "MatMul") for dtype in file.constants}
    units -= {f"{op} {fits.INTEGERS}" for op in ("convolution", "MatMul")}
    assert units | {rates.BUILTIN_F32} <= file.rates.keys() <= measure_rates.UNITS.keys()
    assert not file.machine or rates.package(file.machine).machine.isa == file.isa


class TestCorrections:
    """Estimates by constants of a Zen 5 on a CPU of other rates."""

    @staticmethod
    def of(dtype, isa=ISA, **factors):
        """The corrections where units are so many times as slow, by the names of units with _ for a space."""
        before = fits.package("avx512").rates
        slower = {unit: rate / factors.get(unit.replace(" ", "_"), 1) for unit, rate in before.items()}
        if dtype == "f16":
            slower |= {f"{op} f16": slower[f"{op} bf16"] for op in ("convolution", "MatMul")}
        machine = rates.Machine("", "", isa, RELEASE)
        return cost.corrections(isa, RELEASE, dtype, rates.Rates(machine, "", slower, ""))

    def test_a_cpu_of_the_same_rates_is_left_alone(self):
        assert set(self.of("bf16").values()) == {1.0}

    def test_the_machine_of_the_constants_is_left_alone(self):
        assert cost.corrections(ISA, RELEASE, "bf16", rates.package("zen5")) == {}

    def test_a_cpu_that_is_slower_throughout_is_left_alone(self):
        every = {unit.replace(" ", "_"): 3 for unit in fits.package("avx512").rates}
        assert set(self.of("bf16", **every).values()) == {1.0}

    @pytest.mark.parametrize(
        ("slower", "factor"),
        [(1.4, 1), (1.6, 2**0.5), (2.0, 2), (2.3, 2), (3.4, 4), (8.0, 8), (0.6, 1), (0.45, 0.6), (0.1, 0.6)],
    )
    def test_steps(self, slower, factor):
        by_unit = self.of("bf16", convolution_bf16=slower)
        assert by_unit["convolution bf16"] == pytest.approx(factor)
        assert {by_unit[unit] for unit in by_unit if unit != "convolution bf16"} == {1.0}

    def test_only_products_are_faster_on_a_faster_unit(self):
        counts, prices = cost.Counts(1e9, 2e7, 0, 0, 0), (1e-11, 2e-10)
        plain, faster, slower = (cost.estimate(counts, prices, 1, factor) for factor in (1.0, 0.6, 2.0))
        assert faster == pytest.approx(plain - 0.4 * 1e9 * 1e-11) and slower == pytest.approx(2 * plain)

    def test_constants_of_another_dtype_are_corrected_by_the_rates_of_that(self):
        """The Zen 5 has no f16: its constants of bf16 stand for them."""
        by_unit = self.of("f16", isa="avx512_core_fp16", convolution_bf16=3)
        assert by_unit["convolution f16"] == pytest.approx(2 * 2**0.5) and by_unit["MatMul f16"] == 1.0

    def test_the_users_own_constants_are_not_corrected(self, folder):
        put(folder, json.dumps(mine()))
        assert self.of("f32", MatMul_f32=4) == {}

    def test_every_algorithm_names_a_unit_that_is_measured(self):
        env = Elsewhere(dgo.engine("cpu"), 1, name=ISA)
        for dtype in ("f32", "bf16"):
            problem = measure_rates.layer(dtype, run=False)
            units = {
                algorithm.unit(problem, env)
                for algorithm in ALGORITHMS
                if algorithm.direction == problem.direction and not algorithm.on_integers
            }
            assert units <= measure_rates.UNITS.keys()


@pytest.mark.choice
@pytest.mark.parametrize(("machine", "narrow"), [("emerald_rapids", False), ("zen5", True)])
def test_products_in_bf16_are_chosen_where_they_pay(machine, narrow):
    """Of one instruction set: products in bf16 take twice the time of f32's on the first, half of it on the second."""
    env = Elsewhere(dgo.engine("cpu"), 1, name="avx512_core_bf16", record=rates.package(machine))
    problem = measure_rates.layer("bf16", run=False)
    best = candidates(problem, env)[0][0]
    assert best.unit(problem, env).endswith("bf16") == narrow


@pytest.mark.parametrize("name", speeds.TABLE)
def test_every_speed_says_of_what_and_on_which_machine(name):
    seconds, what, machine, day = speeds.TABLE[name]
    assert 1e-12 < seconds < 1 and what and machine and date.fromisoformat(day)
