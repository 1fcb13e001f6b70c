"""A test is no script: which RLlib the script before it was for does not matter to it."""

import pytest

from rookery_rllib.base import release


@pytest.fixture(autouse=True)
def no_script_before():
    release.begin()
    yield
    release.begin()
