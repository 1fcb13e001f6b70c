"""What a learning algorithm is: something that turns the experience of one policy into better weights.

It never sees an environment, a worker or another policy. A class outside the package is an equal of those inside: give
the trainer a settings class whose `algorithm` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import torch

from rookery.algorithms.capabilities import (
    OLD_ALGORITHM_FLAGS,
    OLD_FLAGS,
    Capabilities,
    OldFlag,
    capabilities_of,
    translate_flags,
)
from rookery.core.batch import Demand, Rollout
from rookery.core.errors import TrainingError
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
"""Numbers about one update, by name."""


class AlgorithmConfig(Settings):
    """Base of every algorithm's settings.

    Attributes:
        algorithm: Import path of the class these settings steer, ``package.module:Class``.
        capabilities: What the algorithm can do.
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
        """Whether policies see which member of its group a row is; for algorithms that see groups."""
        return False

    @property
    def head(self) -> HeadSpec:
        """What stands on the policy's features and makes a distribution over actions of them."""
        return GivenHead() if self.model.output == "outputs" else DistributionHead()

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds the policy that is to learn; settings of an algorithm whose policies act by other code build theirs.

        Args:
            obs: Layout of the observations.
            action: Layout of the actions.
            name: The policy's id.
            generator: Draws the first weights.
        """
        return Policy(self.stored(obs), action, self.model, name=name, generator=generator, head=self.head)

    def stored(self, obs: ObsSpec) -> ObsSpec:
        """Gives the part of the observations that is kept and learned from: without what only others have asked for."""
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
    """Sees what a learner is about to learn from, and may give something else; a subclass overrides what it needs."""

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Gives the experience that targets are made of, or that is put into replay, as it is to be taken; `rollouts`
        are what all policies have played that learn in the same update, by name, as it was played.
        """
        return rollout

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Gives the rows of an update with their targets, or of replay what was drawn, as they are to be learned."""
        return batch

    def after_update(self, learner: Algorithm[Any], row: Row) -> Row:
        """Gives what an update on what was just played reports; hears that it is made."""
        return row


class Algorithm(Stateful, Generic[ConfigT]):
    """Improves one policy.

    An algorithm that learns from replay sets `replay` and defines `learn`; that is all it takes to store what is played
    without learning, to learn without playing, and to have the experience in checkpoints.

    Args:
        policy: The policy; its parameters change in place.
        cfg: Settings.
        streams: The run's random streams.
        name: The policy's name, for streams and messages.

    Attributes:
        replay: The experience that the algorithm keeps, with the pace of its gradient steps; None if it keeps none.
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
        """Environment steps of the whole run so far: what schedules go by. The trainer sets it."""
        self.horizon: float | None = None
        """Environment steps at which schedules without a length of their own end. The trainer sets it."""
        self.decisions = 0
        """Decisions that the policy has learned from, those of the update under way included: what schedules with ``by:
        decisions`` go by. The run counts them.
        """
        self.updates = 0
        """Calls of `training_step` so far."""
        self.hooks: list[BatchHook] = []
        """Who may look at what is learned, and change it, in this order."""
        self.staleness = 0
        """By how many updates the weights that play may be older than those that learn. The trainer sets it."""
        self._resolved: tuple[tuple[Any, ...], Any] = ((), cfg)

    @property
    def capabilities(self) -> Capabilities:
        """What the algorithm can do, as its settings class declares it."""
        return capabilities_of(type(self.cfg), self)

    def before_targets(self, rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Shows `hooks` what was played, before anything is made of it. The trainer asks before `training_step`."""
        for hook in self.hooks:
            rollout = hook.before_targets(self, rollout, rollouts)
        return rollout

    def before_update(self, batch: BatchT) -> BatchT:
        """Shows `hooks` the rows of an update; every `training_step` and `learn` that makes any asks."""
        for hook in self.hooks:
            batch = hook.before_update(self, batch)
        return batch

    def after_update(self, row: Row) -> Row:
        """Tells `hooks` that an update on what was just played is made, before the next is played."""
        for hook in self.hooks:
            row = hook.after_update(self, row)
        return row

    @property
    def behaviour(self) -> Policy:
        """The policy that plays while it learns: the one it improves, unless it tries out another."""
        return self.policy

    @property
    def demand(self) -> Demand:
        """How much experience an update wants; with `replay`, as much as that says."""
        if self.replay is None:
            raise NotImplementedError(f"{type(self).__name__} has no replay, and must say how much experience it wants")
        return self.replay.demand

    def training_step(self, rollout: Rollout) -> Row:
        """Makes one update from one rollout; returns what there is to know about it.

        An algorithm without `replay` defines it. With `replay` an update is `take`, gradient steps and `end_step`. A
        trainer makes these one by one where this method is not overridden: a run can stop between gradient steps then.
        """
        if self.replay is None:
            raise NotImplementedError(f"{type(self).__name__} has no replay, and must say how it learns from a rollout")
        self.learn(self.take(rollout))
        return self.end_step()

    @cached_property
    def in_parts(self) -> bool:
        """Whether an update is `take`, gradient steps and `end_step`, and nothing else."""
        return getattr(self.training_step, "__func__", None) is Algorithm.training_step and self.replay is not None

    def take(self, rollout: Rollout) -> int:
        """Stores what was played in `replay`; returns how many gradient steps to make for it."""
        assert self.replay is not None
        return self.replay.due(self.replay.store(rollout))

    def end_step(self) -> Row:
        """Ends an update whose gradient steps are made; returns what there is to know about it."""
        self.explore()
        self.updates += 1
        return {}

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps on `replay` alone, without new experience; only algorithms with `replay` do.

        Args:
            gradient_steps: How many steps each network makes.
        """
        raise NotImplementedError(f"{type(self).__name__} learns from what has just been played, and from no replay")

    def explore(self) -> None:
        """Sets how the policy tries actions out until the next call, as schedules say at `env_steps`. The trainer calls
        it where it stores experience or calls `learn` without a `training_step`.
        """

    def summary(self) -> Row:
        """Returns what there is to know about all that was learned since the last call. The trainer asks at the end of
        each iteration; algorithms whose updates are many and small say it here and nothing in `training_step`.
        """
        return {}

    def advice(self) -> str:
        """Returns a line for the user on a setting that does not fit what was learned from, or an empty string. The
        trainer asks after each iteration until there is one.
        """
        return ""

    @property
    def rows_per_step(self) -> int | None:
        """Decisions (or sequences) in a gradient step, by which the number of threads is chosen; None = all that an
        update gets. With `replay` it is its batch.
        """
        return None if self.replay is None else self.replay.cfg.batch_size

    @property
    def on_kernels(self) -> bool:
        """Whether the gradient steps run on compiled kernels and not in torch (docs/kernels.md): whether one of the
        networks has any.
        """
        return any(part.on_kernels for part in vars(self).values() if isinstance(part, Forward))

    @property
    def obstacle(self) -> str:
        """Why gradient steps run in torch, in a few words; empty if no network has a reason."""
        reasons = (part.obstacle for part in vars(self).values() if isinstance(part, Forward))
        return next(filter(None, reasons), "")

    def now(self) -> ConfigT:
        """The settings at this moment, schedules resolved."""
        moment = self.cfg, self.env_steps, self.horizon, self.decisions
        known, resolved = self._resolved
        if moment[1:] != known[1:] or moment[0] is not known[0]:
            resolved = self.cfg.at(*moment[1:])
            self._resolved = moment, resolved
        return resolved  # type: ignore[no-any-return]

    def check_finite(self, optimizer: Optimizer) -> int:
        """Steps skipped so far because their gradient was not finite.

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
