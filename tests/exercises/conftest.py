"""What several tests of exercises share."""

import pytest
import torch


@pytest.fixture
def in_float64():
    """The default type of most notebooks, and chance that is the same for all."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)
