import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.nn import functional

from rookery.core.spaces.arrays import obs_spec
from rookery.models.build import Encoder, ModelConfig

DISCRETE = spaces.Discrete(2)


def spec(space):
    return obs_spec(space, DISCRETE)


def encoder(space, hidden=(16, 8), activation="tanh", seed=0, layer_norm=False):
    generator = torch.Generator().manual_seed(seed)
    cfg = ModelConfig(activation=activation, layer_norm=layer_norm, entities_as="flat")
    return Encoder(spec(space), cfg, hidden, generator=generator)


def rows(space, n=5):
    """Sampled observations, stored as a tree of tensors."""
    space.seed(0)
    layout = spec(space)
    tree = layout.allocate(n)
    for i in range(n):
        layout.write(space.sample(), tree, i)
    return {path: torch.from_numpy(array) for path, array in tree.items()}


def image(*shape, dtype=np.uint8):
    return spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)


MIXED = spaces.Dict(
    {
        "box": spaces.Box(-1, 1, (2, 3), np.float32),
        "bytes": image(4),
        "keys": spaces.Discrete(3, start=5),  # a name that a module dictionary would refuse
        "flags": spaces.MultiBinary(4),
        "v1.0": spaces.Tuple((spaces.MultiDiscrete([2, 4]), image(5, 5, 3))),
    }
)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (4,), np.float32), MIXED, spaces.Discrete(9)])
def test_units_start_with_weights_of_length_1(space):
    """The length is over all inputs of a unit, numbers and categories; that of orthogonal weights is another one."""

    def lengths(initial_weights):
        cfg = ModelConfig(initial_weights=initial_weights)
        made = Encoder(spec(space), cfg, (32, 8), generator=torch.Generator().manual_seed(0))
        table = [] if made.first.table is None else [made.first.table.T]
        first = torch.cat([*([] if made.first.weight is None else [made.first.weight]), *table], 1)
        return torch.cat([first.norm(dim=1), made.layers[0].weight.norm(dim=1)])

    torch.testing.assert_close(lengths("unit_rows"), torch.ones(40))
    assert (lengths("orthogonal") - 1).abs().mean() > 0.05


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (4,), np.float32),
        spaces.Box(-1, 1, (), np.float32),
        spaces.Box(-1, 1, (2, 3), np.float64),
        image(128),
        image(40, 40),
        image(7, 7, 3),
        image(10, 10, 4),
        image(84, 84, 4),
        image(1, 36, 36),
        image(20, 24, 6),
        image(3, 30, 12),
        image(2, 2, 2),
        image(12, 12, 3, dtype=np.float32),
        spaces.Discrete(7, start=-2),
        spaces.MultiDiscrete([3, 4, 5]),
        spaces.MultiDiscrete([[3, 4], [5, 6]]),
        spaces.MultiBinary(6),
        spaces.MultiBinary((2, 3)),
        MIXED,
    ],
    ids=str,
)
@pytest.mark.parametrize("hidden", [(16, 8), ()])
def test_every_space_has_features_of_the_promised_width(space, hidden):
    module = encoder(space, hidden)
    features = module(rows(space))
    assert features.shape == (5, module.num_features)
    assert features.dtype == torch.float32 and torch.isfinite(features).all()
    assert (features.std(0) > 0).any()  # different observations, different features


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(6), spaces.MultiDiscrete([3, 4, 2]), spaces.MultiDiscrete([[3, 4], [5, 6]])],
    ids=str,
)
def test_embedding_sums_equal_a_linear_layer_on_one_hots(space):
    module, tree = encoder(space, (16,)), rows(space, 9)
    first = module.first
    first.bias.data.normal_()
    values, sizes = tree["obs"].reshape(9, -1), spec(space).leaves[0].sizes
    one_hots = torch.cat([functional.one_hot(values[:, i], n) for i, n in enumerate(sizes)], 1).float()
    weight = first.table.detach().T  # [16, sum(sizes)], as a linear layer has it
    assert torch.allclose(module(tree), torch.tanh(functional.linear(one_hots, weight, first.bias)), atol=1e-6)
    # orthogonal as a whole, gain sqrt(2): columns or rows (the fewer) have length sqrt(2) and right angles
    square = weight.T @ weight if len(weight) >= sum(sizes) else weight @ weight.T
    assert torch.allclose(square, 2.0 * torch.eye(len(square)), atol=1e-5)
    # without hidden layers the features are these one-hots
    assert torch.equal(encoder(space, ())(tree), one_hots)


def test_mixed_observations_meet_in_one_linear_layer_orthogonal_as_a_whole():
    module = encoder(MIXED, (12,))
    first = module.first
    whole = torch.cat((first.weight, first.table.T), 1)
    # 6 numbers + 4 bytes + 4 flags + 128 picture features, and 3 + 2 + 4 categories
    assert whole.shape == (12, 142 + 9)
    assert torch.allclose(whole @ whole.T, 2.0 * torch.eye(12), atol=1e-5)
    assert module.num_features == 12


def test_every_part_of_a_mixed_observation_matters():
    module, tree = encoder(MIXED), rows(MIXED)
    before = module(tree)
    for path in tree:
        changed = dict(tree, **{path: tree[path].flip(0)})
        assert not torch.allclose(module(changed), before), path


def test_gradients_reach_every_parameter():
    module = encoder(MIXED, activation="elu")
    module(rows(MIXED, 30)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_bytes_are_divided_by_their_upper_bound_exactly_once():
    tree = {"obs": torch.tensor([[0, 51, 255]], dtype=torch.uint8)}
    assert encoder(image(3), ())(tree).tolist() == [pytest.approx([0.0, 0.2, 1.0])]
    small, floats = encoder(image(8, 8, 3)), encoder(image(8, 8, 3, dtype=np.float32))
    pixels = rows(image(8, 8, 3))["obs"]
    assert torch.allclose(small({"obs": pixels}), floats({"obs": pixels.float() / 255.0}), atol=1e-6)


def test_masks_are_not_encoded():
    space = spaces.Dict({"x": spaces.Box(-1, 1, (3,), np.float32), "action_mask": spaces.MultiBinary(2)})
    module = encoder(space, ())
    assert spec(space).has_mask
    assert module.num_features == 3
    assert module({"x": torch.ones(1, 3)}).tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("tanh", torch.tanh),
        ("relu", torch.relu),
        ("elu", functional.elu),
        ("silu", functional.silu),
        ("gelu", functional.gelu),
        ("linear", lambda x: x),
    ],
)
def test_activation_follows_every_hidden_layer(name, function):
    space = spaces.Box(-1, 1, (3,), np.float32)
    module, tree = encoder(space, (8, 4), name), rows(space)
    (second,) = module.layers
    expected = function(second(function(functional.linear(tree["obs"], module.first.weight))))
    assert torch.allclose(module(tree), expected, atol=1e-6)


def test_weights_depend_on_the_generator_only():
    a, b, c = (encoder(MIXED, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["first.weight"], c["first.weight"])
