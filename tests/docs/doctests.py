"""Runs examples written as sessions of the interpreter; numbers count as equal where they are about as large."""

import doctest
import math
import re

import numpy as np

import dnnl_graph_ops as dgo

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)(?!\w)")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class About(doctest.OutputChecker):
    """Text as doctest has it; the floats in it up to a part in a thousand, which is more than examples print."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        texts = ["".join(_NUMBER.sub("#", text).split()) for text in (want, got)]
        numbers = [[float(number) for number in _NUMBER.findall(text)] for text in (want, got)]
        return texts[0] == texts[1] and all(
            math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4) or (math.isnan(a) and math.isnan(b))
            for a, b in zip(*numbers, strict=True)
        )


def run(text: str, name: str, names: dict | None = None) -> int:
    """The number of examples in `text`; AssertionError with doctest's report if one fails."""
    scope = {"np": np, "dgo": dgo} if names is None else names
    test = doctest.DocTestParser().get_doctest(text, scope, name, name, 0)
    report: list[str] = []
    with np.printoptions(precision=4, suppress=True):
        result = doctest.DocTestRunner(About(), verbose=False, optionflags=FLAGS).run(test, out=report.append)
    assert not result.failed, "".join(report)
    return result.attempted
