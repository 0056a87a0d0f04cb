"""How calls of layers are drawn: convolutions, products, pools, norms, softmax, resizing, attention."""

from .drawing import FLOATS, Again, row, rows
from .program_ops import is_finite


def axes_of(d):
    """The number in an op's name: conv2d."""
    return int(d.op[-2])


def windowed(d, axes, low=2):
    """(N, C, spatial...), sometimes without N."""
    return d.tensor(axes + 2 - d.chance(0.15), axes + 2, kinds=FLOATS, fits=lambda x: x.numel() > 0)


def each(d, axes, *choices):
    """A number for all axes, or one for each."""
    return d.pick(*choices) if d.chance() else [d.pick(*choices) for _ in range(axes)]


def convolution(d):
    axes = axes_of(d)
    x, shape, kind = windowed(d, axes)
    channels, space = shape[-axes - 1], shape[-axes:]
    groups = d.pick(*(n for n in range(1, channels + 1) if channels % n == 0))
    out = d.extent if d.extent and d.extent % groups == 0 else groups * d.whole(1, 2)
    kernel = [d.pick(1, 2, 3) for _ in space]
    transposed = "transpose" in d.op
    sizes = (channels, out // groups) if transposed else (out, channels // groups)
    w = d.of((*sizes, *kernel), kind, parameter=0.8)
    bias = d.of((out,), kind, parameter=0.8) if d.chance() else None
    stride, dilation = each(d, axes, 1, 1, 2), each(d, axes, 1, 1, 2)
    if transposed:
        more = f"output_padding={each(d, axes, 0, 1)}, " if stride != 1 and d.chance(0.3) else ""
        padding = each(d, axes, 0, 0, 1)
    else:
        more, padding = "", each(d, axes, 0, 1) if d.chance(0.8) else repr(d.pick("same", "valid"))
    return f"F.{d.op}({x}, {w}, {bias}, stride={stride}, padding={padding}, {more}groups={groups}, dilation={dilation})"


def linear(d):
    x, shape, kind = d.tensor(1, kinds=FLOATS)
    out = d.size()
    w = d.of((out, shape[-1]) if d.chance(0.9) else shape[-1:], kind, parameter=0.8)
    bias = d.of((out,), kind, parameter=0.8) if d.chance() and d[w].ndim == 2 else None
    return f"F.linear({x}, {w}, {bias})"


def product(d):
    """Of integers, too."""
    x, shape, kind = d.tensor(1, kinds=f"{FLOATS} i32 i64")
    batch = d.pick((), shape[:-2], tuple(1 if d.chance() else n for n in shape[:-2]))
    y = d.of((shape[-1],) if d.chance(0.2) else (*batch, shape[-1], d.size()), kind)
    return f"{x} @ {y}"


def turned_product(d):
    x, shape, kind = d.tensor(2, kinds=FLOATS)
    return f"{x} @ {d.of((*shape[:-2], d.size(), shape[-1]), kind)}.transpose(-1, -2)"


def matrices(d):
    axes = {"mm": 2, "addmm": 2, "bmm": 3, "baddbmm": 3}[d.op]
    x, shape, kind = d.tensor(axes, axes, kinds=FLOATS)
    n = d.size()
    pair = f"{x}, {d.of((*shape[:-2], shape[-1], n), kind)}"
    if d.op in ("mm", "bmm"):
        return f"torch.{d.op}({pair})"
    rest = (*shape[:-1], n)[d.whole(0, axes - 1) :]
    return f"torch.{d.op}({d.of(rest, kind)}, {pair}, beta={d.pick(1, 1, 2, 0)}, alpha={d.pick(1, 1, -1)})"


def vectors(d):
    x, shape, kind = d.tensor(*((2, 2) if d.op == "mv" else (1, 1)), kinds=FLOATS)
    return f"torch.{d.op}({x}, {d.of((d.size(),) if d.op == 'outer' else shape[-1:], kind)})"


EQUATIONS = ("ij,jk->ik", "ij,ij->", "ij->ji", "bij,bjk->bik", "i,j->ij", "bhqd,bhkd->bhqk", "ij,kj->ik", "...i,i->...")


def einsum(d):
    equation, kind, sizes = d.pick(*EQUATIONS), d.kind(FLOATS), {letter: d.size() for letter in "bdhijkq"}
    terms = equation.partition("->")[0].split(",")
    shapes = [[*(d.size() for _ in range(2 * ("..." in term))), *map(sizes.get, term.strip("."))] for term in terms]
    return f"torch.einsum({equation!r}, {', '.join(d.of(shape, kind) for shape in shapes)})"


def pooled(d):
    axes = axes_of(d)
    x, shape, _ = windowed(d, axes)
    kernel = [d.pick(1, *range(2, min(n, 3) + 1)) for n in shape[-axes:]]
    stride = each(d, axes, 1, 2) if d.chance(0.7) else None
    padding = [d.whole(0, n // 2) for n in kernel] if d.chance() else 0
    more = f", ceil_mode={d.chance(0.3)}"
    if d.op.startswith("avg"):
        more += f", count_include_pad={d.chance()}"
        more += f", divisor_override={d.whole(1, 3)}" if axes > 1 and d.chance(0.1) else ""
        return f"F.{d.op}({x}, {kernel}, {stride}, {padding}{more})"
    more += f", dilation={d.pick(1, 1, 2)}"
    call = f"F.{d.op}({x}, {kernel}, {stride}, {padding}{more}"
    return f"{call}, return_indices=True)[{d.pick(0, 1)}]" if d.chance(0.15) else f"{call})"


def adaptive(d):
    axes = axes_of(d)
    x, shape, _ = windowed(d, axes)
    sizes = [d.pick(*(n for n in range(1, size + 1) if size % n == 0)) for size in shape[-axes:]]
    return f"F.{d.op}({x}, {d.pick(sizes, sizes, 1, [d.whole(1, 3)] * axes)})"


def by_channel(d):
    x, shape, kind = d.tensor(2, kinds=FLOATS, fits=lambda x: x.numel() > 0)
    mean, w, b = (d.of(shape[1:2], kind, parameter=0.8) for _ in range(3))
    variance = d.leaf(d.numbers(shape[1:2], kind, 1, 4), 0.8)
    return f"F.batch_norm({x}, {mean}, {variance}, {d.pick(f'{w}, {b}', 'None, None')}, eps=0.5)"


def instances(d):
    x, shape, kind = d.tensor(3, 5, kinds=FLOATS, fits=lambda x: x[0, 0].numel() > 1)
    w, b = (d.of(shape[1:2], kind, parameter=0.8) for _ in range(2))
    return f"F.instance_norm({x}, weight={d.pick(w, None)}, bias={d.pick(b, None)}, eps=0.5)"


def groups(d):
    x, shape, kind = d.tensor(2, kinds=FLOATS, fits=lambda x: x[0].numel() > 1)
    n = d.pick(*(n for n in range(1, shape[1] + 1) if shape[1] % n == 0))
    w, b = (d.of(shape[1:2], kind, parameter=0.8) for _ in range(2))
    return f"F.group_norm({x}, {n}, {d.pick(f'{w}, {b}', 'None, None')}, eps=0.5)"


def layers(d):
    x, shape, kind = d.tensor(1, kinds=FLOATS)
    size = shape[-d.whole(1, len(shape)) :]
    w, b = (d.of(size, kind, parameter=0.8) for _ in range(2))
    more = d.pick("", f", {w}") if d.op == "rms_norm" else d.pick("", f", {w}", f", {w}, {b}")
    return f"F.{d.op}({x}, {list(size)}{more}, eps=0.5)"


def unit(d):
    x, shape, _ = d.tensor(1, kinds=FLOATS)
    return f"F.normalize({x}, p={d.pick(1.0, 2.0)}, dim={d.axis(len(shape))}, eps=0.5)"


def neighbours(d):
    return f"F.local_response_norm({d.any(3, 5, FLOATS, lambda x: x.numel() > 0)}, {d.whole(1, 3)}, k=2.0)"


def along(d):
    x, shape, _ = d.tensor(1, kinds=FLOATS)
    return f"F.{d.op}({x}, dim={d.axis(len(shape))})"


def gated(d):
    x, shape, _ = d.tensor(1, kinds=FLOATS)
    axes = [axis for axis, n in enumerate(shape) if n % 2 == 0]
    if not axes:
        raise Again
    return f"F.glu({x}, {d.pick(*axes)})"


def slopes(d):
    x, shape, kind = d.tensor(kinds=FLOATS)
    count = d.pick(1, *shape[1:2])
    return f"F.prelu({x}, {d.leaf(d.numbers((count,), kind), 0.8)})"


def resized(d):
    axes = d.pick(1, 2, 3)
    mode = d.op.partition(".")[2]
    # PyTorch's kernels and its decomposition differ in which Inf or NaN they multiply by a weight of 0
    x = d.any(axes + 2, axes + 2, FLOATS, lambda x: x.numel() > 0 and (mode == "nearest" or is_finite(x)))
    smooth = {1: "linear", 2: "bilinear", 3: "trilinear"}[axes]
    mode = smooth if mode == "linear" else mode
    size = f"scale_factor={d.pick(2.0, 0.5, 1.5)}" if d.chance() else f"size={[d.whole(1, 5) for _ in range(axes)]}"
    more = f", align_corners={d.chance()}" if mode == smooth else ""
    return f"F.interpolate({x}, {size}, mode={mode!r}{more})"


def bicubic(d):
    x = d.any(4, 4, FLOATS, lambda x: x.numel() > 0)
    return f"F.interpolate({x}, size={[d.whole(1, 5), d.whole(1, 5)]}, mode='bicubic', align_corners={d.chance()})"


def padded(d):
    x, shape, _ = d.tensor(1)
    pads = [d.pick(0, 1, 2, -1) for _ in range(2 * d.whole(1, len(shape)))]
    return f"F.pad({x}, {pads}, value={d.pick(0, 1)})"


def edged(d):
    axes = d.whole(1, 3)
    x = d.any(axes + 1, min(axes + 2, 5), FLOATS)
    return f"F.pad({x}, {[d.whole(0, 1) for _ in range(2 * axes)]}, mode={d.op.partition('.')[2]!r})"


def blocks(d):
    shape, kind, b = d.shape(3, 5), d.kind(), d.pick(1, 2)
    sizes = (shape[-3] * b * b, *shape[-2:]) if d.op == "pixel_shuffle" else (shape[-3], *(n * b for n in shape[-2:]))
    return f"F.{d.op}({d.of((*shape[:-3], *sizes), kind)}, {b})"


def shuffled(d):
    x, shape, _ = d.tensor(3, 5, kinds=FLOATS)
    return f"torch.channel_shuffle({x}, {d.pick(*(n for n in range(1, shape[1] + 1) if shape[1] % n == 0))})"


def columns(d):
    x, shape, _ = d.tensor(4, 4, kinds=FLOATS, fits=lambda x: x.numel() > 0)
    kernel = [d.whole(1, min(n, 2)) for n in shape[2:]]
    return f"F.unfold({x}, {kernel}, padding={d.pick(0, 1)}, stride={d.pick(1, 2)})"


def attention(d):
    batch, length, other, size, kind = d.shape(0, 2), d.size(), d.size(), d.whole(1, 4), d.kind(FLOATS)
    q, k, v = (d.of((*batch, n, size), kind) for n in (length, other, other))
    mask = d.of((length, other), d.pick(kind, "bool")) if d.chance(0.4) else None
    causal = f", is_causal={d.chance(0.3)}" if mask is None else ""
    scale = f", scale={d.pick(0.5, 1.0)}" if d.chance() else ""
    return f"F.scaled_dot_product_attention({q}, {k}, {v}, {mask}{causal}{scale})"


def dropped(d):
    return f"F.dropout({d.any(kinds=FLOATS)}, training=False)"


row("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d", convolution)
row("mm bmm addmm baddbmm", matrices)
row("mv dot outer", vectors)
row("max_pool1d max_pool2d max_pool3d", pooled, "j")
row("avg_pool1d avg_pool2d avg_pool3d", pooled, "r")
row("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", adaptive, "r")
row("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d", adaptive)
row("layer_norm rms_norm", layers, "r")
row("softmax log_softmax softmin", along, "r")
row("interpolate.nearest interpolate.linear", resized, "r")
row("pad.reflect pad.replicate pad.circular", edged, "m")
row("pixel_shuffle pixel_unshuffle", blocks, "m")
rows("", linear=linear, matmul=product, matmul_turned=turned_product, einsum=einsum, prelu=slopes)
rows("r", batch_norm=by_channel, instance_norm=instances, group_norm=groups, normalize=unit, attention=attention,
     local_response_norm=neighbours, glu=gated, bicubic=bicubic)  # fmt: skip
rows("m", pad=padded, channel_shuffle=shuffled, columns=columns, dropout=dropped)
