"""PyTorch's own samples of the arguments of each op, exported and read."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as trees  # noqa: E402

import dnnl_graph_ops as dgo  # noqa: E402

NAMES = """
abs add addcmul addmm amax amin baddbmm bmm broadcast_to cat celu chunk clamp clone cos div einsum erf exp expand flip
glu index_select lerp linalg.vector_norm log log_softmax logsumexp masked_fill matmul maximum mean minimum mm movedim
mul narrow native_layer_norm neg nn.functional.adaptive_avg_pool2d nn.functional.adaptive_max_pool1d
nn.functional.avg_pool2d nn.functional.batch_norm nn.functional.celu nn.functional.channel_shuffle
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.elu nn.functional.embedding
nn.functional.gelu nn.functional.glu nn.functional.group_norm nn.functional.hardsigmoid nn.functional.hardswish
nn.functional.hardtanh nn.functional.instance_norm nn.functional.interpolate nn.functional.layer_norm
nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.mish nn.functional.pad nn.functional.pixel_shuffle
nn.functional.pixel_unshuffle nn.functional.prelu nn.functional.relu nn.functional.relu6 nn.functional.rms_norm
nn.functional.scaled_dot_product_attention nn.functional.selu nn.functional.silu nn.functional.softplus
nn.functional.softsign nn.functional.unfold permute pow prod reciprocal repeat repeat_interleave reshape roll round
rsqrt rsub select sigmoid sin slice softmax split split_with_sizes sqrt square squeeze stack std sub sum tanh tile
topk transpose unbind unflatten unsqueeze upsample_bilinear upsample_nearest var where argmax cumsum fft.rfft floor
gather gt linalg.inv nn.functional.grid_sample scatter sort stft tril
"""
OPS = {
    f"{one.name}{'.' if one.variant_test_name else ''}{one.variant_test_name}": one
    for one in op_db
    if one.name in NAMES.split()
}


class Called(nn.Module):
    """A function whose arguments are tensors, which come at the call, and what is fixed."""

    def __init__(self, function, arguments):
        super().__init__()
        self.function = function
        leaves, self.spec = trees.tree_flatten(arguments)
        self.fixed = [None if isinstance(one, torch.Tensor) else (one,) for one in leaves]
        self.tensors = tuple(one.detach().clone() for one in leaves if isinstance(one, torch.Tensor))

    def forward(self, *tensors):
        rest = iter(tensors)
        leaves = [next(rest) if one is None else one[0] for one in self.fixed]
        args, kwargs = trees.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


def known(module):
    """Whether PyTorch itself runs and exports it, and gives the same at each call."""
    try:
        with torch.no_grad():
            wanted = trees.tree_leaves(module(*module.tensors))
            return torch.export.export(module, module.tensors), wanted
    except Exception:
        return None


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("name", OPS)
def test_samples(name, amount):
    samples = list(itertools.islice(OPS[name].sample_inputs("cpu", torch.float32), 40))
    for sample in samples[:: max(len(samples) // 3, 1)][:4][-amount(1, 2, 4) :]:
        module = Called(OPS[name].op, ((sample.input, *sample.args), sample.kwargs)).eval()
        found = known(module)
        if found is None:
            continue
        exported, wanted = found
        try:
            graph = dgo.from_torch(exported)
        except dgo.UnsupportedError as error:
            reasons = ("as in training", "complex64", "random", "float64", "is written", "depends on data")
            assert any(text in str(error) for text in reasons)
            continue
        net = graph.compile()
        given = zip((value.name for value in graph.inputs), map(dgo.from_dlpack, module.tensors), strict=True)
        got = list(net.run({name: array for name, array in given if name in net.input_names}).values())
        assert len(got) == len(wanted)
        for mine, theirs in zip(got, (one.numpy() for one in wanted), strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
            if theirs.dtype.kind == "f":
                largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=1)
                assert np.allclose(mine, theirs, rtol=2e-4, atol=2e-5 * largest, equal_nan=True), sample
            else:
                assert np.array_equal(mine, theirs), sample
