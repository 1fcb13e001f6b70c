"""Keys of the section `model`: layers, convolutions, memory."""

from __future__ import annotations

from typing import Any

from rookery.face import nearest
from rookery_rllib.base.deprecation import DEPRECATED_VALUE
from rookery_rllib.config.algorithms import (
    BANDITS,
    CLONING_KIND,
    DDPG_KIND,
    EVOLUTION,
    OFF_POLICY,
    OFFLINE,
    ON_POLICY,
    PPO_KIND,
    Q_KIND,
    SAC_KIND,
    M,
)
from rookery_rllib.config.default_networks import FUNCTIONS
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import by, ignored, refused, used

OURS = {"tanh": "tanh", "relu": "relu", "elu": "elu", "gelu": "gelu", "swish": "silu", "silu": "silu",
        "linear": "linear"}  # fmt: skip
"""Activations that our settings have, by the names of 2021."""

NETWORK = "rookery_rllib.config.default_networks:DefaultNetwork"


def policy_network(reader: Reader) -> Values:
    filters, custom = reader.get("model.conv_filters"), reader.get("model.custom_model")
    hidden = [*(reader.get("model.fcnet_hiddens") or ()), *(reader.get("model.post_fcnet_hiddens") or ())]
    first = "model.fcnet_activation" if reader.get("model.fcnet_hiddens") else "model.post_fcnet_activation"
    if filters:  # as in RLlib: after convolutions come the layers of post_fcnet_hiddens alone
        hidden, first = list(reader.get("model.post_fcnet_hiddens") or ()), "model.post_fcnet_activation"
    if reader.algorithm in ("DQN", "APEX") and not reader.get("dueling"):
        hidden += list(reader.get("hiddens") or ())
    values: Values = {
        "algorithm.model.hidden": tuple(hidden),
        "algorithm.model.activation": OURS.get(activation(reader, first), "tanh"),
    }
    function, conv_activation = activation(reader, first), activation(reader, "model.conv_activation")
    if custom is None and (filters or (function not in OURS and hidden) or conv_activation not in ("relu",)):
        settings = {"hidden": hidden, "activation": function, "conv_activation": conv_activation}
        if filters or function not in OURS:
            values["algorithm.model.module"] = NETWORK
            values["algorithm.model.module_config"] = settings | {"filters": [list(one) for one in filters or ()]}
        elif "model.conv_activation" in reader.given:
            reader.refuse("model.conv_activation", "it is the activation of conv_filters: give these too")
    if filters and not _are_filters(filters):
        reader.refuse("model.conv_filters", "must be a list of [channels, kernel, stride], [16, [4, 4], 2] for example")
    if reader.get("model.no_final_linear"):
        reader.refuse("model.no_final_linear", "an output layer is always added; register a custom_model instead")
    return values


def _are_filters(filters: Any) -> bool:
    return isinstance(filters, list | tuple) and all(isinstance(one, list | tuple) and len(one) == 3 for one in filters)


def activation(reader: Reader, key: str) -> str:
    """Returns the name of an activation, in the spelling of 2021; ``linear`` for None."""
    value = reader.get(key)
    name = "linear" if value is None else str(value)
    if name not in FUNCTIONS:
        reader.refuse(key, f"must be one of {', '.join(FUNCTIONS)}{nearest(name, list(FUNCTIONS))}")
    return name


def shared_trunk(reader: Reader) -> Values:
    """Translates the key that shares the policy's features with the value function."""
    old = reader.config.get("vf_share_layers", DEPRECATED_VALUE)
    shares = reader.get("model.vf_share_layers") if old == DEPRECATED_VALUE else old
    return {"algorithm.model.shared_trunk": bool(shares)}


def memory(reader: Reader) -> Values:
    """Translates the memory of a policy: a recurrent cell, attention, or a frame stack."""
    path = "algorithm.model.memory."
    lstm, attends = bool(reader.get("model.use_lstm")), bool(reader.get("model.use_attention"))
    if reader.algorithm == "QMIX" and (lstm or attends):
        key = "model.use_lstm" if lstm else "model.use_attention"
        reader.refuse(key, "members of QMIX always have a GRU of lstm_cell_size units; leave it out")
    both = reader.get("model.lstm_use_prev_action_reward")
    old = bool(both) and both != DEPRECATED_VALUE
    values: Values = {
        f"{path}kind": "lstm" if lstm else "attention" if attends else "none",
        f"{path}size": reader.whole("model.attention_dim" if attends else "model.lstm_cell_size", 1),
        f"{path}layers": reader.whole("model.attention_num_transformer_units", 1) if attends else 1,
        f"{path}heads": reader.whole("model.attention_num_heads", 1) if attends else 4,
        f"{path}context": reader.whole("model.attention_memory_inference", 1) if attends else 32,
        f"{path}sequence_length": reader.whole("model.max_seq_len", 1),
        f"{path}previous_action": lstm and (old or bool(reader.get("model.lstm_use_prev_action"))),
        f"{path}previous_reward": lstm and (old or bool(reader.get("model.lstm_use_prev_reward"))),
        f"{path}frame_stack": frames(reader),
    }
    if reader.algorithm == "QMIX":
        values |= {f"{path}kind": "gru", f"{path}sequence_length": reader.in_a_row}
    if lstm and attends:
        reader.refuse("model.use_attention", "use_lstm is True too, and a policy has one memory; leave one of them out")
    for name in ("action", "reward") if attends else ():
        many = reader.whole(f"model.attention_use_n_prev_{name}s")
        if many > 1:
            reader.refuse(
                f"model.attention_use_n_prev_{name}s", "attention already covers earlier decisions; use 1 or 0"
            )
        values[f"{path}previous_{name}"] = many > 0
    if reader.algorithm == "R2D2" and not (lstm or attends) and reader.get("model.custom_model") is None:
        reader.refuse("model.use_lstm", "R2D2 trains recurrent policies; set model.use_lstm = True, or use DQN")
    if (lstm or attends) and reader.algorithm in ("SimpleQ", *DDPG_KIND, "MADDPG", *OFFLINE, *EVOLUTION, *BANDITS):
        use = "R2D2" if reader.algorithm == "SimpleQ" else "PPO"
        key = "model.use_lstm" if lstm else "model.use_attention"
        reader.refuse(key, f"{reader.algorithm} does not train policies with memory; use {use}")
    return values


def frames(reader: Reader) -> int:
    stack = reader.get("model.num_framestacks")
    if stack == "auto":
        if not reader.get("model.framestack"):
            reader.refuse("model.framestack", "the Atari preset stacks frames; set num_framestacks instead")
        return 1
    return max(reader.whole("model.num_framestacks"), 1)


LAYERED = (*ON_POLICY, "PG", *Q_KIND, *CLONING_KIND, *EVOLUTION)
OUTSIDE_LAYERS = (*SAC_KIND, *DDPG_KIND)

MODEL = [
    by(policy_network, {"model.fcnet_hiddens": [256, 256], "model.fcnet_activation": "tanh",
       "model.post_fcnet_hiddens": [], "model.post_fcnet_activation": "relu", "model.conv_filters": None,
       "model.conv_activation": "relu", "model.no_final_linear": False},
       f"{M}hidden {M}activation {M}module {M}module_config",
       "Hidden layers: those of fcnet_hiddens, then those of post_fcnet_hiddens. With conv_filters, convolutions and "
       "then post_fcnet_hiddens. no_final_linear is refused.", LAYERED),
    ignored("model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens model.post_fcnet_activation",
            "layers of actor and critics have their own keys", OUTSIDE_LAYERS),
    refused("model.conv_filters model.conv_activation model.no_final_linear",
            "convolutions cannot be listed for this algorithm; the setting model.cnn chooses the image network",
            OUTSIDE_LAYERS),
    ignored("model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens model.post_fcnet_activation "
            "model.conv_filters model.conv_activation model.no_final_linear", "models are linear in the observation",
            BANDITS),
    ignored({"model.free_log_std": False}, "the log standard deviation is always a free parameter, as with True"),
    by(shared_trunk, {"model.vf_share_layers": True}, f"{M}shared_trunk",
       "Whether the value function shares the policy's features.", ON_POLICY),
    by(shared_trunk, {"vf_share_layers": DEPRECATED_VALUE}, f"{M}shared_trunk", "Former name of vf_share_layers.",
       PPO_KIND),
    ignored("model.vf_share_layers", "the algorithm has no value function beside its policy network",
            ("PG", *CLONING_KIND, *OFF_POLICY, *EVOLUTION, *BANDITS)),
    by(memory, {"model.use_lstm": False, "model.max_seq_len": 20, "model.lstm_cell_size": 256,
       "model.lstm_use_prev_action": False, "model.lstm_use_prev_reward": False,
       "model.lstm_use_prev_action_reward": DEPRECATED_VALUE, "model.use_attention": False,
       "model.attention_num_transformer_units": 1, "model.attention_dim": 64, "model.attention_num_heads": 1,
       "model.attention_memory_inference": 50, "model.attention_use_n_prev_actions": 0,
       "model.attention_use_n_prev_rewards": 0, "model.num_framestacks": "auto", "model.framestack": True},
       " ".join(f"{M}memory.{name}" for name in ("kind", "size", "layers", "heads", "context", "sequence_length",
                                                   "previous_action", "previous_reward", "frame_stack")),
       "Memory of the policy: an LSTM (use_lstm, lstm_...), attention (use_attention, attention_...) or stacked frames "
       "(num_framestacks). max_seq_len: decisions per training sequence."),
    ignored({"model.attention_memory_training": 50}, "gradients flow through max_seq_len decisions instead"),
    refused({"model.attention_head_dim": 32, "model.attention_position_wise_mlp_dim": 32,
            "model.attention_init_gru_gate_bias": 2.0},
            "attention_dim sets the width of all layers, and is split among the heads; leave it out"),
    ignored({"model._time_major": False, "model._use_default_native_models": False},
            "the memory layout has no effect on results"),
    ignored({"model.dim": 84},
            "Atari images are 84 x 84, and others are not resized; for another size wrap the environment"),
    ignored({"model.grayscale": False, "model.zero_mean": True},
            "only the preprocessor of preprocessor_pref = 'rllib' reads it, which is not supported"),
    used({"model.custom_model": None}, "Registered name of a custom model."),
    used({"model.custom_model_config": {}}, "Arguments of custom_model."),
    used({"model.custom_action_dist": None}, "Registered name of a custom action distribution."),
    used({"model.custom_preprocessor": None}, "Registered name of a custom preprocessor."),
]  # fmt: skip
