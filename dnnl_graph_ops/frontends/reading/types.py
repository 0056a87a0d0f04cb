"""ONNX's numbers of dtypes (TensorProto.DataType), which attributes such as Cast's `to` have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ... import dtypes

NUMPY: dict[int, Any] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 16: ml_dtypes.bfloat16,
    17: ml_dtypes.float8_e4m3fn, 19: ml_dtypes.float8_e5m2,
}  # fmt: skip
# the largest finite numbers, to which Cast saturates by default
LARGEST = {17: 448.0, 19: 57344.0}
# types by onnx's number, those too that no op of a graph takes
TYPES: dict[int, np.dtype[Any]] = {
    **{code: np.dtype(kind) for code, kind in NUMPY.items()},
    8: np.dtype(object), 14: np.dtype(np.complex64), 15: np.dtype(np.complex128),
    **{
        code: np.dtype(getattr(ml_dtypes, name))
        for code, name in {
            18: "float8_e4m3fnuz", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn",
            24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
        }.items()
        if hasattr(ml_dtypes, name)
    },
}  # fmt: skip
NUMBERS = {kind: code for code, kind in TYPES.items()}
LABELS = {dtypes.label(kind): code for code, kind in TYPES.items()}
# the package's names
DTYPES = {code: name for code in NUMPY if (name := dtypes.label(TYPES[code])) in dtypes.CODES}
CODES = {name: code for code, name in DTYPES.items()}
_NAMES = (
    "UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE",
    "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2",
)  # fmt: skip


def type_name(code: Any) -> str:
    """Returns ONNX's name of a number: 11 is DOUBLE."""
    known = isinstance(code, int) and 0 <= code < len(_NAMES)
    return _NAMES[code] if known else f"{code!r}, which is no TensorProto.DataType"
