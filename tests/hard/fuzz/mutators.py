"""Changes of bytes, where atheris's own are not at hand or know nothing of the format."""

from __future__ import annotations

import random

_INTERESTING = (0, 1, 2, 3, 7, 8, 127, 128, 216, 217, 254, 255)


def changed_bytes(rng: random.Random, data: bytes) -> bytes:
    """One change: a byte, a run, a piece moved, cut or put in."""
    made = bytearray(data)
    at, count = rng.randrange(len(made) + 1), rng.choice((1, 1, 2, 4, 8, 24))
    kind = rng.randrange(7)
    if kind == 0 or not made:
        made[at:at] = rng.randbytes(count)
    elif kind == 1:
        made[at : at + count] = rng.randbytes(count)
    elif kind == 2:
        del made[at : at + count]
    elif kind == 3:
        made[at % len(made)] = rng.choice(_INTERESTING)
    elif kind == 4:
        made[at % len(made)] ^= 1 << rng.randrange(8)
    elif kind == 5:
        start = rng.randrange(len(made))
        made[at:at] = made[start : start + count]
    else:
        made[at : at + count] = bytes([rng.choice(_INTERESTING)]) * count
    return bytes(made)
