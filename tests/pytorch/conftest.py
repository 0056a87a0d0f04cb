from importlib.util import find_spec

import pytest

if find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def seeded(request):
    import torch

    torch.manual_seed(request.config.getoption("--seed"))
