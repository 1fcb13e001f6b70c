"""Learning takes arrays where they lie.

Arrays of the device ``meta`` hold no numbers: whatever reads one, or mixes it with an array of the host, fails. A
graphics card would wait for the first and refuse the second, so both are found without one.
"""

import numpy as np
import pytest
import torch

from rookery.algorithms.on_policy.a2c import A2CConfig, a2c_loss
from rookery.algorithms.on_policy.ppo import PPOConfig, ppo_loss
from rookery.core.batch import Minibatch
from rookery.core.ops import following, gae
from rookery.models.distributions import Categorical, DiagonalGaussian
from rookery.models.heads import Outputs

META = torch.device("meta")


def numbers(*shape):
    return torch.zeros(shape, device=META)


def data(rows, *action):
    return Minibatch(
        obs={"obs": numbers(rows, 4)},
        action=numbers(rows, *action) if action else torch.zeros(rows, dtype=torch.int64, device=META),
        logp=numbers(rows),
        advantage=numbers(rows),
        value_target=numbers(rows, 1),
        value=numbers(rows, 1),
    )


def test_reading_a_number_fails_here():
    with pytest.raises(RuntimeError):
        numbers(3).sum().item()
    with pytest.raises((RuntimeError, NotImplementedError)):
        numbers(3).to("cpu")


def test_returns_are_computed_where_the_rewards_are():
    flags = torch.zeros(5, 3, dtype=torch.bool, device=META)
    advantage = gae(numbers(5, 3), numbers(5, 3), numbers(5, 3), flags, gamma=0.9, gae_lambda=0.9)
    assert advantage.device == META
    assert following(numbers(5, 3), numbers(3)).device == META


def test_minibatches_are_cut_where_the_rows_are():
    for batch in data(10).shuffled(4, np.random.default_rng(0)):
        assert batch.obs["obs"].device == batch.action.device == batch.value.device == META


@pytest.mark.parametrize(
    ("loss", "cfg"),
    [(ppo_loss, PPOConfig()), (ppo_loss, PPOConfig(value_clip=0.2)), (a2c_loss, A2CConfig(normalize_advantage=True))],
)
def test_losses_read_no_number_and_stay_where_the_rows_are(loss, cfg):
    choice = Outputs(Categorical(numbers(6, 2)), numbers(6, 1))
    force = Outputs(DiagonalGaussian(numbers(6, 2), numbers(2)), numbers(6, 1))
    for outputs, batch in ((choice, data(6)), (force, data(6, 2))):
        value, metrics = loss(outputs, batch, cfg)
        assert value.device == META
        assert all(metric.device == META for metric in metrics.values())
