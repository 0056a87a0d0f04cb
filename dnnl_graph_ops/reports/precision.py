"""Reports the errors that fewer bits cause in a net's outputs, measured on samples."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class OutputReport:
    """The errors of fewer bits at one output, over all samples; `relative_error` is of the largest absolute value."""

    name: str
    max_abs_error: float
    rms_error: float
    signal_to_noise_db: float
    relative_error: float

    def __str__(self) -> str:
        return (
            f"{self.name}: max error {self.max_abs_error:.4g} ({self.relative_error:.2g} of the largest value), "
            f"rms {self.rms_error:.4g}, {self.signal_to_noise_db:.1f} dB"
        )


@dataclass(frozen=True)
class OpReport:
    """A product that is faster in a narrow type: its name, and the dtype of its operands in the net.

    error: the relative error at the outputs if this product alone is in the narrow type; None if not measured, since
    all products in the narrow type together keep within the bound.
    """

    name: str
    dtype: str
    error: float | None


@dataclass(frozen=True, repr=False)
class PrecisionReport:
    """The choice of `precision="auto"`; str() returns a table.

    dtype: the narrow type, or "f32" if all products stay in f32. max_error: the bound on the relative error. ops: the
    products that are faster in the narrow type, each with its dtype in the net. errors: the errors at each output over
    the samples, compared with f32. remark: why all products stay in f32; empty if some are narrow.
    """

    dtype: str
    max_error: float
    ops: tuple[OpReport, ...] = ()
    errors: tuple[OutputReport, ...] = ()
    remark: str = ""

    @property
    def largest_error(self) -> float:
        """Returns the largest relative error of all outputs; inf if no output was measured."""
        return max((one.relative_error for one in self.errors), default=inf)

    @property
    def summary(self) -> str:
        """Returns the choice in one line."""
        if self.remark:
            return f"f32: {self.remark}"
        narrow = sum(op.dtype == self.dtype for op in self.ops)
        return (
            f"{self.dtype} in {narrow} of {len(self.ops)} products that it makes faster, relative error "
            f"{self.largest_error:.2g} of at most {self.max_error:g}"
        )

    def __str__(self) -> str:
        alone = (("" if op.error is None else f", alone it costs {op.error:.2g}") for op in self.ops)
        ops = (f"{op.name}: {op.dtype}{cost}" for op, cost in zip(self.ops, alone, strict=True))
        return "\n".join((self.summary, *ops, *map(str, self.errors)))

    def __repr__(self) -> str:
        return str(self)
