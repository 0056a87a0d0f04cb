"""Small versions of what users have: modules of a few layers, and networks of fifteen kinds; all small, seeded.

`MODELS` has for each a function that makes it, the inputs of one call, and for those whose sizes may vary the axes that
do: of every input, by name of the size.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

# -- modules ----------------------------------------------------------------------------------------------------


class Formula(nn.Module):
    """A function of its inputs, after a layer where there is one."""

    def __init__(self, function, *layers):
        super().__init__()
        self.function, self.layers = function, nn.Sequential(*layers)

    def forward(self, x):
        return self.function(self.layers(x))


def mobile_block():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU6(),
    )  # fmt: skip


class SqueezeExcite(nn.Module):
    def __init__(self, channels=16, fewer=4):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, fewer, 1), nn.Conv2d(fewer, channels, 1)

    def forward(self, x):
        scale = F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))
        return F.hardswish(x * scale)


class RmsNorm(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class SelfAttention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, bias=None, causal=False):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal)
        return self.out(y.transpose(1, 2).reshape(b, n, c))


class TransformerBlock(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = SelfAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class Embedded(nn.Module):
    """Embedding, padding, halves, a part, backwards."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)

    def forward(self, places):
        y = F.pad(self.table(places), (0, 0, 1, 2))
        left, right = y.split(4, -1)
        return torch.flip(left[:, 1:], [1]) + right[:, :-1]


class ReplicatePad(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv1d(4, 8, 5)

    def forward(self, x):
        y = self.body(F.pad(x, (3, 1), mode="replicate"))
        return y[..., ::2] - y[..., 1::2]


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.body, self.head = kind(8, 16, batch_first=True, **options), nn.LazyLinear(4)

    def forward(self, x):
        return self.head(self.body(x)[0])


def snake(x):
    return x + torch.sin(3 * x).pow(2) / 3


def best(x):
    values, places = torch.topk(x, 3, -1)
    return values * 2, places, x.argmax(1)


def chosen(x):
    return torch.where(x > 0.25, torch.erf(x), x.clamp(-0.5, 0.5) * 2)


# -- networks ---------------------------------------------------------------------------------------------------


class Bert(nn.Module):
    """Tokens with a mask of those that are padding."""

    def __init__(self, width=32, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(50, width), nn.Embedding(16, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(TransformerBlock(width) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        bias = (1.0 - mask[:, None, None].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = x + layer.attention(layer.norms[0](x), bias)
            x = x + layer.mlp(layer.norms[1](x))
        return x, torch.tanh(self.pooler(x[:, 0]))


class Vit(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches, self.block = nn.Conv2d(3, width, 8, 8), TransformerBlock(width)
        self.token, self.place = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.randn(1, 17, width))
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.block(x)[:, 0])


class SwinBlock(nn.Module):
    """Attention in shifted windows of 4 x 4, with a bias for each pair of places and a mask for the shift."""

    def __init__(self, width=16, heads=2, size=8, window=4):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), SelfAttention(width, heads)
        self.window, self.shift = window, window // 2
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.1)
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = grid[:, :, None] - grid[:, None] + window - 1
        self.register_buffer("places", (apart[0] * (2 * window - 1) + apart[1]).flatten())
        marks = torch.zeros(size, size)
        for i, rows in enumerate((slice(0, -window), slice(-window, -self.shift), slice(-self.shift, None))):
            for j, columns in enumerate((slice(0, -window), slice(-window, -self.shift), slice(-self.shift, None))):
                marks[rows, columns] = 3 * i + j
        marks = self.cut(marks[None, :, :, None]).squeeze(-1)
        self.register_buffer("mask", (marks[:, None] != marks[:, :, None]).float() * -100.0)

    def cut(self, x):
        b, h, w, c = x.shape
        n = self.window
        return x.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)

    def forward(self, x):
        b, h, w, c = x.shape
        n = self.window
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        bias = self.table[self.places].view(n * n, n * n, -1).permute(2, 0, 1)
        y = self.attention(self.cut(y), bias[None] + self.mask.repeat(b, 1, 1)[:, None])
        y = y.view(b, h // n, w // n, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + torch.roll(y, (self.shift, self.shift), (1, 2))


class Conformer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.halves = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.attention = SelfAttention(width)
        self.wide, self.deep = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.batch, self.narrow = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    def forward(self, x):
        x = x + 0.5 * self.halves[0](x)
        x = x + self.attention(self.norms[0](x))
        y = F.glu(self.wide(self.norms[1](x).transpose(1, 2)), 1)
        x = x + self.narrow(F.silu(self.batch(self.deep(y)))).transpose(1, 2)
        return self.norms[2](x + 0.5 * self.halves[1](x))


class WaveNet(nn.Module):
    def __init__(self, width=16, layers=4):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.both = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(layers))
        self.skip = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.last = nn.Conv1d(width, 8, 1)

    def forward(self, x):
        x, total = self.first(x), 0
        for both, skip in zip(self.both, self.skip, strict=True):
            a, b = both(F.pad(x, (both.dilation[0], 0))).chunk(2, 1)
            y = skip(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + y, total + y
        return self.last(F.relu(total))


class Chomped(nn.Module):
    """A block of a temporal convolutional network: what lies in the future is cut off."""

    def __init__(self, given, made, by):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.convs = nn.ModuleList([norm(nn.Conv1d(c, made, 3, padding=2 * by, dilation=by)) for c in (given, made)])
        self.short, self.cut = nn.Conv1d(given, made, 1), 2 * by

    def forward(self, x):
        y = x
        for conv in self.convs:
            y = F.dropout(F.relu(conv(y)[:, :, : -self.cut]), 0.2, self.training)
        return F.relu(y + self.short(x))


class Inverted(nn.Module):
    """A block of MobileNetV2, or with `excite` one of EfficientNet."""

    def __init__(self, width, stride=1, excite=False):
        super().__init__()
        wide = 4 * width
        act = nn.SiLU if excite else nn.ReLU6
        self.body = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), act(inplace=True),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), act(inplace=True),
        )  # fmt: skip
        self.down, self.up = (nn.Conv2d(wide, 4, 1), nn.Conv2d(4, wide, 1)) if excite else (None, None)
        self.last = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))
        self.same = stride == 1

    def forward(self, x):
        y = self.body(x)
        if self.down is not None:
            y = y * torch.sigmoid(self.up(F.silu(self.down(y.mean((2, 3), keepdim=True)))))
        y = self.last(y)
        return x + y if self.same else y


def inverted_network(excite):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
        Inverted(8, excite=excite), Inverted(8, 2, excite), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


class ConvNextBlock(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.deep, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, 1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.narrow(F.gelu(self.wide(y)))).permute(0, 3, 1, 2)


class YoloHead(nn.Module):
    """Boxes and classes at two scales, with a neck, and distances as means of distributions."""

    def __init__(self, width=16, classes=3, bins=4):
        super().__init__()
        self.bins, self.outputs = bins, classes + 4 * bins
        self.join = nn.Conv2d(2 * width, width, 3, padding=1)
        self.heads = nn.ModuleList(nn.Conv2d(width, self.outputs, 1) for _ in range(2))

    def forward(self, fine, coarse):
        fine = F.silu(self.join(torch.cat([fine, F.interpolate(coarse, scale_factor=2.0)], 1)))
        flat, anchors, strides = [], [], []
        for x, head, by in zip((fine, coarse), self.heads, (8, 16), strict=True):
            h, w = x.shape[2:]
            flat.append(head(x).view(x.shape[0], self.outputs, h * w))
            y, z = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            anchors.append(torch.stack((z, y), -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), float(by)))
        place, by = torch.cat(anchors).t()[None], torch.cat(strides).t()
        boxes, classes = torch.cat(flat, 2).split((4 * self.bins, self.outputs - 4 * self.bins), 1)
        b, _, n = boxes.shape
        bins = boxes.view(b, 4, self.bins, n).transpose(2, 1).softmax(1)
        near, far = (bins * torch.arange(self.bins, dtype=bins.dtype).view(1, -1, 1, 1)).sum(1).chunk(2, 1)
        low, high = place - near, place + far
        return torch.cat(((low + high) / 2 * by, (high - low) * by, classes.sigmoid()), 1)


class SegFormerHead(nn.Module):
    def __init__(self, widths=(8, 16, 24), width=16):
        super().__init__()
        self.equal = nn.ModuleList(nn.Linear(one, width) for one in widths)
        self.fuse = nn.Sequential(
            nn.Conv2d(width * len(widths), width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.last = nn.Conv2d(width, 4, 1)

    def forward(self, *levels):
        size, made = levels[0].shape[2:], []
        for x, linear in zip(levels, self.equal, strict=True):
            b, _, h, w = x.shape
            y = linear(x.flatten(2).transpose(1, 2)).permute(0, 2, 1).reshape(b, -1, h, w)
            made.append(F.interpolate(y, size=size, mode="bilinear", align_corners=False))
        return self.last(self.fuse(torch.cat(made[::-1], 1)))


class Nerf(nn.Module):
    """Points and directions as sines and cosines, layers with a skip, density and colour."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.second = nn.Linear(27, width), nn.Linear(width + 27, width)
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.colour = nn.Sequential(nn.Linear(width + 15, 16), nn.ReLU(), nn.Linear(16, 3), nn.Sigmoid())

    def waves(self, x, count):
        scaled = (x[..., None, :] * 2.0 ** torch.arange(count, dtype=x.dtype)[:, None]).flatten(-2)
        return torch.cat([x, torch.sin(scaled), torch.cos(scaled)], -1)

    def forward(self, points, directions):
        x = self.waves(points, 4)
        y = F.relu(self.second(torch.cat([F.relu(self.first(x)), x], -1)))
        shown = self.colour(torch.cat([self.feature(y), self.waves(directions, 2)], -1))
        return torch.cat([shown, F.softplus(self.density(y))], -1)


class DiffusionBlock(nn.Module):
    """ResNet block with the time's embedding, attention over pixels and over a text, a ConvTranspose up."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.GroupNorm(4, width) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, width))
        self.attention = SelfAttention(width, heads)
        self.query, self.pair, self.out = nn.Linear(width, width), nn.Linear(12, 2 * width), nn.Linear(width, width)
        self.up = nn.ConvTranspose2d(width, width, 4, 2, 1)

    def embedded(self, t):
        rates = torch.exp(-math.log(10000.0) * torch.arange(8, dtype=torch.float32) / 8)
        angles = t[:, None].float() * rates[None]
        return torch.cat([torch.cos(angles), torch.sin(angles)], -1)

    def forward(self, x, t, text):
        y = self.convs[0](F.silu(self.norms[0](x))) + self.time(self.embedded(t))[:, :, None, None]
        x = x + self.convs[1](F.silu(self.norms[1](y)))
        b, c, h, w = x.shape
        y = self.norms[2](x).view(b, c, h * w).transpose(1, 2)
        y = y + self.attention(y)
        q = self.query(y).view(b, -1, self.heads, c // self.heads).transpose(1, 2)
        k, v = (one.view(b, -1, self.heads, c // self.heads).transpose(1, 2) for one in self.pair(text).chunk(2, -1))
        y = y + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c))
        return self.up(x + y.transpose(1, 2).reshape(b, c, h, w))


class Seq2Seq(nn.Module):
    """LSTMs both ways and one way, and attention from one to the other."""

    def __init__(self, width=16):
        super().__init__()
        self.words, self.others = nn.Embedding(30, width), nn.Embedding(30, width)
        self.encoder = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(width, 2 * width, batch_first=True)
        self.head = nn.Linear(4 * width, 30)

    def forward(self, given, made):
        memory, (h, c) = self.encoder(self.words(given))
        state = tuple(one.transpose(0, 1).reshape(1, one.shape[1], -1) for one in (h, c))
        y, _ = self.decoder(self.others(made), state)
        weights = torch.softmax(torch.bmm(y, memory.transpose(1, 2)), -1)
        return self.head(torch.cat([y, torch.bmm(weights, memory)], -1))


class VitsDecoder(nn.Module):
    """A flow step backwards, then a generator of sound with residual blocks."""

    def __init__(self, width=8):
        super().__init__()
        self.before, self.inside = nn.Conv1d(width // 2, 16, 1), nn.Conv1d(16, 32, 5, padding=2)
        self.after = nn.Conv1d(16, width // 2, 1)
        norm = nn.utils.parametrizations.weight_norm
        self.first, self.last = nn.Conv1d(width, 16, 7, padding=3), nn.Conv1d(4, 1, 7, padding=3, bias=False)
        self.ups = nn.ModuleList([norm(nn.ConvTranspose1d(16, 8, 8, 4, 2)), norm(nn.ConvTranspose1d(8, 4, 4, 2, 1))])
        self.blocks = nn.ModuleList(
            nn.ModuleList(norm(nn.Conv1d(c, c, 3, padding=by, dilation=by)) for by in (1, 3)) for c in (8, 4)
        )

    def forward(self, z, mask):
        a, b = (z * mask).split(z.shape[1] // 2, 1)
        left, right = self.inside(self.before(a) * mask).chunk(2, 1)
        b = (b - self.after(torch.tanh(left) * torch.sigmoid(right))) * mask
        x = self.first(torch.flip(torch.cat([a, b], 1), [1]))
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            for conv in block:
                x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.last(F.leaky_relu(x)))


# -- the table --------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    # of each input the axes whose sizes may vary, by their names
    sizes: tuple[dict[int, str], ...] = ()


def floats(*shapes):
    return lambda: tuple(torch.randn(shape) for shape in shapes)


MODULES = {
    "mobile_block": Case(mobile_block, floats((1, 3, 32, 32)), ({2: "h", 3: "w"},)),
    "bilinear": Case(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), floats((1, 8, 12, 12)), ({2: "h", 3: "w"},)),
    "bilinear_corners": Case(
        lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), floats((1, 8, 12, 12))
    ),
    "squeeze_excite": Case(SqueezeExcite, floats((1, 16, 14, 14)), ({2: "h", 3: "w"},)),
    "rms_norm": Case(RmsNorm, floats((2, 10, 32)), ({1: "n"},)),
    "transformer": Case(TransformerBlock, floats((2, 10, 32)), ({1: "n"},)),
    "attention": Case(SelfAttention, floats((2, 10, 32)), ({1: "n"},)),
    "embedding": Case(Embedded, lambda: (torch.randint(0, 20, (2, 7)),), ({1: "n"},)),
    "replicate_pad": Case(ReplicatePad, floats((2, 4, 20))),
    "gru": Case(lambda: Recurrent(nn.GRU), floats((2, 7, 8))),
    "lstm": Case(lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), floats((2, 7, 8))),
    "pixel_shuffle": Case(
        lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.PixelShuffle(2)), floats((1, 3, 9, 11)),
        ({2: "h", 3: "w"},),
    ),
    "einsum": Case(lambda: Formula(lambda x: torch.einsum("bchw,bdhw->bcd", x, x)), floats((2, 4, 5, 6))),
    "where_erf": Case(lambda: Formula(chosen), floats((2, 3, 9)), ({2: "n"},)),
    "group_norm_glu": Case(
        lambda: Formula(lambda x: F.glu(x, 1), nn.Conv1d(6, 16, 3, padding=1), nn.GroupNorm(4, 16)), floats((2, 6, 20)),
        ({2: "n"},),
    ),
    "snake": Case(lambda: Formula(snake, nn.Conv1d(4, 8, 3, padding=1)), floats((2, 4, 20)), ({2: "n"},)),
    "top_k": Case(lambda: Formula(best), floats((2, 5, 9))),
    "cumsum": Case(lambda: Formula(lambda x: torch.cumsum(x, 1) * 0.5), floats((2, 9, 4)), ({1: "n"},)),
}  # fmt: skip

NETWORKS = {
    "bert": Case(
        Bert, lambda: (torch.randint(0, 50, (2, 9)), (torch.arange(9) < torch.tensor([[9], [6]])).long()),
        ({1: "n"}, {1: "n"}),
    ),
    "vit": Case(Vit, floats((2, 3, 32, 32))),
    "swin": Case(SwinBlock, floats((2, 8, 8, 16))),
    "conformer": Case(Conformer, floats((2, 12, 32)), ({1: "n"},)),
    "wavenet": Case(WaveNet, floats((1, 1, 40)), ({2: "n"},)),
    "tcn": Case(lambda: nn.Sequential(Chomped(4, 8, 1), Chomped(8, 8, 2)), floats((2, 4, 24)), ({2: "n"},)),
    "mobilenet": Case(lambda: inverted_network(False), floats((1, 3, 32, 32))),
    "efficientnet": Case(lambda: inverted_network(True), floats((1, 3, 32, 32))),
    "convnext": Case(ConvNextBlock, floats((1, 16, 14, 14)), ({2: "h", 3: "w"},)),
    "yolo_head": Case(YoloHead, floats((1, 16, 8, 8), (1, 16, 4, 4))),
    "segformer_head": Case(SegFormerHead, floats((1, 8, 16, 16), (1, 16, 8, 8), (1, 24, 4, 4))),
    "nerf": Case(Nerf, floats((64, 3), (64, 3)), ({0: "n"}, {0: "n"})),
    "diffusion_block": Case(
        DiffusionBlock, lambda: (torch.randn(1, 16, 8, 8), torch.tensor([7]), torch.randn(1, 5, 12))
    ),
    "seq2seq": Case(Seq2Seq, lambda: (torch.randint(0, 30, (2, 6)), torch.randint(0, 30, (2, 4)))),
    "vits_decoder": Case(
        VitsDecoder, lambda: (torch.randn(1, 8, 10), torch.ones(1, 1, 10)), ({2: "n"}, {2: "n"})
    ),
}  # fmt: skip

MODELS: dict[str, Case] = {**MODULES, **NETWORKS}


def made(name):
    """The module in eval mode, with statistics that are not 0 and 1, and inputs for it: the same each time."""
    torch.manual_seed(7)
    case = MODELS[name]
    module, inputs = case.build().eval(), case.inputs()
    with torch.no_grad():
        module(*inputs)  # what is lazily made
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
    return module, inputs
