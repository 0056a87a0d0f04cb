"""Processes in which instructions that this CPU lacks run by a handler of signals: trapped.cpp, built and preloaded."""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
from children import SECONDS, child

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
SOURCE = Path(__file__).with_name("trapped.cpp")
VECTORS = 32
ROWS = 8  # tiles, of a configuration

# opcodes behind the prefix, and that: which, and whether EVEX
NONE, P66, PF3, PF2 = range(4)
PRODUCTS = {
    "tdpbf16ps": (PF3, 0x5C),
    "tdpbssd": (PF2, 0x5E),
    "tdpbsud": (PF3, 0x5E),
    "tdpbusd": (P66, 0x5E),
    "tdpbuud": (NONE, 0x5E),
}
VECTOR_CODES = {
    "vpdpbusd": (P66, 0x50),
    "vdpbf16ps": (PF3, 0x52),
    "vcvtne2ps2bf16": (PF2, 0x72),
}


def compiler() -> str | None:
    return shutil.which("g++") or shutil.which("clang++")


def build(folder: Path) -> Path:
    """The library to preload; a compiler takes two seconds for it."""
    library = folder / "trapped.so"
    options = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-mfma", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([str(compiler()), *options, str(SOURCE), "-o", str(library)], check=True)
    return library


def run(library: Path, counts: Path, *arguments: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Python with these arguments; what ran of which instruction is added to the file `counts`."""
    return child(*arguments, seconds=seconds, LD_PRELOAD=str(library), DNNL_GRAPH_OPS_TRAPPED=str(counts))


def counted(counts: Path) -> Counter[str]:
    """How often each instruction ran, of all processes, and under "configured" how many threads kept tiles."""
    found: Counter[str] = Counter()
    for line in counts.read_text().splitlines():
        name, _, number = line.rpartition(": ")
        found[name] += int(number)
    return found


# ---- code of one instruction ---------------------------------------------------------------------------------------


def vex(prefix: int, opcode: int, reg: int, third: int, last: bytes, wide: bool = False) -> bytes:
    """An instruction of the map 0F38 with registers below 8; `last`: the ModRM byte without its reg, and behind."""
    return bytes([0xC4, 0xE2, (~third & 15) << 3 | wide << 2 | prefix, opcode, last[0] | reg << 3]) + last[1:]


def evex(prefix: int, opcode: int, reg: int, third: int, rm: int) -> bytes:
    """One of vectors of 64 bytes, in any of the 32 registers."""
    first = (reg & 8 == 0) << 7 | (rm & 16 == 0) << 6 | (rm & 8 == 0) << 5 | (reg & 16 == 0) << 4 | 2
    second = (~third & 15) << 3 | 4 | prefix
    return bytes([0x62, first, second, 0x40 | (third & 16 == 0) << 3, opcode, 0xC0 | (reg & 7) << 3 | (rm & 7)])


LDTILECFG = vex(NONE, 0x49, 0, 0, b"\x07")  # [rdi]
TILERELEASE = vex(NONE, 0x49, 0, 0, b"\xc0")


def tilezero(tile: int) -> bytes:
    return vex(PF2, 0x49, tile, 0, b"\xc0")


def tileload(tile: int) -> bytes:
    """From rsi on, rows rdx bytes apart."""
    return vex(PF2, 0x4B, tile, 0, b"\x04\x16")


def tilestore(tile: int) -> bytes:
    return vex(PF3, 0x4B, tile, 0, b"\x04\x16")


def product(name: str, c: int, a: int, b: int) -> bytes:
    prefix, opcode = PRODUCTS[name]
    return vex(prefix, opcode, c, b, bytes([0xC0 | a]))


# ---- running it -----------------------------------------------------------------------------------------------------


def executable(code: bytes) -> tuple[mmap.mmap, int]:
    """A page with this code, and its address."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return page, ctypes.addressof(ctypes.c_char.from_buffer(page))


def natively(code: bytes, registers: Bytes) -> Bytes:
    """An instruction of zmm0, zmm1 and zmm2 by this CPU, which must have it: zmm0 afterwards."""
    moves = [bytes([0x62, 0xF1, 0x7C, 0x48, 0x10, 0x47 | r << 3, r]) for r in range(3)]  # zmm<r> = [rdi + 64 r]
    back = bytes([0x62, 0xF1, 0x7C, 0x48, 0x11, 0x47, 0])
    page, address = executable(b"".join(moves) + code + back + b"\xc5\xf8\x77\xc3")
    room = np.array(registers[:3])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(room.ctypes.data)
    del page
    return room[0]


class Emulator:
    """`trapped_run` of the library."""

    def __init__(self, library: Path) -> None:
        self._run = ctypes.CDLL(str(library)).trapped_run
        self._run.restype = ctypes.c_int64
        # general registers, then vectors
        self.room = np.zeros(128 + VECTORS * 64, np.uint8)
        self.general = self.room[:128].view(np.uint64)
        self.vectors = self.room[128:].reshape(VECTORS, 64)

    def __call__(self, code: bytes) -> int:
        """Runs one instruction; its bytes, or 0."""
        return int(self._run(code, ctypes.c_void_p(self.room.ctypes.data)))

    def memory(self, array: Bytes, pitch: int) -> None:
        """Where the next tile is loaded from or stored to."""
        self.general[6], self.general[2] = array.ctypes.data, pitch


def shape(rows: list[int], columns: list[int]) -> Bytes:
    """What ldtilecfg reads: rows, and bytes of a row, of tiles from the first on."""
    found = np.zeros(64, np.uint8)
    found[0] = 1
    found[16:48].view(np.uint16)[: len(columns)] = columns
    found[48 : 48 + len(rows)] = rows
    return found


# ---- what they compute, by NumPy -------------------------------------------------------------------------------------


def bf16(raw: Bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return raw.view(ml_dtypes.bfloat16).astype(np.float32)


def tile_product(name: str, c: Bytes, a: Bytes, b: Bytes) -> Bytes:
    """c (M, 4 N) + a (M, 4 K) b (K, 4 N) in bytes, groups of 4 along K; exact on small integers."""
    m, k, n = len(c), len(b), b.shape[1] // 4
    if name == "tdpbf16ps":
        left, right = bf16(a).reshape(m, k, 2), bf16(b).reshape(k, n, 2)
        return (c.view(np.float32) + np.einsum("mkp,knp->mn", left, right)).astype(np.float32).view(np.uint8)
    signs = {"s": np.int8, "u": np.uint8}
    left = a.view(signs[name[4]]).reshape(m, k, 4).astype(np.int32)
    right = b.view(signs[name[5]]).reshape(k, n, 4).astype(np.int32)
    return (c.view(np.int32) + np.einsum("mkp,knp->mn", left, right)).astype(np.int32).view(np.uint8)


def vector_result(name: str, to: Bytes, second: Bytes, third: Bytes) -> Bytes:
    if name == "vcvtne2ps2bf16":
        both = np.concatenate([third.view(np.float32), second.view(np.float32)])
        return both.astype(ml_dtypes.bfloat16).view(np.uint8)
    if name == "vdpbf16ps":
        return (to.view(np.float32) + (bf16(second) * bf16(third)).reshape(-1, 2).sum(1)).view(np.uint8)
    products = second.view(np.uint8).astype(np.int32) * third.view(np.int8).astype(np.int32)
    return (to.view(np.int32) + products.reshape(-1, 4).sum(1)).astype(np.int32).view(np.uint8)


def planted() -> Iterator[tuple[str, Bytes]]:
    """Wrong configurations, and what must be said of them as tile 0 gets the product of tiles 4 and 6."""
    right = shape([16] * ROWS, [64] * ROWS)

    def with_byte(at: int, value: int) -> Bytes:
        changed = right.copy()
        changed[at] = value
        return changed

    yield "the palette is not 1", with_byte(0, 2)
    yield "the first row is not 0", with_byte(1, 1)
    yield "reserved bytes are not 0", with_byte(15, 1)
    yield "no more than 8 tiles", shape([16] * 9, [64] * 9)
    yield "larger than 16 rows of 64 bytes", shape([17] * ROWS, [64] * ROWS)
    yield "larger than 16 rows of 64 bytes", shape([16] * ROWS, [68] * ROWS)
    yield "rows without bytes", shape([16] * ROWS, [64, 64, 64, 64, 0, 64, 64, 64])
    yield "that has no configuration", shape([16] * 6, [64] * 6)
    yield "none is configured", np.zeros(64, np.uint8)
    yield "do not fit each other", shape([15] + [16] * 7, [64] * ROWS)
    yield "do not fit each other", shape([16] * ROWS, [64, 64, 64, 64, 60, 64, 64, 64])
    yield "do not fit each other", shape([16] * ROWS, [32] + [64] * 7)
    yield "no whole 4 bytes", shape([16] * ROWS, [64, 64, 64, 64, 62, 64, 64, 64])


def run_planted(number: int) -> None:
    """In a process of its own: loads the configuration and multiplies, as kernels do."""
    _, configuration = list(planted())[number]
    zeros = b"".join(tilezero(t) for t in (0, 4, 6))
    page, address = executable(LDTILECFG + zeros + product("tdpbf16ps", 0, 4, 6) + TILERELEASE + b"\xc3")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(configuration.ctypes.data)
    del page
    print("nothing was found")
