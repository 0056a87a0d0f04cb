"""Every example runs as a user runs it: here, or before, where DNNL_GRAPH_OPS_EXAMPLES names what they left."""

import os
from pathlib import Path

import numpy as np
import pytest
from children import child

pytestmark = [pytest.mark.child, pytest.mark.docs]

EXAMPLES = Path(__file__).parents[2] / "examples"
# small sizes, and the files that must appear; pictures with their (rows, columns)
ARGUMENTS = {
    "01_upsample_photo.py": (
        ["--size", "60"],
        {"upsampled_x2.png": (120, 120), "upsampled_x3.png": (180, 180)},
    ),
    "02_train_autoencoder.py": (["--epochs", "3"], {"reconstructed_digits.png": (576, 1152)}),
    "03_fused_block.py": ([], {"fused_block.svg": None}),
    "04_unet_decoder.py": ([], {"unet_decoder.svg": None}),
    "05_quantized_decoder.py": ([], {"quantized_digits.png": (297, 990)}),
    "06_explain_graph.py": ([], {"decoder.json": None, "decoder.svg": None}),
    "07_onnx.py": ([], {"generator.svg": None}),
    "09_vocoder.py": (["--sentences", "3"], {"vocoder.png": (500, 800)}),
    "10_torch_one_line.py": (
        ["--steps", "6", "--rounds", "2"],
        {"torch_layers.txt": None, "torch_training.png": (600, 900)},
    ),
    "11_torch_ddp.py": (["--steps", "10"], {}),
    "13_serving.py": (["--seconds", "0.2"], {"vocoder.dgo": None}),
}


# of the whole photo, as the example alone takes it
WHOLE = {"upsampled_x2.png": (854, 1280), "upsampled_x3.png": (1281, 1920)}


def run(name, *arguments, folder):
    # one thread: these sizes gain nothing from more, and lose where the cores are busy
    return child(str(EXAMPLES / name), *arguments, cwd=folder, seconds=300, OMP_NUM_THREADS="1")


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("[0-9]*.py")))
def test_example(name, tmp_path):
    arguments, files = ARGUMENTS.get(name, ([], {}))
    if "torch" in name:
        pytest.importorskip("torch", reason="needs the extra 'torch'")
    pictures = {file: size for file, size in files.items() if size}
    if pictures:
        pytest.importorskip("sklearn", reason="needs the extra 'examples'")
        pytest.importorskip("PIL", reason="needs the extra 'examples'")
    if before := os.environ.get("DNNL_GRAPH_OPS_EXAMPLES"):
        folder = Path(before, name.removesuffix(".py"))
        pictures = {file: WHOLE.get(file, size) for file, size in pictures.items()}
    else:
        folder = tmp_path
        done = run(name, *arguments, folder=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        (folder / "output.txt").write_text(done.stdout)
    assert (folder / "output.txt").read_text().strip()
    assert {path.name for path in folder.iterdir()} == {"output.txt", *(["build"] if files else [])}
    written = {path.name: path for path in folder.glob("build/*")}
    assert set(written) == set(files)
    assert all(path.stat().st_size for path in written.values())
    for picture, size in pictures.items():
        from PIL import Image

        pixels = np.asarray(Image.open(written[picture]))
        assert pixels.shape[:2] == size
        assert pixels.std() > 10


def test_training_that_does_not_reach_its_goal_fails(tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra 'examples'")
    pytest.importorskip("PIL", reason="needs the extra 'examples'")
    done = run("02_train_autoencoder.py", "--epochs", "0", folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "LESS THAN 70%" in done.stdout


@pytest.mark.parametrize("name", ["08_dlpack.py", "10_torch_one_line.py", "11_torch_ddp.py"])
def test_without_pytorch_examples_say_so(name, tmp_path):
    code = "import runpy, sys; sys.modules['torch'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = child("-c", code, str(EXAMPLES / name), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing to show" in done.stdout and "pip install" in done.stdout
