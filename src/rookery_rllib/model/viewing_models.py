"""Models of scripts with `view_requirements` on earlier rows of a trajectory, as networks.

The earlier rows are part of each slot's memory: the last observations, and the last actions and rewards, which are
passed to the model (`models/recall.py`). So they are the same in acting, in targets and in learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiDiscrete
from torch import Tensor

from rookery.face import CHOICES, NUMBERS, REWARD, ConfigError
from rookery_rllib.model.catalog import custom_model
from rookery_rllib.model.model_v2 import ModelV2, ScriptNetwork

COLUMNS = ("obs", "actions", "rewards")
"""Columns with earlier values, in the order of the memory."""


def looks_back(options: Mapping[str, Any]) -> bool:
    """Returns whether a custom model may use earlier rows: its class refers to `view_requirements`, or an LSTM on top
    gets the last action or reward.
    """
    model = custom_model(options)
    uses_previous = any(options.get(f"lstm_use_prev_{name}") for name in ("action", "reward"))
    if options.get("use_lstm") and uses_previous:
        return True
    if not isinstance(model, type) or not issubclass(model, ModelV2):
        return False
    functions = [value for cls in model.__mro__ if cls.__module__ != ModelV2.__module__ for value in vars(cls).values()]
    return any(isinstance(each, FunctionType) and "view_requirements" in _names(each.__code__) for each in functions)


def _names(code: CodeType) -> set[str]:
    """Returns the names that a function refers to, also in functions inside it."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


class ViewingNetwork(ScriptNetwork):
    """A model of a script that uses earlier rows; arguments as of `ScriptNetwork`.

    Raises:
        ConfigError: If it requires a value that does not exist when actions are computed.
    """

    sees_previous = True

    def _initial_state(self) -> Sequence[Any]:
        """Returns the model's own state, followed by the windows of earlier rows."""
        own = list(super()._initial_state())
        self._own_states = len(own)
        self._depths, self._views = self._looked_at()
        action = self._given[1]
        self._whole = isinstance(action, Discrete | MultiDiscrete)
        shape: tuple[int, ...] | None = action.shape
        if shape is None:
            if any(column == "actions" for column, *_ in self._views.values()):
                name = type(self.model).__name__
                raise ConfigError(f"model {name}: uses earlier actions, which have several parts here: {action}")
            shape = ()
        self._shape: tuple[int, ...] = tuple(shape)
        shapes = {"obs": self.rows.shape, "actions": self._shape, "rewards": ()}
        depths = self._depths
        return [*own, *(np.zeros((depths[name], *shapes[name]), np.float32) for name in COLUMNS if depths[name])]

    def _looked_at(self) -> tuple[dict[str, int], dict[str, tuple[str, list[int], bool]]]:
        """Returns the number of earlier values of each column, and the columns of the model's input."""
        depths, views = dict.fromkeys(COLUMNS, 0), {}
        for name, view in getattr(self.model, "view_requirements", {}).items():
            column = view.data_col or name
            shifts, is_range = view.shifts()
            if name == "obs" and (shifts, is_range) != ([0], False):
                raise ConfigError(
                    f"model {type(self.model).__name__}: view_requirements['obs'] is {view.shift}: obs is the "
                    "current one; give earlier rows another name, ViewRequirement('obs', shift='-3:0')"
                )
            if not view.used_for_compute_actions or name == "obs" or column.startswith("state_"):
                continue
            newest = 0 if column == "obs" else -1
            if column not in COLUMNS or max(shifts) > newest or view.index is not None:
                raise ConfigError(
                    f"model {type(self.model).__name__}: view_requirements[{name!r}] wants {column!r} at {view.shift}: "
                    "to compute actions there are obs up to now, actions and rewards up to the last"
                )
            views[name] = column, shifts, is_range
            depths[column] = max(depths[column], newest - min(shifts))
        return depths, views

    def forward(self, obs: Any, memory: Any = None, previous: Mapping[str, Tensor] | None = None) -> Any:
        """Computes outputs ``[N, num_outputs]`` and values ``[N]`` from observations, memory, and the last action and
        reward.
        """
        self._last = previous or {}
        return super().forward(obs, memory)

    def called(self, rows: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Mapping[str, Any]]:
        own, windows = list(state[: self._own_states]), list(state[self._own_states :])
        now = {"obs": rows, "actions": self._last_action(len(rows)), "rewards": self._last_reward(len(rows))}
        seen: dict[str, Tensor] = {}
        kept: list[Tensor] = []
        for name in COLUMNS:
            if self._depths[name]:
                past = windows.pop(0)
                seen[name] = torch.cat((past, now[name].unsqueeze(1)), 1)  # obs end with the current one
                kept.append(seen[name][:, 1:])
            else:
                seen[name] = now[name].unsqueeze(1)
        self.columns = {}
        for name, (column, shifts, is_range) in self._views.items():
            newest = 0 if column == "obs" else -1
            places = [step - newest - 1 for step in shifts]
            values = seen[column][:, places] if is_range else seen[column][:, places[0]]
            self.columns[name] = values.long() if column == "actions" and self._whole else values
        outputs, after, extras = super().called(rows, own)
        return outputs, [*after, *kept], extras

    def _last_action(self, num: int) -> Tensor:
        """Returns the previous action, ``[N, ...]``; zeros where an episode starts."""
        parts = []
        if CHOICES in self._last:
            parts.append((self._last[CHOICES] - 1).clamp(min=0).float())  # counted from 1 there
        if NUMBERS in self._last:
            parts.append(self._last[NUMBERS])
        seen = any(column == "actions" for column, *_ in self._views.values())
        return (
            torch.cat(parts, 1).reshape(num, *self._shape)
            if parts and seen
            else torch.zeros(num, *self._shape, dtype=torch.float32, device="cpu")
        )

    def _last_reward(self, num: int) -> Tensor:
        """Returns the previous reward, ``[N]``; 0 where an episode starts."""
        return (
            self._last[REWARD].reshape(num)
            if REWARD in self._last
            else torch.zeros(num, dtype=torch.float32, device="cpu")
        )
