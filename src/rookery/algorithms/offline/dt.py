"""The Decision Transformer (Chen et al. 2021, arXiv:2106.01345): data are read as sequences of returns-to-go,
observations and actions, and actions are learned from what stands before them. No value is learned. The policy is told
what an episode is to earn, and does what was done in the data where as much was earned.

The network is in `models/decision_transformer.py`; the details that decide are in docs/algorithms/dt.md. The file reads
from the settings down to the gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.offline.data_learner import CHOICES, NUMBERS, ActorStep, check_actions, look_at_data
from rookery.core.batch import Rollout, TensorTree
from rookery.core.errors import ConfigError
from rookery.core.flat import Flat, flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, gradient_step
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import (
    NonNegative,
    PositiveFloat,
    Scheduled,
    Structural,
)
from rookery.core.settings.reach import CountFromZero, Few, Length, Rows, Width
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec
from rookery.models.build import ModelConfig
from rookery.models.decision_transformer import (
    DecisionTransformer,
    Dropout,
    ReturnConditioned,
    StepInputs,
    Steps,
)
from rookery.models.distributions import Behavior
from rookery.models.heads import HeadSpec
from rookery.models.memory import MemoryConfig
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from rookery.replay.demonstrations import DataSet
from rookery.replay.replay import Replay
from rookery.replay.windows import EpisodeWindows


@dataclass(frozen=True)
class DTConfig(AlgorithmConfig):
    """Settings of the Decision Transformer. The data are replay: ``replay.start_from``, or ``--replay``."""

    algorithm: ClassVar[str] = "rookery.algorithms.offline.dt:DT"
    capabilities = Capabilities(offline=True, supports_memory=True, uses_replay=True, uses_central_obs=False)
    train_every: ClassVar[int] = 1
    learning_starts: ClassVar[int] = 0

    lr: Scheduled[PositiveFloat] = 1e-4
    """Learning rate of AdamW, after its warm-up."""
    warmup_steps: CountFromZero = 10_000
    """Gradient steps in which the learning rate rises to `lr`, evenly."""
    weight_decay: NonNegative = 1e-4
    """How fast weights fall to 0 by themselves: times the learning rate, in each gradient step (AdamW)."""
    batch_size: Rows = 64
    """Windows in a gradient step, of `context` decisions at most."""
    gradient_steps: CountFromZero = 100_000
    """Gradient steps of a training."""
    updates_per_step: NonNegative = 1.0
    """Gradient steps for each decision that the policy makes while others play and learn; what it plays is not learned
    from.
    """
    target_return: float | None = None
    """What an episode is to earn: the return-to-go that the policy begins with; none = the best return of the data. It
    can be changed when a run goes on, or is evaluated.
    """
    return_scale: Structural[PositiveFloat | None] = None
    """What returns are divided by before the network sees them; none = the largest size of a return-to-go in the data.
    """
    context: Structural[Length] = 20
    """Decisions that the policy looks at, the present one included."""
    layers: Structural[Few] = 3
    """Layers of the transformer."""
    heads: Structural[Few] = 1
    """Heads of attention; `width` is split among them."""
    width: Structural[Width] = 128
    """Width of a token."""
    timesteps: Structural[Rows] = 1000
    """Places of an episode that are told apart; later decisions count as the last of these, and 1 = none is."""
    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.1
    """Part of the numbers inside the network that is left out at random while it learns."""
    max_grad_norm: PositiveFloat | None = 0.25
    """Longest gradient; longer ones are scaled down. None = any."""
    adam_eps: PositiveFloat = 1e-8
    """Added to Adam's denominator."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The data."""
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(hidden=(), normalize_obs=True))
    """The network for observations, before the transformer: without hidden layers they go in as they are, pictures by
    theirs. Observations are normalized by the statistics of the data.
    """

    @property
    def head(self) -> HeadSpec:
        """The transformer, which recalls, and what it ends in."""
        return ReturnConditioned(self.context, self.layers, self.heads, self.width, self.timesteps)

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for numbers between bounds, or one of several choices; see `AlgorithmConfig.build_policy`."""
        instead = "BC and MARWIL take any (--algo marwil)"
        check_actions(action, name, "the Decision Transformer", NUMBERS | CHOICES, instead)
        if self.model.memory != MemoryConfig():
            raise ConfigError(
                f"policies.{name}.model.memory: the Decision Transformer looks at its last {self.context} decisions by "
                "itself (context): leave model.memory out"
            )
        if self.model.output == "outputs" or self.model.compile:
            told = "output = outputs" if self.model.output == "outputs" else "compile"
            raise ConfigError(f"policies.{name}.model.{told}: not of the Decision Transformer: leave it out")
        try:
            return super().build_policy(obs, action, name, generator)
        except ConfigError as error:
            raise ConfigError(f"policies.{name}: {error}") from None


# --- batch and loss ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowBatch:
    """Windows of data: n decisions in B windows of K places, as of `DrawnWindows`.

    Attributes:
        obs: ``[n, ...]`` observations as networks take them.
        action: ``[n, ...]`` what was done, as it is stored.
        return_to_go: ``[n]`` what was still to be earned, in the unit of the network.
        timestep: ``[n]`` decisions before each in its episode.
        is_there: ``[B, K]`` bool.
        dropout: What is left out at random; None = nothing.
    """

    obs: TensorTree
    action: Tensor
    return_to_go: Tensor
    timestep: Tensor
    is_there: Tensor
    dropout: Dropout | None = None

    def __len__(self) -> int:
        return len(self.action)


def dt_loss(behavior: Behavior, batch: WindowBatch, cfg: Any) -> tuple[Tensor, Metrics]:
    """Gives the mean square of the error of numbers, or the mean negative log-likelihood of choices."""
    if batch.action.is_floating_point():
        loss = (behavior.mode() - batch.action).square().mean()
    else:
        loss = -behavior.log_prob(batch.action).mean()
    return loss, {"dt_loss": loss.detach()}


class WindowedPolicy:
    """Puts out what a policy draws actions from in all decisions of windows.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: Policy) -> None:
        assert isinstance(policy.trunk, StepInputs) and isinstance(policy.memory, DecisionTransformer)
        self.policy, self.inputs, self.transformer = policy, policy.trunk, policy.memory

    def __call__(self, batch: WindowBatch) -> Behavior:
        """What the policy draws from in the n decisions."""
        recall = self.policy.recall
        assert recall is not None
        there = batch.is_there
        steps = Steps(
            spread(self.inputs.observed(batch.obs), there),
            spread(recall.written(batch.action), there),
            spread(batch.return_to_go, there),
            spread(batch.timestep, there),
            there,
        )
        features = self.transformer.read(steps, batch.dropout)[there]
        behavior: Behavior = self.policy.head(features, batch.obs.get(MASK))
        return behavior


def spread(rows: Tensor, is_there: Tensor) -> Tensor:
    """Puts rows ``[n, ...]`` in the places ``[B, K, ...]`` that hold one; zeros are in the others."""
    return rows.new_zeros(*is_there.shape, *rows.shape[1:]).masked_scatter(
        is_there.view(*is_there.shape, *[1] * (rows.dim() - 1)), rows
    )


class DecayedAdam(Adam):
    """AdamW (Loshchilov & Hutter 2019): Adam, before whose steps all weights fall a little, whatever the gradient.

    Args:
        flat: The weights.
        betas: As of `Adam`.
        eps: As of `Adam`.
        decay: How much, times the learning rate.
    """

    def __init__(self, flat: Flat, *, betas: tuple[float, float], eps: float, decay: float) -> None:
        super().__init__(flat, betas=betas, eps=eps)
        self.decay = decay

    def move(self, lr: float, bad: Tensor, scale: Tensor | None) -> None:
        """Makes one step; see `Optimizer.move`."""
        self.flat.data.mul_(1.0 - lr * self.decay * (1.0 - bad))
        super().move(lr, bad, scale)


# --- the algorithm ----------------------------------------------------------------------------------------------------


class DT(Algorithm[DTConfig]):
    """Learns from windows of data what was done where so much was still to be earned: `learn` is all of it.

    Attributes:
        best_return: Largest return of an episode of the data; None before the first gradient step.
        sizes: What the network is made of, which its weights alone do not tell.
    """

    saved = ("optimizer", "replay", "rng", "best_return", "sizes")
    fixed = ("net", "transformer", "_data", "_windows")
    replay: Replay

    def __init__(self, policy: Policy, cfg: DTConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        settings: Any = cfg
        self.replay = Replay(policy, settings, streams, name, with_memory=False)
        self.optimizer = DecayedAdam(flatten([policy]), betas=(0.9, 0.999), eps=cfg.adam_eps, decay=cfg.weight_decay)
        self.net = WindowedPolicy(policy)
        self.transformer = self.net.transformer
        self.rng = streams.generator(Role.LEARNER, name)
        self.best_return: float | None = None
        self.sizes = [cfg.context, cfg.layers, cfg.heads, cfg.width, cfg.timesteps]
        self._data: DataSet | None = None
        self._windows: EpisodeWindows | None = None
        self.aim()

    @property
    def planned_steps(self) -> int:
        """Gradient steps of a whole training."""
        return self.cfg.gradient_steps

    def take(self, rollout: Rollout) -> int:
        """Returns how many gradient steps to make while others play; what was played is not learned from."""
        return self.replay.due(rollout.num_decisions)

    def aim(self) -> None:
        """Tells the policy what an episode is to earn."""
        target = self.best_return if self.cfg.target_return is None else self.cfg.target_return
        if target is not None:
            self.transformer.target_return.fill_(target)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave; what an episode is to earn is as settings say now.

        Raises:
            ConfigError: If the network is made of something else.
        """
        if list(state["sizes"]) != self.sizes:
            raise ConfigError(f"policies.{self.name}: context, layers, heads, width and timesteps keep their values")
        super().load_state_dict(state)
        self.aim()

    def read(self) -> tuple[DataSet, EpisodeWindows]:
        """Gives the data, and their windows. Before the first gradient step the unit of returns, the best one, and the
        statistics of observations are taken from them.

        Raises:
            ConfigError: If there are none, or a number in them is not finite.
        """
        if self._data is None or self._windows is None:
            look_at_data(self)
            unused = self.streams.generator(Role.LEARNER, self.name, "held out")  # nothing is held out
            self._data = data = DataSet(self.replay.own, 0.0, unused)
            self._windows = windows = EpisodeWindows(data)
            if not self.replay.gradient_steps:
                total = data.returns(1.0).total
                largest = float(np.abs(total).max())
                self.transformer.return_scale.fill_(self.cfg.return_scale or largest or 1.0)
                self.best_return = float(total[windows.first_rows].max())
                self.aim()
        return self._data, self._windows

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps on windows of the data."""
        if not gradient_steps:
            return
        cfg = self.now()
        for _ in range(gradient_steps):
            rate = cfg.lr * min(1.0, (self.replay.gradient_steps + 1) / max(cfg.warmup_steps, 1))
            step = ActorStep(rate, cfg.max_grad_norm, cfg.model)
            metrics = gradient_step(self.net, dt_loss, self.draw(cfg), self.optimizer, step)
            self.replay.record({**metrics, "learning_rate": rate})

    def draw(self, cfg: DTConfig) -> WindowBatch:
        """Draws a batch."""
        data, windows = self.read()
        device = self.replay.device
        drawn = windows.draw(cfg.batch_size, cfg.context, self.rng)
        seen = {path: leaf.to(device) for path, leaf in data.obs(drawn.row).items()}
        action = data.actions(drawn.row).to(device)
        action = action.clamp(-1.0, 1.0) if action.is_floating_point() else action  # as the environment took them
        returns = torch.from_numpy(data.returns(1.0).total[drawn.row]).to(device) / self.transformer.return_scale
        dropout = None
        if cfg.dropout:
            generator = torch.Generator(device).manual_seed(int(self.rng.integers(2**62)))
            dropout = Dropout(cfg.dropout, generator)
        timestep, is_there = torch.from_numpy(drawn.timestep).to(device), torch.from_numpy(drawn.is_there).to(device)
        return WindowBatch(self.policy.normalize(seen), action, returns, timestep, is_there, dropout)

    def summary(self) -> Row:
        """Reports the gradient steps since the last call, and what an episode is to earn."""
        return {
            **self.replay.summary(),
            "target_return": float(self.transformer.target_return),
            "return_scale": float(self.transformer.return_scale),
            "best_return": self.best_return,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }
