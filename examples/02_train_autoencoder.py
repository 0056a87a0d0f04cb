"""Train an autoencoder on handwritten digits: the decoder's layers run forward and backward in this package.

64 pixels -> linear encoder -> 16 numbers as 4 channels of 2x2 -> ConvTranspose, ReLU -> 4x4 -> ConvTranspose,
sigmoid -> 8x8 pixels. The encoder, the activations and Adam (Kingma and Ba 2015) are plain NumPy.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from dnnl_graph_ops import nn

SIDE = 8
CODE = (4, 2, 2)
# how far the loss must fall for the run to count as a success
REQUIRED_FALL = 0.7


class Autoencoder:
    """Parameters and gradients by name; every gradient is that of the mean squared error."""

    def __init__(self, rng: np.random.Generator) -> None:
        pixels, code = SIDE * SIDE, int(np.prod(CODE))
        self.encoder = (rng.standard_normal((pixels, code)) / np.sqrt(pixels)).astype(np.float32)
        self.up1 = nn.ConvTranspose2d(CODE[0], 32, 4, stride=2, padding=1, rng=rng, name="up1")
        self.up2 = nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1, rng=rng, name="up2")

    def parameters(self) -> dict[str, np.ndarray]:
        layers = {f"{m.name}.{key}": getattr(m, key) for m in (self.up1, self.up2) for key in ("weight", "bias")}
        return {"encoder": self.encoder, **layers}

    def reconstruct(self, images: np.ndarray) -> np.ndarray:
        """(N, 1, 8, 8) -> (N, 1, 8, 8), all in [0, 1]."""
        self.images = images.reshape(len(images), -1)
        self.hidden = np.maximum(self.up1((self.images @ self.encoder).reshape(-1, *CODE)), 0)
        self.result = 1 / (1 + np.exp(-self.up2(self.hidden)))
        return self.result

    def gradients(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Gradients at the images that were reconstructed last."""
        error = (self.result - images) * (2 / images.size)
        at_hidden = self.up2.backward(error * self.result * (1 - self.result))
        at_code = self.up1.backward(at_hidden * (self.hidden > 0)).reshape(len(images), -1)
        layers = {
            f"{m.name}.{key}": getattr(m, f"{key}_grad") for m in (self.up1, self.up2) for key in ("weight", "bias")
        }
        return {"encoder": self.images.T @ at_code, **layers}


class Adam:
    """Changes arrays in place along their gradients."""

    def __init__(self, parameters: dict[str, np.ndarray], rate: float) -> None:
        self.parameters = parameters
        self.rate = rate
        self.steps = 0
        self.means, self.squares = ({n: np.zeros_like(p) for n, p in parameters.items()} for _ in range(2))

    def step(self, gradients: dict[str, np.ndarray], decay: float = 0.9, square_decay: float = 0.999) -> None:
        self.steps += 1
        scale = self.rate * np.sqrt(1 - square_decay**self.steps) / (1 - decay**self.steps)
        for name, gradient in gradients.items():
            mean, square = self.means[name], self.squares[name]
            mean += (1 - decay) * (gradient - mean)
            square += (1 - square_decay) * (gradient * gradient - square)
            self.parameters[name] -= scale * mean / (np.sqrt(square) + 1e-8)


def mean_squared_error(model: Autoencoder, images: np.ndarray) -> float:
    return float(np.mean((model.reconstruct(images) - images) ** 2))


def save_grid(path: Path, images: np.ndarray, results: np.ndarray, pixel: int = 8) -> None:
    """Originals in the odd rows, their reconstructions below them; a pixel becomes a square."""
    columns = 16
    frame = np.zeros((len(images) // columns * 2, columns, SIDE + 1, SIDE + 1), np.float32)
    frame[0::2, :, :SIDE, :SIDE] = images.reshape(-1, columns, SIDE, SIDE)
    frame[1::2, :, :SIDE, :SIDE] = results.reshape(-1, columns, SIDE, SIDE)
    rows, columns, height, width = frame.shape
    picture = frame.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)
    grey = np.kron((picture * 255).round().astype(np.uint8), np.ones((pixel, pixel), np.uint8))
    Image.fromarray(grey).save(path)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=Path, default=Path("build"), help="folder of the PNG file")
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)

    images = (load_digits().images[:, None] / 16).astype(np.float32)
    rng = np.random.default_rng(chosen.seed)
    model = Autoencoder(rng)
    optimiser = Adam(model.parameters(), rate=1e-2)
    start = loss = mean_squared_error(model, images)
    print(f"{len(images)} digits, loss before training {start:.4f}")
    for epoch in range(1, chosen.epochs + 1):
        order = rng.permutation(len(images))
        for first in range(0, len(images), chosen.batch):
            batch = images[order[first : first + chosen.batch]]
            model.reconstruct(batch)
            optimiser.step(model.gradients(batch))
        loss = mean_squared_error(model, images)
        print(
            f"epoch {epoch:2}/{chosen.epochs}: loss {loss:.4f}, {1 - loss / start:.0%} below the start",
            flush=True,
        )

    path = chosen.output / "reconstructed_digits.png"
    save_grid(path, images[:64], model.reconstruct(images[:64]))
    fall = 1 - loss / start
    reached = fall >= REQUIRED_FALL
    print(f"loss fell by {fall:.1%} ({'at least' if reached else 'LESS THAN'} {REQUIRED_FALL:.0%})")
    print(f"{path}: rows of digits, and below each its reconstruction")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
