"""Players that tests of this folder write; what tests of the verbs share is beside those of the command line."""

import sys
from pathlib import Path

import pytest

from rookery_mlagents.testing import write_player

sys.path.append(str(Path(__file__).parents[1] / "cli"))  # commands.py


@pytest.fixture
def game(tmp_path):
    """Writes a player; gives its path without the end of its name."""

    def written(*arguments, env="rookery.tasks:Basic"):
        write_player(tmp_path / "build" / "Game.x86_64", env, [str(word) for word in arguments])
        return str(tmp_path / "build" / "Game")

    return written
