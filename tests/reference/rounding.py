"""Storage types of tensors in NumPy, and conversion from float64 with one rounding."""

import ml_dtypes
import numpy as np

DTYPES: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "s4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "boolean": np.dtype(np.bool_),
}
INTEGER_RANGE: dict[str, tuple[int, int]] = {
    "s8": (-128, 127),
    "u8": (0, 255),
    "s32": (-(2**31), 2**31 - 1),
    "s64": (-(2**63), 2**63 - 1),
    "s4": (-8, 7),
    "u4": (0, 15),
}
# explicit mantissa bits and the smallest normal exponent
FLOAT_FORMAT: dict[str, tuple[int, int]] = {
    "f32": (23, -126),
    "f16": (10, -14),
    "bf16": (7, -126),
    "f8_e5m2": (2, -14),
    "f8_e4m3": (3, -6),
}


def wide(array: np.ndarray) -> np.ndarray:
    """The same values in float64 (exact for every type but large int64)."""
    return np.asarray(array).astype(np.float64)


def _odd_float32(values: np.ndarray) -> np.ndarray:
    """Float32 rounded to odd: a second rounding to a narrower type then gives the nearest value."""
    near = values.astype(np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(values)
    truncated = np.where(beyond, np.nextafter(near, np.float32(0)), near)
    inexact = np.isfinite(values) & (truncated.astype(np.float64) != values)
    bits = truncated.view(np.uint32) | inexact.astype(np.uint32)
    return bits.view(np.float32)


def round_to(values: np.ndarray, dtype: str) -> np.ndarray:
    """`values` (float64) in `dtype`, rounded once to nearest even; integers saturate."""
    values = np.asarray(values, dtype=np.float64)
    target = DTYPES[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in INTEGER_RANGE:
            low, high = INTEGER_RANGE[dtype]
            return np.clip(np.rint(values), low, high).astype(np.int64).astype(target)
        if dtype in ("f32", "f16", "boolean"):
            return values.astype(target)
        return _odd_float32(np.atleast_1d(values)).astype(target).reshape(values.shape)


def ulp(values: np.ndarray, dtype: str) -> np.ndarray:
    """Distance between neighbours of `dtype` at each value."""
    bits, smallest = FLOAT_FORMAT[dtype]
    exponent = np.frexp(np.abs(np.asarray(values, dtype=np.float64)))[1] - 1
    return np.ldexp(1.0, np.maximum(exponent, smallest) - bits)


def ulp_error(actual: np.ndarray, exact: np.ndarray, dtype: str) -> float:
    """Largest distance of `actual` from the exact float64 result, in units of the last place."""
    if actual.size == 0:
        return 0.0
    error = np.abs(wide(actual) - exact) / ulp(exact, dtype)
    return float(np.max(np.where(np.isnan(error), np.inf, error)))
