"""Attention over sets of entities."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.nn import functional

from rookery.core.errors import ConfigError
from rookery.core.native import why_none
from rookery.core.spaces.arrays import obs_spec
from rookery.core.spaces.entity_set import EntitySet
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.entities import EntityEmbedding, EntityEncoder
from rookery.native.qualify import obstacle

TWO = spaces.Discrete(2)
SETS = spaces.Dict(
    own=spaces.Box(-1, 1, (3,)),
    kind=spaces.Discrete(4),
    food=EntitySet(spaces.Box(-1, 1, (2,)), 6),
    foes=EntitySet(spaces.Dict(at=spaces.Box(-1, 1, (2,)), sort=spaces.Discrete(3)), 4),
)


def spec(space):
    return obs_spec(space, TWO)


def rows(space, num=16, seed=0):
    """Sampled observations as tensors."""
    space.seed(seed)
    layout = spec(space)
    tree = layout.allocate(num)
    for row in range(num):
        layout.write(space.sample(), tree, row)
    return {path: torch.from_numpy(array) for path, array in tree.items()}


def trunk(space=SETS, seed=0, **settings):
    settings = {"entity_size": 16, "hidden": (8,), **settings}
    return build_trunk(spec(space), ModelConfig(**settings), generator=torch.Generator().manual_seed(seed))


def shuffled(tree, rng):
    """The same observations, with present and absent rows of each set in another order."""
    return {p: x[:, torch.from_numpy(rng.permutation(x.shape[1]))] if x.dim() == 3 else x for p, x in tree.items()}


@pytest.mark.parametrize("seed", range(5))
def test_features_do_not_depend_on_the_order_of_entities(seed):
    net, tree, rng = trunk(seed=seed), rows(SETS, seed=seed), np.random.default_rng(seed)
    torch.testing.assert_close(net(shuffled(tree, rng)), net(tree), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -1e30])
def test_nothing_leaks_from_rows_where_nothing_is(garbage):
    net, tree = trunk(), rows(SETS)
    dirty = {path: value.clone() for path, value in tree.items()}
    for path in ("food", "foes"):
        absent = dirty[path][..., 0] == 0
        dirty[path][..., 1:][absent] = garbage
    assert torch.equal(net(dirty), net(tree))
    net(dirty).sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in net.parameters())


def test_no_entities_at_all_give_zeros_and_finite_gradients():
    space = spaces.Dict(own=spaces.Box(-1, 1, (3,)), food=EntitySet(spaces.Box(-1, 1, (2,)), 6))
    net, tree = trunk(space, hidden=()), rows(space)
    tree["food"].zero_()
    features = net(tree)
    assert torch.equal(features[:, :3], tree["own"])
    assert torch.equal(features[:, 3:], torch.zeros(16, 16))
    features.sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in net.parameters())


def test_each_entity_counts_and_so_does_what_else_is_observed():
    net, tree = trunk(), rows(SETS)
    tree["food"][:, 0, 0] = tree["foes"][:, 0, 0] = 1.0  # one of each is always there
    before = net(tree)
    for path, change in (("food", 0.5), ("foes", 0.5), ("own", 0.5)):
        changed = {**tree, path: tree[path].clone()}
        changed[path].view(16, -1)[:, 1] += change
        assert (net(changed) - before).abs().amax(1).gt(1e-4).all()
    assert (net({**tree, "kind": (tree["kind"] + 1) % 4}) - before).abs().amax(1).gt(1e-4).all()


def test_an_embedding_is_one_layer_on_an_entity_beside_all_else():
    leaf = spec(EntitySet(spaces.Box(-1, 1, (2,)), 3)).leaves[0]
    embed = EntityEmbedding(leaf, 4, 8, generator=torch.Generator().manual_seed(0))
    entities, own = torch.randn(5, 3, 3), torch.randn(5, 4)
    entities[..., 0] = 1.0
    whole = torch.cat((embed.weight, embed.self_weight), 1)
    beside = torch.cat((entities[..., 1:], own.unsqueeze(1).expand(-1, 3, -1)), 2)
    torch.testing.assert_close(embed(entities, own)[0], functional.linear(beside, whole, embed.bias))
    torch.testing.assert_close(whole.T @ whole, 2 * torch.eye(6), rtol=1e-5, atol=1e-5)  # orthogonal as a whole


def test_the_attention_is_that_of_the_paper_done_by_hand():
    leaf = spec(EntitySet(spaces.Box(-1, 1, (2,)), 5)).leaves[0]
    net = EntityEncoder([leaf], 0, 8, 2, generator=torch.Generator().manual_seed(0))
    entities = torch.randn(1, 5, 3)
    entities[0, :, 0] = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    there = entities[0, entities[0, :, 0] > 0, 1:]
    x = functional.layer_norm(there @ net.embeddings[0].weight.T + net.embeddings[0].bias, (8,))
    query, key, value = (x @ net.query_key_value.weight.T + net.query_key_value.bias).chunk(3, 1)
    heads = []
    for one in (slice(0, 4), slice(4, 8)):
        scores = query[:, one] @ key[:, one].T / 4**0.5
        heads.append(scores.softmax(1) @ value[:, one])
    attended = torch.cat(heads, 1) @ net.output.weight.T + net.output.bias
    expected = functional.layer_norm(x + attended, (8,)).mean(0)
    torch.testing.assert_close(net({"obs": entities}, None)[0], expected, rtol=1e-5, atol=1e-6)


def test_columns_that_nobody_needs_change_nothing():
    few, many = (spaces.Dict(own=spaces.Box(-1, 1, (3,)), food=EntitySet(spaces.Box(-1, 1, (2,)), n)) for n in (4, 40))
    tree = rows(few)
    wide = {**tree, "food": functional.pad(tree["food"], (0, 0, 0, 36))}
    torch.testing.assert_close(trunk(many)(wide), trunk(few)(tree), rtol=1e-5, atol=1e-6)


def test_a_box_that_the_setting_names_is_a_set_whose_rows_of_zeros_are_absent():
    flagged = spaces.Dict(own=spaces.Box(-1, 1, (3,)), food=EntitySet(spaces.Box(-1, 1, (2,)), 6))
    boxed = spaces.Dict(own=spaces.Box(-1, 1, (3,)), food=spaces.Box(-1, 1, (6, 2)))
    tree = rows(flagged)
    plain = {**tree, "food": tree["food"][..., 1:]}
    torch.testing.assert_close(trunk(boxed, entities=("food",))(plain), trunk(flagged)(tree), rtol=1e-5, atol=1e-6)


def test_a_box_of_bytes_is_a_set_of_numbers_up_to_one():
    floats, bytes_ = spaces.Box(0, 1, (6, 2)), spaces.Box(0, 255, (6, 2), np.uint8)
    tree = rows(bytes_)
    scaled = {"obs": tree["obs"] / 255.0}
    torch.testing.assert_close(trunk(bytes_, entities=("obs",))(tree), trunk(floats, entities=("obs",))(scaled))


def test_read_flat_a_set_is_a_box_with_a_column_that_says_who_is_there():
    tree = rows(SETS)
    boxes = spaces.Dict(
        own=spaces.Box(-1, 1, (3,)),
        kind=spaces.Discrete(4),
        food=spaces.Box(-1, 1, (6, 3)),
        foes=spaces.Box(-1, 1, (4, 6)),
    )
    assert torch.equal(trunk(entities_as="flat")(tree), trunk(boxes)(tree))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"entity_heads": 3},
            "model.entity_heads is 3, which does not divide model.entity_size = 16: use one of 1, 2, 4",
        ),
        ({"entities": ("foods",)}, "model.entities: the observation has no part 'foods'; did you mean 'food'"),
        ({"entities": ("own",)}, r"model.entities: 'own' is a box of shape \(3,\); a set is a box of shape \(max, k\)"),
        ({"entities": ("kind",)}, "model.entities: 'kind' is a discrete"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_what_does(settings, problem):
    with pytest.raises(ConfigError, match=problem):
        trunk(**settings)


def test_networks_on_sets_run_in_torch():
    assert obstacle(ModelConfig(), [trunk()], []) == "entities"
    assert obstacle(ModelConfig(), [trunk(entities_as="flat")], []) in ("", why_none())


def test_a_model_of_ones_own_gets_sets_as_they_are_stored():
    seen = []

    class Own(torch.nn.Module):
        num_features = 2

        def __init__(self, space):
            super().__init__()
            assert space["food"].max_entities == 6

        def forward(self, obs):
            seen.append({path: tuple(value.shape) for path, value in obs.items()})
            return obs["food"][..., 1:].sum(1)

    net = trunk(module=Own, entity_size=64, hidden=(64, 64))
    tree = rows(SETS)
    torch.testing.assert_close(net(tree), tree["food"][..., 1:].sum(1))
    assert seen[-1] == {"own": (16, 3), "kind": (16,), "food": (16, 6, 3), "foes": (16, 4, 6)}


def test_nets_without_entities_draw_the_weights_they_always_drew():
    box = spaces.Dict(own=spaces.Box(-1, 1, (3,)), kind=spaces.Discrete(4))
    one, other = trunk(box), trunk(box, entity_size=32, entity_heads=1)
    assert one.sets is None
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
