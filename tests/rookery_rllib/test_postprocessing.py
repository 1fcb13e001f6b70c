"""Advantages, discounted sums and n-step rewards, against loops."""

from types import SimpleNamespace

import numpy as np
import pytest

from rookery_rllib.batch.postprocessing import (
    Postprocessing,
    adjust_nstep,
    compute_advantages,
    compute_gae_for_sample_batch,
    discount_cumsum,
)
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.batch.view_requirement import ViewRequirement

RNG = np.random.default_rng(0)


def sums(x, gamma):
    out, total = [], 0.0
    for value in x[::-1]:
        total = value + gamma * total
        out.append(total)
    return np.array(out[::-1])


def trajectory(num=9, ends=False):
    dones = np.zeros(num, bool)
    dones[-1] = ends
    return SampleBatch(
        obs=np.arange(num), new_obs=np.arange(1, num + 1), dones=dones,
        rewards=RNG.normal(size=num).astype(np.float32), vf_preds=RNG.normal(size=num).astype(np.float32),
    )  # fmt: skip


def test_discounted_sums():
    x = RNG.normal(size=(33, 2))
    np.testing.assert_allclose(discount_cumsum(x, 0.9), sums(x, 0.9))
    assert discount_cumsum([], 0.9).shape == (0,)


@pytest.mark.parametrize("last_r", [0.0, 2.5])
def test_advantages_with_gae(last_r):
    batch = trajectory()
    reward, value = batch["rewards"].astype(float), batch["vf_preds"].astype(float)
    errors = reward + 0.9 * np.append(value[1:], last_r) - value
    assert compute_advantages(batch, last_r, 0.9, 0.8) is batch
    np.testing.assert_allclose(batch[Postprocessing.ADVANTAGES], sums(errors, 0.72), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch["value_targets"], sums(errors, 0.72) + value, rtol=1e-5, atol=1e-6)
    assert batch["advantages"].dtype == batch["value_targets"].dtype == np.float32


def test_advantages_without_gae():
    batch = trajectory()
    returns = sums(np.append(batch["rewards"], 2.5), 0.9)[:-1]
    compute_advantages(batch, 2.5, 0.9, use_gae=False)
    np.testing.assert_allclose(batch["advantages"], returns - batch["vf_preds"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch["value_targets"], returns, rtol=1e-5)
    del batch["vf_preds"]
    compute_advantages(batch, 0.0, 0.9, use_gae=False, use_critic=False)
    np.testing.assert_allclose(batch["advantages"], sums(batch["rewards"], 0.9), rtol=1e-5)
    assert not batch["value_targets"].any()
    with pytest.raises(ValueError, match="vf_preds"):
        compute_advantages(batch, 0.0)
    with pytest.raises(ValueError, match="use_gae"):
        compute_advantages(batch, 0.0, use_critic=False)


@pytest.mark.parametrize("ends", [True, False])
def test_a_cut_off_trajectory_is_valued_by_the_policy(ends):
    seen = []
    model = SimpleNamespace(view_requirements={"obs": ViewRequirement()})
    config = {"gamma": 0.9, "lambda": 1.0, "use_gae": True}
    policy = SimpleNamespace(
        model=model, config=config, _value=lambda **row: seen.append(row["obs"]) or np.array([3.0])
    )
    batch = trajectory(4, ends)
    expected = compute_advantages(batch.copy(), 0.0 if ends else 3.0, 0.9, 1.0)
    compute_gae_for_sample_batch(policy, batch)
    np.testing.assert_array_equal(batch["advantages"], expected["advantages"])
    assert [one.tolist() for one in seen] == ([] if ends else [[4]])


def test_rewards_of_n_steps():
    batch = trajectory(5, ends=True)
    reward = batch["rewards"].astype(float)
    adjust_nstep(3, 0.9, batch)
    expected = [sum(0.9**k * reward[t + k] for k in range(3) if t + k < 5) for t in range(5)]
    np.testing.assert_allclose(batch["rewards"], expected, rtol=1e-5)
    assert batch["new_obs"].tolist() == [3, 4, 5, 5, 5]
    assert batch["dones"].tolist() == [False, False, True, True, True]
    with pytest.raises(ValueError, match="in the middle"):
        adjust_nstep(2, 0.9, SampleBatch(dones=[True, False], rewards=[1.0, 1.0], new_obs=[1, 2]))
