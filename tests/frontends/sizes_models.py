"""Modules whose exported files compute sizes: what they are called with, and which dims are open."""

import torch
import torch.nn.functional as functional
from torch import nn


def conv(given, made, kernel=3):
    return nn.Conv2d(given, made, kernel, padding=kernel // 2)


class Levels(nn.Module):
    """A U-Net of three levels; how what comes from below is made to fit the skip."""

    def __init__(self, fit):
        super().__init__()
        self.fit = fit
        self.down = nn.ModuleList([conv(3, 8), conv(8, 8), conv(8, 8)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(8, 8, 2, 2), nn.ConvTranspose2d(8, 8, 2, 2)])
        self.joined = nn.ModuleList([conv(16, 8), conv(16, 8)])

    def forward(self, x):
        skips = []
        for level in self.down:
            x = functional.relu(level(functional.max_pool2d(x, 2) if skips else x))
            skips.append(x)
        skips.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(torch.cat(getattr(self, self.fit)(x, skips.pop(), up), 1))
        return x

    def padded(self, x, skip, up):
        x = up(x)
        dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        return functional.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2]), skip

    def cropped(self, x, skip, up):
        x = up(x)
        return x, skip[:, :, : x.size(2), : x.size(3)]

    def centred(self, x, skip, up):
        x = up(x)
        y, z = (skip.size(2) - x.size(2)) // 2, (skip.size(3) - x.size(3)) // 2
        return x, skip[:, :, y : y + x.size(2), z : z + x.size(3)]

    def nearest(self, x, skip, up):
        return functional.interpolate(x, size=skip.shape[2:], mode="nearest"), skip

    def bilinear(self, x, skip, up):
        return functional.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False), skip

    def aligned(self, x, skip, up):
        return functional.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=True), skip


class Attention(nn.Module):
    """Over all pixels, as in the decoder of a VAE."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.GroupNorm(4, 16), conv(16, 48, 1), conv(16, 16, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        parts = self.qkv(self.norm(x)).reshape(b, 3, self.heads, c // self.heads, h * w)
        q, k, v = (parts[:, i] for i in range(3))
        weights = torch.softmax(q.transpose(2, 3) @ k * (c // self.heads) ** -0.5, -1)
        return x + self.out((v @ weights.transpose(2, 3)).reshape(b, c, h, w))


class Windows(nn.Module):
    """Padded, rolled and cut into windows of 4 by 4, and back, as in Swin."""

    def __init__(self):
        super().__init__()
        self.first, self.qkv, self.out = conv(3, 16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        x = self.first(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        x = torch.roll(functional.pad(x, (0, 0, 0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4)), (-2, -2), (1, 2))
        high, wide = x.shape[1:3]
        cut = x.view(b, high // 4, 4, wide // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(cut).chunk(3, -1)
        cut = self.out(torch.softmax(q @ k.transpose(1, 2) * 0.25, -1) @ v)
        x = cut.view(b, high // 4, wide // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, high, wide, c)
        return torch.roll(x, (2, 2), (1, 2))[:, :h, :w].permute(0, 3, 1, 2)


class Shuffled(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.last = conv(12, 16), conv(4, 3)

    def forward(self, x):
        return self.last(functional.pixel_shuffle(self.body(functional.pixel_unshuffle(x, 2)), 2))


class Pyramid(nn.Module):
    """A global branch that is spread again, the rest resized to the input."""

    def __init__(self):
        super().__init__()
        self.low, self.whole, self.head = nn.Conv2d(3, 8, 3, 2, 1), conv(8, 8, 1), conv(24, 4)

    def forward(self, x):
        y = functional.relu(self.low(x))
        mean = self.whole(functional.adaptive_avg_pool2d(y, 1))
        wide = functional.interpolate(mean, size=y.shape[2:], mode="bilinear", align_corners=False)
        y = torch.cat([y, wide, mean.expand(-1, -1, y.size(2), y.size(3))], 1)
        return functional.interpolate(self.head(y), size=x.shape[2:], mode="bilinear", align_corners=False)


class Places(nn.Module):
    """Coordinates as channels; zeros of the input's size."""

    def __init__(self):
        super().__init__()
        self.body = conv(6, 8)

    def forward(self, x):
        b, _, h, w = x.shape
        y = (torch.arange(h, dtype=torch.float32) / h)[None, None, :, None].expand(b, 1, h, w)
        z = (torch.arange(w, dtype=torch.float32) / w)[None, None, None].expand(b, 1, h, w)
        return self.body(torch.cat([x, y, z, torch.zeros(b, 1, h, w)], 1))


class Multiples(nn.Module):
    """Padded to a multiple of 8, and cropped back."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 8, 8), nn.ConvTranspose2d(8, 3, 8, 8)

    def forward(self, x):
        h, w = x.shape[2:]
        x = functional.pad(x, (0, (8 - w % 8) % 8, 0, (8 - h % 8) % 8), mode="reflect")
        return self.up(functional.relu(self.down(x)))[..., :h, :w]


class Halves(nn.Module):
    """Of a signal, its mean repeated, frames of five, all in a row."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv1d(4, 8, 3, padding=1)

    def forward(self, x):
        y = self.body(x)
        b, c, t = y.shape
        half = t // 2
        mean = y.mean(-1, keepdim=True).repeat(1, 1, t)
        frames = y[..., : t // 5 * 5].reshape(b, c, t // 5, 5).mean(-1)
        return torch.cat([y[..., :half] * y[..., half : 2 * half], mean], -1), frames, y.flatten(1), y[..., -1]


class Scaled(nn.Module):
    def forward(self, x):
        half = functional.interpolate(x, scale_factor=0.5, mode="nearest")
        more = functional.interpolate(
            x, scale_factor=1.5, mode="bilinear", align_corners=False, recompute_scale_factor=True
        )
        return half, more, functional.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=False)


class Volumes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.low = nn.Conv3d(2, 8, 3, 1, 1), nn.Conv3d(8, 8, 3, 2, 1)
        self.up = nn.ConvTranspose3d(8, 8, 2, 2)
        self.norm, self.head = nn.InstanceNorm3d(8, affine=True), nn.Conv3d(16, 3, 1)

    def forward(self, x):
        x = functional.leaky_relu(self.norm(self.first(x)), 0.01)
        up = functional.interpolate(self.up(self.low(x)), size=x.shape[2:], mode="trilinear", align_corners=False)
        return self.head(torch.cat([x, up], 1))


_IMAGES = [(1, 3, 17, 22), (2, 3, 21, 19), (1, 3, 16, 32)]
# the module, and shapes that it is called with; it is exported for the first, all dims open but the channels
MODELS = {
    **{f"levels_{fit}": (lambda fit=fit: Levels(fit), _IMAGES) for fit in ("padded", "cropped", "centred")},
    **{f"levels_{fit}": (lambda fit=fit: Levels(fit), _IMAGES) for fit in ("nearest", "bilinear", "aligned")},
    "attention": (lambda: Attention(1), [(1, 16, 4, 6), (2, 16, 5, 3)]),
    "attention_heads": (lambda: Attention(4), [(1, 16, 4, 6), (2, 16, 5, 3)]),
    "windows": (Windows, [(1, 3, 9, 10), (2, 3, 8, 13), (1, 3, 16, 12)]),
    "shuffled": (Shuffled, [(1, 3, 8, 6), (2, 3, 4, 10)]),
    "pyramid": (Pyramid, [(1, 3, 16, 18), (2, 3, 11, 20)]),
    "places": (Places, [(1, 3, 5, 6), (2, 3, 7, 4)]),
    "multiples": (Multiples, [(1, 3, 21, 30), (2, 3, 16, 25), (1, 3, 24, 24)]),
    "halves": (Halves, [(1, 4, 10), (2, 4, 13)]),
    "scaled": (Scaled, [(1, 3, 8, 10), (2, 3, 7, 5)]),
    "volumes": (Volumes, [(1, 2, 6, 7, 8), (2, 2, 5, 8, 9)]),
}
