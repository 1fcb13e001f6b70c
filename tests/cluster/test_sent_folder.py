"""The folder that is sent to all machines, and what is said where it is missing: for workers, learners and trials."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import textwrap

import pytest

from rookery import PPOConfig, Trainer, tune
from rookery.core.errors import ConfigError

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

PPO = PPOConfig(fragment_length=16, minibatch_size=32, epochs=1)

CODE = """
    import os
    from pathlib import Path
    import gymnasium
    import numpy as np

    class Reading(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            if os.getpid() != int(os.environ["DRIVER_OF_THIS_TEST"]):  # which has another working directory
                assert Path("beside.txt").read_text() == "found"
            self.clock = 0
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.clock += 1
            return np.zeros(2, np.float32), 1.0, self.clock == 8, False, {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module that this process has loaded, and others do not find, and a file beside it."""
    place = tmp_path / "mine"
    place.mkdir()
    (place / "reading_env.py").write_text(textwrap.dedent(CODE))
    (place / "beside.txt").write_text("found")
    monkeypatch.setenv("DRIVER_OF_THIS_TEST", str(os.getpid()))
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(place))
        importlib.import_module("reading_env")
    yield place
    sys.modules.pop("reading_env", None)
    ray.shutdown()


def play(tmp_path, **cluster):
    sampling, evaluation = {"workers": 1}, {"every": 1, "workers": 1, "episodes": 2}
    env = sys.modules["reading_env"].Reading
    with Trainer(env, PPO, num_envs=2, sampling=sampling, evaluation=evaluation, cluster=cluster) as trainer:
        trainer.train_iteration()


def learn(tmp_path, **cluster):
    with Trainer("reading_env:Reading", PPO, num_envs=2, cluster={"learners": 2, **cluster}) as trainer:
        trainer.train_iteration()


def try_settings(tmp_path, ray, **cluster):
    """Trials, each with a worker of its own."""
    settings = {"cluster": {"worker_cpus": 0.5, **cluster}, "sampling.workers": 1, "algorithm.lr": tune.choice([1e-3])}
    analysis = tune.run(
        sys.modules["reading_env"].Reading, PPO, num_envs=2, stop={"iterations": 1}, config=settings,
        place="ray", folder=tmp_path / "tried", console="quiet", force=True,
    )  # fmt: skip
    if analysis.trials[0].error:
        raise ConfigError(analysis.trials[0].error)


@pytest.mark.regression("setting dropped", "`cluster.working_directory` never worked with a folder")
@pytest.mark.parametrize("use", [play, learn, try_settings])
def test_a_folder_is_sent_and_is_where_workers_are(use, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    use(tmp_path, ray="local", working_directory="mine")
    with pytest.raises(ConfigError, match=rf"there is no folder {tmp_path}/mime; give one"):
        use(tmp_path, ray="local", working_directory="mime")
    assert not ray.is_initialized()


@pytest.mark.regression(
    "unclear error", "a module that only the driver has was named without the machine that lacks it, or a remedy"
)
def test_a_module_that_only_this_process_has_is_named_with_the_machine_and_the_setting(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "")
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    said = f"machine {socket.gethostname()} has no module 'reading_env': install it there, or send .* cluster.working_d"
    address = ray.get_runtime_context().gcs_address
    for use in (play, learn, try_settings):
        with pytest.raises(ConfigError, match=said):
            use(tmp_path, ray=address)
        late = r"this process has joined Ray before.*ray\.init\(runtime_env={'working_dir': '" + str(folder)
        with pytest.raises(ConfigError, match=late):
            use(tmp_path, ray=address, working_directory=str(folder))
