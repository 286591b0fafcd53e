"""Let a test fail with everything that was found, not with the first of it."""

import pytest


def expect_none(found):
    """Fail with one line for each finding; pass if there is none."""
    lines = [str(one) for one in found]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)
