"""Bandits: posteriors against direct solutions, choices against their definitions, and runs that resume."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import LinTSConfig, LinUCBConfig, NeuralLinearConfig, Trainer
from rookery.algorithms.bandits.bandit import Pulls
from rookery.algorithms.bandits.lin_ts import LinTS
from rookery.algorithms.bandits.lin_ucb import LinUCB
from rookery.algorithms.bandits.neural_linear import NeuralLinear
from rookery.algorithms.bandits.pull_history import PullHistory
from rookery.core.errors import ConfigError, SpaceError
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec

CONTEXT, ARMS = spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(2)
SHARED = spaces.Box(-np.inf, np.inf, (2, 3), np.float32)
SMALL = NeuralLinearConfig(train_every=10, gradient_steps=3, batch_size=8, history_size=20, model={"hidden": (4,)})


def learner(kind, cfg, space=CONTEXT, arms=ARMS):
    policy = cfg.build_policy(obs_spec(space, arms), action_spec(arms), "hero", torch.Generator().manual_seed(0))
    return kind(policy, cfg, Streams(0), "hero")


def pulls(seed, count, shape=(3,), age=0):
    rng = np.random.default_rng(seed)
    return Pulls(
        {"obs": torch.from_numpy(rng.standard_normal((count, *shape), dtype=np.float32))},
        torch.from_numpy(rng.integers(0, 2, count)),
        torch.from_numpy(rng.standard_normal(count, dtype=np.float32)),
        torch.full((count,), age),
    )


def ridge(x, reward, weight, prior):
    """The weights of ridge regression by solving a least-squares problem with rows for the prior, and A^-1."""
    x, reward = x * np.sqrt(weight)[:, None], reward * np.sqrt(weight)
    rows = np.vstack((x, np.sqrt(prior) * np.eye(x.shape[1])))
    mean = np.linalg.lstsq(rows, np.append(reward, np.zeros(x.shape[1])), rcond=None)[0]
    return mean, np.linalg.inv(rows.T @ rows)


def with_ones(x):
    return np.concatenate((x, np.ones((*x.shape[:-1], 1))), -1).astype(np.float64)


def test_posteriors_are_those_of_ridge_regression_however_rows_come():
    subject, at_once = (learner(LinUCB, LinUCBConfig(prior_precision=2.0)) for _ in range(2))
    batches = [pulls(seed, count) for seed, count in enumerate((1, 4, 1, 7))]
    for batch in batches:
        subject.update_posterior(batch, 1)
    joined = Pulls(
        {"obs": torch.cat([batch.obs["obs"] for batch in batches])},
        *(torch.cat([getattr(batch, name) for batch in batches]) for name in ("action", "reward", "age")),
    )
    at_once.update_posterior(joined, 1)
    x, reward, arm = with_ones(joined.obs["obs"].numpy()), joined.reward.double().numpy(), joined.action.numpy()
    for number in range(2):
        mean, covariance = ridge(x[arm == number], reward[arm == number], np.ones(sum(arm == number)), 2.0)
        for one in (subject, at_once):
            posterior = one.head.posterior
            np.testing.assert_allclose(posterior.mean[number], mean, rtol=1e-9)
            np.testing.assert_allclose(posterior.root[number].T @ posterior.root[number], covariance, rtol=1e-9)


def test_a_single_row_changes_the_covariance_as_sherman_and_morrison_say():
    subject = learner(LinTS, LinTSConfig(intercept=False))
    subject.update_posterior(pulls(0, 9), 1)
    posterior, row = subject.head.posterior, pulls(1, 1)
    arm, x = int(row.action), row.obs["obs"][0].double().numpy()
    before = (posterior.root[arm].T @ posterior.root[arm]).numpy()
    subject.update_posterior(row, 1)
    after = before - np.outer(before @ x, x @ before) / (1.0 + x @ before @ x)
    np.testing.assert_allclose(posterior.root[arm].T @ posterior.root[arm], after, rtol=1e-9)


def test_with_a_discount_earlier_decisions_count_less_and_the_prior_as_before():
    subject = learner(LinUCB, LinUCBConfig(discount=0.5, intercept=False))
    first, second = pulls(0, 4, age=1), pulls(1, 3)
    first.age[2:] = 0  # two rows of the first step of a fragment of two, and two of the second
    subject.update_posterior(first, 2)
    subject.update_posterior(second, 1)
    x = np.concatenate((first.obs["obs"].numpy(), second.obs["obs"].numpy())).astype(np.float64)
    reward, arm = (np.concatenate((getattr(first, n), getattr(second, n))) for n in ("reward", "action"))
    weight = np.array([0.25, 0.25, 0.5, 0.5, 1.0, 1.0, 1.0])
    for number in range(2):
        rows = arm == number
        mean, covariance = ridge(x[rows], reward[rows].astype(np.float64), weight[rows], 1.0)
        np.testing.assert_allclose(subject.head.posterior.mean[number], mean, rtol=1e-9)
        root = subject.head.posterior.root[number]
        np.testing.assert_allclose(root.T @ root, covariance, rtol=1e-9)


def test_features_of_arms_share_one_model():
    subject = learner(LinUCB, LinUCBConfig(arm_features="obs"), SHARED)
    rows = pulls(0, 6, (2, 3))
    subject.update_posterior(rows, 1)
    x = with_ones(rows.obs["obs"].numpy())[np.arange(6), rows.action.numpy()]
    mean, _ = ridge(x, rows.reward.double().numpy(), np.ones(6), 1.0)
    np.testing.assert_allclose(subject.head.posterior.mean, mean[None], rtol=1e-9)


@pytest.mark.parametrize("space", [CONTEXT, SHARED], ids=["own", "shared"])
def test_bounds_are_means_plus_deviations(space):
    cfg = LinUCBConfig(exploration_scale=1.5, arm_features=None if space is CONTEXT else "obs")
    subject = learner(LinUCB, cfg, space)
    subject.update_posterior(pulls(0, 9, space.shape), 1)
    posterior, seen = subject.head.posterior, pulls(1, 40, space.shape).obs
    x = with_ones(seen["obs"].numpy())
    x = x if space is SHARED else x[:, None].repeat(2, 1)
    mean, root = (buffer.numpy() if space is CONTEXT else buffer.numpy().repeat(2, 0)
                  for buffer in (posterior.mean, posterior.root))  # fmt: skip
    expected = np.einsum("nad,ad->na", x, mean)
    deviation = np.sqrt(np.einsum("nad,aed,aef,naf->na", x, root, root, x))
    policy = subject.policy
    action, logp = policy.act(seen, torch.rand(40, 2))
    assert action.tolist() == (expected + 1.5 * deviation).argmax(1).tolist()
    assert not logp.any()
    assert policy.act(seen, None, True)[0].tolist() == expected.argmax(1).tolist()
    assert (expected.argmax(1) != action.numpy()).any()


def test_equal_bounds_are_chosen_at_random():
    subject = learner(LinUCB, LinUCBConfig())
    noise = torch.rand(400, 2, generator=torch.Generator().manual_seed(0))
    action, _ = subject.policy.act({"obs": torch.ones(400, 3)}, noise)
    assert 150 < int(action.sum()) < 250


@pytest.mark.parametrize("space", [CONTEXT, SHARED], ids=["own", "shared"])
def test_thompson_sampling_chooses_as_weights_drawn_from_the_posterior_do(space):
    cfg = LinTSConfig(exploration_scale=0.7, arm_features=None if space is CONTEXT else "obs")
    subject = learner(LinTS, cfg, space)
    subject.update_posterior(pulls(0, 9, space.shape), 1)
    head, rng = subject.head, np.random.default_rng(1)
    seen = np.array([0.3, -0.1, 0.2] if space is CONTEXT else [[0.3, -0.1, 0.2], [0.1, 0.2, -0.4]], np.float32)
    x, draws = with_ones(seen), 20_000
    drawn = [rng.multivariate_normal(mean, 0.7**2 * (root.T @ root), draws)
             for mean, root in zip(head.posterior.mean.numpy(), head.posterior.root.numpy(), strict=True)]  # fmt: skip
    scores = np.stack([one @ x for one in drawn], 1) if space is CONTEXT else drawn[0] @ x.T
    noise = torch.from_numpy(rng.standard_normal((draws, head.noise.width), dtype=np.float32))
    action, _ = subject.policy.act({"obs": torch.from_numpy(seen).expand(draws, *seen.shape)}, noise)
    assert abs(float(action.double().mean()) - float(scores.argmax(1).mean())) < 0.02
    assert 0.1 < float(action.double().mean()) < 0.9


def test_masked_arms_are_not_pulled():
    space = spaces.Dict({"observation": CONTEXT, "action_mask": spaces.MultiBinary(2)})
    subject = learner(LinTS, LinTSConfig(), space)
    seen = {"observation": torch.ones(50, 3), "action_mask": torch.tensor([[False, True]]).expand(50, 2)}
    assert subject.policy.act(seen, torch.randn(50, 2))[0].all()


def test_the_history_keeps_the_newest_and_their_age():
    history = PullHistory(5)
    for number, count in enumerate((2, 2, 3)):
        history.add(pulls(number, count), 1)
    (kept,) = history.parts()
    expected = torch.cat([pulls(number, count).reward for number, count in enumerate((2, 2, 3))])[-5:]
    assert sorted(kept.reward.tolist()) == sorted(expected.tolist())
    assert sorted(kept.age.tolist()) == [0, 0, 0, 1, 1]
    assert len(history) == 5
    other = PullHistory(5)
    other.load_state_dict(history.state_dict())
    assert other.draw(4, np.random.default_rng(0)).reward.tolist() == (
        history.draw(4, np.random.default_rng(0)).reward.tolist()
    )


def test_neural_linear_fits_its_posterior_to_the_features_it_has_now():
    subject = learner(NeuralLinear, SMALL)
    rows = pulls(0, 12)
    subject.update_posterior(rows, 1)
    with torch.no_grad():
        x = with_ones(subject.policy.trunk(rows.obs).numpy())
    reward, arm = rows.reward.double().numpy() / subject.reward_std, rows.action.numpy()
    assert subject.reward_std == pytest.approx(float(rows.reward.std(correction=0)))
    error = 0.0
    for number in range(2):
        mean, _ = ridge(x[arm == number], reward[arm == number], np.ones(sum(arm == number)), 0.25)
        np.testing.assert_allclose(subject.head.posterior.mean[number], mean, rtol=1e-6)
        error += float(((reward - x @ mean)[arm == number] ** 2).sum() + 0.25 * (mean**2).sum())
    assert subject.noise_std**2 == pytest.approx((6 + error / 2) / (5 + 12 / 2))
    before = subject.output.weight.clone()
    later = pulls(1, 3)
    subject.update_posterior(later, 1)  # no training: the posterior alone
    assert torch.equal(before, subject.output.weight)
    assert float(subject.head.posterior.outer[:, -1, -1].sum()) == 15  # the intercept counts decisions


@pytest.mark.parametrize(
    ("cfg", "space", "arms", "message"),
    [
        (LinUCBConfig(model={"hidden": (8,)}), CONTEXT, ARMS, r"model.hidden = \[8\].*neural_linear"),
        (LinTSConfig(model={"hidden": (), "normalize_obs": True}), CONTEXT, ARMS, "normalize_obs"),
        (LinUCBConfig(arm_features="ob"), SHARED, ARMS, "no such part.*obs"),
        (LinUCBConfig(arm_features="obs"), CONTEXT, ARMS, r"shape \(3,\).*\(2, d\)"),
        (LinUCBConfig(), CONTEXT, spaces.Box(-1, 1, (2,)), "Discrete"),
        (SMALL.replace(arm_features="obs"), SHARED, ARMS, "lints"),
        (SMALL.replace(model={"hidden": ()}), CONTEXT, ARMS, "layers"),
    ],
)
def test_settings_that_do_not_fit_are_refused(cfg, space, arms, message):
    kinds = {LinUCBConfig: LinUCB, LinTSConfig: LinTS, NeuralLinearConfig: NeuralLinear}
    with pytest.raises((ConfigError, SpaceError), match=message):
        learner(kinds[type(cfg)], cfg, space, arms)


class Twice(gymnasium.Env):
    """Rewards arm 1, in episodes of 1 or 2 steps."""

    observation_space, action_space = CONTEXT, ARMS

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 3))
        return self.np_random.standard_normal(3).astype(np.float32), {}

    def step(self, action):
        self.left -= 1
        return self.np_random.standard_normal(3).astype(np.float32), float(action), self.left == 0, False, {}


@pytest.mark.parametrize("length", [1, 3])
def test_every_decision_of_all_environments_is_learned_from_once(length):
    trainer = Trainer(Twice, LinUCBConfig(fragment_length=length), num_envs=4, seed=0)
    result = trainer.train(stop={"env_steps": 60})
    posterior = trainer.learners["main"].head.posterior
    assert float(posterior.outer[:, -1, -1].sum()) == result.env_steps == 60
    assert trainer.policies["main"].predict(np.zeros(3, np.float32)) == 1
    assert result.policies["main"].learning["updates"] == 60 // (4 * length)


def test_metrics_have_the_regret_and_iterations_a_thousand_steps():
    trainer = Trainer("LinearBandit", "linucb", seed=0, num_envs=20)
    result = trainer.train_iteration()
    assert result.env_steps == 1000
    assert 0 < result.metrics["relative_regret"][1] < 0.3
    assert result.metrics["cumulative_regret"][2] > 10 * result.metrics["regret"][1]
