"""Hooks by which a project adds what only it knows. Each is optional."""

import pytest


@pytest.hookspec
def pytest_nbval_environment(notebooks, stack, scratch):
    """Variables for the kernels, which may write into the folder `scratch`.

    stack: an ExitStack that closes after the last.
    """


@pytest.hookspec
def pytest_nbval_problems(notebook, path):
    """Sentences on what is wrong with a stored notebook, before it runs."""


@pytest.hookspec
def pytest_nbval_fingerprint(notebook):
    """More that stored outputs depend on, as a dict: for example, the data."""


@pytest.hookspec(firstresult=True)
def pytest_nbval_html(html):
    """The HTML of an output as it is to be compared."""


@pytest.hookspec(firstresult=True)
def pytest_nbval_skip(cell):
    """Why this cell cannot run here, or None."""


@pytest.hookspec(firstresult=True)
def pytest_nbval_advice(path):
    """What to do if a changed output is meant."""


@pytest.hookspec
def pytest_nbval_opened(path, opened):
    """After a notebook: the files of the project that its kernel opened."""
