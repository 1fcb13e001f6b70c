"""PPO-Lagrangian: costs from infos to the update, the multiplier, the combined advantage, exact resume."""

import hashlib
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import EnvError, PPOConfig, PPOLagrangianConfig, Trainer
from rookery.algorithms.algorithm import BatchHook
from rookery.algorithms.on_policy.ppo_lagrangian import Multiplier
from rookery.core.batch import COST
from rookery.core.ops import gae

NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float32)


class Toll(gymnasium.Env):
    """Action 1 costs the number of the step; episodes have 3 to 5 steps and end either way."""

    observation_space, action_space = NUMBER, spaces.Discrete(2)

    def __init__(self, key="cost", value=None):
        self.key, self.value = key, value

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock, self.length = 0, int(self.np_random.integers(3, 6))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.clock += 1
        over = self.clock == self.length
        cost = float(action) * self.clock if self.value is None else self.value
        obs = np.array([self.clock], np.float32)
        return obs, float(action), over and self.length == 3, over and self.length > 3, {self.key: cost}


class Keeping(BatchHook):
    """Keeps the rollouts."""

    def __init__(self):
        self.rollouts = []

    def before_targets(self, learner, rollout, rollouts):
        self.rollouts.append(rollout.map(lambda _, tensor: tensor.clone()))
        return rollout


def toll(cfg=None, env=Toll, num_envs=3, **more):
    trainer = Trainer(
        env, cfg or PPOLagrangianConfig(fragment_length=7, cost_limit=4.0), num_envs=num_envs, seed=2, **more
    )
    keeping = Keeping()
    trainer.learners["main"].hooks.append(keeping)
    return trainer, keeping


def test_decisions_have_the_costs_that_the_environment_reported():
    trainer, keeping = toll()
    with trainer:
        for _ in range(4):
            trainer.train_iteration()
    for rollout in keeping.rollouts:
        clock = rollout.obs["obs"][..., 0] + 1  # of the step that the decision made
        torch.testing.assert_close(rollout.extras[COST][..., 0], rollout.action * clock)
    assert any(rollout.extras[COST].any() for rollout in keeping.rollouts)


def test_processes_and_single_environments_report_the_same_costs():
    kept = []
    for more in ({}, {"config": {"sampling.env_processes": 2}}):
        trainer, keeping = toll(num_envs=4, **more)
        with trainer:
            for _ in range(2):
                trainer.train_iteration()
        kept.append(torch.cat([rollout.extras[COST] for rollout in keeping.rollouts]))
    assert torch.equal(*kept) and kept[0].any()


class Turns:
    """Two that act in turn; acting costs 1, waiting 10 a step."""

    possible_agents = ["a", "b"]
    observation_spaces = dict.fromkeys(possible_agents, NUMBER)
    action_spaces = dict.fromkeys(possible_agents, spaces.Discrete(2))

    def reset(self, seed=None, options=None):
        self.clock = 0
        return {"a": np.zeros(1, np.float32)}, {}

    def step(self, actions):
        (mover,) = actions
        self.clock += 1
        other = "b" if mover == "a" else "a"
        infos = {mover: {"cost": 1.0}, other: {"cost": 10.0}}
        obs = {other: np.full(1, self.clock, np.float32)}
        return obs, dict.fromkeys(self.possible_agents, 0.0), {"__all__": self.clock == 6}, {"__all__": False}, infos


def test_costs_between_two_decisions_are_added_to_the_earlier_one():
    trainer, keeping = toll(PPOLagrangianConfig(rollout_size=24), Turns, num_envs=2, policies=["main"],
                            policy_mapping=lambda agent, info: "main")  # fmt: skip
    with trainer:
        for _ in range(3):
            trainer.train_iteration()
    for rollout in keeping.rollouts:
        cost, last = rollout.extras[COST][..., 0][rollout.valid], rollout.terminated[rollout.valid]
        # a step of one's own and one of the other; the last decision of an episode has no other after it
        clock = rollout.obs["obs"][..., 0][rollout.valid]
        assert set(cost[clock < 5].tolist()) <= {11.0} and set(cost[clock == 5].tolist()) <= {1.0}
        assert bool(last[clock == 5].all())


@pytest.mark.parametrize(("env", "message"), [
    (lambda: Toll(key="other"), "no info of the first step has 'cost'"),
    (lambda: Toll(value="much"), "info\\['cost'\\] of .* is 'much', it must be a finite number"),
    (lambda: Toll(value=float("nan")), "it must be a finite number"),
])  # fmt: skip
def test_an_environment_without_costs_is_refused(env, message):
    trainer, _ = toll(env=env)
    with trainer, pytest.raises(EnvError, match=message):
        trainer.train_iteration()


def test_without_a_limit_no_info_is_kept_and_no_column_stored():
    for cfg, kept in ((PPOConfig(fragment_length=7), "none"), (PPOLagrangianConfig(fragment_length=7), "all")):
        trainer, keeping = toll(cfg)
        with trainer:
            trainer.train_iteration()
            assert trainer.env.keep_infos == kept
        assert (COST in keeping.rollouts[0].extras) == (kept == "all")


def test_the_cost_of_an_episode_goes_on_from_update_to_update():
    trainer, keeping = toll(PPOLagrangianConfig(fragment_length=2, cost_limit=4.0), num_envs=1)
    learner, found, expected, running = trainer.learners["main"], [], [], 0.0
    with trainer:
        for _ in range(12):
            row = trainer.train_iteration().policies["main"].learning
            rollout = keeping.rollouts[-1]
            ended = []
            for t in range(2):
                running += float(rollout.extras[COST][t, 0, 0])
                if rollout.terminated[t, 0] or rollout.truncated[t, 0]:
                    ended.append(running)
                    running = 0.0
            expected.append(float(np.mean(ended)) if ended else (expected or [None])[-1])
            found.append(row["episode_cost"])
    assert found == expected and None in found and len(set(found)) > 3
    assert learner.multiplier.value == row["multiplier"]


def test_the_multiplier_follows_the_excess():
    cfg = replace(PPOLagrangianConfig(), cost_limit=4.0, multiplier_lr=0.5)
    multiplier = Multiplier(1.0)
    values = []
    for cost in (6.0, 4.0, 1.0, 1.0, 5.0):
        multiplier.update(cost, cfg)
        values.append(multiplier.value)
    assert values == [2.0, 2.0, 0.5, 0.0, 0.5]  # gradient ascent, at least 0
    pid = replace(cfg, multiplier_kp=0.1, multiplier_kd=0.01, multiplier_max=3.0)
    multiplier = Multiplier(0.0)
    values = []
    for cost in (6.0, 8.0, 3.0, 100.0):
        multiplier.update(cost, pid)
        values.append(multiplier.value)
    assert values == pytest.approx([0.1 * 2 + 1.0, 0.1 * 4 + 3.0 - 0.4, -0.1 + 2.5, 3.0])


def test_advantages_are_combined_with_the_multiplier():
    cfg = PPOLagrangianConfig(
        fragment_length=7, gamma=0.9, cost_gamma=0.8, gae_lambda=0.7, normalize_values=False, multiplier_init=3.0,
        multiplier_lr=0.0,
    )  # fmt: skip
    trainer, keeping = toll(cfg)
    learner = trainer.learners["main"]
    with trainer:
        trainer.train_iteration()
    rollout = keeping.rollouts[-1]
    data = learner.targets(rollout)
    value = data.value.view(*rollout.reward.shape, 2)
    assert data.value_target.shape == (21, 2)
    with torch.no_grad():
        last = learner.net.value(rollout.last_obs)
        final = learner.net.value(rollout.final_obs)
    after = torch.cat((value[1:], last.unsqueeze(0)))
    after[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = final
    after = after.masked_fill(rollout.terminated.unsqueeze(-1), 0.0)
    ended = rollout.terminated | rollout.truncated | rollout.last
    rewards, costs = (
        gae(signal, value[..., column], after[..., column], ended, gamma=gamma, gae_lambda=0.7)
        for column, (signal, gamma) in enumerate(((rollout.reward, 0.9), (rollout.extras[COST][..., 0], 0.8)))
    )
    torch.testing.assert_close(data.advantage.view_as(rewards), (rewards - 3.0 * costs) / 4.0)


def weights(trainer):
    parts = hashlib.sha256()
    for value in trainer.policies["main"].state_dict().values():
        parts.update(value.numpy().tobytes())
    return parts.hexdigest(), trainer.learners["main"].multiplier.state_dict()


@pytest.mark.parametrize("env", [Toll, "HazardGrid"])
def test_four_iterations_equal_two_and_two_more(env, tmp_path):
    cfg = PPOLagrangianConfig(fragment_length=50, epochs=2, cost_limit=1.0, multiplier_kp=0.1, multiplier_kd=0.1)
    with Trainer(env, cfg, num_envs=3, seed=4) as through:
        through.train({"iterations": 4})
        wanted = weights(through)
    assert wanted[1]["value"] > 0
    with Trainer(env, cfg, num_envs=3, seed=4) as first:
        first.train({"iterations": 2})
        place = first.save(tmp_path / "half")
    with Trainer.load(place, env=env) as second:
        assert weights(second) != wanted
        second.train({"iterations": 4})
        assert weights(second) == wanted
