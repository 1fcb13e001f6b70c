"""The Decision Transformer (Chen et al. 2021, arXiv:2106.01345): data are read as sequences of returns-to-go,
observations and actions, and actions are predicted from all that precedes them. No value is learned. The policy
receives a target return, and acts as the data do where that return was achieved.

The network is in `models/decision_transformer.py`; the details that decide are in docs/algorithms/dt.md. The file reads
from the settings down to the gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.offline.data_learner import CONTINUOUS, DISCRETE, ActorStep, check_actions, check_data
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
    """Gradient steps of linear warm-up of the learning rate to `lr`."""
    weight_decay: NonNegative = 1e-4
    """Weight decay per gradient step, times the learning rate (AdamW)."""
    batch_size: Rows = 64
    """Windows per gradient step, of at most `context` decisions."""
    gradient_steps: CountFromZero = 100_000
    """Gradient steps of a training."""
    updates_per_step: NonNegative = 1.0
    """Gradient steps per decision of the policy while other policies play and learn; its own rollouts are not learned
    from.
    """
    target_return: float | None = None
    """Target return of an episode: the return-to-go that the policy begins with; none = the best return of the data. It
    can be changed when a run is resumed or evaluated.
    """
    return_scale: Structural[PositiveFloat | None] = None
    """Divisor of returns before the network; none = the largest absolute return-to-go in the data.
    """
    return_input: Structural[Literal["average", "total"] | None] = None
    """Input for the return-to-go: ``total`` = unchanged, as in the paper; ``average`` = divided by the part of the
    data's longest episode that is left, and clipped to the range of the data. None = ``average`` where some episode's
    last decision has a return-to-go as high as the best episode's first, as with losses for rewards, else ``total``.
    """
    context: Structural[Length] = 20
    """Decisions that the policy attends to, the present one included."""
    layers: Structural[Few] = 3
    """Layers of the transformer."""
    heads: Structural[Few] = 1
    """Heads of attention; `width` is split among them."""
    width: Structural[Width] = 128
    """Width of a token."""
    timesteps: Structural[Rows] = 1
    """Number of distinct time steps; later decisions share the last one, and 1 = none are distinguished. The paper has
    as many as an episode has decisions.
    """
    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    """Dropout rate of the network in training."""
    max_grad_norm: PositiveFloat | None = 0.25
    """Largest norm of the gradient; larger gradients are scaled down. None = no limit."""
    adam_eps: PositiveFloat = 1e-8
    """Added to Adam's denominator."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The data."""
    model: Structural[ModelConfig] = field(default_factory=lambda: ModelConfig(hidden=(), normalize_obs=True))
    """The network for observations, before the transformer: without hidden layers, vectors are used unchanged and
    images pass through their network. Observations are normalized by the statistics of the data.
    """

    @property
    def head(self) -> HeadSpec:
        """Head with the transformer as memory."""
        return ReturnConditioned(self.context, self.layers, self.heads, self.width, self.timesteps)

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Policy:
        """Builds a policy for bounded continuous or for discrete actions; see `AlgorithmConfig.build_policy`."""
        instead = "BC and MARWIL take any (--algo marwil)"
        check_actions(action, name, "the Decision Transformer", CONTINUOUS | DISCRETE, instead)
        if self.model.memory != MemoryConfig():
            raise ConfigError(
                f"policies.{name}.model.memory: the Decision Transformer reads its last {self.context} decisions by "
                "itself (context): leave model.memory out"
            )
        if self.model.output == "action_params" or self.model.compile:
            unsupported = "output = action_params" if self.model.output == "action_params" else "compile"
            raise ConfigError(
                f"policies.{name}.model.{unsupported}: the Decision Transformer does not support it: leave it out"
            )
        try:
            return super().build_policy(obs, action, name, generator)
        except ConfigError as error:
            raise ConfigError(f"policies.{name}: {error}") from None


# --- batch and loss ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowBatch:
    """Windows of data: n decisions in B windows of length K, as of `DrawnWindows`.

    Attributes:
        obs: ``[n, ...]`` observations as networks take them.
        action: ``[n, ...]`` actions, as they are stored.
        return_to_go: ``[n]`` returns-to-go, in units of the network.
        timestep: ``[n]`` time steps in the episode.
        is_there: ``[B, K]`` bool.
        dropout: Dropout of the network; None = none.
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
    """Computes the mean squared error of continuous actions, or the mean negative log-likelihood of discrete ones."""
    if batch.action.is_floating_point():
        loss = (behavior.mode() - batch.action).square().mean()
    else:
        loss = -behavior.log_prob(batch.action).mean()
    return loss, {"dt_loss": loss.detach()}


class WindowedPolicy:
    """Computes a policy's action distribution for all decisions of windows.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: Policy) -> None:
        assert isinstance(policy.trunk, StepInputs) and isinstance(policy.memory, DecisionTransformer)
        self.policy, self.inputs, self.transformer = policy, policy.trunk, policy.memory

    def __call__(self, batch: WindowBatch) -> Behavior:
        """Computes the action distribution of the n decisions."""
        recall = self.policy.recall
        assert recall is not None
        there = batch.is_there
        steps = Steps(
            scatter_rows(self.inputs.observed(batch.obs), there),
            scatter_rows(recall.written(batch.action), there),
            scatter_rows(batch.return_to_go, there),
            scatter_rows(batch.timestep, there),
            there,
        )
        features = self.transformer.read(steps, batch.dropout)[there]
        behavior: Behavior = self.policy.head(features, batch.obs.get(MASK))
        return behavior


def scatter_rows(rows: Tensor, is_there: Tensor) -> Tensor:
    """Scatters rows ``[n, ...]`` to their places ``[B, K, ...]``; the others are zero."""
    return rows.new_zeros(*is_there.shape, *rows.shape[1:]).masked_scatter(
        is_there.view(*is_there.shape, *[1] * (rows.dim() - 1)), rows
    )


class DecayedAdam(Adam):
    """AdamW (Loshchilov & Hutter 2019): Adam with weight decay before each step.

    Args:
        flat: The weights.
        betas: As of `Adam`.
        eps: As of `Adam`.
        decay: Weight decay, times the learning rate.
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
    """Learns the actions of the data from windows with returns-to-go.

    Attributes:
        best_return: Largest return of an episode of the data; None before the first gradient step.
        sizes: Sizes of the network, which do not all follow from its weights.
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
        self.set_target_return()

    @property
    def planned_steps(self) -> int:
        """Gradient steps of a whole training."""
        return self.cfg.gradient_steps

    def take(self, rollout: Rollout) -> int:
        """Returns the number of gradient steps to make while others play; the rollout is not learned from."""
        return self.replay.due(rollout.num_decisions)

    def set_target_return(self) -> None:
        """Sets the target return of the policy."""
        target = self.best_return if self.cfg.target_return is None else self.cfg.target_return
        if target is not None:
            self.transformer.target_return.fill_(target)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`; the target return follows the present settings.

        Raises:
            ConfigError: If the network has other sizes.
        """
        if list(state["sizes"]) != self.sizes:
            raise ConfigError(f"policies.{self.name}: context, layers, heads, width and timesteps keep their values")
        super().load_state_dict(state)
        self.set_target_return()

    def read(self) -> tuple[DataSet, EpisodeWindows]:
        """Returns the data, and their windows. Before the first gradient step, the unit of returns, the best return,
        and the statistics of observations are computed from them.

        Raises:
            ConfigError: If there are no data, or a number in them is not finite.
        """
        if self._data is None or self._windows is None:
            check_data(self)
            unused = self.streams.generator(Role.LEARNER, self.name, "held out")  # nothing is held out
            self._data = data = DataSet(self.replay.own, 0.0, unused)
            self._windows = windows = EpisodeWindows(data)
            if not self.replay.gradient_steps:
                total = data.returns(1.0).total
                largest = float(np.abs(total).max())
                self.transformer.return_scale.fill_(self.cfg.return_scale or largest or 1.0)
                self.best_return = float(total[windows.first_rows].max())
                ambiguous = float(total[windows.last_rows].max()) >= self.best_return
                if (self.cfg.return_input or ("average" if ambiguous else "total")) == "average":
                    self.set_average(total, windows)
                self.set_target_return()
        return self._data, self._windows

    def set_average(self, total: np.ndarray, windows: EpisodeWindows) -> None:
        """Makes averages the inputs of the network.

        Args:
            total: ``[N]`` returns-to-go of the rows of the data.
            windows: The windows.
        """
        net = self.transformer
        net.decision_part.fill_(1.0 / (1 + int(windows.timestep.max())))
        to_go = torch.from_numpy(total[windows.order]).to(net.return_scale) / net.return_scale
        average = net.return_input(to_go, torch.from_numpy(windows.timestep).to(to_go.device))
        net.return_range.copy_(torch.stack((average.min(), average.max())))

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
        """Reports the gradient steps since the last call, and the target return."""
        return {
            **self.replay.summary(),
            "target_return": float(self.transformer.target_return),
            "return_scale": float(self.transformer.return_scale),
            "best_return": self.best_return,
            "skipped_steps": self.check_finite(self.optimizer),
            "updates": self.updates,
        }
