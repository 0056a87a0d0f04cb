from pathlib import Path

from . import FILES

for path, text in FILES.items():
    Path(__file__).parents[1].joinpath(path).write_text(text(), encoding="utf-8")
