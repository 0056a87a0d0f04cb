"""Results of torch.compile lie where PyTorch plans them: what reads them by strides finds the same elements."""

import pytest
import torch

from .test_backend import counted

__all__ = ["counted"]

X = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).reshape(2, 3, 4, 4)
RESULTS = {
    "gaps": lambda x: torch.relu(x * 2).transpose(1, 2)[:, :2],
    "offset": lambda x: torch.relu(x * 2)[:, 1:],
    "first rows": lambda x: torch.relu(x * 2)[:1],
    "chosen": lambda x: torch.relu(x * 2).select(2, 1),
    "turned": lambda x: torch.relu(x * 2).transpose(1, 3),
    "spread": lambda x: torch.relu(x * 2)[:, :1].expand(-1, 5, -1, -1),
    "of an argument": lambda x: x.transpose(0, 1)[1:],
    "channels last": lambda x: torch.relu(x * 2).to(memory_format=torch.channels_last),
}


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", RESULTS)
def test_strides_and_what_lies_around(name, dynamic, counted):
    results = RESULTS[name]
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (torch.relu(x) + 1, results(x)), backend=counted, dynamic=dynamic)
    for size in (4, 5) if dynamic else (4,):
        x = torch.arange(2 * 3 * 4 * size, dtype=torch.float32).reshape(2, 3, 4, size)
        with torch.no_grad():
            (_, got), (_, wanted) = compiled(x), (None, results(x))
        assert torch.equal(got, wanted)
        assert got.stride() == wanted.stride() and got.storage_offset() == wanted.storage_offset()
        assert torch.equal(got.as_strided((2,), (1,), 0), wanted.as_strided((2,), (1,), 0))


def test_elements_by_strides_behind_a_part(counted):
    def read(x):
        y = torch.relu(x * 2).transpose(1, 2)[:, :2]
        return y.as_strided((2, 5), (48, 7), 1) + 1

    compiled = torch.compile(read, backend=counted)
    with torch.no_grad():
        assert torch.equal(compiled(X), read(X))
