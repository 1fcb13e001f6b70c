"""Exploration classes of 2021: `Exploration`, the built-in kinds, and policies of Rookery that act by such a class.

For a policy that Rookery trains, the built-in kinds are settings (`exploration_config` becomes
``algorithm.exploration``, see `exploration_keys.py`); the classes act if a script derives from them, and for policies
with a loss of the script. A class of a script acts for any policy: in `ExploringPolicy` the network, the loss and the
loop stay Rookery's, and the script's `get_exploration_action` chooses the actions from a distribution of 2021 over the
network's outputs. Such a policy acts in torch, not on kernels. Settings classes with the additional field
``exploring`` build it.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
    nearest,
)
from rookery.face import Policy as Actor
from rookery_rllib.base.from_config import from_config
from rookery_rllib.base.per_env_rng import PerEnvRandomState
from rookery_rllib.base.schedules import PiecewiseSchedule, Schedule
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.trajectories import with_rewards
from rookery_rllib.config.exploration_keys import own_exploration
from rookery_rllib.model.action_distributions import (
    TorchCategorical,
    TorchDeterministic,
    TorchDiagGaussian,
    TorchMultiActionDistribution,
    TorchMultiCategorical,
    TorchSquashedGaussian,
)
from rookery_rllib.model.default_model import DefaultModel, head_outputs
from rookery_rllib.model.model_v2 import script_network
from rookery_rllib.model.preprocessors import RowPreprocessor

FORBIDDEN = -1e30
"""Action values below this belong to actions that are not allowed."""


class Exploration:
    """Chooses actions from a model's outputs.

    Bounded actions of `action_space` lie between -1 and 1; `worker_index` is 0: all environments are in one worker.
    """

    def __init__(
        self, action_space: Any, *, framework: str, policy_config: Any, model: Any, num_workers: int, worker_index: int
    ) -> None:
        self.action_space = action_space
        self.policy_config = policy_config
        self.model = model
        self.num_workers = num_workers
        self.worker_index = worker_index
        self.framework = framework
        self.device = torch.device("cpu")
        self.last_timestep = 0

    def before_compute_actions(
        self, *, timestep: int | None = None, explore: bool | None = None, tf_sess: Any = None, **kwargs: Any
    ) -> None: ...

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no get_exploration_action")

    def on_episode_start(
        self, policy: Any, *, environment: Any = None, episode: Any = None, tf_sess: Any = None
    ) -> None: ...

    def on_episode_end(
        self, policy: Any, *, environment: Any = None, episode: Any = None, tf_sess: Any = None
    ) -> None: ...

    def postprocess_trajectory(self, policy: Any, sample_batch: Any, tf_sess: Any = None) -> Any:
        return sample_batch

    def get_exploration_optimizer(self, optimizers: list[Any]) -> list[Any]:
        return optimizers

    def get_info(self, sess: Any = None) -> dict[str, Any]:
        return {}

    def get_state(self, sess: Any = None) -> dict[str, Any]:
        return self.get_info()

    def set_state(self, state: Any, sess: Any = None) -> None: ...


def _zeros(actions: Any) -> Tensor:
    part = actions
    while isinstance(part, list | tuple | dict):
        part = next(iter(part.values())) if isinstance(part, dict) else part[0]
    return torch.zeros(len(part), dtype=torch.float32, device="cpu")


def _most_likely(distribution: Any) -> tuple[Any, Tensor]:
    actions = distribution.deterministic_sample()
    return actions, _zeros(actions)


def _scheduled(given: Any, points: list[tuple[float, float]]) -> Schedule:
    """Returns a given or described schedule, else a piecewise linear one through points."""
    if given is not None:
        made: Schedule = from_config(Schedule, given)
        return made
    return PiecewiseSchedule(endpoints=points, outside_value=points[-1][1], framework="torch")


def random_actions(space: Any, num: int) -> tuple[Any, Tensor]:
    """Returns `num` random actions of a space, and zeros ``[num]``."""
    space.seed(int(torch.randint(2**31, (), dtype=torch.int64, device="cpu")))
    drawn = [space.sample() for _ in range(num)]
    actions: Any
    if isinstance(drawn[0], tuple):
        actions = tuple(torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True))
    elif isinstance(drawn[0], dict):
        actions = {name: torch.from_numpy(np.stack([each[name] for each in drawn])) for name in drawn[0]}
    else:
        actions = torch.from_numpy(np.stack(drawn))
    return actions, _zeros(actions)


class Random(Exploration):
    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        if not explore:
            return _most_likely(action_distribution)
        return self.drawn(len(action_distribution.inputs))

    def drawn(self, num: int) -> tuple[Any, Tensor]:
        return random_actions(self.action_space, num)


class StochasticSampling(Exploration):
    def __init__(
        self, action_space: Any, *, framework: str, model: Any, random_timesteps: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(action_space, framework=framework, model=model, **kwargs)
        self.random_timesteps = random_timesteps
        self.random_exploration = Random(action_space, framework=framework, model=model, **kwargs)

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        self.last_timestep = self.last_timestep + 1 if timestep is None else timestep
        if not explore:
            return _most_likely(action_distribution)
        if self.last_timestep < self.random_timesteps:
            return self.random_exploration.drawn(len(action_distribution.inputs))
        return action_distribution.sample(), action_distribution.sampled_action_logp()


class SoftQ(StochasticSampling):
    def __init__(self, action_space: Any, *, framework: str, temperature: float = 1.0, **kwargs: Any) -> None:
        super().__init__(action_space, framework=framework, **kwargs)
        self.temperature = temperature

    def get_exploration_action(self, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        softer = TorchCategorical(action_distribution.inputs, self.model, temperature=self.temperature)
        return super().get_exploration_action(action_distribution=softer, timestep=timestep, explore=explore)


class EpsilonGreedy(Exploration):
    def __init__(
        self,
        action_space: Any,
        *,
        framework: str,
        initial_epsilon: float = 1.0,
        final_epsilon: float = 0.05,
        epsilon_timesteps: int = 100_000,
        epsilon_schedule: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(action_space, framework=framework, **kwargs)
        points = [(0.0, initial_epsilon), (float(epsilon_timesteps), final_epsilon)]
        self.epsilon_schedule = _scheduled(epsilon_schedule, points)

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        self.last_timestep = timestep
        best, zeros = _most_likely(action_distribution)
        if not explore:
            return best, zeros
        epsilon = float(self.epsilon_schedule(timestep))
        num = len(action_distribution.inputs)
        whether = torch.rand(num, dtype=torch.float32, device="cpu") < epsilon
        if isinstance(action_distribution, TorchMultiActionDistribution):
            other, _ = random_actions(self.action_space, num)
            pairs = zip(other.values() if isinstance(other, dict) else other,
                        best.values() if isinstance(best, dict) else best, strict=True)  # fmt: skip
            mixed = [torch.where(whether.view(-1, *[1] * (a.ndim - 1)), a.to(b.dtype), b) for a, b in pairs]
            return (dict(zip(best, mixed, strict=True)) if isinstance(best, dict) else tuple(mixed)), zeros
        allowed = (action_distribution.inputs > FORBIDDEN).float()
        other = torch.multinomial(allowed, 1)[:, 0]
        return torch.where(whether, other, best), zeros

    def get_info(self, sess: Any = None) -> dict[str, Any]:
        return {"cur_epsilon": float(self.epsilon_schedule(self.last_timestep or 0))}


class GaussianNoise(Exploration):
    def __init__(
        self,
        action_space: Any,
        *,
        framework: str,
        model: Any,
        random_timesteps: int = 1000,
        stddev: float = 0.1,
        initial_scale: float = 1.0,
        final_scale: float = 0.02,
        scale_timesteps: int = 10_000,
        scale_schedule: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(action_space, framework=framework, model=model, **kwargs)
        if not isinstance(action_space, Box):
            raise ConfigError(f"{type(self).__name__}: actions of {action_space} are not continuous, as noise requires")
        self.random_timesteps = random_timesteps
        self.random_exploration = Random(action_space, framework=framework, model=model, **kwargs)
        self.stddev = stddev
        start = float(random_timesteps)
        points = [(start, initial_scale), (start + scale_timesteps, final_scale)]
        self.scale_schedule = _scheduled(scale_schedule, points)

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        self.last_timestep = self.last_timestep + 1 if timestep is None else timestep
        best, zeros = _most_likely(action_distribution)
        if not explore:
            return best, zeros
        if self.last_timestep < self.random_timesteps:
            return self.random_exploration.drawn(len(action_distribution.inputs))
        noise = float(self.scale_schedule(self.last_timestep)) * self.noise(best)
        low, high = (torch.as_tensor(bound, dtype=best.dtype, device="cpu") for bound in (self.action_space.low,
                                                                             self.action_space.high))  # fmt: skip
        return torch.minimum(torch.maximum(best + noise, low), high), zeros

    def noise(self, best: Tensor) -> Tensor:
        """Returns noise for actions, ``[N, k]``."""
        return torch.randn_like(best) * self.stddev

    def get_info(self, sess: Any = None) -> dict[str, Any]:
        return {"cur_scale": float(self.scale_schedule(self.last_timestep))}


class OrnsteinUhlenbeckNoise(GaussianNoise):
    """Adds Ornstein-Uhlenbeck noise, the same for all actions of a call."""

    def __init__(
        self,
        action_space: Any,
        *,
        framework: str,
        ou_theta: float = 0.15,
        ou_sigma: float = 0.2,
        ou_base_scale: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(action_space, framework=framework, **{**kwargs, "stddev": 1.0})
        self.ou_theta, self.ou_sigma, self.ou_base_scale = ou_theta, ou_sigma, ou_base_scale
        self.ou_state = torch.zeros(int(np.prod(action_space.shape)), dtype=torch.float32, device="cpu")

    def noise(self, best: Tensor) -> Tensor:
        """Returns the next noise, ``[k]``."""
        self.ou_state = self.ou_state + self.ou_sigma * torch.randn_like(self.ou_state) - self.ou_theta * self.ou_state
        reach = torch.from_numpy(self.action_space.high - self.action_space.low)
        reach = torch.where(torch.isinf(reach), torch.ones_like(reach), reach).to(best.dtype)
        return self.ou_base_scale * self.ou_state.view(reach.shape) * reach

    def get_state(self, sess: Any = None) -> dict[str, Any]:
        return {"ou_state": self.ou_state.numpy()}

    def set_state(self, state: Any, sess: Any = None) -> None:
        self.ou_state = torch.from_numpy(np.asarray(state["ou_state"]))


BUILT_IN: dict[str, type[Exploration]] = {
    cls.__name__: cls
    for cls in (StochasticSampling, Random, EpsilonGreedy, SoftQ, GaussianNoise, OrnsteinUhlenbeckNoise)
}


def exploration_of(policy: Any, model: Any) -> Any:
    """Makes the exploration of a configuration; raises a ConfigError if the policy does not support it."""
    kind = (policy.config.get("exploration_config") or {}).get("type")
    found = own_exploration(policy.config)
    if found is None:
        name = getattr(kind, "__name__", None) or str(kind or "StochasticSampling").replace(":", ".").rpartition(".")[2]
        found = BUILT_IN.get(name)
        if found is None:
            near = nearest(name, list(BUILT_IN))
            raise ConfigError(
                f"exploration_config.type = {kind!r}: a policy with its own loss explores by one of "
                f"{', '.join(BUILT_IN)}{near}; or write action_sampler_fn, or give a class"
            )
    return _made(found, policy.config, policy.action_space, model)


def _made(kind: Callable[..., Any], config: Any, space: Any, model: Any) -> Any:
    """Makes an exploration with the options of a configuration."""
    options = {name: value for name, value in (config.get("exploration_config") or {}).items() if name != "type"}
    return kind(
        action_space=space, framework="torch", policy_config=config, model=model,
        num_workers=int(config.get("num_workers") or 0), worker_index=0, **options,
    )  # fmt: skip


def draws_only(exploration: Any) -> bool:
    """Whether an exploration only samples the policy's own distribution."""
    return type(exploration) is StochasticSampling and not exploration.random_timesteps


# --- policies that Rookery trains -------------------------------------------------------------------------------------

NOT_ALLOWED = -3.0e38
"""Value of an action that is not allowed, as `FLOAT_MIN` was."""


class Explorer:
    """The script's exploration of one policy, shared by all copies of the policy.

    Args:
        exploration: The script's object.
        explores: Whether the configuration has exploration on.

    Attributes:
        timestep: Env steps so far, with the decisions since the last update on top, as of 2021.
    """

    def __init__(self, exploration: Any, explores: bool) -> None:
        self.exploration, self.explores = exploration, explores
        self.timestep = 0
        self._random_state = PerEnvRandomState(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Explorer:
        """Returns itself: all copies of a policy call the same object."""
        return self

    def begin(self, explore: bool) -> None:
        """Calls the exploration before actions are computed."""
        self.exploration.before_compute_actions(timestep=self.timestep, explore=explore)

    def choose(self, distribution: Any, explore: bool, seed: int) -> tuple[Any, Any]:
        """Returns the actions of the exploration, and their log-probabilities.

        Args:
            distribution: The policy's action distribution.
            explore: Whether to explore.
            seed: Seed of all global generators, and of the action space.
        """
        self._random_state.seed(seed)
        with self._random_state, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.exploration.action_space.seed(seed)
            given = self.exploration.get_exploration_action(
                action_distribution=distribution, timestep=self.timestep, explore=explore
            )
        if not isinstance(given, tuple) or len(given) != 2:
            raise ConfigError(
                f"{type(self.exploration).__name__}.get_exploration_action returned {type(given).__name__}: must be "
                "(actions, log-probabilities)"
            )
        return given

    def state(self) -> dict[str, Any]:
        return {"timestep": self.timestep, "exploration": self.exploration.get_state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.timestep = int(state["timestep"])
        self.exploration.set_state(state["exploration"])


class ExploringPolicy(Actor):
    """Policy whose actions come from an exploration of a script; arguments as of `rookery.policies.policy.Policy`.

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
                f"rllib config: exploration_config.type: policy {name!r}: a custom exploration supports actions "
                f"of Discrete, MultiDiscrete and Box spaces, not of {action.space}"
            )
        network = script_network(self)
        rows = RowPreprocessor(obs.space, config.get("model"))
        face = DefaultModel(self, None, rows) if network is None else network.model
        self.explorer = Explorer(made(config, normalized(action.space), face), bool(config.get("explore", True)))

    def act(
        self, obs: TensorTree, noise: Tensor | None = None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns actions ``[N, ...]`` of the exploration; see `Policy.act`. `noise` determines the seed."""
        explore = not deterministic and self.explorer.explores
        if memory is not None and self.exploration_size:
            memory = memory[:, : self.memory_size]
        self.explorer.begin(explore)
        features, stacks, learned = self._advance(obs, memory)
        mask = obs[MASK] if self._masked else None
        drawn = self.distribution(features, mask, noise if explore else None)
        seed = 0 if noise is None else zlib.crc32(noise.cpu().numpy().tobytes())
        chosen, explorer_logp = self.explorer.choose(drawn, explore, seed)
        spec, num = self.action_spec, len(features)
        array = np.asarray(as_arrays(chosen)).reshape(num, *spec.shape)
        action = torch.from_numpy(array.astype(spec.dtype)).to(features.device)
        logp = (
            torch.zeros(num, dtype=torch.float32, device="cpu")
            if explorer_logp is None
            else torch.from_numpy(np.asarray(as_arrays(explorer_logp), np.float32)).reshape(num)
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
            features: ``[N, F]`` inputs of the head.
            mask: ``[N, choices]`` allowed actions; None = all.
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
            output = head_outputs(head, features)
        else:
            return TorchDeterministic(head(features).mode(), model)
        if spec.kind == "box":
            return TorchDiagGaussian(output, model)
        output = allowed(output, mask)
        if spec.kind == "discrete":
            return TorchCategorical(output, model)
        return TorchMultiCategorical(output, model, input_lens=list(spec.sizes))


def allowed(values: Tensor, mask: Tensor | None) -> Tensor:
    """Returns logits or values ``[N, choices]`` with the lowest value for actions that are not allowed."""
    return values if mask is None else torch.where(mask, values, NOT_ALLOWED)


def normalized(space: Any) -> Any:
    """Returns a copy of an action space; a bounded Box has bounds -1 and 1, as its normalized actions."""
    if isinstance(space, Box) and space.is_bounded():
        return Box(-1.0, 1.0, (int(np.prod(space.shape)),), np.float32)
    return copy.deepcopy(space)


def made(config: Mapping[str, Any], space: Any, model: Any) -> Any:
    """Makes the exploration of a configuration; raises a ConfigError if it needs the policy's optimizer."""
    kind = own_exploration(config)
    assert kind is not None
    found = _made(kind, dict(config), space, model)
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
    """Returns a settings class with the field ``exploring``, whose policies act by a script's exploration."""

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
"""These settings classes by algorithm."""

for _name in ("ppo", "a2c", "reinforce", "dqn", "sac", "ddpg", "td3"):
    _base = import_object(ALGORITHMS[_name])
    EXPLORING[_name] = _with_exploration(_base, f"Exploring{_base.__name__}")
    globals()[f"Exploring{_base.__name__}"] = EXPLORING[_name]


def exploration_layers(
    translation: Any, configs: Mapping[str, Mapping[str, Any]], layers: Sequence[Layer]
) -> list[Layer]:
    """Returns settings with which policies that Rookery trains explore by classes of a script."""
    acts_itself = {path for layer in layers for path, value in layer.values.items() if isinstance(value, Settings)}
    values: dict[str, Any] = {}
    for name, config in configs.items():
        if own_exploration(config) is None or f"policies.{name}" in acts_itself:
            continue
        values[f"policies.{name}.exploring"] = dict(config)
        algorithm = translation.policies[name].settings.get("name")
        if algorithm is not None:
            values[f"policies.{name}.name"] = EXPLORING[algorithm]
        else:
            values["algorithm.name"] = EXPLORING[translation.settings["algorithm.name"]]
    return [Layer("rllib config: exploration_config", values)] if values else []


# --- around the loop --------------------------------------------------------------------------------------------------


def explorer_of(policy: Any) -> Explorer | None:
    """Returns the script's exploration of a policy of Rookery; None if it has none."""
    return policy.explorer if isinstance(policy, ExploringPolicy) else None


class ExplorationHook(BatchHook):
    """Passes the env steps so far and the rollouts to an exploration."""

    def __init__(self, face: Callable[[], Any], explorer: Explorer) -> None:
        self._face, self._explorer = face, explorer
        method = type(explorer.exploration).postprocess_trajectory
        self._looks = method is not Exploration.postprocess_trajectory

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Returns the rollout with rewards that the exploration may have changed."""
        self._explorer.timestep = learner.env_steps
        if not self._looks:
            return rollout
        face, look = self._face(), self._explorer.exploration.postprocess_trajectory
        return with_rewards(rollout, face, lambda piece, batch: look(face, batch))


@contextmanager
def copied_explorations(policies: Mapping[str, Any]) -> Iterator[None]:
    """Replaces explorations by copies during an evaluation, and restores them afterwards."""
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
