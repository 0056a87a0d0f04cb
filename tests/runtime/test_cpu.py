"""The table of instruction sets: what is native with one, known or not."""

from types import SimpleNamespace

import pytest

from dnnl_graph_ops.cost import fits
from dnnl_graph_ops.runtime import cpu, cpuinfo
from dnnl_graph_ops.runtime.info import info

VNNI = {"int8"}
# as dnnl_types.h numbers them, and what the library computes natively with each
NATIVE = {
    "sse41": (0x1, set()),
    "avx": (0x3, set()),
    "avx2": (0x7, set()),
    "avx2_vnni": (0xF, VNNI),
    "avx2_vnni_2": (0x1F, VNNI),
    "avx512_core": (0x27, set()),
    "avx512_core_vnni": (0x67, VNNI),
    "avx512_core_bf16": (0xE7, VNNI | {"bf16"}),
    "avx512_core_fp16": (0x1EF, VNNI | {"bf16", "f16"}),
    "avx512_core_amx": (0xFEF, VNNI | {"bf16", "f16", "amx"}),
    "avx512_core_amx_fp16": (0x1FEF, VNNI | {"bf16", "f16", "amx"}),
    "avx10_2": (0x201FF, VNNI | {"bf16", "f16"}),
    "avx10_2_amx_2": (0x22FFF, VNNI | {"bf16", "f16", "amx"}),
}


def engine_of(bits):
    """An engine whose library reports this instruction set."""
    library = SimpleNamespace(effective_cpu_isa=lambda: bits)
    return SimpleNamespace(kind="cpu", runtime=SimpleNamespace(_library=library))


@pytest.mark.parametrize(("limit", "known"), [("", True), ("AVX2", True), ("default", True), ("avx3", False)])
def test_limits_that_onednn_ignores(limit, known, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert cpu.is_known(limit) is known
    assert ("oneDNN ignores" in info()["cpu"]) is not known


@pytest.mark.parametrize("name", NATIVE)
def test_every_set(name):
    bits, native = NATIVE[name]
    engine = engine_of(bits)
    assert cpu.isa(engine) == name
    assert cpu.native(name) == native
    assert [cpu.computes_natively(dtype, engine) for dtype in ("f32", "bf16", "f16")] == [
        True, "bf16" in native, "f16" in native,
    ]  # fmt: skip


def test_the_table_has_every_set_behind_those_that_it_contains():
    assert {row.name: row.bits for row in cpu.SETS} == {name: bits for name, (bits, _) in NATIVE.items()}
    for i, row in enumerate(cpu.SETS):
        assert not any(later.bits & row.bits == later.bits for later in cpu.SETS[i + 1 :])


def test_a_made_up_set_is_as_good_as_the_nearest_below():
    """One of a later release has a bit more than avx10_2."""
    engine = engine_of(0x1201FF)
    name = cpu.isa(engine)
    assert name == "isa 0x1201ff"
    assert cpu.contained(name)[0].name == "avx10_2"
    assert cpu.computes_natively("bf16", engine)
    assert fits.keys(name) == fits.keys("avx10_2")


def test_no_set_of_the_table():
    """As another architecture reports."""
    engine = engine_of(0)
    assert not cpu.computes_natively("bf16", engine)
    assert fits.keys(cpu.isa(engine)) == ("avx2",)


def test_the_first_cpu_alone_is_read(monkeypatch, tmp_path):
    """Of many CPUs, and of systems whose list has no end of a CPU, or that have no list."""
    path = tmp_path / "cpuinfo"
    entry = "processor\t: 0\nmodel name\t: Xeon ü\ncpu family\t: 6\nmodel\t\t: 207\nstepping\t: 2\n"

    def fields(content):
        path.write_text(content, "utf-8")
        monkeypatch.setattr(cpuinfo, "_PATH", path)
        return cpuinfo._fields.__wrapped__()

    first = fields(entry)
    assert (first["processor"], first["model name"], first["model"]) == ("0", "Xeon ü", "207")
    assert fields("\n".join([entry, *[entry.replace(": 0", ": 1").replace("Xeon", "Atom")] * 500])) == first
    path.unlink()
    assert cpuinfo._fields.__wrapped__() == {}
