"""Explorations of a script's own, where a policy acts that Rookery learns: `ExploringPolicy`.

The network, the loss and the loop stay Rookery's. What changes is how an action comes of what the network puts out: the
script's `get_exploration_action` is asked, with the distribution of 2021 that stands for it. Such a policy acts in
torch and not on kernels. Settings classes with one more field, ``exploring``, build it.
"""

from __future__ import annotations

import copy
import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from rookery.face import (
    ALGORITHMS,
    MASK,
    ActionHead,
    ActionSpec,
    Algorithm,
    AlgorithmConfig,
    BatchHook,
    ConfigError,
    GivenActionHead,
    HeadSpec,
    Layer,
    ModelConfig,
    ObsSpec,
    QHead,
    Reaches,
    Rollout,
    Settings,
    SquashedHead,
    TensorTree,
    import_object,
)
from rookery.face import Policy as Actor
from rookery_rllib.base.chance import Chance
from rookery_rllib.config.own_exploration import own_exploration
from rookery_rllib.model.action_distributions import (
    TorchCategorical,
    TorchDeterministic,
    TorchDiagGaussian,
    TorchMultiCategorical,
    TorchSquashedGaussian,
)
from rookery_rllib.model.preprocessors import RowPreprocessor
from rookery_rllib.policy.batches import columns_of, pieces_of
from rookery_rllib.policy.explorations import Exploration
from rookery_rllib.policy.policies import DefaultModel, as_arrays, script_network

NOT_ALLOWED = -3.0e38
"""Stands for the value of an action that is not allowed, as `FLOAT_MIN` did."""


class Explorer:
    """The script's exploration of one policy, which all copies of the policy share.

    Args:
        exploration: The script's object.
        explores: Whether the configuration lets it try anything out.

    Attributes:
        timestep: Env steps so far, with the decisions since the last update on top, as of 2021.
    """

    def __init__(self, exploration: Any, explores: bool) -> None:
        self.exploration, self.explores = exploration, explores
        self.timestep = 0
        self._chance = Chance(0)
        self._told = inspect.signature(exploration.get_exploration_action).parameters

    def __deepcopy__(self, memo: dict[int, Any]) -> Explorer:
        """Returns itself: whoever plays asks the same object."""
        return self

    def begin(self, explore: bool) -> None:
        """Tells the exploration that actions are about to be computed."""
        self.exploration.before_compute_actions(timestep=self.timestep, explore=explore)

    def choose(self, distribution: Any, explore: bool, seed: int) -> tuple[Any, Any]:
        """Returns the actions that the exploration chooses, and their log-probabilities.

        Args:
            distribution: What the policy would draw from.
            explore: Whether anything is to be tried out.
            seed: Where all global generators begin, and that of the action space.
        """
        self._chance.seed(seed)
        with self._chance, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.exploration.action_space.seed(seed)
            given = self.exploration.get_exploration_action(
                action_distribution=distribution, timestep=self.timestep, explore=explore
            )
        if not isinstance(given, tuple) or len(given) != 2:
            raise ConfigError(
                f"{type(self.exploration).__name__}.get_exploration_action gave {type(given).__name__}: must give "
                "(actions, log-probabilities)"
            )
        return given

    def state(self) -> dict[str, Any]:
        return {"timestep": self.timestep, "exploration": self.exploration.get_state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.timestep = int(state["timestep"])
        self.exploration.set_state(state["exploration"])


class ExploringPolicy(Actor):
    """A policy whose actions an exploration of a script chooses; arguments as of `rookery.policies.policy.Policy`.

    Attributes:
        explorer: The exploration.
    """

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        model: ModelConfig,
        name: str = "main",
        *,
        generator: torch.Generator,
        head: HeadSpec | None = None,
        config: Mapping[str, Any],
    ) -> None:
        super().__init__(obs, action, model, name, generator=generator, head=head)
        if action.kind not in ("discrete", "multi_discrete", "box"):
            raise ConfigError(
                f"rllib config: exploration_config.type: policy {name!r}: an exploration of your own chooses actions "
                f"of Discrete, MultiDiscrete and Box spaces, not of {action.space}"
            )
        network = script_network(self)
        rows = RowPreprocessor(obs.space, config.get("model"))
        face = DefaultModel(self, None, rows) if network is None else network.model
        self.explorer = Explorer(made(config, normalized(action.space), face), bool(config.get("explore", True)))

    def act(
        self, obs: TensorTree, noise: Tensor | None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Actions ``[N, ...]`` that the exploration chooses; see `Policy.act`. What is drawn follows from `noise`."""
        explore = not deterministic and self.explorer.explores
        if memory is not None and self.exploration_size:
            memory = memory[:, : self.memory_size]
        self.explorer.begin(explore)
        features, stacks, learned = self._advance(obs, memory)
        mask = obs[MASK] if self._masked else None
        drawn = self.distribution(features, mask, noise if explore else None)
        seed = 0 if noise is None else zlib.crc32(noise.cpu().numpy().tobytes())
        chosen, told = self.explorer.choose(drawn, explore, seed)
        spec, num = self.action_spec, len(features)
        array = np.asarray(as_arrays(chosen)).reshape(num, *spec.shape)
        action = torch.from_numpy(array.astype(spec.dtype)).to(features.device)
        logp = (
            torch.zeros(num, dtype=torch.float32, device="cpu")
            if told is None
            else torch.from_numpy(np.asarray(as_arrays(told), np.float32)).reshape(num)
        )
        if not deterministic:
            self.explorer.timestep += num
        if memory is not None:
            if self.recall is not None:
                self.recall.remember(memory, stacks, action)
            if learned is not None:
                memory[:, self._recalled :] = learned
        return action, logp.to(features.device)

    def distribution(self, features: Tensor, mask: Tensor | None, noise: Tensor | None) -> Any:
        """Returns the distribution of 2021 over the actions of N rows.

        Args:
            features: ``[N, F]`` what the head stands on.
            mask: ``[N, choices]`` what is allowed; None = everything.
            noise: ``[N, noise.width]``, for noisy layers; None = their means.
        """
        head, spec, model = self.head, self.action_spec, self.explorer.exploration.model
        if isinstance(head, QHead):
            layers = noise[:, head.noise.uniform :] if head.layer_noise and noise is not None else None
            return TorchCategorical(allowed(head.q_from(head.values(features, layers)), mask), model)
        if isinstance(head, SquashedHead):
            return TorchSquashedGaussian(head.linear(features), model)
        if isinstance(head, GivenActionHead):
            output = features[:, : spec.num_parameters]
        elif isinstance(head, ActionHead):
            output = head.linear(features)
            if head.log_std is not None:
                output = torch.cat((output, head.log_std.expand(len(output), -1)), 1)
        else:
            return TorchDeterministic(head(features).mode(), model)
        if spec.kind == "box":
            return TorchDiagGaussian(output, model)
        output = allowed(output, mask)
        if spec.kind == "discrete":
            return TorchCategorical(output, model)
        return TorchMultiCategorical(output, model, input_lens=list(spec.sizes))


def allowed(values: Tensor, mask: Tensor | None) -> Tensor:
    """Returns logits or values ``[N, choices]`` in which those of actions that are not allowed are as low as can be."""
    return values if mask is None else torch.where(mask, values, NOT_ALLOWED)


def normalized(space: Any) -> Any:
    """Returns a copy of an action space, of a bounded Box from -1 to 1, as its actions are learned."""
    if isinstance(space, Box) and space.is_bounded():
        return Box(-1.0, 1.0, (int(np.prod(space.shape)),), np.float32)
    return copy.deepcopy(space)


def made(config: Mapping[str, Any], space: Any, model: Any) -> Any:
    """Makes the exploration of a configuration; raises a ConfigError if it is to learn by the policy's optimizer."""
    kind = own_exploration(config)
    assert kind is not None
    options = {name: value for name, value in config["exploration_config"].items() if name != "type"}
    found = kind(
        action_space=space, framework="torch", policy_config=dict(config), model=model,
        num_workers=int(config.get("num_workers") or 0), worker_index=0, **options,
    )  # fmt: skip
    if not isinstance(found, Exploration):
        raise ConfigError(
            f"rllib config: exploration_config.type = {kind!r}: must derive from Exploration "
            "(ray.rllib.utils.exploration.exploration)"
        )
    if list(found.get_exploration_optimizer([])) and type(found).get_exploration_optimizer is not (
        Exploration.get_exploration_optimizer
    ):
        raise ConfigError(
            f"{type(found).__name__}.get_exploration_optimizer: the loss is Rookery's own, and has no term of an "
            "exploration: let it learn in postprocess_trajectory, and return the optimizers as they are"
        )
    return found


# --- settings ---------------------------------------------------------------------------------------------------------


def _with_exploration(base: type[AlgorithmConfig], title: str) -> type[AlgorithmConfig]:
    """A settings class with one field more, whose policies a script's exploration plays."""

    def build_policy(self: Any, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Actor:
        if self.exploring is None:
            return base.build_policy(self, obs, action, name, generator)
        own = {"name": name, "generator": generator, "head": self.head, "config": self.exploring}
        return ExploringPolicy(obs, action, self.model, **own)

    body: dict[str, Any] = {
        "__annotations__": {"exploring": Annotated[Any, Reaches("code")]}, "exploring": None,
        "build_policy": build_policy, "__module__": __name__, "__qualname__": title,
        "__doc__": f"Settings of {base.__name__}, with the configuration of a policy that explores by a class of a "
        "script (``exploring``).",
    }  # fmt: skip
    made: type[AlgorithmConfig] = dataclass(frozen=True)(type(base)(title, (base,), body))  # type: ignore[misc]
    return made


EXPLORING: dict[str, type[AlgorithmConfig]] = {}
"""Such settings by our algorithm's name."""

for _name in ("ppo", "a2c", "reinforce", "dqn", "sac", "ddpg", "td3"):
    _base = import_object(ALGORITHMS[_name])
    EXPLORING[_name] = _with_exploration(_base, f"Exploring{_base.__name__}")
    globals()[f"Exploring{_base.__name__}"] = EXPLORING[_name]


def exploration_layers(told: Any, configs: Mapping[str, Mapping[str, Any]], layers: Sequence[Layer]) -> list[Layer]:
    """Returns what has policies that Rookery learns explore by classes of a script."""
    acts_itself = {path for layer in layers for path, value in layer.values.items() if isinstance(value, Settings)}
    values: dict[str, Any] = {}
    for name, config in configs.items():
        if own_exploration(config) is None or f"policies.{name}" in acts_itself:
            continue
        values[f"policies.{name}.exploring"] = dict(config)
        algorithm = told.policies[name].settings.get("name")
        if algorithm is not None:
            values[f"policies.{name}.name"] = EXPLORING[algorithm]
        else:
            values["algorithm.name"] = EXPLORING[told.settings["algorithm.name"]]
    return [Layer("rllib config: exploration_config", values)] if values else []


# --- around the loop --------------------------------------------------------------------------------------------------


def explorer_of(policy: Any) -> Explorer | None:
    """Returns the exploration of a script that a policy of Rookery acts by; None if it acts by itself."""
    return policy.explorer if isinstance(policy, ExploringPolicy) else None


class ExplorationHook(BatchHook):
    """Tells an exploration how many env steps have passed, and shows it what was played."""

    def __init__(self, face: Callable[[], Any], explorer: Explorer) -> None:
        self._face, self._explorer = face, explorer
        method = type(explorer.exploration).postprocess_trajectory
        self._looks = method is not Exploration.postprocess_trajectory

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Returns the rollout with the rewards that the exploration has left."""
        self._explorer.timestep = learner.env_steps
        if not self._looks:
            return rollout
        face, reward = self._face(), rollout.reward.clone()
        for piece in pieces_of(rollout):
            batch = columns_of(rollout, piece.rows, face)
            given = self._explorer.exploration.postprocess_trajectory(face, batch)
            rewards = np.asarray(as_arrays((batch if given is None else given)["rewards"]))
            reward.view(-1)[torch.from_numpy(piece.rows)] = torch.as_tensor(rewards, dtype=reward.dtype, device="cpu")
        return replace(rollout, reward=reward)


@contextmanager
def apart(policies: Mapping[str, Any]) -> Iterator[None]:
    """Lets explorations try actions out in an evaluation by copies, of which nothing is left afterwards."""
    explorers = [found for policy in policies.values() if (found := explorer_of(policy)) is not None]
    kept = [(explorer.exploration, explorer.timestep) for explorer in explorers]
    for explorer in explorers:
        shared = {id(explorer.exploration.model): explorer.exploration.model}
        explorer.exploration = copy.deepcopy(explorer.exploration, shared)
    try:
        yield
    finally:
        for explorer, (exploration, timestep) in zip(explorers, kept, strict=True):
            explorer.exploration, explorer.timestep = exploration, timestep
