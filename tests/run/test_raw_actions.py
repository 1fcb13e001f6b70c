"""Recordings of squashed policies: the value before tanh is stored beside each action, however close to a bound."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import PPOConfig, SACConfig, Trainer, record_replay
from rookery.replay.recording import recording_of
from rookery.replay.segments import RAW, find_replay, raw_actions


class Drift(gymnasium.Env):
    """Shows where it stands, which an action moves; earns the action, and is cut off after 5 steps."""

    observation_space = spaces.Box(-9, 9, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.place = 0, np.float32(self.np_random.uniform(-1, 1))
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.t += 1
        self.place += 0.5 * action[1]
        return np.array([self.place], np.float32), float(action[0] + self.place), False, self.t == 5, {}


class Choosing(Drift):
    """Drifts by a number, beside a choice."""

    action_space = spaces.Dict(gear=spaces.Discrete(3), push=spaces.Box(-1, 1, (1,), np.float32))

    def step(self, action):
        return super().step(np.concatenate((action["push"], action["push"])))


def saturated(env, place, mean=9.0, **exploration):
    """A run of SAC whose actions lie at their upper bounds for the most part: tanh is taken of about `mean`."""
    settings = SACConfig(model={"hidden": (8,)}, learning_starts=0, exploration=exploration)
    with Trainer(env, settings, seed=3, run_dir=place, console="quiet") as trainer:
        head = trainer.policies["main"].head
        numbers = head.action_spec.num_numbers
        with torch.no_grad():
            head.linear.weight *= 100.0
            bias = head.linear.bias if exploration.get("kind") == "gsde" else head.linear.bias[:-numbers]
            bias[-numbers:] = mean
            head.random.zero_()
        trainer.save()
    return place


def density(mean, log_std, raw):
    """Log-density of tanh(raw) in float64, by hand: the normal one less the logarithm of the slope of tanh."""
    mean, log_std, raw = (np.asarray(array, np.float64) for array in (mean, log_std, raw))
    normal = -0.5 * ((raw - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    slope = 2.0 * (math.log(2.0) - raw - np.logaddexp(0.0, -2.0 * raw))
    return (normal - slope).sum(-1)


@pytest.mark.regression(
    "wrong result",
    "A recording of drawn squashed actions has `action_raw`, so that its probabilities hold at a bound",
)
@pytest.mark.parametrize("exploration", [{}, {"kind": "ou"}, {"kind": "gsde"}])
def test_recorded_probabilities_are_those_of_the_numbers_before_tanh(tmp_path, exploration):
    run = saturated(Drift, tmp_path / "run", **exploration)
    record_replay(Drift, run, 6, tmp_path / "data", deterministic=False, trust_code=True)
    stored = find_replay(tmp_path / "data")
    (piece,) = [one.rows for one in stored.open_segments()]
    raw, action = piece[RAW], piece["action"]
    assert raw.dtype == np.float32 and raw.shape == (30, 2) and np.isfinite(raw).all()
    assert (action == 1.0).mean() > 0.2, "this case is about actions at their bounds"
    np.testing.assert_array_equal(np.tanh(raw.astype(np.float64)).astype(np.float32)[action < 0.99],
                                  action[action < 0.99])  # fmt: skip
    np.testing.assert_allclose(np.tanh(raw), action, atol=1e-6)
    with Trainer.load(run, trust_code=True, console="quiet") as trainer, torch.no_grad():
        behavior = trainer.policies["main"]({"obs": torch.tensor(piece["obs/obs"])})
        expected = density(behavior.mean, behavior.log_std.expand_as(behavior.mean), raw)
        np.testing.assert_allclose(piece["logp"], expected, rtol=2e-5, atol=2e-4)
        asked = behavior.log_prob(torch.tensor(action), torch.tensor(raw))
        np.testing.assert_allclose(asked, expected, rtol=2e-5, atol=2e-4)
        clamped = behavior.log_prob(torch.tensor(action))
        assert np.abs(clamped.numpy() - expected).max() > 3.0, "of the action alone nothing exact can be said"


def test_numbers_beside_choices_are_recorded_too(tmp_path):
    run = saturated(Choosing, tmp_path / "run")
    record_replay(Choosing, run, 4, tmp_path / "data", deterministic=False, trust_code=True)
    (piece,) = [one.rows for one in find_replay(tmp_path / "data").open_segments()]
    assert piece[RAW].shape == (20, 1)
    np.testing.assert_allclose(np.tanh(piece[RAW][:, 0]), piece["action"][:, 1], atol=1e-6)
    with Trainer.load(run, trust_code=True, console="quiet") as trainer, torch.no_grad():
        behavior = trainer.policies["main"]({"obs": torch.tensor(piece["obs/obs"])})
        asked = behavior.log_prob(torch.tensor(piece["action"]), torch.tensor(piece[RAW]))
    np.testing.assert_allclose(asked, piece["logp"], rtol=2e-5, atol=2e-4)


def test_long_episodes_keep_the_numbers_of_their_decisions(tmp_path, monkeypatch):
    monkeypatch.setattr("rookery.run.evaluate.recording.FRAGMENT", 2)
    run = saturated(Drift, tmp_path / "run", mean=0.3)
    record_replay(Drift, run, 3, tmp_path / "data", deterministic=False, max_episode_steps=4, trust_code=True)
    stored = find_replay(tmp_path / "data")
    recording = recording_of(stored)
    assert [one.action_raw.shape for one in recording.episodes] == [(4, 2)] * 3
    for one in recording.episodes:
        np.testing.assert_allclose(np.tanh(one.action_raw), one.action, atol=1e-6)
    np.testing.assert_array_equal(raw_actions(stored), np.concatenate([one.action_raw for one in recording.episodes]))


def test_other_policies_and_likeliest_actions_have_no_such_column(tmp_path):
    run = saturated(Drift, tmp_path / "run")
    record_replay(Drift, run, 1, tmp_path / "likeliest", trust_code=True)
    with Trainer(Drift, PPOConfig(model={"hidden": (8,)}), run_dir=tmp_path / "ppo", console="quiet") as trainer:
        trainer.save()
    record_replay(Drift, tmp_path / "ppo", 1, tmp_path / "normal", deterministic=False, trust_code=True)
    for name in ("likeliest", "normal"):
        assert raw_actions(find_replay(tmp_path / name)) is None


def test_the_replay_of_a_run_has_no_such_column(tmp_path):
    settings = SACConfig(model={"hidden": (8,)}, learning_starts=8, batch_size=8)
    with Trainer(Drift, settings, seed=3, run_dir=tmp_path / "run", console="quiet") as trainer:
        trainer.train({"env_steps": 40})
    assert raw_actions(find_replay(tmp_path / "run")) is None
