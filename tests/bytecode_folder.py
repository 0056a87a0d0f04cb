"""Imported first: what Python compiles of the tests goes to build/, so that a clone stays as it was."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(HERE.parent / "build" / "bytecode")
# of this file and of conftest.py, written before this line
shutil.rmtree(HERE / "__pycache__", ignore_errors=True)
