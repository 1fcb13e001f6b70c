"""How actions are tried out, as classes of 2021: `Exploration`, which scripts derive theirs from, and the usual kinds.

Of a policy that Rookery learns, the usual kinds are settings (`exploration_config` becomes ``algorithm.exploration``,
see `key_functions.py`); these classes act where a script derives from them, and for policies with a loss of a script's
own. A class of a script acts for any policy: `exploring.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from rookery.face import ConfigError, nearest
from rookery_rllib.base.from_config import from_config
from rookery_rllib.base.schedules import PiecewiseSchedule, Schedule
from rookery_rllib.config.own_exploration import own_exploration
from rookery_rllib.model.action_distributions import TorchCategorical, TorchMultiActionDistribution

FORBIDDEN = -1e30
"""Values of actions below this are those of actions that are not allowed."""


class Exploration:
    """Chooses actions of what a model has put out.

    Bounded numbers of `action_space` lie between -1 and 1; `worker_index` is 0: all copies play in one worker.
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


def _scheduled(given: Any, points: list[tuple[float, float]]) -> Schedule:
    """A schedule that was given or described, else straight lines through points."""
    if given is not None:
        made: Schedule = from_config(Schedule, given)
        return made
    return PiecewiseSchedule(endpoints=points, outside_value=points[-1][1], framework="torch")


class Random(Exploration):
    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        if not explore:
            actions = action_distribution.deterministic_sample()
            return actions, _zeros(actions)
        return self.drawn(len(action_distribution.inputs))

    def drawn(self, num: int) -> tuple[Any, Tensor]:
        """Returns `num` random actions, and zeros ``[num]``."""
        seed = int(torch.randint(2**31, (), dtype=torch.int64, device="cpu"))
        self.action_space.seed(seed)
        drawn = [self.action_space.sample() for _ in range(num)]
        if isinstance(drawn[0], tuple):
            return tuple(torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True)), torch.zeros(
                num, dtype=torch.float32, device="cpu"
            )
        if isinstance(drawn[0], dict):
            parts = {name: torch.from_numpy(np.stack([each[name] for each in drawn])) for name in drawn[0]}
            return parts, torch.zeros(num, dtype=torch.float32, device="cpu")
        return torch.from_numpy(np.stack(drawn)), torch.zeros(num, dtype=torch.float32, device="cpu")


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
            actions = action_distribution.deterministic_sample()
            return actions, _zeros(actions)
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
        best = action_distribution.deterministic_sample()
        if not explore:
            return best, _zeros(best)
        epsilon = float(self.epsilon_schedule(timestep))
        num = len(action_distribution.inputs)
        whether = torch.rand(num, dtype=torch.float32, device="cpu") < epsilon
        if isinstance(action_distribution, TorchMultiActionDistribution):
            other, _ = Random.drawn(self, num)  # type: ignore[arg-type]  # who has an action space
            pairs = zip(other.values() if isinstance(other, dict) else other,
                        best.values() if isinstance(best, dict) else best, strict=True)  # fmt: skip
            mixed = [torch.where(whether.view(-1, *[1] * (a.ndim - 1)), a.to(b.dtype), b) for a, b in pairs]
            return (dict(zip(best, mixed, strict=True)) if isinstance(best, dict) else tuple(mixed)), torch.zeros(
                num, dtype=torch.float32, device="cpu"
            )
        allowed = (action_distribution.inputs > FORBIDDEN).float()
        other = torch.multinomial(allowed, 1)[:, 0]
        return torch.where(whether, other, best), torch.zeros(num, dtype=torch.float32, device="cpu")

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
            raise ConfigError(f"{type(self).__name__}: actions of {action_space} are no numbers to add noise to")
        self.random_timesteps = random_timesteps
        self.random_exploration = Random(action_space, framework=framework, model=model, **kwargs)
        self.stddev = stddev
        start = float(random_timesteps)
        points = [(start, initial_scale), (start + scale_timesteps, final_scale)]
        self.scale_schedule = _scheduled(scale_schedule, points)

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        self.last_timestep = self.last_timestep + 1 if timestep is None else timestep
        best = action_distribution.deterministic_sample()
        if not explore:
            return best, _zeros(best)
        if self.last_timestep < self.random_timesteps:
            return self.random_exploration.drawn(len(best))
        noise = float(self.scale_schedule(self.last_timestep)) * self.noise(best)
        low, high = (torch.as_tensor(bound, dtype=best.dtype, device="cpu") for bound in (self.action_space.low,
                                                                             self.action_space.high))  # fmt: skip
        return torch.minimum(torch.maximum(best + noise, low), high), _zeros(best)

    def noise(self, best: Tensor) -> Tensor:
        """Returns noise for actions, ``[N, k]``."""
        return torch.randn_like(best) * self.stddev

    def get_info(self, sess: Any = None) -> dict[str, Any]:
        return {"cur_scale": float(self.scale_schedule(self.last_timestep))}


class OrnsteinUhlenbeckNoise(GaussianNoise):
    """Adds noise that drifts, the same for all actions of a call."""

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
        """Returns the noise as it has drifted to, ``[k]``."""
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


class Sampling:
    """Draws actions from the policy's own distribution, or takes the most likely ones: the exploration of a policy that
    has no other.
    """

    def before_compute_actions(
        self, *, timestep: int | None = None, explore: bool | None = None, **kwargs: Any
    ) -> None: ...

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        """Returns actions ``[N, ...]`` and their log-probabilities ``[N]``, which are 0 for those not drawn."""
        if explore:
            actions = action_distribution.sample()
            return actions, action_distribution.sampled_action_logp()
        actions = action_distribution.deterministic_sample()
        return actions, torch.zeros(len(action_distribution.inputs), dtype=torch.float32, device="cpu")

    def get_exploration_optimizer(self, optimizers: list[Any]) -> list[Any]:
        """Returns the optimizers as they are: nothing of the exploration learns."""
        return optimizers

    def get_info(self, sess: Any = None) -> dict[str, Any]:
        return {}

    get_state = get_info


def exploration_of(policy: Any, model: Any) -> Any:
    """Makes the exploration that a configuration names; raises a ConfigError if such a policy cannot have it."""
    options = dict(policy.config.get("exploration_config") or {})
    kind, own = options.pop("type", None), own_exploration(policy.config)
    if own is None:
        name = getattr(kind, "__name__", None) or str(kind or "StochasticSampling").replace(":", ".").rpartition(".")[2]
        if name == "StochasticSampling" and not options.get("random_timesteps"):
            return Sampling()
        own = BUILT_IN.get(name)
        if own is None:
            near = nearest(name, list(BUILT_IN))
            raise ConfigError(
                f"exploration_config.type = {kind!r}: a policy with a loss of its own tries actions out by one of "
                f"{', '.join(BUILT_IN)}{near}; or write action_sampler_fn, or give a class"
            )
    return own(
        action_space=policy.action_space, framework="torch", model=model, policy_config=policy.config,
        num_workers=int(policy.config.get("num_workers") or 0), worker_index=0, **options,
    )  # fmt: skip
