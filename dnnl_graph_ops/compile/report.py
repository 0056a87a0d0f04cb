"""What fewer bits cost, measured on samples."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class OutputReport:
    """What fewer bits cost at one output, over all samples; `relative_error` is of the largest absolute value."""

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
    """A product: the type of its operands, and the relative error at the outputs with it alone in a narrow type.

    That is measured where all of them together exceed the bound, and else None.
    """

    name: str
    dtype: str
    error: float | None


@dataclass(frozen=True)
class PrecisionReport:
    """What `precision="auto"` chose; str() is a table.

    dtype: the narrow type, "f32" where there is none; ops: those that are faster in it, and what became of them;
    errors: at each output over the samples, against f32; remark: why all is in f32, if it is.
    """

    dtype: str
    max_error: float
    ops: tuple[OpReport, ...] = ()
    errors: tuple[OutputReport, ...] = ()
    remark: str = ""

    @property
    def largest_error(self) -> float:
        """Of all outputs; without any nothing is known of it."""
        return max((one.relative_error for one in self.errors), default=inf)

    @property
    def summary(self) -> str:
        """In one line."""
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
