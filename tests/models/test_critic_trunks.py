import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import CRITIC_ACTION, ModelConfig, build_critic_trunk, build_trunk, with_action
from rookery.models.heads import ValueHead
from rookery.native.qualify import obstacle

ACTION = action_spec(spaces.Box(-2, 2, (2,), np.float32))
BOX = spaces.Box(-1, 1, (4,), np.float32)
PARTS = spaces.Dict(
    {
        "action": spaces.Box(-1, 1, (3,), np.float32),
        "kind": spaces.Discrete(4),
        "map": spaces.Box(0, 255, (8, 8, 1), np.uint8),
    }
)


def build(space, **settings):
    layout = obs_spec(space, ACTION.space)
    return build_critic_trunk(layout, ACTION, ModelConfig(**settings), generator=torch.Generator().manual_seed(0))


def rows(space, n=5):
    """Sampled observations and actions, as a critic takes them."""
    space.seed(0)
    layout = obs_spec(space, ACTION.space)
    tree = layout.allocate(n)
    for i in range(n):
        layout.write(space.sample(), tree, i)
    return {**{path: torch.from_numpy(array) for path, array in tree.items()}, CRITIC_ACTION: torch.rand(n, 2) * 2 - 1}


class Net(nn.Module):
    """A user's model of a plain box, which knows of no action."""

    num_features = 3

    def __init__(self, obs_space):
        super().__init__()
        self.layer = nn.Linear(obs_space.shape[0], 3)

    def forward(self, obs):
        return self.layer(obs)


class Remembering(Net):
    """One with a memory of its own."""

    def initial_memory(self, n):
        return torch.zeros(n, 3)

    def forward(self, obs, memory):
        return self.layer(obs), memory


def test_the_action_is_one_more_vector_of_numbers():
    trunk, tree = build(BOX, hidden=(16,)), rows(BOX)
    joined = torch.cat((tree["obs"], tree[CRITIC_ACTION]), 1)
    expected = torch.tanh(functional.linear(joined, trunk.first.weight, trunk.first.bias))
    torch.testing.assert_close(trunk(tree), expected)
    assert trunk.num_features == 16


@pytest.mark.parametrize("settings", [{}, {"layer_norm": True}, {"activation": "relu", "hidden": (8, 8, 8)}])
def test_features_depend_on_the_action_and_tell_it_how_to_change(settings):
    for space in (BOX, PARTS):
        trunk, tree = build(space, **settings), rows(space)
        tree[CRITIC_ACTION].requires_grad_()
        gradient = torch.autograd.grad(trunk(tree).square().sum(), tree[CRITIC_ACTION])[0]
        assert (gradient.abs().sum(1) > 0).all()


def test_a_part_called_action_is_none_of_the_critics_action():
    paths = [leaf.path for leaf in with_action(obs_spec(PARTS, ACTION.space), ACTION).leaves]
    assert paths == ["action", "kind", "map", CRITIC_ACTION]


def test_a_mask_stays_the_last_part():
    layout = with_action(obs_spec(BOX, spaces.Discrete(3), info_mask=True), ACTION)
    assert [leaf.kind for leaf in layout.leaves] == ["box", "box", "mask"]
    assert layout.has_mask


def test_a_users_model_is_joined_with_the_action_by_the_hidden_layers():
    trunk, tree = build(BOX, module=Net, hidden=(16, 8)), rows(BOX)
    assert trunk.num_features == 8
    first = trunk.layers.first
    joined = torch.cat((trunk.trunk(tree), tree[CRITIC_ACTION]), 1)
    hidden = torch.tanh(functional.linear(joined, first.weight, first.bias))
    torch.testing.assert_close(trunk(tree), torch.tanh(trunk.layers.layers[0](hidden)))


def test_a_users_model_that_remembers_is_refused():
    with pytest.raises(ConfigError, match="initial_memory"):
        build(BOX, module=Remembering)


# --- layer normalization ----------------------------------------------------------------------------------------------


def test_layers_are_normalized_before_their_function():
    for space in (BOX, PARTS):
        settings = ModelConfig(hidden=(16, 8), layer_norm=True)
        layout = obs_spec(space, ACTION.space)
        trunk = build_trunk(layout, settings, generator=torch.Generator().manual_seed(0))
        plain = build_trunk(layout, ModelConfig(hidden=(16, 8)), generator=torch.Generator().manual_seed(0))
        for norm in trunk.norms:
            norm.weight.data.uniform_(0.5, 2.0)
            norm.bias.data.uniform_(-1.0, 1.0)
        tree = rows(space)
        numbers, categories = plain._numbers(tree), plain._categories(tree)
        hidden = torch.tanh(trunk.norms[0](plain.first(numbers, categories)))
        expected = torch.tanh(trunk.norms[1](plain.layers[0](hidden)))
        torch.testing.assert_close(trunk(tree), expected)
        assert len(list(trunk.parameters())) == len(list(plain.parameters())) + 4


def test_a_layer_that_goals_make_is_normalized_too():
    space = spaces.Dict({"seen": BOX, "goal": BOX})
    settings = ModelConfig(hidden=(16, 8), layer_norm=True, goals=("goal",))
    trunk = build_trunk(obs_spec(space, ACTION.space), settings, generator=torch.Generator().manual_seed(0))
    tree = rows(space)
    torch.testing.assert_close(
        trunk(tree), torch.tanh(functional.layer_norm(trunk.layer(trunk.trunk(tree), trunk.goal(tree)), (8,)))
    )


def test_networks_that_are_normalized_run_on_kernels_as_others_do():
    found = []
    for settings in (ModelConfig(), ModelConfig(layer_norm=True)):
        trunk = build_trunk(obs_spec(BOX, ACTION.space), settings, generator=torch.Generator())
        found.append(obstacle(settings, [trunk], [ValueHead(64, generator=torch.Generator())]))
    assert found[0] == found[1]
