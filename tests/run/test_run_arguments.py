"""Run arguments of environments may change when a run is resumed; other arguments may not."""

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from rookery import Trainer
from rookery.core.errors import ConfigError
from rookery.run.checkpoint.changes import check_changes, texts


class Ported(CartPoleEnv):
    run_arguments = frozenset({"port"})

    def __init__(self, port=1, size=1, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.port = port


NAME = f"{__name__}:Ported"
SMALL = {"sampling.num_envs": 1, "algorithm.fragment_length": 32, "algorithm.minibatch_size": 16}


def test_arguments_of_running_may_change_and_others_keep_their_value(tmp_path):
    given = {**SMALL, "env.config": {"port": 1, "size": 1}, "env.implementation": "serial"}
    with Trainer(NAME, "ppo", config=given, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train_iteration()
        trainer.save()
        before = texts(trainer.resolved.history)
    with Trainer.load(tmp_path / "run", config={"env.config.port": 7}) as again:
        check_changes(again.resolved, before)
        assert again.config.env.config == {"port": 7, "size": 1}
        again.train_iteration()
    with Trainer.load(tmp_path / "run", config={"env.config.size": 2}) as other:
        with pytest.raises(ConfigError, match=r"env.config.size = 2: keeps its value"):
            check_changes(other.resolved, before)
