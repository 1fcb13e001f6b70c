import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.spaces.arrays import action_spec
from rookery.models.distributions import (
    Bernoulli,
    Categorical,
    Composite,
    DiagonalGaussian,
    MultiCategorical,
    NoiseSpec,
)
from rookery.models.heads import ActionHead, ValueHead


def head(space, log_std_init=0.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return ActionHead(6, action_spec(space), log_std_init=log_std_init, generator=generator)


@pytest.mark.parametrize(
    ("space", "kind", "width", "noise"),
    [
        (spaces.Discrete(5, start=3), Categorical, 5, NoiseSpec(uniform=1)),
        (spaces.MultiDiscrete([2, 3]), MultiCategorical, 5, NoiseSpec(uniform=2)),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), MultiCategorical, 14, NoiseSpec(uniform=4)),
        (spaces.Box(-1, 1, (2, 2)), DiagonalGaussian, 4, NoiseSpec(normal=4)),
        (spaces.MultiBinary((2, 3)), Bernoulli, 6, NoiseSpec(uniform=6)),
        (spaces.Tuple((spaces.MultiBinary(2), spaces.Discrete(3))), Composite, 5, NoiseSpec(uniform=3)),
        (
            spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Dict(c=spaces.Discrete(3), d=spaces.MultiDiscrete([2, 5]))),
            Composite,
            12,
            NoiseSpec(uniform=3, normal=2),
        ),
    ],
)
def test_each_action_space_gets_its_distribution(space, kind, width, noise):
    module = head(space)
    dist = module(torch.randn(7, 6))
    assert isinstance(dist, kind)
    assert module.linear.out_features == width
    assert module.noise == dist.noise == noise
    assert module.noise.width == noise.uniform + noise.normal
    assert dist.sample(torch.rand(7, noise.width)).shape == (7, *action_spec(space).shape)


def test_first_policy_is_nearly_uniform_and_values_are_not_shrunk():
    # rows of length .01 x gain: |logit| <= .01 |features|; the value's weights have length 1
    module, value = head(spaces.Discrete(4)), ValueHead(6, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(module.linear.weight.norm(dim=1), torch.full((4,), 0.01))
    assert module(torch.randn(50, 6)).entropy().min() > 0.99 * np.log(4)
    assert value.linear.weight.norm().item() == pytest.approx(1.0, abs=1e-6)
    assert value(torch.randn(3, 6)).shape == (3, 1)
    two = ValueHead(6, generator=torch.Generator().manual_seed(0), columns=2)
    assert two(torch.randn(3, 6)).shape == (3, 2)


def test_log_std_is_one_learned_number_an_element():
    module = head(spaces.Box(-1, 1, (3,)), log_std_init=-0.5)
    assert module.log_std.tolist() == [-0.5] * 3
    module(torch.randn(4, 6)).entropy().sum().backward()
    assert module.log_std.grad.tolist() == [4.0] * 3  # d entropy / d log_std = 1 for each of 4 rows
    assert head(spaces.Discrete(2)).log_std is None


def test_mask_reaches_discrete_distributions():
    mask = torch.tensor([[True, False, True, False, False]])
    assert (head(spaces.Discrete(5))(torch.randn(1, 6), mask).log_probs.exp()[~mask] == 0).all()
    # the mask of MultiDiscrete [2, 3] is one row of 5 flags: (yes, no) and (yes, no, no)
    dist = head(spaces.MultiDiscrete([2, 3]))(torch.randn(1, 6), mask)
    assert dist.sample(torch.full((1, 2), 0.999)).tolist() == [[0, 0]]


def test_a_composite_is_one_distribution_for_each_sort_of_element():
    # 3 + 2 logits of choices, 2 of flags, 2 means; masks reach the choices and leave the others alone
    space = spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.Discrete(3), spaces.MultiBinary(2), spaces.Discrete(2)))
    module = head(space, log_std_init=-1.0)
    module.linear.bias.data = torch.arange(9.0)
    dist = module(torch.zeros(1, 6), torch.tensor([[True, True, False, True, True]]))
    choices, flags, numbers = dist.parts
    assert dist.mode().tolist() == [[1, 1, 1, 1, 7, 8]]
    assert torch.allclose(choices.choices.log_probs[0, 0, :2], torch.log_softmax(torch.tensor([0.0, 1.0]), 0))
    assert flags.logits.tolist() == [[5, 6]]
    assert numbers.log_std.tolist() == module.log_std.tolist() == [-1, -1]
