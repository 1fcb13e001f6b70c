"""Acting on kernels: the same as by the policy's modules, on every build that this processor can run."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from rookery.core.flat import flatten
from rookery.core.native import (
    ADDRESS,
    FLOATS,
    SWITCH,
    DrawingHead,
    HeadLayout,
    InputLeaf,
    LinearLayer,
    Network,
    address,
    best_build,
)
from rookery.core.optim import Adam
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.native.actor import attach_actor, native_actor
from rookery.policies.policy import Policy
from selection import slow_repeats

VECTOR = spaces.Box(-5.0, 5.0, (4,), np.float32)
OBSERVATIONS = {
    "vector": VECTOR,
    "two vectors": spaces.Dict({"a": VECTOR, "b": spaces.Box(-1.0, 1.0, (3,), np.float32)}),
    "matrix": spaces.Box(-1.0, 1.0, (3, 5), np.float32),
    "float64": spaces.Box(-1.0, 1.0, (3,), np.float64),
    "bytes": spaces.Box(0, 255, (20,), np.uint8),
    "few bytes": spaces.Box(0, 7, (2, 3), np.uint8),
    "flags": spaces.MultiBinary(6),
    "category": spaces.Discrete(7, start=3),
    "categories": spaces.MultiDiscrete([10, 10, 3]),
    "mixed": spaces.Dict(
        {
            "place": spaces.Discrete(7),
            "speed": VECTOR,
            "inside": spaces.Tuple((spaces.Box(0, 255, (5,), np.uint8), spaces.MultiDiscrete([3, 4]))),
        }
    ),
}
FIVE, NUMBERS = spaces.Discrete(5, start=2), spaces.Box(-2.0, 2.0, (3,), np.float32)
ACTIONS = {
    "discrete": FIVE,
    "multi_discrete": spaces.MultiDiscrete([2, 5, 3]),
    "multi_binary": spaces.MultiBinary(4),
    "box": NUMBERS,
    "wide box": spaces.Box(-1.0, 1.0, (17,), np.float32),
    "dict": spaces.Dict({"move": NUMBERS, "turn": spaces.Discrete(3), "arms": spaces.MultiBinary(2)}),
    "tuple": spaces.Tuple((spaces.Discrete(4), spaces.MultiDiscrete([2, 3]))),
}
MASKABLE = ("discrete", "multi_discrete", "dict", "tuple")


pytestmark = pytest.mark.usefixtures("kernels")


def acting(obs, action, policy_class=Policy, **model):
    """A policy as a worker has it: weights far from their start, without gradients."""
    generator = torch.Generator().manual_seed(0)
    policy = policy_class(obs_spec(obs, action), action_spec(action), ModelConfig(**model), generator=generator)
    policy.requires_grad_(False)
    for weight in policy.parameters():
        weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.3)
    return attach_actor(policy)


def masked(action):
    """Observations with a mask for these actions."""
    return spaces.Dict({"obs": VECTOR, MASK: spaces.MultiBinary(sum(action_spec(action).sizes))})


def seen(policy, rows, seed=0):
    """Observations, of whose actions some are allowed."""
    space = policy.obs_spec.space
    space.seed(seed)
    trees = [policy.obs_spec.read(space.sample(), None)[0] for _ in range(rows)]
    tree = {path: np.concatenate([tree[path] for tree in trees]) for path in trees[0]}
    if MASK in tree:
        tree[MASK][:, np.cumsum((0, *policy.action_spec.sizes[:-1]))] = True
    return tree


def noise_for(policy, rows):
    rng = np.random.default_rng(1)
    uniform = rng.random((rows, policy.noise.uniform), dtype=np.float32)
    normal = rng.standard_normal((rows, policy.noise.normal), dtype=np.float32)
    return torch.from_numpy(np.concatenate((uniform, normal), axis=1))


def by_modules(policy, tree, noise):
    rows = {path: torch.from_numpy(np.array(array)) for path, array in tree.items()}
    action, logp = policy.act(rows, noise, deterministic=noise is None)
    return action.numpy(), logp.numpy()


def same(policy, rows=70, seed=0):
    """Asserts that an actor does as the modules do, deterministic and not."""
    actor, tree = native_actor(policy), seen(policy, rows, seed)
    for noise in (noise_for(policy, rows), None):
        action, logp = actor.act(tree, noise)
        expected, likelihood = by_modules(policy, tree, noise)
        assert (action.shape, action.dtype) == (expected.shape, expected.dtype)
        assert (logp.shape, logp.dtype) == (likelihood.shape, np.float32)
        whole = len(policy.action_spec.sizes) + policy.action_spec.num_flags
        columns = action.reshape(rows, -1), expected.reshape(rows, -1)
        assert np.array_equal(columns[0][:, :whole], columns[1][:, :whole])
        assert columns[0] == pytest.approx(columns[1], rel=1e-5, abs=1e-5)
        assert logp == pytest.approx(likelihood, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize(("obs", "action"), slow_repeats(of=itertools.product(OBSERVATIONS, ACTIONS)))
def test_actions_and_their_probabilities_are_those_of_the_modules(obs, action):
    same(acting(OBSERVATIONS[obs], ACTIONS[action]))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 59, 60, 61, 64, 70, 130])
def test_any_number_of_rows(rows):
    same(acting(OBSERVATIONS["mixed"], ACTIONS["dict"]), rows)


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu", "gelu", "linear"])
@pytest.mark.parametrize("hidden", [(), (32,), (64, 64), (16, 8, 24)])
def test_any_layers_and_activations(activation, hidden):
    same(acting(VECTOR, FIVE, hidden=hidden, activation=activation))


@pytest.mark.parametrize("name", MASKABLE)
def test_what_is_not_allowed_is_never_chosen(name):
    policy = acting(masked(ACTIONS[name]), ACTIONS[name])
    same(policy)
    tree = seen(policy, 500)
    offsets = np.cumsum((0, *policy.action_spec.sizes[:-1]))
    for noise in (noise_for(policy, 500), None):
        action, _ = native_actor(policy).act(tree, noise)
        choices = action.reshape(500, -1)[:, : len(offsets)].astype(int) + offsets
        assert np.take_along_axis(tree[MASK], choices, axis=1).all()


def test_one_allowed_choice_is_certain():
    policy = acting(masked(FIVE), FIVE)
    tree = seen(policy, 50)
    tree[MASK][:] = False
    tree[MASK][:, 3] = True
    action, logp = native_actor(policy).act(tree, noise_for(policy, 50))
    assert (action == 3).all()
    assert (logp == 0).all()


@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "multi_binary"])
@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2.0**-24])
def test_the_smallest_and_the_largest_uniform_number_make_a_possible_choice(name, uniform):
    policy = acting(VECTOR, ACTIONS[name])
    tree, noise = seen(policy, 50), torch.full((50, policy.noise.width), uniform)
    action, logp = native_actor(policy).act(tree, noise)
    assert np.array_equal(action, by_modules(policy, tree, noise)[0])
    assert np.isfinite(logp).all()


@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "multi_binary"])
def test_choices_come_as_often_as_their_probabilities_say(name):
    policy, rows = acting(VECTOR, ACTIONS[name]), 20_000
    tree = {path: array.repeat(rows, axis=0) for path, array in seen(policy, 1).items()}
    action, _ = native_actor(policy).act(tree, noise_for(policy, rows))
    distribution = policy({path: torch.from_numpy(array[:1]) for path, array in tree.items()})
    if name == "multi_binary":
        yes = torch.sigmoid(distribution.logits)
        tables = torch.stack((1 - yes, yes), -1)[0]
    else:
        log_probs = distribution.log_probs if name == "discrete" else distribution.choices.log_probs[0]
        tables = log_probs.exp()
    for choices, table in zip(action.reshape(rows, -1).T, tables.double().numpy(), strict=True):
        expected = table[table > 1e-6] * rows
        counts = np.bincount(choices, minlength=len(table))[table > 1e-6]
        assert (
            (counts - expected) ** 2 / expected
        ).sum() < 25  # exceeded once in 20,000 times with 4 degrees of freedom


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu", "gelu", "linear"])
def test_large_numbers_make_no_noise(activation):
    policy = acting(VECTOR, FIVE, hidden=(32, 32), activation=activation)
    tree = {path: array * 200 for path, array in seen(policy, 50).items()}
    action, logp = native_actor(policy).act(tree, noise_for(policy, 50))
    expected, likelihood = by_modules(policy, tree, noise_for(policy, 50))
    assert np.array_equal(action, expected)
    assert logp == pytest.approx(likelihood, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("name", ["two vectors", "matrix", "mixed", "bytes", "few bytes"])
def test_observations_are_normalized_as_the_policy_does(name):
    policy = acting(OBSERVATIONS[name], NUMBERS, normalize_obs=True, obs_clip=1.5)
    same(policy)
    rows = {path: torch.from_numpy(array) for path, array in seen(policy, 300, seed=5).items()}
    policy.normalizer.update(rows)
    same(policy)


def test_a_row_is_answered_the_same_whatever_rows_stand_beside_it():
    policy = acting(OBSERVATIONS["mixed"], ACTIONS["dict"])
    actor, tree, noise = native_actor(policy), seen(policy, 200), noise_for(policy, 200)
    action, logp = actor.act(tree, noise)
    for rows in (slice(0, 1), slice(5, 6), slice(59, 61), slice(7, 23), slice(13, 74), slice(60, 120), slice(199, 200)):
        some = actor.act({path: array[rows] for path, array in tree.items()}, noise[rows])
        assert np.array_equal(some[0], action[rows])
        assert np.array_equal(some[1], logp[rows])


@pytest.mark.parametrize(
    "changed",
    [
        lambda array: np.repeat(array, 2, axis=0)[::2],
        lambda array: np.asfortranarray(array),
        lambda array: array[::-1][::-1],
        lambda array: np.require(array.copy(), requirements="A").view(),
    ],
    ids=["every other", "column by column", "turned twice", "view"],
)
@pytest.mark.parametrize("writable", [True, False])
def test_arrays_may_lie_in_memory_as_they_like(changed, writable):
    action = ACTIONS["dict"]
    space = spaces.Dict({**OBSERVATIONS["mixed"].spaces, MASK: spaces.MultiBinary(3)})
    policy = acting(space, action, normalize_obs=True)
    tree, noise = seen(policy, 21), noise_for(policy, 21)
    expected = native_actor(policy).act(tree, noise)
    others = {path: changed(array) for path, array in tree.items()}
    for array in others.values():
        array.setflags(write=writable)
    found = native_actor(policy).act(others, noise.T.contiguous().T)
    assert all(np.array_equal(mine, wanted) for mine, wanted in zip(found, expected, strict=True))


def test_observations_and_noise_stay_as_they_were():
    policy = acting(OBSERVATIONS["mixed"], FIVE, normalize_obs=True, hidden=(8,), activation="relu")
    tree, noise = seen(policy, 20), noise_for(policy, 20)
    kept, noise_kept = deepcopy(tree), noise.clone()
    native_actor(policy).act(tree, noise)
    assert all(np.array_equal(tree[path], kept[path]) for path in tree)
    assert torch.equal(noise, noise_kept)


# --- weights ---------------------------------------------------------------------------------------------------------


def test_new_weights_and_statistics_are_seen_at_once():
    policy = acting(VECTOR, ACTIONS["dict"], normalize_obs=True)
    actor, tree, noise = native_actor(policy), seen(policy, 100), noise_for(policy, 100)
    before = actor.act(tree, noise)[1]
    for weight in policy.parameters():
        weight.mul_(0.5)
    policy.normalizer.update({path: torch.from_numpy(array) * 3 for path, array in tree.items()})
    after = actor.act(tree, noise)[1]
    assert not np.allclose(before, after)
    assert after == pytest.approx(by_modules(policy, tree, noise)[1], rel=1e-6, abs=1e-5)


def test_loaded_weights_are_seen_at_once():
    policy, other = (acting(VECTOR, NUMBERS, normalize_obs=True) for _ in range(2))
    for weight in other.parameters():
        weight.mul_(-0.5)
    tree = seen(policy, 20)
    other.normalizer.update({path: torch.from_numpy(array) for path, array in tree.items()})
    actor = native_actor(policy)
    actor.act(tree, None)
    policy.load_state_dict(other.state_dict())
    assert np.array_equal(actor.act(tree, None)[0], native_actor(other).act(tree, None)[0])


def test_a_call_keeps_the_weights_that_were_packed_while_others_borrow_panels(kernels):
    policy = acting(spaces.Box(-5.0, 5.0, (128,), np.float32), NUMBERS, hidden=(128, 128))
    actor, tree, noise = native_actor(policy), seen(policy, 20), noise_for(policy, 20)
    found, logp = np.empty((20, 3), np.float32), np.empty(20, np.float32)
    call, told = actor.prepare(tree, found, logp), []
    weight = torch.randn(128, 128, generator=torch.Generator().manual_seed(3))
    other = Network(kernels, [InputLeaf(FLOATS, 128)], [[LinearLayer(weight, weight[0])]] * 2, "tanh")
    actor.pack()
    for _ in range(2):
        call(noise, None)
        told.append(found.copy())
        other.forward([weight], keep=False)
        for mine in policy.trunk.parameters():
            mine.mul_(0.9)
    assert np.array_equal(*told)
    actor.pack()
    call(noise, None)
    assert found == pytest.approx(by_modules(policy, tree, noise)[0], rel=1e-5, abs=1e-4)
    assert not np.allclose(found, told[0])


def learner(policy):
    """A function that moves the weights on kernels, of which torch knows nothing."""
    policy.requires_grad_(True)
    optimizer = Adam(flatten([policy]), betas=(0.9, 0.999), eps=1e-5)

    def step():
        optimizer.flat.grad.fill_(1.0)
        optimizer.move_on(best_build(), 0.05, math.inf)

    return step


def test_predict_follows_a_learner_on_kernels():
    policy = acting(VECTOR, NUMBERS)
    tree = seen(policy, 20)
    policy.predict(tree["obs"])  # before the weights move into a learner's memory
    step, previous = learner(policy), None
    for _ in range(3):
        step()
        found = policy.predict(tree["obs"])
        with torch.no_grad():
            expected = policy.action_spec.to_env(by_modules(policy, tree, None)[0])
        assert found == pytest.approx(expected, abs=1e-5)
        assert previous is None or not np.array_equal(found, previous)
        previous = found


def test_a_copy_has_an_actor_of_its_own():
    policy = acting(VECTOR, NUMBERS)
    tree = seen(policy, 20)
    before = policy.predict(tree["obs"])
    copy = deepcopy(policy)
    assert np.array_equal(copy.predict(tree["obs"]), before)
    for weight in copy.parameters():
        weight.mul_(0.5)
    assert not np.array_equal(copy.predict(tree["obs"]), before)
    assert np.array_equal(policy.predict(tree["obs"]), before)
    del policy
    assert not np.array_equal(copy.predict(tree["obs"]), before)


def test_predict_is_that_of_a_policy_without_kernels():
    for name, action in ACTIONS.items():
        mine, theirs = acting(VECTOR, action), acting(VECTOR, action, native=False)
        assert native_actor(theirs) is None
        obs = seen(mine, 20)["obs"]
        for deterministic in (True, False):
            found, expected = (
                policy.predict(obs, deterministic=deterministic, rng=np.random.default_rng(3))
                for policy in (mine, theirs)
            )
            if name in ("dict", "tuple"):
                for one, other in zip(found, expected, strict=True):
                    parts = (one.values(), other.values()) if name == "dict" else (one, other)
                    for a, b in zip(*parts, strict=True):
                        assert a == pytest.approx(b, abs=1e-5)
            else:
                assert found == pytest.approx(expected, abs=1e-5)


def test_no_rows_have_no_actions():
    policy = acting(VECTOR, NUMBERS)
    action, logp = native_actor(policy).act({"obs": np.zeros((0, 4), np.float32)}, torch.zeros(0, 3))
    assert action.shape == (0, 3)
    assert logp.shape == (0,)


def test_threads_may_share_a_policy():
    # as a server does with the policy it loaded: torch modules allow that, so kernels must
    policy = acting(VECTOR, NUMBERS, hidden=(256, 256))
    batches = [seen(policy, 200, seed)["obs"] for seed in range(4)]
    expected = [policy.predict(obs) for obs in batches]

    def ask(number):
        return all(np.array_equal(policy.predict(batches[number]), expected[number]) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))


# --- which policies --------------------------------------------------------------------------------------------------


class Mine(nn.Module):
    num_features = 4

    def __init__(self, space):
        super().__init__()

    def forward(self, obs):
        return obs


class Bolder(Policy):
    """A policy whose owner says himself how it decides."""

    def forward(self, obs):
        return self.head(2.0 * self.features(obs), None)


@pytest.mark.parametrize(
    ("obs", "model"),
    [
        (spaces.Box(0, 255, (40, 40, 3), np.uint8), {}),
        (spaces.Dict({"a": VECTOR, "b": spaces.Box(0, 255, (40, 40, 3), np.uint8)}), {}),
        (VECTOR, {"module": Mine}),
        (VECTOR, {"native": False}),
        (VECTOR, {"compile": True}),
        (OBSERVATIONS["categories"], {"hidden": ()}),
        (VECTOR, {"hidden": (1024, 1025)}),
    ],
    ids=["picture", "vector and picture", "own module", "not native", "compiled", "one-hots", "wide"],
)
def test_other_policies_act_by_their_modules(obs, model):
    policy = acting(obs, FIVE, **model)
    assert native_actor(policy) is None
    actions = policy.predict(policy.obs_spec.space.sample())
    assert FIVE.contains(actions)


def test_weights_of_double_precision_are_left_to_torch():
    assert native_actor(acting(VECTOR, FIVE).double()) is None


def test_a_policy_that_decides_in_its_own_way_is_left_to_it():
    policy = acting(VECTOR, NUMBERS, Bolder)
    tree = seen(policy, 20)
    expected = policy.action_spec.to_env(by_modules(policy, tree, None)[0])
    assert policy.predict(tree["obs"]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("kernels")
def test_without_kernels_policies_act_by_their_modules(monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    best_build.cache_clear()
    assert native_actor(acting(VECTOR, FIVE)) is None


# --- squashed numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 6, 17])
@pytest.mark.parametrize("size", [1.0, 8.0])
@pytest.mark.parametrize("drawn", [True, False])
def test_squashed_numbers_are_those_of_the_formula(kernels, count, size, drawn):
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(2 * count, 5, generator=generator) * size, torch.randn(2 * count, generator=generator)]
    network = Network(kernels, [InputLeaf(FLOATS, 5)], [[LinearLayer(*weights)]], "tanh")
    head = DrawingHead(kernels, HeadLayout((), 0, count, False, kind="squashed", log_std=(-5.0, 2.0)))
    for rows in (1, 15, 16, 17, 70):
        obs, noise = torch.randn(rows, 5, generator=generator), torch.randn(rows, count, generator=generator)
        action, logp = torch.empty(rows, count), torch.empty(rows)
        mean, log_std = network.forward([obs], keep=False)[0].double().chunk(2, 1)
        addresses = (ADDRESS * 1)(obs.data_ptr())
        network.pack()
        kernels.call["policy_step"](
            network.handle, head.handle, addresses, rows, None, None, address(noise if drawn else None),
            address(action), address(logp),
        )  # fmt: skip
        standard = noise.double() if drawn else torch.zeros(rows, count, dtype=torch.float64)
        log_std = log_std.clamp(-5.0, 2.0)
        number = mean + log_std.exp() * standard
        density = -0.5 * standard.square() - log_std - 0.5 * math.log(2 * math.pi)
        density -= 2 * (math.log(2) - number - functional.softplus(-2 * number))
        assert (action.abs() <= 1).all()
        torch.testing.assert_close(action.double(), number.tanh(), rtol=0, atol=1e-5)
        torch.testing.assert_close(logp.double(), density.sum(1), rtol=1e-6, atol=1e-5 * count)
