"""The low-level API beside mlagents_envs 1.1.0, where `benchmarks/peers/install.sh mlagents` has installed it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grpc")
from one_player import free_port

from rookery.envs.make import make_env

ROOT = Path(__file__).parents[3]
PEER = ROOT / "benchmarks" / "peers" / ".venv-mlagents"
PYTHON = PEER / "bin" / "python"
SCRIPT = ROOT / "benchmarks" / "peers" / "mlagents_steps.py"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="mlagents_envs is not installed beside")

SCENES = {
    "statistics, two agents": ("rookery.tasks:Basic", "--stats", "--num-areas", "2"),
    "pictures, masks, a goal, new ids": (
        "rookery.tasks:GoalGrid", "--pictures", "png", "--layout", "chw", "--goal", "goal", "--ids", "new",
    ),
    "pictures of numbers, both kinds of actions": ("rookery.tasks:FoodCollector", "--layout", "chw"),
    "agents with clocks of their own": (
        "rookery.tasks:BallPlate", "--decision-period", "3", "--stagger", "--num-areas", "3",
    ),
    "groups": ("rookery.tasks:CarryTogether",),
    "teams": ("rookery.tasks:LineSoccer",),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_the_same_script_sees_the_same_numbers(tmp_path, scene):
    game = tmp_path / "Game.x86_64"
    line = f'exec env -u PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION {sys.executable} -m rookery_mlagents.testing "$@"'
    game.write_text(f"#!/bin/sh\n{line}\n")
    game.chmod(0o755)
    theirs = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    for who, command, environment in (
        ("theirs", [str(PYTHON), str(SCRIPT)], theirs),
        ("ours", [sys.executable, "-m", "rookery_mlagents", "run", str(SCRIPT), "--"], dict(os.environ)),
    ):
        more = [str(tmp_path / f"{who}.npz"), str(game), str(free_port()), *SCENES[scene]]
        subprocess.run([*command, *more], env=environment, check=True, timeout=120, capture_output=True)
    one, other = (np.load(tmp_path / f"{who}.npz") for who in ("theirs", "ours"))
    assert set(one.files) == set(other.files) and len(one.files) > 500
    for name in one.files:
        assert one[name].dtype == other[name].dtype, name
        assert np.array_equal(one[name], other[name]), name


def test_an_environment_of_their_own_classes_is_taken(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "envs" / "unity"))
    from line_walkers import LineWalkers

    monkeypatch.setattr(sys, "path", [*sys.path, str(next((PEER / "lib").glob("python*/site-packages")))])
    if importlib.util.find_spec("mlagents_envs") is None:
        pytest.skip("mlagents_envs is not there")
    import mlagents_envs.base_env as theirs

    assert "Rookery" not in repr(theirs)

    class Walkers(LineWalkers, theirs.BaseEnv):
        """An environment that comes from their class and shows their objects."""

    try:
        env = make_env(lambda: Walkers(2, masked=True, groups=True, api=theirs), None, (), 2, "auto")
        step = env.reset(lambda lane, episode: 0)
        for _ in range(30):
            step = env.step([np.ones(int(step.rows[0].waiting.sum()), int)])
        assert env.episode.sum() > 0 and dict(env.groups)
        env.close()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mlagents_envs"]:
            del sys.modules[name]
