"""Unity players without Unity, for tests: see docs/how-to/test-unity.md."""

from rookery.envs.unity.testing.recorder import Recorder
from rookery.envs.unity.testing.script import write_player
from rookery.envs.unity.testing.session_file import SessionMessage, read_session

__all__ = ["Recorder", "SessionMessage", "read_session", "write_player"]
