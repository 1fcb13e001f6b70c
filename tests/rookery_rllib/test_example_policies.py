"""Policies of RLlib's examples: what they play, alone and against each other."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from rookery.core.errors import ConfigError
from rookery_rllib.base import imports
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.examples import scripted_policies as policies
from rookery_rllib.examples.multi_agent_envs import RockPaperScissors
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.trainer.trainers import PGTrainer, PPOTrainer

ROCK, PAPER, SCISSORS = RockPaperScissors.ROCK, RockPaperScissors.PAPER, RockPaperScissors.SCISSORS
OBS = Box(0, 1, (3,))


@pytest.mark.parametrize(
    ("space", "logp"),
    [
        (Discrete(4), -np.log(4)),
        (MultiDiscrete([2, 3]), -np.log(6)),
        (Box(0, 2, (3,)), -3 * np.log(2)),
    ],
)
def test_random_actions_are_of_their_space_and_repeat_with_a_seed(space, logp):
    first, again = (made_with_seed(space) for _ in range(2))
    actions, states, extra = first.compute_actions(np.zeros((20, 3)))
    assert all(action in space for action in actions) and len({str(action) for action in actions}) > 1
    assert (states, extra) == ([], {})
    repeated, _, _ = again.compute_actions(np.zeros((20, 3)))
    assert all(np.array_equal(one, other) for one, other in zip(actions, repeated, strict=True))
    assert first.compute_log_likelihoods(actions, np.zeros((20, 3))) == pytest.approx(np.full(20, logp))
    assert first.learn_on_batch({}) == first.get_weights() == {}


def made_with_seed(space):
    np.random.seed(3)
    return policies.RandomPolicy(OBS, space, {})


def test_bounds_may_be_ignored():
    policy = policies.RandomPolicy(OBS, Box(-0.01, 0.01, (3,)), {"ignore_action_bounds": True})
    actions, _, _ = policy.compute_actions(np.zeros((5, 3)))
    assert np.abs(actions).max() > 0.1 and actions[0].dtype == np.float32
    with pytest.raises(ConfigError, match="not drawn uniformly"):
        policy.compute_log_likelihoods(actions, np.zeros((5, 3)))


def test_the_last_move_is_beaten():
    policy = policies.BeatLastHeuristic(OBS, Discrete(3), {})
    moves, _, _ = policy.compute_actions(np.eye(3)[[ROCK, PAPER, SCISSORS]])
    assert moves.tolist() == [PAPER, SCISSORS, ROCK]


def test_whose_decision_it_is_is_said():
    columns = {"agent_index": [0, 1], "eps_id": [7, 8], "env_id": [2, 3], "t": [4, 5], "obs": np.ones((2, 3))}
    for cls, count in ((policies.EpisodeEnvAwareLSTMPolicy, 2), (policies.EpisodeEnvAwareAttentionPolicy, 1)):
        policy = cls(OBS, Box(0, 9, (3,)), {})
        actions, states, _ = policy.compute_actions_from_input_dict(columns)
        assert actions.tolist() == [[0, 7, 2], [1, 8, 3]]
        assert [state.tolist() for state in states] == [[[4], [5]]] * count
        assert policy.is_recurrent() and policy.num_state_tensors() == count
        assert policy.postprocess_trajectory(SampleBatch(obs=np.ones(2)))[cls.name].tolist() == [cls.factor] * 2
        with pytest.raises(ConfigError, match="compute_actions_from_input_dict"):
            policy.compute_actions(columns["obs"])
    assert policy.view_requirements["state_in_0"].shifts()[0] == list(range(-50, 0))


def test_each_episode_has_a_move_of_its_own_and_moves_repeat_with_a_seed():
    played = play()
    assert all(len(set(moves)) == 1 for moves in played)
    assert len({moves[0] for moves in played}) == 3
    assert play() == played


def play():
    played = []

    class Watch(DefaultCallbacks):
        def on_episode_start(self, *, episode, **kwargs):
            episode.user_data["moves"] = []

        def on_episode_step(self, *, episode, **kwargs):
            episode.user_data["moves"].append(int(np.argmax(episode.last_observation_for("player2"))))

        def on_episode_end(self, *, episode, **kwargs):
            played.append(episode.user_data["moves"])

    trainer = PGTrainer(
        env=RockPaperScissors,
        config={
            "num_workers": 0,
            "rollout_fragment_length": 10,
            "train_batch_size": 200,
            "callbacks": Watch,
            "seed": 0,
            "framework": "torch",
            "multiagent": {
                "policies": {
                    "same": (policies.AlwaysSameHeuristic, None, None, {}),
                    "beat": (policies.BeatLastHeuristic, None, None, {}),
                },
                "policy_mapping_fn": lambda agent: {"player1": "same", "player2": "beat"}[agent],
                "policies_to_train": [],
            },
        },
    )
    result = trainer.train()
    trainer.stop()
    assert result["policy_reward_mean"]["beat"] >= 8  # all rounds but the first
    return played


# --- callbacks --------------------------------------------------------------------------------------------------------


def test_the_callbacks_of_the_example_report_the_angle_of_the_pole(capsys):
    callbacks = imports.find("ray.rllib.examples.custom_metrics_and_callbacks.MyCallbacks")
    small = {"train_batch_size": 100, "rollout_fragment_length": 50, "sgd_minibatch_size": 50, "num_sgd_iter": 1}
    trainer = PPOTrainer(config={**small, "env": "CartPole-v0", "callbacks": callbacks, "seed": 1})
    result = trainer.train()
    assert 0 < result["custom_metrics"]["pole_angle_mean"] < 0.3 and result["callback_ok"] is True
    assert "mean angle" in capsys.readouterr().out and len(result["hist_stats"]["pole_angles"]) > 1
    trainer.stop()
