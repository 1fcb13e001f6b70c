"""Policies of scripts as policies of Rookery: they act and learn by their own code."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from rookery.face import (
    ActionSpec,
    Algorithm,
    AlgorithmConfig,
    Capabilities,
    Count,
    Demand,
    Length,
    ModelConfig,
    ObsSpec,
    Reaches,
    Rollout,
    Streams,
    Structural,
    TensorTree,
    as_tensor,
)
from rookery.face import LearnerRow as Row
from rookery.face import Policy as Actor
from rookery_rllib.base.per_env_rng import PerEnvRandomState
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.batch.trajectories import Reading, Slots, Trajectory, trajectories
from rookery_rllib.model.preprocessors import RowPreprocessor
from rookery_rllib.policy.batches import LearnHook
from rookery_rllib.policy.policies import LEARNER_STATS_KEY, Policy


@dataclass(frozen=True)
class ScriptPolicyConfig(AlgorithmConfig):
    """Settings of a policy class of a script."""

    algorithm: ClassVar[str] = "rookery_rllib.policy.script_policies:ScriptLearning"
    capabilities = Capabilities(supports_memory=True)

    policy_class: Annotated[Any, Reaches("code")] = None
    """The script's class."""
    config: Annotated[dict[str, Any], Reaches("the effects of a script's code")] = field(default_factory=dict)
    """Configuration of its objects."""
    fragment_length: Structural[Length] = 200
    """Consecutive decisions of one slot in an update."""
    cut_after: Count = 200
    """Number of consecutive decisions after which a trajectory is cut, even if its episode continues."""
    lr: float = 0.0
    """Has no effect: the policy's own code learns."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=()))
    """Has no effect: the policy has its own model, or none."""

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Actor:
        return ScriptActor(obs, action, self, name, generator, *made_policy(self, obs, action, generator))


def settings_of(config: Mapping[str, Any], rows_per_step: int) -> dict[str, Any]:
    """Returns the batch settings of a policy of a script, an env step of which counts as so many rows.

    These are whole rounds of fragments until ``train_batch_size`` is reached, each fragment a trajectory; with
    ``complete_episodes`` they are cut only at the end of a batch.
    """
    length = max(int(config["rollout_fragment_length"]), 1)
    lanes = max(int(config["num_workers"]), 1) * max(int(config["num_envs_per_worker"]), 1)
    rounds = max(math.ceil(int(config["train_batch_size"]) / (length * lanes * rows_per_step)), 1)
    whole = config["batch_mode"] == "complete_episodes"
    return {"fragment_length": length * rounds, "cut_after": length * rounds if whole else length}


def made_policy(
    cfg: ScriptPolicyConfig, obs: ObsSpec, action: ActionSpec, generator: torch.Generator
) -> tuple[Policy, PerEnvRandomState]:
    """Makes the script's object, and the state of the global generators that it draws from."""
    random_state = PerEnvRandomState(
        int(torch.randint(2**31, (), generator=generator, dtype=torch.int64, device="cpu"))
    )
    rows = RowPreprocessor(obs.space, cfg.config.get("model"))
    with random_state, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(np.random.randint(2**31)))  # drawn by `random_state`
        made: Policy = cfg.policy_class(rows.observation_space, action.space, dict(cfg.config))
    made.raw_observation_space = obs.space  # type: ignore[attr-defined]
    made.preprocess = rows.rows  # type: ignore[attr-defined]
    return made, random_state


class ScriptActor(Actor):
    """Actor that calls a policy of the script, with its last action and reward.

    Copies share the `script_policy`. `random_state` holds the global generators that the policy draws from; `generator`
    draws weights that are not used. If `as_drawn`, its actions are samples of a distribution, which Rookery scales to
    the bounds of a box; else they go to the environment as they are.
    """

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        cfg: ScriptPolicyConfig,
        name: str,
        generator: torch.Generator,
        script_policy: Policy,
        random_state: PerEnvRandomState,
        as_drawn: bool = False,
    ) -> None:
        super().__init__(obs, action, cfg.model, name, generator=generator)
        self.random_state, self._as_drawn = random_state, as_drawn
        self.rows = RowPreprocessor(obs.space, cfg.config.get("model"))
        self.script_policy = script_policy
        self._states = States(script_policy.get_initial_state())
        self._action_width = int(np.prod(action.shape))
        self.reward_column = self._states.size + self._action_width
        self.memory_size = self.reward_column + 1

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptActor:
        """Returns itself: all copies use the script's one object."""
        return self

    def memory_every(self, fragment_length: int) -> int:
        """Interval at which memory is stored in a fragment: every decision, if the script's policy is recurrent."""
        return 1 if self._states.shapes else fragment_length

    def reading(self) -> Reading:
        return reading_of(self.script_policy, self._own, self._states)

    def stored(self, actions: Any) -> np.ndarray:
        """Converts actions of the script's policy, ``[N, ...]``, to stored form."""
        if not self._as_drawn:
            return stored_actions(actions, self.action_spec)
        array = np.asarray(as_arrays(actions))
        return array.reshape(len(array), *self.action_spec.shape).astype(self.action_spec.dtype)

    def _own(self, stored: np.ndarray) -> np.ndarray:
        return stored if self._as_drawn else script_actions(stored, self.action_spec)

    def act(
        self, obs: TensorTree, noise: Tensor | None = None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Calls the script's policy; missing log-probabilities are 0."""
        rows = as_arrays(self.rows.rows(obs))
        states, actions, rewards = [], None, None
        if memory is not None:
            with self.random_state:
                states = self._states.unpacked(memory, self.script_policy.get_initial_state)
            kept = memory[:, self._states.size : self.reward_column].numpy()
            shaped = kept.reshape(len(kept), *self.action_spec.shape).astype(self.action_spec.dtype)
            actions, rewards = self._own(shaped), memory[:, self.reward_column].numpy().copy()
            actions = np.where((memory[:, 0] > 0).numpy().reshape(-1, *[1] * (actions.ndim - 1)), actions, 0 * actions)
        with self.random_state:
            given = self.script_policy.compute_actions(
                rows, states, prev_action_batch=actions, prev_reward_batch=rewards, info_batch=None, episodes=None,
                explore=not deterministic, timestep=None,
            )  # fmt: skip
        chosen, after, extra = (*given, [], {})[:3] if isinstance(given, tuple) else (given, [], {})
        stored = self.stored(chosen)
        logp = np.asarray(as_arrays((extra or {}).get("action_logp", np.zeros(len(rows)))), np.float32)
        if memory is not None:
            memory[:, : self._states.size] = self._states.packed(after, memory)
            memory[:, self._states.size : self.reward_column] = torch.from_numpy(
                stored.reshape(len(rows), -1).astype(np.float32)
            )
            memory[:, self.reward_column] = 0.0
        return torch.from_numpy(stored), torch.from_numpy(logp)


class States:
    """Memory of a script's policy as numbers per slot: first whether an episode has begun.

    Args:
        initial: Memory at the start of an episode, arrays without a batch axis.

    Attributes:
        shapes: Shapes of these arrays.
        size: Numbers per slot.
    """

    def __init__(self, initial: Sequence[Any]) -> None:
        parts = [np.asarray(as_arrays(part), np.float32) for part in initial]
        self.shapes = [part.shape for part in parts]
        self._widths = [part.size for part in parts]
        self._initial = torch.from_numpy(np.concatenate([np.zeros(0, np.float32), *(part.ravel() for part in parts)]))
        self.size = 1 + sum(self._widths)

    def unpacked(self, memory: Tensor, initial_of: Callable[[], Sequence[Any]] | None = None) -> list[np.ndarray]:
        """Returns the arrays ``[N, ...]`` of memory ``[N, M]``; at the start of an episode the initial ones.

        Args:
            memory: The stored memory.
            initial_of: Returns the initial memory of each episode that starts; None = the same for all.
        """
        kept = memory[:, 1 : self.size]
        flat = torch.where(memory[:, :1] > 0, kept, self._initial.expand(len(memory), -1)).numpy()
        if initial_of is not None and self._widths:
            for row in np.flatnonzero(memory[:, 0].numpy() == 0.0):
                flat[row] = np.concatenate([_matrix(part, 1)[0] for part in initial_of()])
        parts = np.split(flat, np.cumsum(self._widths)[:-1], axis=1) if self._widths else []
        return [part.reshape(len(part), *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def packed(self, states: Sequence[Any], before: Tensor) -> Tensor:
        """Packs the arrays of a policy as memory ``[N, size]``; without arrays, the memory is unchanged.

        Args:
            states: Arrays ``[N, ...]``.
            before: ``[N, M]`` previous memory.
        """
        begun = torch.ones(len(before), 1, dtype=torch.float32, device="cpu")
        if not len(states):
            return torch.cat((begun, before[:, 1 : self.size]), 1)
        return torch.cat((begun, *(as_tensor(_matrix(part, len(before))) for part in states)), 1)


def reading_of(script_policy: Policy, actions: Callable[[np.ndarray], np.ndarray], states: States) -> Reading:
    """Returns the conversion of stored data for a script's policy."""
    preprocess: Any = script_policy.preprocess  # type: ignore[attr-defined]
    return Reading(preprocess, actions, states.unpacked, getattr(script_policy, "with_extras", None))


def _matrix(part: Any, num: int) -> np.ndarray:
    return np.asarray(as_arrays(part), np.float32).reshape(num, -1)


def stored_actions(actions: Any, spec: ActionSpec) -> np.ndarray:
    """Converts actions of the environment, ``[N, ...]``, to stored form.

    Args:
        actions: Array, or a list of one action for each row; of a Dict or Tuple space a dict or tuple of arrays.
        spec: Layout of the actions.
    """
    if spec.kind == "composite":
        parts = list(actions.values()) if isinstance(actions, dict) else list(actions)
        columns = [stored_actions(part, inner) for part, (inner, _) in zip(parts, spec.parts, strict=True)]
        stored = np.zeros((len(columns[0]), *spec.shape), spec.dtype)
        for column, (_, places) in zip(columns, spec.parts, strict=True):
            stored[:, places] = column.reshape(len(stored), -1)
        return stored
    array = np.asarray(as_arrays(actions))
    if spec.kind == "discrete":
        return (array.reshape(-1) - int(getattr(spec.space, "start", 0))).astype(spec.dtype)
    array = array.reshape(len(array), *spec.shape)
    if spec.kind == "multi_discrete":
        array = array - np.ravel(spec.space.start)  # type: ignore[attr-defined]
    elif isinstance(spec.space, Box):
        center, half = _middle(spec.space)
        array = (array - center) / half
    return array.astype(spec.dtype)


def script_actions(stored: np.ndarray, spec: ActionSpec) -> np.ndarray:
    """Converts stored actions ``[N, ...]`` to those of the script's policy; the inverse of `stored_actions`.

    Args:
        stored: Actions in stored form. Those of Dict and Tuple spaces become concatenated numbers ``[N, W]``.
        spec: Layout of the actions.
    """
    if spec.kind == "composite":
        num = len(stored)
        parts = [(inner, stored[:, places].astype(inner.dtype)) for inner, places in spec.parts]
        columns = [script_actions(part.reshape(num, *inner.shape), inner).reshape(num, -1) for inner, part in parts]
        return np.concatenate(columns, 1)
    if spec.kind == "discrete":
        return stored + int(getattr(spec.space, "start", 0))
    if spec.kind == "multi_discrete":
        return np.asarray(stored + np.ravel(spec.space.start))  # type: ignore[attr-defined]
    if isinstance(spec.space, Box):
        center, half = _middle(spec.space)
        shaped: np.ndarray = (center + half * stored).reshape(len(stored), *(spec.space.shape or ()))
        return shaped.astype(np.float32)
    return stored


def _middle(space: Box) -> tuple[np.ndarray, np.ndarray]:
    """Returns center and half width of each element of a box, flat; 0 and 1 without two bounds."""
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    bounded = np.isfinite(low) & np.isfinite(high) & (low < high)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    return low / 2 + high / 2, high / 2 - low / 2


class ScriptLearning(Algorithm[ScriptPolicyConfig]):
    """Passes rollouts to a script's policy for learning."""

    saved: ClassVar[tuple[str, ...]] = ("script_state", "slots")
    fixed = ("script_policy", "fetched", "_hook", "_seen", "_stood")

    def __init__(self, policy: Actor, cfg: ScriptPolicyConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.script_policy: Policy = policy.script_policy  # type: ignore[assignment]
        self.fetched: dict[str, Any] = {}
        self.slots: Slots = {}
        self._hook: LearnHook | None = None
        self._seen: list[Trajectory] = []
        self._stood: Slots = {}

    @property
    def script_state(self) -> dict[str, Any]:
        """State of the script's policy: its weights as arrays."""
        weights = as_arrays(self.script_policy.get_weights())
        return {"weights": weights if isinstance(weights, dict) else {"": weights}}

    @script_state.setter
    def script_state(self, state: dict[str, Any]) -> None:
        weights = state["weights"]
        self.script_policy.set_weights(weights[""] if set(weights) == {""} else weights)

    @property
    def demand(self) -> Demand:
        """Fragments of `fragment_length`."""
        return Demand(self.cfg.fragment_length, None)

    def look_at(self, rollout: Rollout, hook: LearnHook) -> list[Trajectory]:
        """Returns the trajectories of a rollout, with columns computed by the weights that sampled it."""
        self._hook, self._stood = hook, copy.deepcopy(self.slots)
        self._seen = self._cut(rollout, self.slots)
        return self._seen

    def _cut(self, rollout: Rollout, slots: Slots) -> list[Trajectory]:
        reading: Reading = self.policy.reading()  # type: ignore[operator]
        hook = self._hook
        return trajectories(rollout, reading, self.cfg.cut_after, slots, *(() if hook is None else (hook.lane_of,)))

    def postprocessed(self, rollout: Rollout) -> SampleBatch:
        """Postprocesses a rollout: trajectory by trajectory, each with those of the others in its episode, then all
        together.
        """
        hook = self._hook
        if hook is None:
            seen = self._cut(rollout, self.slots)
        elif rollout is hook.rollouts.get(self.name):
            seen = self._seen
        else:  # it was changed meanwhile
            seen = self._cut(rollout, self._stood)
        batches = []
        for piece in seen:
            batch, others, episode, agent = piece.own, {}, None, None
            if hook is not None:
                agent, episode = hook.who(piece.slot, piece.ended)
                others = hook.beside(piece)
            batch = self.script_policy.postprocess_trajectory(batch, others, episode)
            if hook is not None:
                hook.notify(agent, episode, batch, {agent: (self.script_policy, piece.batch), **others})
            batches.append(batch)
        joined: SampleBatch = SampleBatch.concat_samples(batches)
        return joined

    def training_step(self, rollout: Rollout) -> Row:
        """Postprocesses the trajectories, and trains the policy on all of them."""
        self.script_policy.on_global_var_update({"timestep": self.env_steps})
        batch = self.postprocessed(rollout)
        self.updates += 1
        return self.reported(self.learned(batch))

    def learned(self, batch: SampleBatch) -> Any:
        """Calls `learn_on_batch`; returns its report."""
        return self.script_policy.learn_on_batch(batch)

    def reported(self, result: Any) -> Row:
        """Stores the learning report of a policy; returns its numbers."""
        result = dict(result or {})
        stats = result.get(LEARNER_STATS_KEY, result)
        self.fetched = {
            **{k: v for k, v in result.items() if LEARNER_STATS_KEY in result},
            LEARNER_STATS_KEY: dict(stats),
        }
        numbers = {name: np.asarray(as_arrays(value)) for name, value in stats.items() if not isinstance(value, dict)}
        return {name: float(value) for name, value in numbers.items() if value.ndim == 0 and value.dtype.kind in "biuf"}
