"""Acting in NumPy: the same as by the policy's modules."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.spaces import MASK, action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.policies.numpy_actor import numpy_actor
from rookery.policies.policy import Policy

VECTOR = spaces.Box(-5.0, 5.0, (4,), np.float32)
TWO_VECTORS = spaces.Dict({"a": VECTOR, "b": spaces.Box(-1.0, 1.0, (3,), np.float32)})
CATEGORIES = spaces.MultiDiscrete([10, 10, 3])
MIXED = spaces.Dict({"place": spaces.Discrete(7), "speed": VECTOR})
MASKED = spaces.Dict({"obs": VECTOR, MASK: spaces.MultiBinary(5)})
FIVE = spaces.Discrete(5, start=2)
NUMBERS = spaces.Box(-2.0, 2.0, (3,), np.float32)


def acting(obs, action, **model):
    """A policy as a worker has it: weights far from their start, without gradients."""
    generator = torch.Generator().manual_seed(0)
    policy = Policy(obs_spec(obs, action), action_spec(action), ModelConfig(**model), generator=generator)
    policy.requires_grad_(False)
    for weight in policy.parameters():
        weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.3)
    return policy


def seen(policy, rows, seed=0):
    space = policy.obs_spec.space
    space.seed(seed)
    trees = [policy.obs_spec.read(space.sample(), None)[0] for _ in range(rows)]
    tree = {path: np.concatenate([tree[path] for tree in trees]) for path in trees[0]}
    if MASK in tree:
        tree[MASK][:, 0] = True
    return tree


def noise_for(policy, rows):
    rng = np.random.default_rng(1)
    uniform = rng.random((rows, policy.noise.uniform), dtype=np.float32)
    return np.concatenate((uniform, rng.standard_normal((rows, policy.noise.normal), dtype=np.float32)), axis=1)


def by_modules(policy, tree, noise):
    rows = {path: torch.from_numpy(array) for path, array in tree.items()}
    given = None if noise is None else torch.from_numpy(noise)
    action, logp = policy.act(rows, given, deterministic=noise is None)
    return action.numpy(), logp.numpy()


def same(policy, rows=200):
    actor = numpy_actor(policy)
    assert actor is not None
    tree = seen(policy, rows)
    for noise in (noise_for(policy, rows), None):
        action, logp = actor.act(tree, noise)
        expected, likelihood = by_modules(policy, tree, noise)
        assert action.dtype == expected.dtype
        assert logp.dtype == likelihood.dtype == np.float32
        assert action == pytest.approx(expected, abs=1e-5)
        assert logp == pytest.approx(likelihood, abs=2e-5)


@pytest.mark.parametrize("action", [FIVE, NUMBERS], ids=["choice", "numbers"])
@pytest.mark.parametrize("obs", [VECTOR, TWO_VECTORS, CATEGORIES, MIXED], ids=["vector", "two", "categories", "mixed"])
def test_actions_and_their_probabilities_are_those_of_the_modules(obs, action):
    same(acting(obs, action))


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
@pytest.mark.parametrize("hidden", [(32,), (64, 64), (16, 8, 24)])
def test_any_layers_and_activations(activation, hidden):
    same(acting(VECTOR, FIVE, hidden=hidden, activation=activation))


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
@pytest.mark.filterwarnings("error")
def test_large_numbers_make_no_noise(activation):
    policy = acting(VECTOR, FIVE, hidden=(32, 32), activation=activation)
    tree = {path: array * 200 for path, array in seen(policy, 50).items()}
    action, logp = numpy_actor(policy).act(tree, noise_for(policy, 50))
    expected, likelihood = by_modules(policy, tree, noise_for(policy, 50))
    assert np.array_equal(action, expected)
    assert logp == pytest.approx(likelihood, rel=1e-4, abs=1e-3)


def test_what_is_not_allowed_is_never_chosen():
    policy = acting(MASKED, spaces.Discrete(5))
    same(policy)
    tree = seen(policy, 500)
    action, _ = numpy_actor(policy).act(tree, noise_for(policy, 500))
    assert tree[MASK][np.arange(500), action].all()


def test_the_largest_uniform_number_takes_the_last_possible_choice():
    policy = acting(VECTOR, FIVE)
    tree = seen(policy, 50)
    action, _ = numpy_actor(policy).act(tree, np.full((50, 1), 1.0 - 2.0**-24, dtype=np.float32))
    assert (action < 5).all()


def test_observations_are_normalized_as_the_policy_does():
    policy = acting(TWO_VECTORS, NUMBERS, normalize_obs=True, obs_clip=1.5)
    policy.normalizer.update({path: torch.from_numpy(array) for path, array in seen(policy, 300, seed=5).items()})
    same(policy)


def test_new_weights_and_statistics_are_seen_at_once():
    policy = acting(VECTOR, FIVE, normalize_obs=True)
    actor, tree, noise = numpy_actor(policy), seen(policy, 100), noise_for(policy, 100)
    before = actor.act(tree, noise)[1]
    for weight in policy.parameters():
        weight.mul_(0.5)
    policy.normalizer.update({path: torch.from_numpy(array) * 3 for path, array in tree.items()})
    after = actor.act(tree, noise)[1]
    assert not np.allclose(before, after)
    assert after == pytest.approx(by_modules(policy, tree, noise)[1], abs=2e-5)


def test_observations_stay_as_they_were():
    policy = acting(VECTOR, FIVE, normalize_obs=True, hidden=(8,), activation="relu")
    tree = seen(policy, 20)
    kept = deepcopy(tree)
    numpy_actor(policy).act(tree, noise_for(policy, 20))
    assert all(np.array_equal(tree[path], kept[path]) for path in tree)


@pytest.mark.parametrize(
    "policy",
    [
        acting(spaces.Box(0, 255, (40, 40, 3), np.uint8), FIVE),
        acting(VECTOR, FIVE, activation="gelu"),
        acting(VECTOR, FIVE, hidden=()),
        acting(VECTOR, spaces.MultiDiscrete([2, 3])),
        acting(spaces.MultiBinary(6), FIVE),
        acting(VECTOR, FIVE).requires_grad_(True),
    ],
    ids=["picture", "gelu", "no layers", "several choices", "flags", "gradients"],
)
def test_other_policies_act_by_their_modules(policy):
    assert numpy_actor(policy) is None


def test_wide_layers_are_left_to_torch_from_a_few_rows_on():
    assert numpy_actor(acting(VECTOR, FIVE)).most_rows == 64
    assert numpy_actor(acting(VECTOR, FIVE, hidden=(256, 256))).most_rows == 4
