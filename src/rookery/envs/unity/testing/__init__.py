"""Unity players without Unity, for tests: see docs/how-to/test-unity.md."""

from rookery.envs.unity.testing.script import write_player

__all__ = ["write_player"]
