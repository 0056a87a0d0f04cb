"""Compiled code of AMX, AVX512-BF16 and VNNI on CPUs that lack them: a handler of signals runs each instruction.

Where a CPU has an instruction, it runs it, and the handler's arithmetic is compared with its.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from . import trapping
from .emulated import needs_emulated_sets
from .test_isa import cpu_flags
from .trapping import Bytes, Emulator

pytestmark = [
    pytest.mark.child,
    pytest.mark.slow,
    pytest.mark.skipif(not trapping.compiler() or sys.platform != "linux", reason="needs a C++ compiler, and Linux"),
]
NEEDED = {"vpdpbusd": "avx512_vnni", "vdpbf16ps": "avx512_bf16", "vcvtne2ps2bf16": "avx512_bf16"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trapping.build(tmp_path_factory.mktemp("trapped"))


def whole_numbers(rng: np.random.Generator, name: str, rows: int, count: int) -> Bytes:
    """Rows of operands in bytes: small enough for exact sums."""
    if "bf16" in name:
        return trapping.ml_dtypes.bfloat16(rng.integers(-8, 9, (rows, count // 2))).view(np.uint8)
    return rng.integers(0, 256, (rows, count), np.uint8)


@pytest.mark.parametrize("name", trapping.PRODUCTS)
def test_products_of_tiles(seed, library, name):
    rng, run = np.random.default_rng(seed), Emulator(library)
    for _ in range(20):
        m, k, n = (int(rng.integers(1, 17)) for _ in range(3))
        run.general[7] = (form := trapping.shape([m, m, k], [4 * n, 4 * k, 4 * n])).ctypes.data
        assert run(trapping.LDTILECFG) == 5
        kind = np.float32 if "bf16" in name else np.int32
        c = rng.integers(-99, 100, (m, n)).astype(kind).view(np.uint8)
        a, b = whole_numbers(rng, name, m, 4 * k), whole_numbers(rng, name, k, 4 * n)
        for tile, operand in enumerate((c, a, b)):
            run.memory(operand, operand.shape[1])
            assert run(trapping.tileload(tile)) == 6
        assert run(trapping.product(name, 0, 1, 2)) == 5
        room = np.full((m + 1, 4 * n + 4), 7, np.uint8)
        run.memory(room, 4 * n + 4)
        assert run(trapping.tilestore(0)) == 6
        np.testing.assert_array_equal(room[:m, : 4 * n], trapping.tile_product(name, c, a, b))
        assert (room[m:] == 7).all() and (room[:, 4 * n :] == 7).all(), "what lies around was written"
        assert run(trapping.TILERELEASE) == 5
        del form


@pytest.mark.parametrize("name", trapping.VECTOR_CODES)
def test_vectors_in_any_register(seed, library, name):
    rng, run = np.random.default_rng(seed), Emulator(library)
    prefix, opcode = trapping.VECTOR_CODES[name]
    for _ in range(50):
        to, second, third = (int(r) for r in rng.choice(trapping.VECTORS, 3, replace=False))
        run.vectors[...] = whole_numbers(rng, name, trapping.VECTORS, 64)
        kind = np.int32 if name == "vpdpbusd" else np.float32
        for number in (to, second, third) if name == "vcvtne2ps2bf16" else (to,):
            run.vectors[number] = rng.integers(-99, 100, 16).astype(kind).view(np.uint8)
        before = run.vectors.copy()
        assert run(trapping.evex(prefix, opcode, to, second, third)) == 6
        expected = before.copy()
        expected[to] = trapping.vector_result(name, before[to], before[second], before[third])
        np.testing.assert_array_equal(run.vectors, expected)


def test_short_quads(seed, library):
    """{vex} vpdpbusd of 32 bytes clears what lies above."""
    rng, run = np.random.default_rng(seed), Emulator(library)
    run.vectors[...] = rng.integers(0, 256, run.vectors.shape, np.uint8)
    before = run.vectors.copy()
    assert run(trapping.vex(trapping.P66, 0x50, 1, 2, b"\xc3", wide=True)) == 5
    made = trapping.vector_result("vpdpbusd", before[1], before[2], before[3])
    np.testing.assert_array_equal(run.vectors[1], np.concatenate([made[:32], np.zeros(32, np.uint8)]))


@pytest.mark.parametrize("name", trapping.VECTOR_CODES)
def test_as_this_cpu_computes(seed, library, name):
    """Any bits: denormal numbers, infinity, NaN; sums in the CPU's order."""
    if NEEDED[name] not in cpu_flags():
        pytest.skip(f"this CPU lacks {NEEDED[name]}")
    rng, run = np.random.default_rng(seed), Emulator(library)
    prefix, opcode = trapping.VECTOR_CODES[name]
    code = trapping.evex(prefix, opcode, 0, 1, 2)
    for turn in range(300):
        run.vectors[...] = rng.integers(0, 256, run.vectors.shape, np.uint8)
        if turn % 3 and name != "vpdpbusd":  # near one another, so that sums are rounded
            run.vectors[:3] = np.float32(rng.standard_normal((3, 16))).view(np.uint8)
        if turn % 3 and name == "vdpbf16ps":
            run.vectors[1:3] = trapping.ml_dtypes.bfloat16(rng.standard_normal((2, 32))).view(np.uint8)
        expected = trapping.natively(code, run.vectors)
        assert run(code) == 6
        kind = np.float32 if name == "vdpbf16ps" else np.uint16
        np.testing.assert_array_equal(run.vectors[0].view(kind), expected.view(kind))


@pytest.mark.skipif("amx_tile" in cpu_flags(), reason="this CPU has AMX, and judges itself")
@pytest.mark.parametrize("number", range(len(list(trapping.planted()))))
def test_wrong_configurations_are_found(library, tmp_path, number):
    said, _ = list(trapping.planted())[number]
    done = trapping.run(
        library, tmp_path / "counts", "-c", f"from bindings import trapping; trapping.run_planted({number})"
    )
    assert done.returncode == -signal.SIGILL, done.stdout + done.stderr
    assert f"trapped: {said}" in done.stderr or said in done.stderr


# Of the compiled sets, every file whose tests take one by its name; which of them, and what each must have run.
KERNELS = (
    ("bindings/test_bf16_product.py", "amx or avx512bf16", {"tdpbf16ps", "vdpbf16ps"}),
    ("bindings/test_bf16_winograd.py", "amx or avx512bf16", {"tdpbf16ps", "vdpbf16ps", "vcvtne2ps2bf16"}),
    ("bindings/test_bf16_gradient.py", "amx or avx512bf16", {"tdpbf16ps", "vdpbf16ps", "vcvtne2ps2bf16"}),
    ("bindings/test_int8_product.py", "amxint8 or vnni", {"tdpbusd", "vpdpbusd", "{vex} vpdpbusd"}),
    ("backends/test_int8_nets.py", "test", {"tdpbusd"}),
)
TILES = {"ldtilecfg", "tilerelease", "tileloadd", "tilestored"}
FLAGS = {"tdpbf16ps": "amx_bf16", "tdpbusd": "amx_int8", "{vex} vpdpbusd": "avx_vnni", **NEEDED}


REST = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


@needs_emulated_sets
@pytest.mark.parametrize(("path", "names", "instructions"), KERNELS, ids=[row[0] for row in KERNELS])
def test_kernels_of_sets_that_this_cpu_lacks(library, tmp_path, amount, path, names, instructions):
    flags = cpu_flags()
    if not flags >= REST:
        pytest.skip("this CPU lacks AVX-512, which the rest of that code is made of")
    # pytest's own handler of this signal would take its place
    options = ["-p", "no:faulthandler", "-q", *amount([], [], ["--all", "--random=full"])]
    done = trapping.run(library, tmp_path / "counts", "-m", "pytest", *options, path, "-k", names, seconds=3000)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-400:]
    found = trapping.counted(tmp_path / "counts")
    print(dict(found))
    assert not found.pop("configured"), "a thread kept its tiles"
    lacking = {name for name in instructions if FLAGS[name] not in flags}
    assert set(found) >= lacking | (TILES if "amx_tile" not in flags else set())
