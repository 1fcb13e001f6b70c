"""Networks of 2021 that scripts make or derive from, and the sequences that models with a memory are given."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from torch import nn

from rookery import ModelConfig, PPOConfig, Trainer
from rookery.core.errors import ConfigError
from rookery_rllib.batch import sequences
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.config.defaults import MODEL_DEFAULTS
from rookery_rllib.model import network_layers as layers
from rookery_rllib.model.attention_networks import (
    AttentionWrapper,
    GRUGate,
    GTrXLNet,
    MultiHeadAttention,
    RelativeMultiHeadAttention,
)
from rookery_rllib.model.model_v2 import ScriptNetwork, TorchModelV2
from rookery_rllib.model.networks import (
    ComplexInputNetwork,
    DQNTorchModel,
    FullyConnectedNetwork,
    TorchNoopModel,
    VisionNetwork,
)
from rookery_rllib.model.preprocessors import get_preprocessor
from rookery_rllib.model.recurrent_networks import LSTMWrapper, RecurrentNetwork

OBS, ACTIONS = Box(-1, 1, (4,)), Discrete(3)


def config(**given):
    return {**MODEL_DEFAULTS, "fcnet_hiddens": [8, 6], **given}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_hidden_layers_outputs_and_values_stand_on_each_other():
    net = FullyConnectedNetwork(OBS, ACTIONS, 3, config(post_fcnet_hiddens=[5]), "net")
    outputs, state = net({"obs": torch.randn(2, 4)})
    assert outputs.shape == (2, 3) and state == []
    widths = [layer._model[0].out_features for layer in net._hidden_layers]
    assert widths == [8, 6, 5]
    assert net.value_function().shape == (2,)
    norms = net._logits._model[0].weight.norm(dim=1)
    assert torch.allclose(norms, torch.full((3,), 0.01))
    assert torch.equal(net.last_output(), outputs)


def test_values_may_have_layers_of_their_own():
    shared = FullyConnectedNetwork(OBS, ACTIONS, 3, config(), "net")
    separate = FullyConnectedNetwork(OBS, ACTIONS, 3, config(vf_share_layers=False), "net")
    assert sum(weight.numel() for weight in separate.parameters()) > sum(
        weight.numel() for weight in shared.parameters()
    )
    separate({"obs": torch.randn(2, 4)})
    separate.value_function().sum().backward()
    assert all(weight.grad is None for weight in separate._hidden_layers.parameters())
    with pytest.raises(RuntimeError, match="call forward"):
        FullyConnectedNetwork(OBS, ACTIONS, 3, config(), "net").value_function()


def test_outputs_may_be_the_last_layer_or_its_features():
    last = FullyConnectedNetwork(OBS, ACTIONS, 3, config(no_final_linear=True), "net")
    outputs, _ = last({"obs": torch.randn(20, 4)})
    assert outputs.shape == (20, 3) and outputs.abs().max() <= 1  # tanh is its activation
    features = FullyConnectedNetwork(OBS, ACTIONS, None, config(), "net")
    assert features.num_outputs == 6
    assert features({"obs": torch.randn(2, 4)})[0].shape == (2, 6)
    assert FullyConnectedNetwork(OBS, ACTIONS, None, config(fcnet_hiddens=[]), "net").num_outputs == 4


def test_deviations_may_be_free():
    net = FullyConnectedNetwork(OBS, Box(-1, 1, (2,)), 4, config(free_log_std=True), "net")
    outputs, _ = net({"obs": torch.randn(5, 4)})
    assert torch.equal(outputs[:, 2:], torch.zeros(5, 2))
    with pytest.raises(ConfigError, match="must be even"):
        FullyConnectedNetwork(OBS, ACTIONS, 3, config(free_log_std=True), "net")


def test_several_spaces_come_flat():
    space = Tuple((Discrete(3), Box(-1, 1, (2,))))
    flat = get_preprocessor(space)(space).observation_space
    net = FullyConnectedNetwork(flat, ACTIONS, 3, config(), "net")
    assert net({"obs": torch.randn(2, 5)})[0].shape == (2, 3)


@pytest.mark.parametrize("shape", [(42, 42, 3), (84, 84, 1)])
@pytest.mark.parametrize("shared", [True, False])
def test_pictures_are_convolved(shape, shared):
    net = VisionNetwork(Box(0, 255, shape, np.uint8), ACTIONS, 3, config(vf_share_layers=shared), "net")
    outputs, _ = net({"obs": torch.zeros(2, *shape, dtype=torch.uint8)})
    assert outputs.shape == (2, 3) and net.value_function().shape == (2,)
    bare = VisionNetwork(Box(0, 255, shape, np.uint8), ACTIONS, None, config(), "net")
    assert bare.num_outputs == bare({"obs": torch.zeros(1, *shape)})[0].shape[1] == 256


def test_filters_are_told_and_layers_follow():
    filters = [[4, [3, 3], 2], [5, [5, 5], 1]]
    options = config(conv_filters=filters, post_fcnet_hiddens=[7])
    net = VisionNetwork(Box(0, 1, (10, 10, 2)), ACTIONS, 3, options, "net")
    assert net({"obs": torch.randn(2, 10, 10, 2)})[0].shape == (2, 3)
    assert net._logits._model[0].in_features == 7
    last = VisionNetwork(Box(0, 1, (10, 10, 2)), ACTIONS, 3, {**options, "no_final_linear": True}, "net")
    assert last({"obs": torch.randn(2, 10, 10, 2)})[0].shape == (2, 3)
    with pytest.raises(ConfigError, match=r"no default filters for images of shape \[10, 10, 2\]"):
        VisionNetwork(Box(0, 1, (10, 10, 2)), ACTIONS, 3, config(), "net")
    with pytest.raises(ConfigError, match="larger than its input"):
        VisionNetwork(Box(0, 1, (4, 4, 2)), ACTIONS, 3, options, "net")


def test_stacked_frames_are_channels():
    options = config(num_framestacks=4)
    net = VisionNetwork(Box(0, 255, (42, 42), np.uint8), ACTIONS, 3, options, "net")
    assert net({"obs": torch.zeros(2, 4, 42, 42)})[0].shape == (2, 3)
    assert net.view_requirements["obs"].shifts() == ([-3, -2, -1, 0], True)


@pytest.mark.parametrize("form", [Tuple, Dict])
def test_pictures_among_other_things(form):
    parts = {"z": Box(0, 255, (42, 42, 3), np.uint8), "b": Discrete(3), "a": Box(-1, 1, (2, 2))}
    space = Dict(parts) if form is Dict else Tuple(tuple(parts.values()))
    flat = get_preprocessor(space)(space)
    net = ComplexInputNetwork(flat.observation_space, ACTIONS, 3, config(post_fcnet_hiddens=[9]), "net")
    rows = torch.from_numpy(np.stack([flat.transform(space.sample()) for _ in range(2)]))
    assert net({"obs": rows})[0].shape == (2, 3)
    assert net.value_function().shape == (2,)
    assert len(net.cnns) == 1
    assert net.post_fc_stack._hidden_layers[0]._model[0].in_features == 256 + 3 + 4
    with pytest.raises(ConfigError, match="must be a Tuple or a Dict"):
        ComplexInputNetwork(OBS, ACTIONS, 3, config(), "net")


def test_a_model_that_does_nothing():
    net = TorchNoopModel(OBS, ACTIONS, 4, {}, "net")
    rows = torch.randn(2, 4)
    assert torch.equal(net({"obs": rows})[0], rows)
    assert net.value_function().tolist() == [0, 0]


def test_heads_of_dqn():
    plain = DQNTorchModel(OBS, ACTIONS, 3, {}, "net", q_hiddens=[])
    scores = torch.randn(2, 3)
    assert torch.equal(plain.get_q_value_distributions(scores)[0], scores)
    with pytest.raises(ConfigError, match="dueling=True"):
        plain.get_state_value(scores)
    atoms = DQNTorchModel(OBS, ACTIONS, 5, {}, "net", q_hiddens=[4], num_atoms=11, dueling=True, v_min=0.0, v_max=2.0)
    values, support, _, logits, shares = atoms.get_q_value_distributions(torch.randn(2, 5))
    assert logits.shape == (2, 3, 11) and torch.allclose(shares.sum(2), torch.ones(2, 3))
    assert ((values > 0) & (values < 2)).all() and support[[0, -1]].tolist() == [0, 2]
    assert atoms.get_state_value(torch.randn(2, 5)).shape == (2, 1)
    noisy = DQNTorchModel(OBS, ACTIONS, 5, {}, "net", use_noisy=True)
    rows = torch.randn(2, 5)
    first, second = (noisy.get_q_value_distributions(rows)[0] for _ in range(2))
    assert not torch.equal(first, second)


# --- layers -----------------------------------------------------------------------------------------------------------


def test_weights_are_scaled():
    linear = nn.Linear(30, 4)
    layers.normc_initializer(0.5)(linear.weight)
    assert torch.allclose(linear.weight.norm(dim=1), torch.full((4,), 0.5))
    assert torch.allclose(layers.normc_initializer(0.5)((30, 4)).norm(dim=0), torch.full((4,), 0.5))


@pytest.mark.parametrize(("size", "kernel", "stride"), [((10, 7), 3, 2), ((9, 9), [4, 2], [3, 1]), ((84, 84), 8, 4)])
def test_same_padding_leaves_the_size_to_the_stride(size, kernel, stride):
    padding, out = layers.same_padding(size, kernel, stride)
    net = layers.SlimConv2d(2, 3, kernel, stride, padding)
    assert net(torch.randn(1, 2, *size)).shape == (1, 3, *out)
    assert out == tuple(-(-side // step) for side, step in zip(size, np.broadcast_to(stride, 2), strict=True))


def test_activations_have_names():
    assert layers.get_activation_fn("relu", "torch") is nn.ReLU
    assert layers.get_activation_fn("tanh", "tf") is torch.tanh
    assert layers.get_activation_fn(nn.ELU, "torch") is nn.ELU
    assert layers.get_activation_fn("linear", "torch") is None
    with pytest.raises(ConfigError, match="'relux' is unknown"):
        layers.SlimFC(2, 2, activation_fn="relux")
    assert layers.get_initializer(None, "torch") is nn.init.xavier_uniform_


def test_pictures_come_out_of_vectors():
    stack = layers.ConvTranspose2DStack(input_size=6)
    pictures = stack(torch.randn(2, 6))
    assert pictures.mean.shape == (2, 3, 64, 64)
    assert pictures.log_prob(pictures.mean).shape == (2,)


# --- models that remember ---------------------------------------------------------------------------------------------


class Cell(RecurrentNetwork, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name, size=5):
        nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.size = size
        self.cell = nn.GRU(obs_space.shape[0], size, batch_first=True)
        self.outputs, self.values = nn.Linear(size, num_outputs), nn.Linear(size, 1)

    def get_initial_state(self):
        return [torch.zeros(self.size)]

    def forward_rnn(self, inputs, state, seq_lens):
        self.seen, hidden = self.cell(inputs, state[0].unsqueeze(0))
        return self.outputs(self.seen), [hidden.squeeze(0)]

    def value_function(self):
        return self.values(self.seen).reshape(-1)


MEMORIES = {
    "cell": lambda: Cell(OBS, ACTIONS, 3, config(), "net"),
    "lstm": lambda: LSTMWrapper(OBS, ACTIONS, 3, config(lstm_cell_size=5), "net"),
    "gtrxl": lambda: GTrXLNet(OBS, ACTIONS, 3, config(), "net", num_transformer_units=2, memory_inference=4),
    "attention": lambda: AttentionWrapper(OBS, ACTIONS, 3, config(attention_memory_inference=4), "net"),
}


@pytest.mark.parametrize("kind", MEMORIES)
def test_sequences_at_once_are_what_decisions_one_by_one_are(kind):
    net, rows = MEMORIES[kind](), torch.randn(2, 3, 4)
    initial = [torch.as_tensor(part).expand(2, *part.shape) for part in net.get_initial_state()]
    whole, after = net({"obs": rows.flatten(0, 1)}, initial, np.array([3, 3]))
    values = net.value_function().reshape(2, 3)
    state = initial
    for step in range(3):
        outputs, state = net({"obs": rows[:, step]}, state, torch.ones(2, dtype=torch.int32))
        assert torch.allclose(outputs, whole.reshape(2, 3, 3)[:, step], atol=1e-5)
        assert torch.allclose(net.value_function(), values[:, step], atol=1e-5)
    for one, other in zip(state, after, strict=True):
        assert torch.allclose(one.reshape(other.shape), other, atol=1e-5)


def test_what_is_looked_back_at_ends_with_the_sequence():
    net = MEMORIES["gtrxl"]()
    rows = torch.randn(2, 3, 4)
    _, after = net({"obs": rows.flatten(0, 1)}, [], np.array([3, 1]))
    _, alone = net({"obs": rows[1, :1]}, [], np.array([1]))
    assert torch.allclose(after[0][1], alone[0][0], atol=1e-6)


def test_attention_looks_back_only():
    layer = MultiHeadAttention(4, 4, 2, 3)
    rows = torch.randn(1, 5, 4)
    changed = rows.clone()
    changed[0, 3:] = torch.randn(2, 4)
    assert torch.allclose(layer(rows)[:, :3], layer(changed)[:, :3], atol=1e-6)
    relative, memory = RelativeMultiHeadAttention(4, 4, 2, 3, input_layernorm=True), torch.randn(1, 2, 4)
    before, after = relative(rows, memory), relative(changed, memory)
    assert torch.allclose(before[:, :3], after[:, :3], atol=1e-6) and not torch.allclose(before[:, 3:], after[:, 3:])
    assert not torch.allclose(relative(rows, memory), relative(rows, memory.flip(1)))  # the order counts


def test_a_closed_gate_lets_nothing_in():
    gate = GRUGate(4, 100.0)
    x, y = torch.randn(2, 3, 4)
    assert torch.allclose(gate((x, y)), x)


def test_what_stands_below_is_asked_for_what_is_not_above():
    net = MEMORIES["lstm"]()
    assert net._hidden_layers is net.wrapped._hidden_layers
    with pytest.raises(AttributeError, match="nowhere"):
        _ = net.nowhere


def test_previous_actions_are_asked_for():
    options = config(lstm_cell_size=5, lstm_use_prev_action=True, lstm_use_prev_reward=True)
    net = LSTMWrapper(OBS, MultiDiscrete([2, 3]), 5, options, "net")
    assert net.view_requirements["prev_actions"].shifts() == ([-1], False)
    given = {"obs": torch.randn(2, 4), "prev_actions": torch.tensor([[0, 2], [1, 0]]), "prev_rewards": torch.ones(2)}
    outputs, _ = net(given, [torch.zeros(2, 5)] * 2, torch.ones(2))
    assert outputs.shape == (2, 5)
    with pytest.raises(ConfigError, match=r"no column 'prev_actions', only obs, obs_flat"):
        net({"obs": given["obs"]}, [torch.zeros(2, 5)] * 2, torch.ones(2))


# --- sequences --------------------------------------------------------------------------------------------------------


def test_rows_are_cut_into_sequences():
    features, states, lengths = sequences.chop_into_sequences(
        feature_columns=[[1, 2, 3, 4, 5, 6], np.arange(12.0).reshape(6, 2)],
        state_columns=[[10, 20, 30, 40, 50, 60]],
        episode_ids=[7, 7, 9, 9, 9, 9],
        unroll_ids=[1, 1, 1, 1, 1, 1],
        agent_indices=[0, 0, 0, 0, 0, 0],
        max_seq_len=3,
    )
    assert lengths.tolist() == [2, 3, 1]
    assert features[0].tolist() == [1, 2, 0, 3, 4, 5, 6, 0, 0]
    assert features[1].shape == (9, 2)
    assert states[0].tolist() == [10, 30, 60]
    with pytest.raises(ValueError, match="sum up to 3"):
        sequences.chop_into_sequences(feature_columns=[[1, 2]], state_columns=[], seq_lens=[3], max_seq_len=3)


def test_sequences_are_cut_between_fragments_and_agents():
    assert sequences.sequence_lengths([1] * 6, [1, 1, 2, 2, 2, 2], [0, 0, 0, 1, 1, 1], 10).tolist() == [2, 1, 3]


def test_sequences_are_shuffled_with_their_states():
    np.random.seed(3)
    features, states, lengths = sequences.chop_into_sequences(
        feature_columns=[np.arange(10)],
        state_columns=[np.arange(10)],
        episode_ids=[0, 0, 0, 1, 1, 2, 2, 2, 2, 3],
        max_seq_len=9,
        shuffle=True,
    )
    rows = features[0].reshape(4, 4)
    assert sorted(lengths.tolist()) == [1, 2, 3, 4] and lengths.tolist() != [3, 2, 4, 1]
    for row, first, length in zip(rows, states[0], lengths, strict=True):
        assert row[:length].tolist() == list(range(first, first + length)) and not row[length:].any()


def test_batches_are_padded_in_place():
    batch = SampleBatch(obs=np.arange(1.0, 6), eps_id=np.array([1, 1, 1, 2, 2]), state_in_0=np.arange(5.0)[:, None])
    sequences.pad_batch_to_sequences_of_same_size(batch, 2)
    assert batch["obs"].tolist() == [1, 2, 3, 0, 4, 5]
    assert batch["seq_lens"].tolist() == [2, 1, 2] and batch["state_in_0"].tolist() == [[0], [2], [3]]
    assert batch.zero_padded and batch.max_seq_len == 2
    assert sequences.add_time_dimension(batch["obs"], max_seq_len=2).tolist() == [[1, 2], [3, 0], [4, 5]]
    plain = SampleBatch(obs=np.arange(3))
    sequences.pad_batch_to_sequences_of_same_size(plain, 2)
    assert plain["obs"].tolist() == [0, 1, 2] and "seq_lens" not in plain


def test_burn_in_rows_come_before_each_sequence():
    batch = SampleBatch(obs=np.arange(1, 8), eps_id=np.array([1, 1, 1, 1, 2, 2, 2]), seq_lens=[2, 2, 3])
    first, second, third = sequences.timeslice_along_seq_lens_with_overlap(batch, pre_overlap=1, zero_pad_max_seq_len=4)
    assert first["obs"].tolist() == [0, 1, 2, 0]
    assert second["obs"].tolist() == [2, 3, 4, 0]
    assert third["obs"].tolist() == [0, 5, 6, 7]


# --- learning ---------------------------------------------------------------------------------------------------------


class Own(TorchModelV2, nn.Module):
    """A script's model around a network of 2021, as tutorials write it."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        self.inner = FullyConnectedNetwork(obs_space, action_space, num_outputs, model_config, name)

    def forward(self, input_dict, state, seq_lens):
        input_dict["obs"] = input_dict["obs"].float()
        return self.inner(input_dict, state, seq_lens)

    def value_function(self):
        return self.inner.value_function()


@pytest.mark.parametrize("kind", [Own, Cell, LSTMWrapper, GTrXLNet], ids=["own", "cell", "lstm", "gtrxl"])
def test_they_play_and_learn(kind):
    options = config(lstm_cell_size=8)

    def module(obs_space, action_space, num_outputs):
        further = {"memory_inference": 4} if kind is GTrXLNet else {}

        def make(obs, actions, outputs):
            return kind(obs, actions, outputs, options, "net", **further)

        return ScriptNetwork(obs_space, action_space, num_outputs, make=make, options=options)

    cfg = PPOConfig(model=ModelConfig(module=module, output="action_params"), fragment_length=32, epochs=2, lr=1e-3)
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0) as trainer:
        learner = trainer.learners["main"]
        before = {name: weight.clone() for name, weight in learner.net.named_parameters()}
        row = trainer.train_iteration().policies["main"].learning
        assert row["skipped_steps"] == 0
        still = [name for name, weight in learner.net.named_parameters() if torch.equal(weight, before[name])]
        assert all("wrapped._value_branch" in name for name in still)  # values come from above


@pytest.mark.slow
def test_cartpole_is_learned():
    def module(obs_space, action_space, num_outputs):
        def make(obs, actions, outputs):
            return Own(obs, actions, outputs, config(fcnet_hiddens=[64, 64]), "net")

        return ScriptNetwork(obs_space, action_space, num_outputs, make=make, options=config())

    cfg = PPOConfig(model=ModelConfig(module=module, output="action_params"), epochs=8, lr=1e-3)
    with Trainer("CartPole-v1", cfg, num_envs=8, seed=0, config={"stop.env_steps": 16_000}) as trainer:
        first = trainer.train_iteration().return_mean
        last = trainer.train().return_mean
    assert last > 2 * first
