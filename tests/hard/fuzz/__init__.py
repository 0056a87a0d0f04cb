"""Fuzz targets: calls, files, capsules and native descriptions made of bytes.

python -m hard.fuzz TARGET FILE...            one or more cases again
python -m hard.fuzz TARGET SEED START STOP    numbered mutations of the kept seeds, without atheris
python -m hard.fuzz TARGET --seconds N        guided by coverage (atheris); --into FOLDER keeps findings and corpus
"""

from .target import Target

TARGETS = {
    target.name: target
    for target in (
        Target("one_shot"),
        Target("builders"),
        Target("graph_json"),
        Target("onnx_model"),
        Target("dlpack"),
        Target("tuning"),
        Target("saved"),
        Target("kernels"),
        Target("declared"),
        Target("calls", guided=False),
        Target("graph_api", guided=False),
    )
}
GUIDED = tuple(name for name, target in TARGETS.items() if target.guided)
