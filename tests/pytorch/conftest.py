import pytest
import torch


@pytest.fixture(autouse=True)
def seeded(request):
    torch.manual_seed(request.config.getoption("--seed"))
