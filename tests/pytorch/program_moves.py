"""How calls are drawn that move numbers."""

from .drawing import Again, Draw, row, rows, where

FORMATS = ("torch.contiguous_format", "torch.preserve_format", "torch.channels_last")


def factored(d: Draw, count: int) -> list[int]:
    """Sizes whose product is `count`, in few axes."""
    sizes: list[int] = []
    while count > 1 and len(sizes) < 4:
        sizes.append(d.pick(*(n for n in range(1, count + 1) if count % n == 0)))
        count //= sizes[-1]
    return sizes + [count] * (count != 1 or not sizes)


def viewed(d):
    """By the first size and the rest, or by any, one of them perhaps as -1."""
    x, shape, _ = d.tensor()
    if d.chance(0.3) and len(shape) > 1:
        return f"{x}.{d.op}({x}.shape[0], -1)"
    sizes = factored(d, d[x].numel())
    if 0 not in sizes and d.chance(0.3):
        sizes[d.whole(0, len(sizes) - 1)] = -1
    return f"{x}.{d.op}({sizes})"


def viewed_as(d):
    x = d.any()
    return f"{x}.{d.op}({d.of(factored(d, d[x].numel()), d.kind())})"


def by_axis(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.{d.op}({d.axis(len(shape))})"


def by_axes(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.{d.op}({d.axis(len(shape))}, {d.axis(len(shape))})"


def alone(d):
    return f"{d.any()}.{d.op}()"


def turned(d):
    return f"{d.any(0, 2)}.t()"


def matrices(d):
    return f"{d.any(2)}.mT"


def permuted(d):
    x, shape, _ = d.tensor()
    return f"{x}.permute({d.rng.sample(range(len(shape)), len(shape))})"


def new_axis(d):
    x, shape, _ = d.tensor(0, 4)
    return f"{x}.unsqueeze({d.whole(-len(shape) - 1, len(shape))})"


def expanded(d):
    x, shape, _ = d.tensor(0, 4)
    return f"{x}.{d.op}({[d.size()] * d.whole(0, 1) + [d.size() if n == 1 else d.pick(n, -1) for n in shape]})"


def strided(d):
    """Within the memory of what it reads, of which eager writes all: behind im2col there may be more."""
    x = d.any()
    room = d[x].untyped_storage().nbytes() // d[x].element_size()
    if room > max(one.numel() for one in (*d.values.values(), *d.leaves.values()) if where(one) == where(d[x])):
        raise Again
    sizes = [d.whole(1, 3) for _ in range(d.whole(1, 3))]
    strides = [d.pick(0, 1, 2, 3, 5) for _ in sizes]
    reach = sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    if reach >= room:
        raise Again
    return f"{x}.as_strided({sizes}, {strides}, {d.whole(0, room - 1 - reach)})"


def selected(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.select({d.axis(len(shape))}, {d.pick(0, -1)})"


def narrowed(d):
    x, shape, _ = d.tensor(1)
    axis = d.axis(len(shape))
    start = d.whole(0, shape[axis] - 1)
    return f"{x}.narrow({axis}, {start}, {d.whole(1, shape[axis] - start)})"


def sliced(d):
    x, shape, _ = d.tensor(1)
    part = d.pick(f"..., {d.whole(0, 1)}::{d.whole(1, 3)}", f":{d.whole(1, 3)}", f"..., -{d.whole(1, 2)}:", "None, ...")
    return f"{x}[{part}]" if len(shape) < 5 else f"{x}[..., :1]"


def windows(d):
    x, shape, _ = d.tensor(1, 4)
    axis = d.axis(len(shape))
    return f"{x}.unfold({axis}, {d.whole(1, shape[axis])}, {d.whole(1, 2)})"


def diagonal(d):
    x, shape, _ = d.tensor(2)
    return f"{x}.diagonal({d.whole(-1, 1)}" + d.pick(")", f", {d.axis(len(shape))}, {d.axis(len(shape))})")


def spread(d):
    return f"torch.diag_embed({d.any(1, 3)}, {d.whole(-1, 1)})"


def parted(d):
    x, shape, _ = d.tensor(1)
    axis = d.axis(len(shape))
    by = {"split": d.whole(1, 3), "chunk": d.whole(1, 3), "tensor_split": d.whole(1, 3), "unbind": None}[d.op]
    return f"{x}.{d.op}({axis if by is None else f'{by}, {axis}'})[{d.pick(0, -1)}]"


def joined(d):
    x, shape, kind = d.tensor(1)
    axis = d.axis(len(shape))
    other = list(shape)
    other[axis] = d.size()
    pair = [x, d.of(other, kind if d.chance(0.8) else d.kind())][:: d.pick(1, -1)]
    return f"torch.cat([{', '.join([*pair, *[x] * d.chance(0.2)])}], {axis})"


def stacked(d):
    x, shape, kind = d.tensor(0, 4)
    return f"torch.stack([{x}, {d.of(shape, kind)}], {d.whole(-len(shape) - 1, len(shape))})"


def rolled(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.roll({d.whole(-2, 2)}, {d.axis(len(shape))})"


def repeated(d):
    x, shape, _ = d.tensor(0, 4)
    return f"{x}.{d.op}({[d.pick(1, 2) for _ in range(len(shape) + d.whole(0, 1))]})"


def interleaved(d):
    x, shape, _ = d.tensor(1)
    return f"{x}.repeat_interleave({d.whole(1, 3)}, {d.axis(len(shape))})"


def cornered(d):
    return f"{d.any(2)}.{d.op}({d.whole(-2, 2)})"


def of_format(d):
    x, shape, _ = d.tensor(4 if d.chance(0.6) else 0)
    layout = d.pick(*FORMATS[: 3 if len(shape) == 4 else 2])
    more = f"torch.{str(d.dtype())[6:]}, copy=True, " if d.op == "to" and d.chance() else ""
    return f"{x}.{d.op}({more}memory_format={layout})"


def of_type(d):
    spelling = d.pick("{0}.to({1})", "{0}.to({1}, copy=True)", "{0}.to('cpu', {1})", "{0}.type({1})")
    return spelling.format(d.any(fits=is_small), d.dtype())


def is_small(x):
    """What integers of all types hold."""
    return bool((x.double().abs() <= 100).all())


def as_other(d):
    return f"{d.any(fits=is_small)}.{d.pick('to', 'type_as')}({d.of((1,), d.kind())})"


def places(d, shape, size, parameter=0.5):
    """Integers below `size`."""
    return d.leaf(d.numbers(shape, "i64", 0, size - 1), parameter)


def indexed(d):
    x, shape, _ = d.tensor(1, 4)
    axis = d.axis(len(shape))
    return f"{x}.index_select({axis}, {places(d, (d.size(),), shape[axis])})"


def chosen_rows(d):
    x, shape, _ = d.tensor(1, 4)
    return f"{x}[{places(d, d.shape(1, 2), shape[0])}]"


def chosen_pairs(d):
    x, shape, _ = d.tensor(2, 4)
    n = d.size()
    return f"{x}[{places(d, (n,), shape[0])}, {places(d, (n,), shape[1])}]"


def gathered(d):
    x, shape, _ = d.tensor(1)
    axis = d.axis(len(shape))
    rows_ = [d.whole(1, n) for n in shape]
    rows_[axis] = d.size()
    return f"{x}.gather({axis}, {places(d, rows_, shape[axis])})"


def scattered(d):
    """To different places along the axis."""
    x, shape, kind = d.tensor(1)
    axis = d.axis(len(shape))
    order = d.leaf(d.numbers(shape, "f32").argsort(dim=axis, stable=True), 0.5)
    return f"{x}.{d.op}({axis}, {order}, {d.of(shape, kind)})"


def embedded(d):
    table, shape, _ = d.tensor(2, 2)
    return f"F.embedding({places(d, d.shape(0, 3), shape[0])}, {table})"


def hot(d):
    return f"F.one_hot({places(d, d.shape(0, 4), 4)}, {d.whole(4, 5)})"


def filled(d):
    x = d.any()
    more = f", {d.whole(0, 3)}" if d.op == "full_like" else ""
    return f"torch.{d.op}({x}{more}" + d.pick(")", f", dtype={d.dtype()})")


def counted(d):
    return f"torch.arange({d.whole(0, 2)}, {d.whole(3, 6)}, dtype={d.dtype('f32 i32 i64')}) + {d.any(0, 0)}"


row("view reshape", viewed, "m")
row("view_as reshape_as", viewed_as, "m")
row("flatten", by_axis, "m")
row("squeeze flip", by_axis, "m")
row("transpose movedim swapaxes", by_axes, "m")
row("clone contiguous ravel detach", alone, "m")
row("expand broadcast_to", expanded, "m")
row("split chunk tensor_split unbind", parted, "m")
row("repeat tile", repeated, "m")
row("tril triu", cornered, "m")
row("to clone.format contiguous.format", lambda d: renamed(d, of_format), "m")
row("zeros_like ones_like full_like", filled, "m")
row("scatter", scattered, "m")
row("scatter_add", scattered)
rows("m", t=turned, mT=matrices, permute=permuted, unsqueeze=new_axis, as_strided=strided, select=selected,
     narrow=narrowed, slice=sliced, unfold=windows, diagonal=diagonal, diag_embed=spread, cat=joined, stack=stacked,
     roll=rolled, repeat_interleave=interleaved, index_select=indexed, rows=chosen_rows, pairs=chosen_pairs,
     gather=gathered, embedding=embedded, one_hot=hot, arange=counted)  # fmt: skip
rows("j", dtype=of_type, other=as_other)


def renamed(d, draw):
    """Two spellings of an op that has rows of its own without arguments."""
    d.op = d.op.removesuffix(".format")
    return draw(d)
