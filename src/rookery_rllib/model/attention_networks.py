"""Attention models of 2021: attention over earlier steps of the episode.

The network is the gated one of Parisotto et al. 2019 (GTrXL, arXiv:1910.06764) with the relative positions of Dai et
al. 2019 (Transformer-XL, arXiv:1901.02860). In 2021 the inputs of attention came through view requirements; here
they are the model's state, as for all models with memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.model.network_layers import SkipConnection, SlimFC
from rookery_rllib.model.networks import column
from rookery_rllib.model.recurrent_networks import ModelOnModel, RecurrentNetwork, action_size, previous_actions


class GRUGate(nn.Module):
    """Gate that mixes an input into a residual stream.

    ``r = sigmoid(W_r y + U_r x)``, ``z = sigmoid(W_z y + U_z x - b)``, ``h = tanh(W_h y + U_h (r * x))``, and the
    output is ``(1 - z) x + z h``.
    """

    def __init__(self, dim: int, init_bias: float = 0.0) -> None:
        super().__init__()
        self._news = nn.Linear(dim, 3 * dim, bias=False, dtype=torch.float32, device="cpu")
        self._gates = nn.Linear(dim, 2 * dim, bias=False, dtype=torch.float32, device="cpu")
        self._candidate = nn.Linear(dim, dim, bias=False, dtype=torch.float32, device="cpu")
        for linear in (self._news, self._gates, self._candidate):
            for square in linear.weight.split(dim):
                with torch.no_grad():
                    square.copy_(nn.init.xavier_uniform_(torch.empty(dim, dim, dtype=torch.float32, device="cpu")))
        self._bias_z = nn.Parameter(torch.full((dim,), float(init_bias), dtype=torch.float32, device="cpu"))

    def forward(self, inputs: tuple[Tensor, Tensor]) -> Tensor:
        x, y = inputs
        news_r, news_z, news_h = self._news(y).chunk(3, -1)
        old_r, old_z = self._gates(x).chunk(2, -1)
        z = torch.sigmoid(news_z + old_z - self._bias_z)
        out: Tensor = torch.lerp(x, torch.tanh(news_h + self._candidate(torch.sigmoid(news_r + old_r) * x)), z)
        return out


def _split(x: Tensor, heads: int) -> Tensor:
    """Reshapes ``[B, L, heads * D]`` to ``[B, heads, L, D]``."""
    split: Tensor = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return split


class MultiHeadAttention(nn.Module):
    """Causal self-attention over a sequence (Vaswani et al. 2017)."""

    def __init__(self, in_dim: int, out_dim: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self._num_heads, self._head_dim = num_heads, head_dim
        self._qkv_layer = SlimFC(in_dim, 3 * num_heads * head_dim, use_bias=False)
        self._linear_layer = SlimFC(num_heads * head_dim, out_dim, use_bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        query, key, value = (_split(part, self._num_heads) for part in self._qkv_layer(inputs).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self._linear_layer(seen.transpose(1, 2).flatten(2))
        return out


class RelativeMultiHeadAttention(nn.Module):
    """Causal attention over a memory and a sequence, by content and relative position."""

    _waves: Tensor

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        num_heads: int,
        head_dim: int,
        input_layernorm: bool = False,
        output_activation: Any = None,
    ) -> None:
        super().__init__()
        self._num_heads, self._head_dim = num_heads, head_dim
        self._qkv_layer = SlimFC(in_dim, 3 * num_heads * head_dim, use_bias=False)
        self._linear_layer = SlimFC(num_heads * head_dim, out_dim, use_bias=False, activation_fn=output_activation)
        self._pos_proj = SlimFC(in_dim, num_heads * head_dim, use_bias=False)
        self._uvar = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(num_heads, head_dim, dtype=torch.float32, device="cpu"))
        )
        self._vvar = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(num_heads, head_dim, dtype=torch.float32, device="cpu"))
        )
        self._input_layernorm = (
            nn.LayerNorm(in_dim, dtype=torch.float32, device="cpu") if input_layernorm else nn.Identity()
        )
        half = (in_dim + 1) // 2
        self.register_buffer(
            "_waves",
            10_000.0 ** (-torch.arange(half, dtype=torch.float32, device="cpu") * 2.0 / in_dim),
            persistent=False,
        )
        self._in_dim = in_dim

    def forward(self, inputs: Tensor, memory: Tensor | None = None, window: int | None = None) -> Tensor:
        """Returns ``[B, T, out_dim]`` of ``[B, T, in_dim]``.

        No gradients pass through `memory` ``[B, M, in_dim]``, the earlier steps; each step attends to `window` steps
        before it (None: all).
        """
        steps = inputs.shape[1]
        past = 0 if memory is None else memory.shape[1]
        timeline = inputs if memory is None else torch.cat((memory.detach(), inputs), 1)
        timeline = self._input_layernorm(timeline)
        query, key, value = (_split(part, self._num_heads) for part in self._qkv_layer(timeline).chunk(3, -1))
        query = query[:, :, past:]
        now = torch.arange(past, past + steps, device=inputs.device, dtype=torch.int64).unsqueeze(1)
        ago = now - torch.arange(past + steps, device=inputs.device, dtype=torch.int64)
        angles = torch.arange(past + steps, device=inputs.device, dtype=torch.int64).unsqueeze(1) * self._waves
        waves = torch.cat((angles.sin(), angles.cos()), 1)[:, : self._in_dim]
        places = self._pos_proj(waves).unflatten(1, (self._num_heads, -1)).transpose(0, 1)
        by_distance = (query + self._vvar.unsqueeze(1)) @ places.transpose(1, 2)
        index = ago.clamp(min=0).expand(*by_distance.shape[:2], -1, -1)
        scores = (query + self._uvar.unsqueeze(1)) @ key.transpose(2, 3) + by_distance.gather(3, index)
        hidden = (ago < 0) if window is None else (ago < 0) | (ago > window)
        weights = (scores * self._head_dim**-0.5).masked_fill(hidden, -torch.inf).softmax(3)
        out: Tensor = self._linear_layer((weights @ value).transpose(1, 2).flatten(2))
        return out


class GTrXLNet(RecurrentNetwork, nn.Module):
    """Gated attention units over the last `memory_inference` steps of an episode, also in training."""

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        num_outputs: int | None,
        model_config: Any,
        name: str,
        *,
        num_transformer_units: int = 1,
        attention_dim: int = 64,
        num_heads: int = 2,
        memory_inference: int = 50,
        memory_training: int = 50,
        head_dim: int = 32,
        position_wise_mlp_dim: int = 32,
        init_gru_gate_bias: float = 2.0,
    ) -> None:
        nn.Module.__init__(self)
        RecurrentNetwork.__init__(self, observation_space, action_space, num_outputs, model_config, name)  # type: ignore[arg-type]
        self.num_transformer_units, self.attention_dim, self.num_heads = num_transformer_units, attention_dim, num_heads
        self.memory_inference, self.memory_training, self.head_dim = memory_inference, memory_training, head_dim
        self.obs_dim = int(np.prod(observation_space.shape))
        self.linear_layer = SlimFC(self.obs_dim, attention_dim)
        units: list[nn.Module] = []
        for _ in range(num_transformer_units):
            attention = RelativeMultiHeadAttention(
                attention_dim, attention_dim, num_heads, head_dim, input_layernorm=True, output_activation="relu"
            )
            thought = nn.Sequential(
                nn.LayerNorm(attention_dim, dtype=torch.float32, device="cpu"),
                SlimFC(attention_dim, position_wise_mlp_dim, activation_fn="relu", use_bias=False),
                SlimFC(position_wise_mlp_dim, attention_dim, activation_fn="relu", use_bias=False),
            )
            units += [
                SkipConnection(layer, GRUGate(attention_dim, init_gru_gate_bias)) for layer in (attention, thought)
            ]
        self.attention_layers = nn.ModuleList(units)
        self.logits: SlimFC | None = None
        self.values_out: SlimFC | None = None
        if num_outputs is None:
            self.num_outputs = attention_dim
        else:
            self.logits = SlimFC(attention_dim, num_outputs)
            self.values_out = SlimFC(attention_dim, 1)
        self._value_out: Tensor | None = None

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        """Computes outputs ``[B * T, num_outputs]`` and the memory of each unit afterwards, ``[B, M, dim]``."""
        flat = column(self, input_dict, "obs_flat").float()
        lengths = torch.as_tensor(seq_lens, dtype=torch.int64, device=flat.device)
        x = self.linear_layer(flat.reshape(len(lengths), -1, self.obs_dim))
        size = (len(lengths), self.memory_inference, self.attention_dim)
        past = [part.reshape(size) for part in state] or [x.new_zeros(size)] * self.num_transformer_units
        kept = (
            torch.arange(self.memory_inference, device=flat.device, dtype=torch.int64) + lengths.unsqueeze(1)
        ).unsqueeze(2)
        after = []
        for unit, memory in enumerate(past):
            after.append(torch.cat((memory, x), 1).gather(1, kept.expand(size)).detach())
            x = self.attention_layers[2 * unit](x, memory=memory, window=self.memory_inference)
            x = self.attention_layers[2 * unit + 1](x)
        rows = x.reshape(-1, self.attention_dim)
        if self.logits is None or self.values_out is None:
            return rows, after
        self._value_out = self.values_out(rows).reshape(-1)
        return self.logits(rows), after

    def get_initial_state(self) -> list[Any]:
        weight = next(self.linear_layer.parameters())
        size = (self.memory_inference, self.attention_dim)
        return [weight.new_zeros(size) for _ in range(self.num_transformer_units)]

    def value_function(self) -> Tensor:
        if self._value_out is None:
            raise RuntimeError("GTrXLNet: call forward() before value_function(), and give it num_outputs")
        return self._value_out


class AttentionWrapper(ModelOnModel):
    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, **kwargs: Any
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name, **kwargs)
        self.use_n_prev_actions = int(model_config.get("attention_use_n_prev_actions", 0))
        self.use_n_prev_rewards = int(model_config.get("attention_use_n_prev_rewards", 0))
        self.attention_dim = int(model_config["attention_dim"])
        width = self.num_features
        if self.use_n_prev_actions:
            width += self.use_n_prev_actions * action_size(action_space)
            steps = f"-{self.use_n_prev_actions}:-1"
            self.view_requirements["prev_actions"] = ViewRequirement("actions", space=action_space, shift=steps)
        if self.use_n_prev_rewards:
            width += self.use_n_prev_rewards
            self.view_requirements["prev_rewards"] = ViewRequirement("rewards", shift=f"-{self.use_n_prev_rewards}:-1")
        self.gtrxl = GTrXLNet(
            Box(-np.inf, np.inf, (width,), np.float32),
            action_space,
            None,
            model_config,
            "gtrxl",
            num_transformer_units=model_config["attention_num_transformer_units"],
            attention_dim=self.attention_dim,
            num_heads=model_config["attention_num_heads"],
            head_dim=model_config["attention_head_dim"],
            memory_inference=model_config["attention_memory_inference"],
            memory_training=model_config["attention_memory_training"],
            position_wise_mlp_dim=model_config["attention_position_wise_mlp_dim"],
            init_gru_gate_bias=model_config["attention_init_gru_gate_bias"],
        )
        self._heads(self.attention_dim)

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        inputs = [self._inputs(input_dict)]
        if self.use_n_prev_actions:
            actions = column(self, input_dict, "prev_actions").transpose(0, 1)
            inputs += [previous_actions(one, self.action_space) for one in actions]
        if self.use_n_prev_rewards:
            inputs.append(column(self, input_dict, "prev_rewards").float().reshape(-1, self.use_n_prev_rewards))
        self._features, after = self.gtrxl({"obs": torch.cat(inputs, 1)}, state, seq_lens)
        return self._logits_branch(self._features), after

    def get_initial_state(self) -> list[Any]:
        return self.gtrxl.get_initial_state()
