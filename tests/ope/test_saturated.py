"""Weights of actions at their bounds and of many numbers: right, or a refusal that says how many lie at a bound."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from quick import SMALL

from rookery import ConfigError, PPOConfig, SACConfig, Trainer, evaluate_offline, record_replay
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.ope.episodes import WholeEpisodes
from rookery.replay.recording import RecordedEpisode, Recording, write_recordings
from rookery.replay.segments import RAW, Spaces, find_replay


class Push(gymnasium.Env):
    """Earns its action and a fortune for three steps; the fortune is seen."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.luck = 0, float(self.np_random.uniform(-1, 1))
        return self.seen(), {}

    def seen(self):
        return np.array([self.luck], np.float32)

    def step(self, action):
        self.t += 1
        return self.seen(), float(action.sum()) + self.luck, False, self.t == 3, {}


def run_of(place, mean, std, spread=0.0):
    """A run of SAC that draws tanh of normal numbers; `spread` says how far their deviation depends on what is seen."""
    with Trainer(Push, SACConfig(model={"hidden": (8,)}), seed=3, run_dir=place, console="quiet") as trainer:
        head = trainer.policies["main"].head
        with torch.no_grad():
            head.linear.weight.zero_()
            head.linear.weight[2:] = spread
            head.linear.bias.copy_(torch.tensor([mean, mean, np.log(std), np.log(std)]))
            head.random.zero_()
        trainer.save()
    return place


@pytest.fixture(scope="module")
def at_bounds(tmp_path_factory):
    """A run at its bounds, and 40 episodes of it."""
    folder = tmp_path_factory.mktemp("saturated")
    run = run_of(folder / "run", 10.0, 2.0)
    record_replay(Push, run, 40, folder / "data", deterministic=False, trust_code=True)
    return run, folder / "data"


def weights_by_hand(data, mean, std):
    """Of each episode, how much likelier it is to a policy than to one of mean 10 and standard deviation 2, float64."""
    episodes = WholeEpisodes(find_replay(data))
    raw = episodes.raw.astype(np.float64)
    log_ratio = (-0.5 * ((raw - mean) / std) ** 2 - np.log(std)) - (-0.5 * ((raw - 10) / 2) ** 2 - np.log(2.0))
    returns = np.bincount(episodes.episode, episodes.reward)
    return np.exp(np.bincount(episodes.episode, log_ratio.sum(1))), returns


@pytest.mark.regression(
    "wrong result",
    "Importance weights of a squashed policy hold where its actions lie at their bounds",
)
def test_a_policy_at_its_bounds_earns_by_its_own_play_what_that_earned(at_bounds):
    found = evaluate_offline(
        *at_bounds, deterministic=False, gamma=1, methods=["is", "wis", "pdis"], trust_code=True, **SMALL
    )
    for method in ("is", "wis", "pdis"):
        assert found[method].value == pytest.approx(found["data"].value, rel=1e-3)
    assert found.effective_size == pytest.approx(40, rel=1e-3) and found.probabilities == "recorded"


@pytest.mark.regression(
    "wrong result",
    "Importance weights of a squashed policy hold where its actions lie at their bounds",
)
def test_weights_of_another_policy_are_those_by_hand(at_bounds, tmp_path):
    other = run_of(tmp_path / "other", 9.5, 2.2)
    found = evaluate_offline(
        other, at_bounds[1], deterministic=False, gamma=1, methods=["is", "wis"], trust_code=True, **SMALL
    )
    weights, returns = weights_by_hand(at_bounds[1], 9.5, 2.2)
    assert found["is"].value == pytest.approx(float((weights * returns).mean()), rel=1e-3)
    assert found["wis"].value == pytest.approx(float((weights * returns).sum() / weights.sum()), rel=1e-3)


def at_a_bound(place, share, number=2000):
    """Data of which a share of the numbers is 1 or -1, with made-up probabilities; one decision an episode."""
    rng = np.random.default_rng(0)
    action = rng.uniform(-0.9, 0.9, (number, 2)).astype(np.float32)
    action[: round(share * number)] = 1.0, -1.0
    made_of = Spaces(obs_spec(Push.observation_space, Push.action_space), action_spec(Push.action_space), 0)
    episodes = tuple(
        RecordedEpisode({"obs": np.zeros((1, 1), np.float32)}, one[None], one[:1], likely[None], True, False, None)
        for one, likely in zip(action, rng.normal(size=number).astype(np.float32), strict=True)
    )
    write_recordings(place, {"main": Recording(made_of, episodes)})
    return place


@pytest.mark.regression(
    "wrong result",
    "Importance estimators refuse data of which more than 0.1 % of the numbers lie at a bound without `action_raw`",
)
def test_more_than_a_thousandth_at_a_bound_is_refused_with_the_share(at_bounds, tmp_path):
    run = at_bounds[0]
    for share, name in ((0.0015, "more"), (0.0005, "less")):
        data = at_a_bound(tmp_path / name, share)
        found = evaluate_offline(
            run, data, deterministic=False, methods=None if name == "more" else ["wis"], trust_code=True, **SMALL
        )
        if name == "less":
            assert found.probabilities == "recorded" and found["wis"].value is not None
            continue
        for method in ("is", "wis", "pdis", "dr"):
            assert found[method].value is None
            assert "0.15% of the data's action values lie at a bound" in found[method].reason
            assert "no column action_raw" in found[method].reason and "use fqe" in found[method].reason
        assert found["fqe"].value is not None and found.log_likelihood is None
        with pytest.raises(ConfigError, match=r"--method wis: 0\.15% of the data's action values"):
            evaluate_offline(run, data, deterministic=False, methods=["wis"], trust_code=True, **SMALL)


@pytest.mark.regression(
    "wrong result",
    "Importance estimators refuse data of which more than 0.1 % of the numbers lie at a bound without `action_raw`",
)
def test_clipped_actions_of_another_kind_of_policy_are_refused_too(tmp_path):
    data = at_a_bound(tmp_path / "data", 0.01)
    with Trainer(Push, PPOConfig(model={"hidden": (8,)}), seed=0, console="quiet") as trainer:
        found = evaluate_offline(trainer, data, deterministic=False, methods=None, **SMALL)
        assert "1.00% of the data's action values lie at a bound" in found["wis"].reason
        assert found.log_likelihood is not None, "a normal density has a value at a bound"


@pytest.mark.regression(
    "wrong result",
    "Importance estimators refuse data of which more than 0.1 % of the numbers lie at a bound without `action_raw`",
)
def test_normal_actions_beyond_the_bounds_have_no_density_under_a_squashed_policy(at_bounds, tmp_path):
    with Trainer(Push, PPOConfig(model={"hidden": (8,)}), seed=0, run_dir=tmp_path / "ppo", console="quiet") as trainer:
        trainer.save()
    record_replay(Push, tmp_path / "ppo", 10, tmp_path / "data", deterministic=False, trust_code=True)
    found = evaluate_offline(at_bounds[0], tmp_path / "data", deterministic=False, trust_code=True, **SMALL)
    assert "of the data's action values lie at a bound or beyond" in found["wis"].reason
    own = evaluate_offline(
        tmp_path / "ppo", tmp_path / "data", deterministic=False, methods=["wis"], trust_code=True, **SMALL
    )
    assert own["wis"].value == pytest.approx(own["data"].value, rel=1e-3)


@pytest.mark.regression(
    "wrong result",
    "Importance estimators refuse data of which more than 0.1 % of the numbers lie at a bound without `action_raw`",
)
def test_a_clone_of_actions_at_their_bounds_is_refused(at_bounds):
    assert RAW in next(find_replay(at_bounds[1]).open_segments()).rows
    found = evaluate_offline(*at_bounds, deterministic=False, probabilities="cloned", trust_code=True, **SMALL)
    assert "of the data's action values lie at a bound or beyond" in found["is"].reason
    assert "action_raw" not in found["is"].reason, "a clone learns from actions alone"


class Wide(Push):
    """Takes sixty numbers; a fortune drawn at the start is earned in each step."""

    action_space = spaces.Box(-1, 1, (60,), np.float32)

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, self.luck, *rest


@pytest.mark.regression(
    "wrong result", "Importance weights hold for actions of many numbers, whose densities are small"
)
def test_actions_of_many_numbers_have_weights_of_their_own(tmp_path):
    with Trainer(Wide, PPOConfig(model={"hidden": (8,)}), seed=0, run_dir=tmp_path / "run", console="quiet") as trainer:
        trainer.save()
    record_replay(Wide, tmp_path / "run", 10, tmp_path / "data", deterministic=False, trust_code=True)
    logp = WholeEpisodes(find_replay(tmp_path / "data")).logp
    assert logp.mean() < -60, "this case is about densities below those of any choice"
    found = evaluate_offline(
        tmp_path / "run", tmp_path / "data", deterministic=False, methods=["wis", "pdis"], trust_code=True, **SMALL
    )
    for method in ("wis", "pdis"):
        assert found[method].value == pytest.approx(found["data"].value, rel=1e-3)
    assert found.effective_size == pytest.approx(10, rel=1e-3)


@pytest.mark.regression(
    "wrong result", "Likeliest actions that were recorded of a squashed policy are not taken for drawn ones"
)
@pytest.mark.parametrize("mean", [0.3, 10.0])
def test_likeliest_actions_of_a_squashed_policy_have_no_weights(tmp_path, mean):
    run = run_of(tmp_path / "run", mean, 0.5, spread=2.0)
    record_replay(Push, run, 10, tmp_path / "likeliest", trust_code=True)
    assert WholeEpisodes(find_replay(tmp_path / "likeliest")).logp.std() > 0.01, "they look like those of drawn actions"
    for probabilities in ("auto", "cloned"):
        asked = {"deterministic": False, "probabilities": probabilities, "trust_code": True}
        found = evaluate_offline(run, tmp_path / "likeliest", **asked, **SMALL)
        assert "the likeliest actions of a squashed policy were recorded" in found["wis"].reason
        assert found["fqe"].value is not None
