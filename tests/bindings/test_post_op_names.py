"""Every post-op of elements by themselves is compared with its function in float64."""

import re
from pathlib import Path

from .test_epilogue import EXACT, ROUNDED

LIST = Path(__file__).parents[2] / "bindings" / "kernels" / "epilogue" / "ops.inc"


def test_every_post_op_has_a_reference():
    names = re.findall(r"^(?:UNARY|BINARY)\((\w+),", LIST.read_text("utf-8"), re.MULTILINE)
    assert len(names) > 20 and sorted(names) == sorted({*EXACT, *ROUNDED})
