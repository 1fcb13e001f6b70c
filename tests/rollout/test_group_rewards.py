"""Group rewards are counted once, and learned by members as long as they are in play, without a group critic."""

import numpy as np
import pytest
from gymnasium import spaces

from rookery import PPOConfig, Trainer
from rookery.algorithms.multi_agent.mappo import MAPPOConfig
from rookery.algorithms.multi_agent.poca import POCAConfig


class Pair:
    """Agents a and b of one group, and c alone; a goes after 2 steps, all else after 4. All get 1 a step, the group 10.

    With `turns`, a and b take turns, and c never acts.
    """

    possible_agents = ["a", "b", "c"]  # noqa: RUF012
    groups = {"two": ["a", "b"]}  # noqa: RUF012

    def __init__(self, turns=False):
        self.turns = turns
        self.observation_spaces = dict.fromkeys("abc", spaces.Box(-9, 9, (1,)))
        self.action_spaces = dict.fromkeys("abc", spaces.Discrete(2))

    def _obs(self):
        on = self.alive if not self.turns else [self.alive[self.t % len(self.alive)]]
        return {agent: np.float32([self.t]) for agent in on}

    def reset(self, seed=None, options=None):
        self.t, self.alive = 0, ["a", "b"] if self.turns else ["a", "b", "c"]
        return self._obs(), {}

    def step(self, actions):
        self.t += 1
        reward, said = dict.fromkeys(self.alive, 1.0), {"b": {"group_reward": 10.0}}
        left = ["a"] if self.t == 2 else []
        self.alive = [agent for agent in self.alive if agent not in left]
        over = self.t == 4
        shown = {} if over else self._obs()
        return shown, reward, {**dict.fromkeys(left, True), "__all__": over}, {"__all__": False}, said


def played(cfg, **config):
    with Trainer(Pair, cfg, num_envs=2, seed=0, config={f"env.config.{k}": v for k, v in config.items()}) as run:
        seen, learner = [], run.learners["main"]
        step = learner.training_step
        learner.training_step = lambda rollout: seen.append(rollout.map(lambda _, t: t.clone())) or step(rollout)
        result = run.train({"iterations": 1})
    return seen[0], result


def test_members_learn_from_group_rewards_until_they_end():
    rollout, result = played(PPOConfig(fragment_length=8, epochs=1))
    valid = rollout.valid
    per_slot = {tuple(rollout.reward[valid[:, f], f].tolist()) for f in range(valid.shape[1])}
    # a has two decisions an episode, b four, each 1 + 10; c has its own reward alone
    assert all(set(rewards) in ({11.0}, {1.0}) for rewards in per_slot)
    assert result.counters["rewards_without_decision"] == 0
    assert result.groups == {"two": 40.0}
    assert result.agents == {"a": 2.0, "b": 4.0, "c": 4.0}
    assert result.return_mean == 50.0 and result.row()["groups/two/return_mean"] == 40.0


@pytest.mark.parametrize("teams", [{"one": ["a"]}, {"one": ["b"]}, {"one": ["a"], "two": ["b"]}, {"one": ["a", "b"]}])
def test_what_a_group_earns_is_counted_once_where_teams_are_in_it(teams):
    cfg = PPOConfig(fragment_length=8, epochs=1)
    policies = {"team": cfg, "alone": cfg}
    mapping = {**dict.fromkeys(teams, "team"), **dict.fromkeys("abc", "alone")}
    with Trainer(Pair, policies=policies, policy_mapping=mapping, teams=teams, num_envs=2, seed=0) as run:
        seen, learner = [], run.learners["team"]
        step = learner.training_step
        learner.training_step = lambda rollout: seen.append(rollout.map(lambda _, t: t.clone())) or step(rollout)
        result = run.train({"iterations": 1})
        measured = run.evaluate(episodes=2)
    assert set(seen[0].reward[seen[0].valid].tolist()) == ({12.0, 11.0} if len(teams["one"]) > 1 else {11.0})
    assert result.groups == measured.groups == {"two": 40.0}
    assert result.return_mean == measured.return_mean == 50.0
    assert sum(result.agents.values()) == 10.0


@pytest.mark.parametrize("cfg", [POCAConfig(fragment_length=8, epochs=1), MAPPOConfig(fragment_length=8, epochs=1)])
def test_who_stays_as_a_row_earns_what_the_group_earns(cfg):
    rollout, result = played(cfg)
    acted = rollout.obs["central/acted"].squeeze(-1) > 0
    gone = rollout.reward[rollout.valid & ~acted]
    assert len(gone) and set(gone.tolist()) == {10.0}
    assert result.return_mean == 50.0 and result.agents == {"a": 2.0, "b": 4.0, "c": 4.0}


def test_group_rewards_between_turns_go_to_the_pending_decision():
    rollout, result = played(PPOConfig(fragment_length=8, epochs=1, rollout_size=12), turns=True)
    total = rollout.reward[rollout.valid]
    # a decides once, and gets two steps of it; b at its first turn one step until it continues alone, then one each
    assert set(total.tolist()) <= {22.0, 11.0, 33.0}
    assert result.groups == {"two": 40.0} and result.agents == {"a": 2.0, "b": 4.0}


def test_an_evaluation_tells_what_groups_earned():
    with Trainer(Pair, PPOConfig(), num_envs=2, seed=0) as run:
        measured = run.evaluate(episodes=3)
    assert measured.groups == {"two": 40.0} and measured.return_mean == 50.0
