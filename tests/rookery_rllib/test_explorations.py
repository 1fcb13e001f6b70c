"""Explorations of a script's own, where Rookery learns the policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from restored import weights_of

from rookery.core.errors import ConfigError
from rookery_rllib.policy.explorations import EpsilonGreedy, Exploration, GaussianNoise, StochasticSampling
from rookery_rllib.trainer.trainers import A2CTrainer, DQNTrainer, PPOTrainer, SACTrainer
from selection import slow

SMALL = {"env": "CartPole-v0", "framework": "torch", "num_workers": 0, "seed": 3, "model": {"fcnet_hiddens": [8]}}


class Always(Exploration):
    """Chooses one action whatever the policy says, and counts the calls of its methods."""

    def __init__(self, action_space: Any, *, action: int = 1, **kwargs: Any) -> None:
        super().__init__(action_space, **kwargs)
        self.action, self.calls, self.before, self.starts, self.ends, self.at = action, 0, 0, 0, 0, 0

    def before_compute_actions(self, *, timestep: Any = None, explore: Any = None, **kwargs: Any) -> None:
        self.before += 1

    def on_episode_start(self, policy: Any, **kwargs: Any) -> None:
        self.starts += 1

    def on_episode_end(self, policy: Any, **kwargs: Any) -> None:
        self.ends += 1

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        self.calls, self.at = self.calls + 1, timestep
        if not explore:
            return action_distribution.deterministic_sample(), None
        actions = torch.full((len(action_distribution.inputs),), self.action)
        return actions, action_distribution.logp(actions)

    def get_info(self, sess: Any = None) -> dict[str, Any]:
        return {"calls": self.calls}

    def get_state(self, sess: Any = None) -> dict[str, Any]:
        return {"calls": self.calls}

    def set_state(self, state: Any, sess: Any = None) -> None:
        self.calls = state["calls"]


class Drawing(StochasticSampling):
    """Draws now and then from the action space."""

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        actions, logp = super().get_exploration_action(
            action_distribution=action_distribution, timestep=timestep, explore=explore
        )
        other = torch.as_tensor(np.stack([self.action_space.sample() for _ in actions])).to(actions.dtype)
        return (other if explore and np.random.rand() < 0.5 else actions), logp


def ppo(kind: Any, **options: Any) -> Any:
    config = {**SMALL, "train_batch_size": 64, "rollout_fragment_length": 64, "sgd_minibatch_size": 32,
              "num_sgd_iter": 1, "exploration_config": {"type": kind, **options}}  # fmt: skip
    return PPOTrainer(config=config)


def test_the_script_chooses_every_action_that_is_played() -> None:
    trainer = ppo(Always, action=0)
    trainer.train()
    exploration = trainer.get_policy().exploration
    assert isinstance(exploration, Always)
    assert exploration.calls == exploration.before == 64
    assert exploration.at == 63
    assert exploration.starts == exploration.ends + 1 > 4
    assert trainer.get_policy().get_exploration_info() == {"calls": 64}
    trainer.train()
    assert exploration.at == 127
    assert trainer.compute_action(np.zeros(4), explore=True) == 0


def test_evaluation_leaves_an_exploration_as_it_was() -> None:
    trainer = ppo(Always)
    trainer.train()
    exploration = trainer.get_policy().exploration
    seen = exploration.calls, exploration.starts
    assert trainer.evaluate()["evaluation"]["episode_len_mean"] < 12  # pushed to one side all the time
    assert trainer.get_policy().exploration is exploration
    assert (exploration.calls, exploration.starts) == seen


@pytest.mark.parametrize("cls", [slow(A2CTrainer), SACTrainer])
def test_numbers_are_chosen_within_their_bounds(cls: Any) -> None:
    more = {"train_batch_size": 40} if cls is A2CTrainer else {"learning_starts": 10, "timesteps_per_iteration": 40}
    trainer = cls(config={**SMALL, "env": "Pendulum-v0", "exploration_config": {"type": Drawing}, **more})
    space = trainer.get_policy().exploration.action_space
    assert space.low.min() == -1.0 and space.high.max() == 1.0
    assert np.isfinite(trainer.train()["info"]["num_steps_sampled"])


def test_a_run_repeats_and_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    one, other = ppo(Drawing), ppo(Drawing)
    one.train()
    other.train()
    np.testing.assert_array_equal(weights_of(one), weights_of(other))
    path = one.save(str(tmp_path))
    one.train()
    again = ppo(Drawing)
    again.restore(path)
    assert again.get_policy()._trainer.policies["default_policy"].explorer.timestep == 64
    again.train()
    np.testing.assert_array_equal(weights_of(one), weights_of(again))


def test_rewards_that_an_exploration_changes_are_learned() -> None:
    class Curious(Drawing):
        def postprocess_trajectory(self, policy: Any, sample_batch: Any, tf_sess: Any = None) -> Any:
            sample_batch["rewards"] = sample_batch["rewards"] * 0.0 + 7.0
            return sample_batch

    trainer = DQNTrainer(config={**SMALL, "learning_starts": 10, "timesteps_per_iteration": 40, "n_step": 1,
                                 "exploration_config": {"type": Curious}})  # fmt: skip
    trainer.train()
    memory = trainer.rookery.replays["default_policy"]
    drawn = memory.sample(8, n_step=1, gamma=0.9, beta=0.4)
    assert set(np.unique(np.asarray(drawn.reward))) == {7.0}


def test_a_policy_of_several_explores_by_its_own_class() -> None:
    from rookery_rllib.examples.multi_agent_envs import MultiAgentCartPole

    own = {"exploration_config": {"type": Always, "action": 1}}
    trainer = PPOTrainer(config={
        **SMALL, "env": MultiAgentCartPole, "env_config": {"num_agents": 2}, "train_batch_size": 64,
        "rollout_fragment_length": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1,
        "multiagent": {"policies": {"own": (None, None, None, own), "usual": (None, None, None, {})},
                       "policy_mapping_fn": lambda agent, **kwargs: ["own", "usual"][int(agent)]},
    })  # fmt: skip
    trainer.train()
    assert isinstance(trainer.get_policy("own").exploration, Always)
    assert trainer.get_policy("usual").exploration is None


@pytest.mark.parametrize("kind", ["EpsilonGreedy", EpsilonGreedy,
                                  "ray.rllib.utils.exploration.epsilon_greedy.EpsilonGreedy"])  # fmt: skip
def test_the_usual_kinds_are_settings(kind: Any) -> None:
    trainer = DQNTrainer(config={**SMALL, "exploration_config": {"type": kind, "epsilon_timesteps": 50}})
    assert trainer.get_policy().exploration is None
    assert trainer.rookery.config.algorithm.exploration.epsilon.steps == 50


def test_epsilon_and_noise_act_as_they_say() -> None:
    from gymnasium.spaces import Box, Discrete

    from rookery_rllib.model.action_distributions import TorchCategorical, TorchDeterministic

    about = {"framework": "torch", "policy_config": {}, "model": None, "num_workers": 0, "worker_index": 0}
    values = torch.tensor([[0.0, 1.0, -3.4e38]]).expand(4000, 3)
    greedy = EpsilonGreedy(Discrete(3), initial_epsilon=1.0, final_epsilon=0.5, epsilon_timesteps=10, **about)
    actions, _ = greedy.get_exploration_action(action_distribution=TorchCategorical(values), timestep=20)
    counts = torch.bincount(actions, minlength=3) / 4000
    assert counts[2] == 0 and abs(float(counts[0]) - 0.25) < 0.03
    assert greedy.get_info() == {"cur_epsilon": 0.5}
    noise = GaussianNoise(Box(-1.0, 1.0, (1,)), random_timesteps=0, stddev=0.1, scale_timesteps=10, **about)
    zeros = TorchDeterministic(torch.zeros(4000, 1))
    drawn, _ = noise.get_exploration_action(action_distribution=zeros, timestep=0)
    assert abs(float(drawn.std()) - 0.1) < 0.01
    drawn, _ = noise.get_exploration_action(action_distribution=zeros, timestep=10)
    assert abs(float(drawn.std()) - 0.002) < 0.001


def test_what_is_not_an_exploration_is_refused() -> None:
    with pytest.raises(ConfigError, match="must derive from Exploration"):
        ppo(lambda **kwargs: type("Not", (), {"get_exploration_optimizer": lambda self, given: []})())
    with pytest.raises(ConfigError, match="there is no such class"):
        ppo("no.such.Class")
