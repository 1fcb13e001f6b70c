"""Fitted Q evaluation against values in closed form: a table with choices, one with a time limit, and numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep
from rookery.algorithms.offline.bc import BCConfig
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.ope.episodes import WholeEpisodes
from rookery.ope.evaluated_policy import EvaluatedPolicy
from rookery.ope.fitted import FIT_GRADIENT, FitBatch, FittedInputs, FittedQ, PlannedActions, fit_loss
from rookery.replay.segments import find_replay

NEXT = np.array([[1, 2], [0, -1], [1, -1]])
"""Where each choice leads from each of three states; -1 = the end."""

PAYS = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
CHANCE = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
"""Probabilities of the policy that is evaluated; the data choose evenly."""

GAMMA = 0.9


def ignore(so_far, total):
    pass


def linear_policy(obs_space, action_space):
    """A policy without hidden layers, whose weights say all."""
    cfg = BCConfig(model=ModelConfig(hidden=()))
    generator = torch.Generator().manual_seed(0)
    return cfg.build_policy(obs_spec(obs_space, action_space), action_spec(action_space), "main", generator)


def table_policy():
    """The policy with the probabilities `CHANCE`."""
    policy = linear_policy(spaces.Discrete(3), spaces.Discrete(2))
    state = policy.state_dict()
    for name, value in state.items():
        value.zero_()
        if value.shape == (2, 3):
            state[name] = torch.tensor(np.log(CHANCE.T), dtype=torch.float32)
    policy.load_state_dict(state)
    given = EvaluatedPolicy(policy, False).probabilities({"obs": torch.arange(3)})
    np.testing.assert_allclose(given.detach().numpy(), CHANCE, atol=1e-5)
    return policy


def table_data(path, episodes, limit):
    """Episodes that choose evenly, cut off after so many steps."""
    rng, found = np.random.default_rng(0), []
    for _ in range(episodes):
        state, obs, action, reward = 0, [0], [], []
        while state >= 0 and len(action) < limit:
            choice = int(rng.integers(2))
            action.append(choice)
            reward.append(PAYS[state, choice])
            state = int(NEXT[state, choice])
            obs.append(max(state, 0))
        found.append({"obs": np.array(obs), "action": action, "reward": reward, "terminated": state < 0})
    return find_replay(keep(path, spaces.Discrete(3), spaces.Discrete(2), found))


def closed_form(steps, gamma=GAMMA):
    """Values of states when so many steps are left, or for ever."""
    value = np.zeros(3)
    for _ in range(steps):
        after = np.where(NEXT >= 0, value[NEXT], 0.0)
        value = (CHANCE * (PAYS + gamma * after)).sum(1)
    return value


def fitted(episodes, evaluated, gamma, steps):
    seen = FittedInputs(episodes, torch.device("cpu"))
    planned = PlannedActions(evaluated, episodes, np.random.default_rng(0))
    found = FittedQ(seen, planned, gamma, 0)
    every = np.arange(len(episodes))
    found.fit(every, steps, ignore)
    return found.values(every)


def test_values_of_a_table_are_those_of_the_closed_form(tmp_path):
    episodes = WholeEpisodes(table_data(tmp_path / "data", 300, 1000))
    assert episodes.terminated.all()
    value, q = fitted(episodes, EvaluatedPolicy(table_policy(), False), GAMMA, 1500)
    exact = closed_form(500)
    state, choice = episodes.obs(np.arange(len(episodes)))["obs"].numpy(), episodes.actions(np.arange(len(episodes)))
    np.testing.assert_allclose(value, exact[state], atol=0.02)
    after = np.where(NEXT >= 0, exact[NEXT], 0.0)
    np.testing.assert_allclose(q, (PAYS + GAMMA * after)[state, choice.numpy()], atol=0.03)


def test_where_episodes_are_cut_off_values_depend_on_the_time_that_is_left(tmp_path):
    limit = 4
    episodes = WholeEpisodes(table_data(tmp_path / "data", 300, limit))
    assert not episodes.terminated.all()
    value, _ = fitted(episodes, EvaluatedPolicy(table_policy(), False), 1.0, 1700)
    state = episodes.obs(np.arange(len(episodes)))["obs"].numpy()
    exact = np.array([closed_form(limit - time, 1.0)[one] for time, one in zip(episodes.time, state, strict=True)])
    assert abs(value - exact).max() < 0.1
    assert abs(value - exact).mean() < 0.03


def test_values_of_numbers_are_those_of_a_parabola(tmp_path):
    rng, found = np.random.default_rng(0), []
    for _ in range(1000):
        at, action = rng.uniform(-1, 1), rng.uniform(-1, 1)
        found.append(
            {
                "obs": np.array([[at], [at]]),
                "action": [[action]],
                "reward": [-((action - 0.5 * at) ** 2)],
                "terminated": True,
            }
        )
    box = spaces.Box(-1, 1, (1,), np.float32)
    episodes = WholeEpisodes(find_replay(keep(tmp_path / "data", box, box, found)))
    policy = linear_policy(box, box)
    state = policy.state_dict()
    for name, value in state.items():
        value.fill_(np.log(0.05) if "log_std" in name else 0.0)
    policy.load_state_dict(state)  # mean 0, standard deviation 0.05
    value, _ = fitted(episodes, EvaluatedPolicy(policy, False), GAMMA, 1000)
    at = episodes.obs(np.arange(len(episodes)))["obs"].numpy()[:, 0]
    np.testing.assert_allclose(value, -((0.5 * at) ** 2) - 0.0025, atol=0.04)


def test_values_stay_where_returns_can_be(tmp_path):
    episodes = WholeEpisodes(table_data(tmp_path / "data", 30, 4))
    value, q = fitted(episodes, EvaluatedPolicy(table_policy(), False), 1.0, 3)
    left = 4 - episodes.time
    for found in (value, q):
        assert (found <= 2.0 * left + 1e-5).all() and (found >= -1.0 * left - 1e-5).all()


@pytest.mark.parametrize("choices", [0, 3])
def test_the_gradient_is_that_of_the_loss(choices):
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(5, choices or 1, generator=generator, requires_grad=True)
    choice = torch.tensor([0, 2, 1, 1, 0]) if choices else None
    batch = FitBatch({}, choice, torch.randn(5, generator=generator))
    (expected,) = torch.autograd.grad(fit_loss(q, batch, None)[0], q)
    (gradient,), metrics = FIT_GRADIENT.gradient(q.detach(), batch, None)
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(metrics["loss"], fit_loss(q, batch, None)[1]["loss"])
