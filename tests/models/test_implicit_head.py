"""The head of implicit quantiles: its equation by hand, fractions, exploration."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.ops import quantile_huber
from rookery.core.spaces.arrays import action_spec
from rookery.models.implicit_head import COSINES, ImplicitQValues, fractions


def head(quantiles=4, num_features=5):
    spec = ImplicitQValues(values="quantile", atoms=quantiles)
    generator = torch.Generator().manual_seed(0)
    return spec.build(num_features, action_spec(spaces.Discrete(3)), log_std_init=0.0, generator=generator)


def test_quantiles_are_those_of_equation_4():
    net, features, noise = head(), torch.randn(2, 5), torch.randn(2, 4)
    found = net.values(features, noise)
    assert found.shape == (2, 3, 4)
    fraction = 0.5 * (1 + math.erf(float(noise[1, 2]) / math.sqrt(2)))
    cosines = torch.tensor([math.cos(math.pi * i * fraction) for i in range(COSINES)])
    factor = (net.embedding.weight @ cosines + net.embedding.bias).clamp_min(0)
    hidden = (net.hidden.weight @ (features[1] * factor) + net.hidden.bias).clamp_min(0)
    by_hand = net.linear.weight @ hidden + net.linear.bias
    torch.testing.assert_close(found[1, :, 2], by_hand, rtol=1e-4, atol=1e-5)


def test_fractions_are_uniform_and_without_numbers_the_midpoints():
    assert fractions(None, 4, torch.zeros(1)).tolist() == [[0.125, 0.375, 0.625, 0.875]]
    drawn = fractions(torch.randn(200_000, 1, generator=torch.Generator().manual_seed(0)), 1, torch.zeros(1))
    counts = np.histogram(drawn.numpy(), bins=10, range=(0, 1))[0]
    assert abs(counts / 20_000 - 1).max() < 0.03


def test_exploring_actions_take_numbers_for_fractions_and_greedy_ones_none():
    net, features = head(), torch.randn(6, 5)
    net.epsilon.fill_(0.0)
    assert (net.noise.uniform, net.noise.normal, net.layer_noise) == (2, 4, 4)
    noise = torch.cat((torch.rand(6, 2), torch.randn(6, 4)), 1)
    action, _ = net.draw(features, None, noise, None)
    assert torch.equal(action, net.values(features, noise[:, 2:]).mean(2).argmax(1))
    assert torch.equal(net(features).mode(), net.values(features).mean(2).argmax(1))


@pytest.mark.parametrize("above", [True, False])
def test_errors_are_weighted_by_the_fraction_of_their_quantile(above):
    predicted, target = torch.zeros(1, 1), torch.full((1, 1), 0.5 if above else -0.5)
    loss = quantile_huber(predicted, target, kappa=1.0, fraction=torch.tensor([[0.9]]))
    assert loss.item() == pytest.approx((0.9 if above else 0.1) * 0.5 * 0.25)
