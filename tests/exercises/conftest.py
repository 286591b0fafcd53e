"""What several tests of exercises share."""

import pytest
import torch

from named_mistakes import checking, memory, session
from tests.exercises.answers import forget_outcomes, remembering_run


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def precision(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.fixture
def remembering(monkeypatch):
    """What the bank itself does with a case is computed once."""
    monkeypatch.setattr(checking, "run", remembering_run)
    yield
    forget_outcomes()


@pytest.fixture
def fresh_session(monkeypatch):
    """A session in which nothing was tried."""
    monkeypatch.setattr(session, "_last", {})
    monkeypatch.setattr(session, "_steps", {})
    monkeypatch.setattr(memory, "_entries", {})
    monkeypatch.setattr(session, "_asked", set())


@pytest.fixture(scope="session", autouse=True)
def loaded_autograd():
    """Its first call imports SymPy; a time limit that ends an import breaks it."""
    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(2 * x, x, torch.ones(2))
