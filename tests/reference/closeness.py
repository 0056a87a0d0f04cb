"""How far apart results may be that round, and how far apart they are."""

import numpy as np

# how far off a rounded result may be, in parts of its largest element
ROUNDING = {"f2": 2.0**-7, "bf2": 2.0**-7, "f4": 2.0**-16, "f8": 2.0**-40}
# sums of products of such numbers are exact: multiples of the first up to the second
GRID = {"f2": (0.25, 64), "bf2": (0.25, 64), "f4": (1 / 16, 256), "f8": (1 / 16, 256)}
# results farther off than this part of their largest element are judged by shape and type only, and not read
VAGUE = 0.05


def largest(array: np.ndarray) -> float:
    """The largest magnitude among the finite elements, at least 1."""
    wide = array.astype("f8")
    return max(1.0, float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0)))


def is_exact(array: np.ndarray, kind: str) -> bool:
    """Whether sums of products that give these numbers are exact in floats of this kind."""
    step, most = GRID[kind]
    with np.errstate(invalid="ignore"):
        whole = ~np.isfinite(array) | (array.astype("f8") % step == 0)
    return largest(array) <= most and bool(whole.all())


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two arrays; infinite between shapes, and between numbers and NaN."""
    if one.shape != other.shape:
        return np.inf
    pair = [array.astype("f8") for array in (one, other)]
    with np.errstate(all="ignore"):
        same = (pair[0] == pair[1]) | (np.isnan(pair[0]) & np.isnan(pair[1]))
        return float(np.nan_to_num(np.where(same, 0.0, np.abs(pair[0] - pair[1])), nan=np.inf).max(initial=0.0))
