"""Writes the stubs of the extension, its kernels, builders and one-shot functions into the package of this clone."""

from pathlib import Path

from stubs import FILES

for path, text in FILES.items():
    Path(__file__).parents[1].joinpath("dnnl_graph_ops", path).write_text(text(), encoding="utf-8")
