"""What the tests of single notebooks share."""

import pytest

from tests.support import notebook_code


@pytest.fixture(scope="module")
def built(request):
    """What a notebook defines: the NAMES of its test module, which gives it KNOWN."""
    module = request.module
    names, known = getattr(module, "NAMES", ()), getattr(module, "KNOWN", {})
    return notebook_code.built(module.__name__[-2:], *names, **known)
