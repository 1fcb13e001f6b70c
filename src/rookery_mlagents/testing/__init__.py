"""Unity players without Unity, for tests: see docs/how-to/test-unity.md."""

from rookery_mlagents.testing.player_script import write_player
from rookery_mlagents.testing.recorder import Recorder
from rookery_mlagents.testing.session_file import SessionMessage, read_session

__all__ = ["Recorder", "SessionMessage", "read_session", "write_player"]
