import pytest


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Makes steps without a message return soon, so that tests end soon."""
    monkeypatch.setattr("rookery.envs.async_copies.async_env.PATIENCE", 0.05)
