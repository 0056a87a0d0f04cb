"""Runs the competitors: one module each with `versions()` and `prepare(task)`, listed in `registry`."""
