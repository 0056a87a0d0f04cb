"""Process seconds of each test: `pytest --seconds=FILE` writes them, `python tests/budget.py FILE` judges them."""

import json
import os
import sys
from pathlib import Path

import pytest

PRINTED, MOST = 0.5, 2.0
MEAN = 0.026  # seconds of a test of the default tier where MOST was set: a machine may be slower, at times by half


class Seconds:
    """Writes a line [node id, process seconds of the test and of its children] into `path` for each test."""

    def __init__(self, path: str):
        self.path = Path(path)
        self.start = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self):
        self.start = sum(os.times()[:4])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        if call.when == "teardown":
            item.user_properties.append(("seconds", sum(os.times()[:4]) - self.start))
        return (yield)

    # xdist's workers send their reports to the process that was started, which alone writes
    def pytest_sessionstart(self, session):
        if not hasattr(session.config, "workerinput"):
            self.path.write_text("", encoding="utf-8")

    def pytest_runtest_logreport(self, report):
        seconds = dict(report.user_properties).get("seconds")
        if seconds is not None and "PYTEST_XDIST_WORKER" not in os.environ:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([report.nodeid, round(seconds, 3)]) + "\n")


def judge(path: str) -> int:
    """Prints the tests above PRINTED seconds, the longest first; 1 if one takes too long."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    rows.sort(key=lambda row: -row[1])
    total = sum(seconds for _, seconds in rows)
    most = MOST * max(1.0, total / max(len(rows), 1) / MEAN)
    print(f"{len(rows)} tests, {total:.0f} process seconds, at most {most:.1f} in a test; above {PRINTED} s:")
    for test, seconds in rows:
        if seconds > PRINTED:
            print(f"{seconds:7.2f} s  {test}{'  (too long)' if seconds > most else ''}")
    return int(any(seconds > most for _, seconds in rows))


if __name__ == "__main__":
    sys.exit(judge(sys.argv[1]))
