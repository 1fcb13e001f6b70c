"""Note on a setting whose value has another meaning in other libraries."""

from __future__ import annotations

import pytest

from rookery import A2CConfig, APPOConfig, DQNConfig, PPOConfig, Trainer


def notes_of(cfg, **arguments):
    with Trainer("CartPole-v1", cfg, **{"num_envs": 8, "seed": 0, **arguments}) as trainer:
        return [note for note in trainer._notes if "rollout_size" in note]


@pytest.mark.regression(
    "setting dropped", "A rollout_size that is too small for a whole update is noted, with the name minibatch_size"
)
def test_a_minibatch_given_as_batch_size_is_noted():
    assert notes_of(PPOConfig(rollout_size=64)) == [
        "algorithm.rollout_size = 64 (code): an update learns from 64 decisions, fewer than minibatch_size = 128 and "
        "one fragment of every environment (fragment_length 128 x num_envs 8 = 1,024), which cuts fragments short; "
        "decisions in a gradient step are minibatch_size (128 now)"
    ]


@pytest.mark.regression(
    "setting dropped", "A rollout_size that is too small for a whole update is noted, with the name minibatch_size"
)
@pytest.mark.parametrize(
    ("cfg", "part"),
    [
        (
            PPOConfig(rollout_size=1023, minibatch_size=64),
            "1,023 decisions, fewer than one fragment of every environment",
        ),
        (PPOConfig(rollout_size=64, fragment_length=8), "64 decisions, fewer than minibatch_size = 128;"),
    ],
)
def test_each_of_both_is_enough(cfg, part):
    (note,) = notes_of(cfg)
    assert part in note


def test_the_policy_is_named_whose_own_it_is():
    (note,) = notes_of(PPOConfig(), policies={"main": {"rollout_size": 64}})
    assert note.startswith("policies.main.rollout_size = 64 (code): ")


@pytest.mark.parametrize(
    "cfg",
    [PPOConfig(), PPOConfig(rollout_size=1024), APPOConfig(), DQNConfig(batch_size=8), A2CConfig(rollout_size=8)],
)
def test_nothing_is_noted_of_other_sizes_defaults_and_algorithms_without_minibatches(cfg):
    assert notes_of(cfg) == []
