"""Base class of learning algorithms: an algorithm turns the experience of one policy into better weights.

It never sees an environment, a worker or another policy. A class outside the package works like those inside: give the
trainer a settings class whose `algorithm` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor

from rookery.algorithms.capabilities import (
    OLD_ALGORITHM_FLAGS,
    OLD_FLAGS,
    Capabilities,
    OldFlag,
    capabilities_of,
    translate_flags,
)
from rookery.core.batch import Demand, Rollout, Transitions
from rookery.core.errors import ConfigError, TrainingError
from rookery.core.metrics import Metrics
from rookery.core.optim import Optimizer
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Settings, Structural
from rookery.core.spaces.arrays import ActionSpec, ObsSpec
from rookery.core.state import Stateful
from rookery.envs.groups import GROUP_PATHS, paths_of_groups
from rookery.models.build import ModelConfig
from rookery.models.heads import DistributionHead, GivenHead, HeadSpec
from rookery.native.forward import Forward
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay

Row = dict[str, float | int | None]
"""Metrics of one update, by name."""


class AlgorithmConfig(Settings):
    """Base of every algorithm's settings.

    Attributes:
        algorithm: Import path of the algorithm class, ``package.module:Class``.
        capabilities: Capabilities of the algorithm.
        model: The networks.
    """

    algorithm: ClassVar[str]
    capabilities: ClassVar[Capabilities] = Capabilities()
    model: Structural[ModelConfig]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        translate_flags(cls)

    @property
    def adds_member_id(self) -> bool:
        """Whether policies observe the member number of a row within its group; for algorithms with groups."""
        return False

    @property
    def head(self) -> HeadSpec:
        """Head of the policy: turns its features into a distribution over actions."""
        return GivenHead() if self.model.output == "action_params" else DistributionHead()

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds the policy to train; a subclass that needs its own policy class overrides it.

        Args:
            obs: Layout of the observations.
            action: Layout of the actions.
            name: The policy's id.
            generator: Draws the first weights.
        """
        return Policy(self.stored(obs), action, self.model, name=name, generator=generator, head=self.head)

    def stored(self, obs: ObsSpec) -> ObsSpec:
        """Returns the observations that are stored and learned from, without those added for other learners."""
        if not self.capabilities.uses_central_obs:
            return obs.own
        added = () if self.capabilities.needs_group_obs else paths_of_groups(obs)
        return obs.without(*added, *GROUP_PATHS) if added else obs


for _old, _new in OLD_FLAGS.items():
    setattr(AlgorithmConfig, _old, OldFlag(_new))
AlgorithmConfig.tells_member = property(lambda settings: settings.adds_member_id)  # type: ignore[attr-defined]

ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig)
BatchT = TypeVar("BatchT")


class BatchHook:
    """Hook that inspects or changes the data of a learner before each update; a subclass overrides the methods it
    needs.
    """

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Returns the rollout from which targets are computed, or that is stored in replay. `rollouts` maps the name of
        each policy trained in the same update to its rollout as played.
        """
        return rollout

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Returns the rows of an update with their targets, or the rows drawn from replay, in the form used for
        learning.
        """
        return batch

    def after_update(self, learner: Algorithm[Any], row: Row) -> Row:
        """Returns the metrics of an update on new experience; called after the update."""
        return row


class MadeByTrainer:
    """Base of classes that a trainer makes. It is a base of its own so that `Algorithm` has the signature of its
    `__init__`.
    """

    def __new__(cls, *arguments: Any, **_: Any) -> Self:
        """Refuses the call of Stable-Baselines3, ``PPO("MlpPolicy", env)``, with the one to write."""
        if arguments and isinstance(arguments[0], str):
            raise ConfigError(
                f"{cls.__name__}({arguments[0]!r}, ...): a trainer creates this class: Trainer(env, "
                f'{cls.__name__}Config()).train(stop={{"env_steps": 100_000}}), and Trainer.load(RUN) loads it; '
                "docs/from-sb3.md has the names of Stable-Baselines3"
            )
        return super().__new__(cls)


class Algorithm(MadeByTrainer, Stateful, Generic[ConfigT]):
    """Improves one policy.

    An algorithm that learns from replay sets `replay` and defines `learn`; that is enough to store experience without
    learning, to learn without playing, and to save the experience in checkpoints.

    Args:
        policy: The policy; its parameters are changed in place.
        cfg: Settings.
        streams: The run's random streams.
        name: The policy's name, for streams and messages.

    Attributes:
        replay: Replay buffer with the pace of gradient steps; None if there is none.
    """

    saved: ClassVar[tuple[str, ...]] = ("policy", "env_steps", "horizon", "updates")
    fixed: ClassVar[tuple[str, ...]] = ("cfg", "name", "streams", "staleness", "hooks", "decisions", "_resolved",
                                        "in_parts")  # fmt: skip

    replay: Replay | None = None

    def __init__(self, policy: Policy, cfg: ConfigT, streams: Streams, name: str) -> None:
        self.policy = policy
        self.cfg = cfg
        self.streams = streams
        self.name = name
        self.env_steps = 0
        """Environment steps of the whole run so far, used by schedules. The trainer sets it."""
        self.horizon: float | None = None
        """Environment steps at which schedules without an explicit length end. The trainer sets it."""
        self.decisions = 0
        """Decisions that the policy has learned from, those of the present update included: used by schedules with
        ``by: decisions``. The run counts them.
        """
        self.updates = 0
        """Calls of `training_step` so far."""
        self.hooks: list[BatchHook] = []
        """Hooks that inspect or change the data of an update, called in this order."""
        self.staleness = 0
        """Largest age, in updates, of the weights used for playing. The trainer sets it."""
        self._resolved: tuple[tuple[Any, ...], Any] = ((), cfg)

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the algorithm, as its settings class declares them."""
        return capabilities_of(type(self.cfg), self)

    def before_targets(self, rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Calls `hooks` with a rollout, before targets are computed. The trainer calls it before `training_step`."""
        for hook in self.hooks:
            rollout = hook.before_targets(self, rollout, rollouts)
        return rollout

    def before_update(self, batch: BatchT) -> BatchT:
        """Calls `hooks` with the rows of an update; called by every `training_step` and `learn`."""
        for hook in self.hooks:
            batch = hook.before_update(self, batch)
        return batch

    def after_update(self, row: Row) -> Row:
        """Calls `hooks` after an update on new experience, before more is played."""
        for hook in self.hooks:
            row = hook.after_update(self, row)
        return row

    @property
    def behaviour(self) -> Policy:
        """The policy that acts while it learns: the policy itself, unless the algorithm explores with another."""
        return self.policy

    @property
    def demand(self) -> Demand:
        """Experience required per update: that of `replay`; without it fragments of the setting `fragment_length`, and
        `rollout_size` decisions if there is such a setting.
        """
        if self.replay is not None:
            return self.replay.demand
        length, size = (getattr(self.cfg, name, None) for name in ("fragment_length", "rollout_size"))
        if length is None:
            raise NotImplementedError(f"{type(self).__name__} has no replay, and must say how much experience it wants")
        return Demand(length, size)

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update from one rollout; returns its metrics.

        An algorithm without `replay` defines it. With `replay` an update is `take`, gradient steps and `end_step`. If
        this method is not overridden, the trainer makes these calls itself, so that a run can stop between gradient
        steps.
        """
        if self.replay is None:
            raise NotImplementedError(f"{type(self).__name__} has no replay, and must say how it learns from a rollout")
        self.learn(self.take(rollout))
        return self.end_step()

    @cached_property
    def in_parts(self) -> bool:
        """Whether an update consists only of `take`, gradient steps and `end_step`."""
        return getattr(self.training_step, "__func__", None) is Algorithm.training_step and self.replay is not None

    def take(self, rollout: Rollout) -> int:
        """Stores a rollout in `replay`; returns the number of gradient steps to make for it."""
        assert self.replay is not None
        return self.replay.due(self.replay.store(rollout))

    def end_step(self) -> Row:
        """Ends an update after its gradient steps; returns its metrics."""
        self.explore()
        self.updates += 1
        return {}

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps on `replay` alone, without new experience; only algorithms with `replay` do.

        Args:
            gradient_steps: Steps of each network.
        """
        raise NotImplementedError(f"{type(self).__name__} learns from new rollouts, and has no replay")

    # --- for loops of scripts, which draw the rows of a step themselves -----------------------------------------------

    def learn_rows(self, rows: Transitions, cfg: ConfigT) -> Metrics:
        """Makes one gradient step of each network on given decisions; target networks do not change.

        Args:
            rows: N decisions, observations as networks take them.
            cfg: The settings, schedules resolved.

        Returns:
            Metrics; ``priority`` ``[N]``, or ``[K, N]`` of K networks, are the sizes of the rows' errors.
        """
        raise NotImplementedError(f"{type(self).__name__} does not learn from single decisions")

    def track_targets(self, cfg: ConfigT) -> None:
        """Moves target networks towards the networks that learn, by one update; nothing without target networks."""

    def step_optimizers(self, cfg: ConfigT) -> list[tuple[Optimizer, float]]:
        """Returns the optimizers of `learn_rows`, in the order of their steps, with their learning rates."""
        return []

    def explore(self) -> None:
        """Sets the exploration until the next call to the values of the schedules at `env_steps`. The trainer calls it
        where it stores experience or calls `learn` without a `training_step`.
        """

    def summary(self) -> Row:
        """Returns metrics of everything learned since the last call. The trainer calls it at the end of each iteration;
        algorithms with many small updates report here instead of in `training_step`.
        """
        return {}

    def advice(self) -> str:
        """Returns a line for the user about a setting that does not fit the experience, or an empty string. The trainer
        calls it after each iteration until it returns a line.
        """
        return ""

    @property
    def rows_per_step(self) -> int | None:
        """Decisions (or sequences) per gradient step, from which the number of threads follows; None = all of an
        update. With `replay` it is the batch size, otherwise the setting `minibatch_size`, if there is one.
        """
        return getattr(self.cfg, "minibatch_size", None) if self.replay is None else self.replay.cfg.batch_size

    @property
    def on_kernels(self) -> bool:
        """Whether gradient steps run on compiled kernels instead of torch (docs/kernels.md), that is, whether any
        network has kernels.
        """
        return any(part.on_kernels for part in vars(self).values() if isinstance(part, Forward))

    @property
    def obstacle(self) -> str:
        """Short reason why gradient steps run in torch; empty if there is none."""
        reasons = (part.obstacle for part in vars(self).values() if isinstance(part, Forward))
        return next(filter(None, reasons), "")

    def now(self) -> ConfigT:
        """Returns the settings at the present step, with schedules resolved."""
        moment = self.cfg, self.env_steps, self.horizon, self.decisions
        known, resolved = self._resolved
        if moment[1:] != known[1:] or moment[0] is not known[0]:
            resolved = self.cfg.at(*moment[1:])
            self._resolved = moment, resolved
        return resolved  # type: ignore[no-any-return]

    def value_weights(self) -> list[Tensor]:
        """Returns the weights and biases to which values are proportional, those of target networks included; empty if
        values cannot change their unit.
        """
        return []

    def check_finite(self, optimizer: Optimizer) -> int:
        """Returns the number of steps skipped so far because their gradient was not finite.

        Raises:
            TrainingError: After ten such steps in a row.
        """
        skipped, in_a_row = optimizer.read_skipped()
        if in_a_row >= 10:
            raise TrainingError(
                f"policy {self.name!r}: {in_a_row} gradient steps in a row were not finite "
                f"(observations {self.policy.obs_spec.space}); look for huge rewards or observations, "
                f"or lower policies.{self.name}.lr"
            )
        return skipped


for _old, _new in OLD_ALGORITHM_FLAGS.items():
    setattr(Algorithm, _old, OldFlag(_new))
