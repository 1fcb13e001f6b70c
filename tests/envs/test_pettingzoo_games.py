"""PettingZoo's games of several agents work as they are: an iteration of PPO in each that is installed."""

import warnings

import pytest

from rookery.run.trainer import Trainer

pytest.importorskip("pettingzoo")

BRIEF = {"algorithm": {"fragment_length": 12, "minibatch_size": 64, "epochs": 1, "model": {"hidden": [16]}}}


def trained(name, **settings):
    """One iteration in two copies: the steps that were played, and the trainer's policies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PettingZoo's imports
        with Trainer(name, "ppo", config=BRIEF, num_envs=2, seed=0, **settings) as trainer:
            result = trainer.train_iteration()
            return result, trainer.policies


@pytest.mark.parametrize(
    ("game", "masked"), [("tictactoe_v3", True), ("connect_four_v3", True), ("rps_v2", False), ("go_v5", True)]
)
def test_board_games_are_trained_in_with_their_masks(game, masked):
    pytest.importorskip("pygame")
    result, policies = trained(f"pettingzoo.classic.{game}")
    assert result.env_steps > 0
    (policy,) = policies.values()
    assert policy.obs_spec.has_mask == masked


@pytest.mark.parametrize("game", ["simple_spread_v3", "simple_reference_v3", "simple_v3"])
def test_particles_are_trained_in(game):
    pytest.importorskip("mpe2")
    assert trained(f"mpe2.{game}")[0].env_steps > 0


@pytest.mark.parametrize(
    ("game", "who"),
    [
        ("simple_speaker_listener_v4", {"speaker_0": "a", "listener_0": "b"}),
        ("simple_adversary_v3", {"adversary_0": "a", "agent_0": "b", "agent_1": "b"}),
        ("simple_tag_v3", {**{f"adversary_{k}": "a" for k in range(3)}, "agent_0": "b"}),
    ],
)
def test_particles_of_two_kinds_are_trained_in_by_two_policies(game, who):
    pytest.importorskip("mpe2")
    assert set(trained(f"mpe2.{game}", policies=["a", "b"], policy_mapping=who)[1]) == {"a", "b"}
