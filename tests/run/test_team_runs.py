"""Runs with teams of agents: evaluated and exported as they were trained."""

import numpy as np
import pytest

from rookery import MADDPGConfig, PPOConfig, QMIXConfig, Trainer, VDNConfig, load_policy
from rookery.core.spaces.team_spaces import ALIVE
from selection import slow
from team_envs import Squad, TwoStepGame

SMALL = {"batch_size": 16, "learning_starts": 50, "train_every": 16, "updates_per_step": 0.1, "model": {"hidden": (8,)}}
BOTH = {"teams": {"blue": ["a", "b"]}, "num_envs": 4, "env_processes": 0, "seed": 0}


@pytest.mark.parametrize("cfg", [QMIXConfig(**SMALL), MADDPGConfig(**SMALL)])
def test_a_team_is_evaluated_and_its_policy_acts_elsewhere(cfg, tmp_path):
    with Trainer(TwoStepGame, cfg, run_dir=tmp_path / "run", **BOTH) as trainer:
        trainer.train({"env_steps": 200})
        wanted = trainer.evaluate(episodes=4).return_mean
    with Trainer.load(tmp_path / "run") as again:
        assert again.config.teams == {"blue": ("a", "b")}
        assert again.evaluate(episodes=4).return_mean == wanted
    policy = load_policy(tmp_path / "run", trust_code=True)
    both, alone = ({"0": 2, "1": other, "alive": np.ones(2, np.int8)} for other in (2, 0))
    assert policy.predict(both)["0"] == policy.predict(alone)["0"], "a member acts by what it sees alone"
    assert set(policy.predict(both)) == {"0", "1"}


def test_members_that_differ_and_an_agent_beside_them_learn_together():
    settings = {**BOTH, "teams": {"all": ["a", "guard"]}}
    with Trainer(
        Squad, **settings, policies={"all": {"name": "qmix", **SMALL}, "ppo": {}},
        policy_mapping={"all": "all", "b": "ppo", "c": "ppo"},
    ) as trainer:  # fmt: skip
        result = trainer.train_iteration()
        assert {name: type(one).__name__ for name, one in trainer.learners.items()} == {"all": "QMIX", "ppo": "PPO"}
        assert len(trainer.learners["all"].net.trunk.networks) == 2
        assert result.row()["policies/all/decisions"] > 0


@pytest.mark.parametrize("cfg", [slow(VDNConfig), QMIXConfig])
def test_members_see_their_last_frames_and_who_acts_now(cfg):
    model = {"hidden": (8,), "memory": {"frame_stack": 3}}
    walkers = {"blue": cfg(**{**SMALL, "model": model}), "guard": PPOConfig()}
    team = {"teams": {"blue": ["a", "b", "c"]}, "policy_mapping": {"blue": "blue", "guard": "guard"}}
    with Trainer(Squad, policies=walkers, **{**BOTH, **team}) as trainer:
        result = trainer.train({"env_steps": 300})
        recall = trainer.policies["blue"].recall
        widths = {leaf.path: leaf.shape for leaf in recall.spec.leaves}
        assert {path: widths[path] for path in ("0/place", ALIVE)} == {"0/place": (6,), ALIVE: (3,)}
        assert result.policies["blue"].learning["skipped_steps"] == 0
