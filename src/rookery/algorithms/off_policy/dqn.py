"""Deep Q-networks (Mnih et al. 2015) with optional improvements: double (van Hasselt et al. 2016),
dueling (Wang et al. 2016), n-step and prioritized (Hessel et al. 2018), noisy (Fortunato et al. 2018), distributional
(Bellemare et al. 2017, Dabney et al. 2018), recurrent (R2D2, Kapturowski et al. 2019), with Munchausen targets
(Vieillard et al. 2020).

The details that decide are in docs/algorithms/dqn.md. The file reads from the settings down to the gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.algorithms.capabilities import Capabilities
from rookery.algorithms.off_policy.critics import target_copy
from rookery.algorithms.off_policy.munchausen import MunchausenConfig, bonus, scaled_log_policy, soft_value
from rookery.algorithms.off_policy.q_exploration import Exploration, ExplorationConfig, ParameterNoise
from rookery.algorithms.off_policy.q_sequences import n_step_returns, split_timeline, unroll
from rookery.algorithms.off_policy.q_values import (
    DELTA,
    Estimate,
    MeanValue,
    QBatch,
    QNetwork,
    ValuesConfig,
    estimate_for,
    played,
)
from rookery.algorithms.rewarding import add_signals
from rookery.core import optim
from rookery.core.batch import Rollout, TensorTree, Transitions, flat, rows_of
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, Optimizer, gradient_step, track
from rookery.core.schedules import Linear
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import (
    Fraction,
    InsteadOf,
    NonNegative,
    PositiveFloat,
    Scheduled,
    Settings,
    Structural,
)
from rookery.core.settings.reach import Count, Few, Layers, Rows
from rookery.core.spaces.arrays import MASK
from rookery.models.build import ModelConfig
from rookery.models.implicit_head import ImplicitQValues
from rookery.models.q_head import QHead, QValues
from rookery.models.structure import Inputs
from rookery.native.forward import attach
from rookery.native.td import TDRows, td_rows
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from rookery.replay.replay import Replay, ReplaySettings
from rookery.signals.rewards import SignalsConfig


@dataclass(frozen=True)
class TargetConfig(Settings):
    """Settings of the target network."""

    kind: Literal["hard", "soft"] | None = None
    """``hard`` = a copy every `every` gradient steps; ``soft`` = a Polyak step in each gradient step. Null = ``hard``
    if `every` or `every_env_steps` is set, else ``soft``.
    """

    every: Count | None = None
    """Gradient steps between copies; null = 250."""

    every_env_steps: Annotated[Count | None, InsteadOf("every")] = None
    """Environment steps between copies, as in published settings: converted to gradient steps by `updates_per_step`.
    Give this or `every`.
    """

    tau: Fraction = 0.01
    """Polyak factor of soft steps."""

    @property
    def is_soft(self) -> bool:
        """Whether the target network makes a Polyak step in each gradient step."""
        return self.kind == "soft" or (self.kind is None and self.every is None and self.every_env_steps is None)


@dataclass(frozen=True)
class DQNConfig(AlgorithmConfig, ReplaySettings):
    """Settings of DQN. Space and environment presets change some of them: see docs/reference/presets.md."""

    algorithm: ClassVar[str] = "rookery.algorithms.off_policy.dqn:DQN"
    capabilities = Capabilities(
        supports_staleness=True,
        supports_memory=True,
        supports_multi_learner=True,
        uses_replay=True,
        uses_central_obs=False,
    )

    lr: Scheduled[PositiveFloat] = field(default_factory=lambda: Linear(1e-3, 0.0))
    """Learning rate of Adam; a schedule without `steps` stays at its start if the run has no known end in environment
    steps.
    """
    n_step: Few = 3
    batch_size: Rows = 128
    train_every: Structural[Count] = 64
    updates_per_step: NonNegative = 0.5
    max_grad_norm: PositiveFloat | None = 10.0
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=(128, 128), activation="relu"))
    double: bool = True
    """Whether the online network chooses the action that the target network values, which reduces overestimation."""
    dueling: Structural[bool] = False
    """Whether the state value and the advantages of actions have separate streams."""
    dueling_hidden: Structural[Layers] = ()
    """Widths of the layers of each of these streams."""
    values: Structural[ValuesConfig] = field(default_factory=ValuesConfig)
    """Form of the learned action values."""
    target: TargetConfig = field(default_factory=TargetConfig)
    """The target network."""
    munchausen: MunchausenConfig = field(default_factory=MunchausenConfig)
    """Munchausen targets."""
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    """Exploration while playing."""
    signals: SignalsConfig = field(default_factory=SignalsConfig)
    """Reward signals in addition to the environment's reward."""

    @property
    def target_every(self) -> int:
        """Gradient steps between copies to the target network."""
        if self.target.every_env_steps is not None:
            return max(round(self.target.every_env_steps * self.updates_per_step), 1)
        return self.target.every or 250

    @property
    def head(self) -> QValues:
        """Head with values of actions."""
        values, exploration = self.values, self.exploration
        kind: Literal["mean", "categorical", "quantile"] = "quantile" if values.kind == "implicit" else values.kind
        return (ImplicitQValues if values.kind == "implicit" else QValues)(
            values=kind,
            atoms={"mean": 1, "categorical": values.atoms, "quantile": values.quantiles}[kind],
            low=values.low,
            high=values.high,
            dueling=self.dueling,
            dueling_hidden=self.dueling_hidden,
            noisy=exploration.kind == "noisy",
            noisy_std=exploration.noisy_std,
            explore="boltzmann" if exploration.kind == "boltzmann" else "epsilon",
            by_model=self.model.output == "action_params",
            per_env_epsilon=exploration.per_env_epsilon,
        )


MOST_BEYOND = 0.01
"""Largest share of targets beyond the atoms without a warning."""


class DQN(Algorithm[DQNConfig]):
    """Learns the values of actions from replay: `training_step` is Algorithm 1 of the paper from the learner's side.

    Attributes:
        net: The network that learns: the policy's own trunk, memory and head.
        target_net: The network that targets are computed with.
        estimate: Form of the action values, and their loss.
        exploration: Exploration while playing.
        replay: The replay buffer, and the pace of learning.
    """

    saved: ClassVar[tuple[str, ...]] = ("target_net", "optimizer", "exploration", "rng", "replay", "signals")
    fixed = ("net", "forward", "target_data", "target_forward", "estimate")
    replay: Replay

    def __init__(self, policy: Policy, cfg: DQNConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        _check(policy, cfg, name)
        head = policy.head
        assert isinstance(head, QHead)
        self.replay = Replay(policy, cfg, streams, name)
        self.signals = add_signals(self, cfg.signals)
        self.rng = streams.generator(Role.LEARNER, name)
        self.net = self.make_net(head)
        self.optimizer = Adam(flatten([self.net]), betas=(0.9, 0.999), eps=cfg.adam_eps)
        self.target_net, self.target_data = target_copy(self.net)
        self.forward, self.target_forward = attach(self.net), attach(self.target_net, learns=False)
        self.estimate: Estimate = estimate_for(cfg.values, head.support)
        self.exploration = Exploration(policy)
        if cfg.exploration.kind == "parameters":
            self.exploration = ParameterNoise(policy, self.optimizer.flat.data, self.rng)
        self.explore()

    def make_net(self, head: QHead) -> QNetwork:
        """Creates the network that learns, from the policy's own parts."""
        return QNetwork(head, self.policy.trunk, self.policy.memory, self.cfg.model)

    def value_weights(self) -> list[Tensor]:
        """Returns the weights of the last layers, except of values on fixed atoms or a curve."""
        values = self.cfg.values
        if values.kind == "categorical" or values.rescale:
            return []
        return [*self.net.head.value_weights(), *self.target_net.head.value_weights()]

    def learn(self, gradient_steps: int) -> None:
        """Makes gradient steps on decisions, or sequences of them, drawn from replay; the target network follows."""
        cfg = self.now()
        for _ in range(gradient_steps):
            if self.policy.memory_size:
                metrics = self.learn_sequences(cfg)
            else:
                drawn = self.replay.sample(cfg.batch_size, n_step=cfg.n_step, gamma=cfg.gamma, beta=cfg.replay.beta)
                drawn = self.before_update(drawn)
                metrics = self.learn_rows(drawn, cfg)
                priority = metrics.pop("priority")
                if cfg.replay.kind == "prioritized":
                    self.replay.update_priorities(drawn.row, priority)
            self.replay.record(metrics)
            if (is_soft := cfg.target.is_soft) or self.replay.gradient_steps % cfg.target_every == 0:
                track(self.target_data, self.optimizer.flat.data, cfg.target.tau if is_soft else 1.0)

    def learn_rows(self, rows: Transitions, cfg: DQNConfig) -> Metrics:
        """Makes one gradient step on decisions."""
        estimate, step_each = self.estimate, optim.gradient_steps
        batch: Any = self.kernel_rows(rows) or self.targets(rows, cfg)
        (metrics,) = step_each(self.forward, estimate.loss, [batch], self.optimizer, cfg, estimate.closed_form)
        return metrics

    def track_targets(self, cfg: DQNConfig) -> None:
        """Makes a Polyak step of the target network, or a copy if `target` is hard."""
        track(self.target_data, self.optimizer.flat.data, cfg.target.tau if cfg.target.is_soft else 1.0)

    def step_optimizers(self, cfg: DQNConfig) -> list[tuple[Optimizer, float]]:
        """Returns the only optimizer."""
        return [(self.optimizer, cfg.lr)]

    def kernel_rows(self, drawn: Transitions) -> TDRows | None:
        """Returns the rows for a kernel that computes targets as `targets` does; None without such a kernel."""
        mine, estimate = type(self), type(self.estimate)
        known = mine.targets is DQN.targets and mine.target is DQN.target and mine.best is DQN.best
        if self.cfg.munchausen.weight or not known or estimate.target is not MeanValue.target or self.forward.obstacle:
            return None
        return td_rows(drawn, self.forward, self.target_forward, DELTA)

    @torch.no_grad()
    def targets(self, drawn: Transitions, cfg: DQNConfig) -> QBatch:
        """Computes targets: ``reward + discount * target value`` of the best next action."""
        rows = drawn.reward.shape[0]
        after = self.target_forward.values(Inputs(drawn.next_obs), self.noise(rows))
        if cfg.munchausen.weight:
            return self.munchausen_targets(drawn, after, cfg.munchausen)
        judge = self.forward.values(Inputs(drawn.next_obs), self.noise(rows)) if cfg.double else after
        target = self.target(drawn.reward, drawn.discount, after, judge, drawn.next_obs)
        return QBatch(drawn.obs, drawn.action, target, drawn.weight, self.noise(rows))

    def munchausen_targets(self, drawn: Transitions, after: Tensor, cfg: MunchausenConfig) -> QBatch:
        """Computes targets of N decisions (Vieillard et al. 2020, eq. 2); `double` has no effect.

        Args:
            drawn: The decisions.
            after: ``[N, A]`` or ``[N, A, M]`` the target network's values of all actions in the next states.
            cfg: Settings of the targets.
        """
        q_from, temperature, rows = self.net.head.q_from, cfg.temperature, drawn.reward.shape[0]
        before = q_from(self.target_forward.values(Inputs(drawn.obs), self.noise(rows)))
        added = bonus(scaled_log_policy(before, temperature, drawn.obs.get(MASK)), drawn.action, cfg)
        log_policy = scaled_log_policy(q_from(after), temperature, drawn.next_obs.get(MASK))
        value = soft_value(after, log_policy, temperature)
        target = self.estimate.target(drawn.reward + added, drawn.discount, value)
        return QBatch(drawn.obs, drawn.action, target, drawn.weight, self.noise(rows))

    def target(
        self,
        reward: Tensor,
        discount: Tensor,
        after: Tensor,
        judge: Tensor,
        obs: TensorTree,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Computes value targets of N decisions.

        Args:
            reward: ``[N]`` their rewards.
            discount: ``[N]`` discounts of the next states.
            after: ``[N, ...]`` the target network's values of all actions there.
            judge: ``[N, ...]`` values by which the best action is chosen.
            obs: Observations there.
            rows: ``[N]`` indices of these observations; None = all.
        """
        mask = obs.get(MASK)
        best = self.best(judge, mask if mask is None or rows is None else mask.index_select(0, rows))
        return self.estimate.target(reward, discount, played(after, best))

    def learn_sequences(self, cfg: DQNConfig) -> Metrics:
        """Makes a gradient step on sequences, from the policy's stored memory."""
        length = cfg.replay.burn_in + cfg.model.memory.sequence_length
        drawn = self.before_update(self.replay.sample_sequences(cfg.batch_size, length=length, beta=cfg.replay.beta))
        batch, fragment = self.sequence_targets(drawn.rollout, drawn.weight, cfg)
        metrics = gradient_step(self.forward, self.estimate.loss, batch, self.optimizer, cfg, self.estimate.closed_form)
        self.replay.update_priorities(drawn.row, metrics.pop("priority"), fragment)
        return metrics

    @torch.no_grad()
    def sequence_targets(self, rollout: Rollout, weight: Tensor | None, cfg: DQNConfig) -> tuple[QBatch, Tensor]:
        """Computes targets for the rows after the burn-in of each sequence; and each row's sequence, ``[N]``."""
        policy = self.policy
        seen = rollout.timeline_rows(*policy.sights(rollout))
        window = n_step_returns(rollout, n=cfg.n_step, gamma=cfg.gamma)
        whole, burned, rest = split_timeline(policy, rollout, cfg.replay.burn_in)
        kept = None if rollout.memory is None else policy.learned(rollout.memory[0])
        after, _ = unroll(self.target_forward, seen, self.noise(), kept, None, whole)
        judge, memory = unroll(self.forward, seen, self.noise(), kept, burned, rest, keep=True)
        places = rest.places(len(whole.rows))
        learned = (places[: len(window.reward)] >= 0).nonzero().squeeze(1)  # of the decisions, which come first
        follows = window.after[learned]
        after = after.index_select(0, follows)
        judge_after = judge.index_select(0, places[follows]) if cfg.double else after
        target = self.target(window.reward[learned], window.discount[learned], after, judge_after, seen, follows)
        fragment = window.fragment[learned]
        batch = QBatch(
            obs=rows_of(seen, rest.rows),
            action=flat(rollout.action, rollout.valid_rows())[learned],
            target=target,
            weight=None if weight is None else weight[fragment],
            noise=self.noise(),
            sequences=rest.sequences,
            memory=memory,
            learned=places[learned],
            values=None if memory is None else judge,  # so that kernels need not compute them again
        )
        return batch, fragment

    def best(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """Returns the allowed action of the highest mean value, ``[N]``."""
        q = self.net.head.q_from(values)
        return (q if mask is None else torch.where(mask, q, -torch.inf)).argmax(1)

    def noise(self, rows: int = 1) -> Tensor | None:
        """Draws numbers for noisy layers, which rows share, or for the implicit quantiles of each row; else None."""
        head = self.net.head
        if not head.layer_noise:
            return None
        shape = (1 if head.shares_noise else rows, head.layer_noise)
        drawn = torch.from_numpy(self.rng.standard_normal(shape, dtype="float32"))
        return drawn.to(self.replay.device)

    # --- playing ------------------------------------------------------------------------------------------------------

    @property
    def behaviour(self) -> Policy:
        """The policy that acts: the policy that learns, or a copy with perturbed weights."""
        return self.exploration.behaviour

    def explore(self) -> None:
        """Sets exploration by the schedules at this environment step."""
        if self.replay.is_warming_up:
            self.exploration.at_random()
        else:
            self.exploration.advance(self.now().exploration, self.replay.buffer.total, self.observations)

    def observations(self, number: int) -> TensorTree:
        """Draws `number` observations from replay, as the networks take them."""
        return self.replay.sample(number, n_step=1, gamma=1.0, beta=0.0).obs

    def advice(self) -> str:
        """Returns a line on returns beyond the atoms of `categorical` values, or an empty string."""
        found = self.estimate.beyond()
        if found is None or found[0] <= MOST_BEYOND:
            return ""
        share, low, high = found
        values, where = self.cfg.values, f"policies.{self.name}.values"
        return (
            f"{where}: {share:.0%} of the targets of late lie beyond the atoms, from low = {values.low:g} to high = "
            f"{values.high:g}, and are clamped to the outermost; the rewards seen allow returns from {low:.3g} to "
            f"{high:.3g}: set {where}.low and {where}.high to the least and the largest return to expect, or "
            f"{where}.kind = quantile, which has no bounds"
        )

    def summary(self) -> Row:
        """Reports the gradient steps since the last call, and the exploration."""
        skipped = self.check_finite(self.optimizer)
        row = {**self.replay.summary(), "skipped_steps": skipped, "updates": self.updates}
        given = self.signals.summary() if self.signals.others else {}
        return {**row, "lr": self.now().lr, **self.exploration.metrics, **given}


def _check(policy: Policy, cfg: DQNConfig, name: str) -> None:
    """Raises ConfigError for settings that exclude each other."""
    where, values = f"policies.{name}", cfg.values
    if values.kind == "categorical" and (values.low >= values.high or values.atoms < 2):
        raise ConfigError(
            f"{where}.values: {values.atoms} atoms from low = {values.low:g} to high = {values.high:g}; there must be "
            "two at least, and high must be above low: the smallest and the largest return to expect"
        )
    if cfg.exploration.per_env_epsilon and cfg.exploration.kind != "epsilon":
        raise ConfigError(
            f"{where}.exploration.per_env_epsilon = {cfg.exploration.per_env_epsilon:g} is for exploration.kind = "
            f"epsilon, not {cfg.exploration.kind}, by which all slots explore alike: leave one of them out"
        )
    if cfg.model.output == "action_params" and (cfg.dueling or cfg.exploration.kind == "noisy"):
        raise ConfigError(
            f"{where}: dueling = {cfg.dueling} and exploration.kind = {cfg.exploration.kind}, but with model.output = "
            "action_params your model outputs the values of actions itself: set dueling = False and another exploration"
        )
    if values.kind == "quantile" and values.atoms != ValuesConfig().atoms:
        raise ConfigError(
            f"{where}.values.atoms = {values.atoms} does nothing with values.kind = quantile: set values.quantiles"
        )
    if values.kind == "implicit" and (
        cfg.dueling or cfg.exploration.kind == "noisy" or cfg.model.output == "action_params" or policy.memory_size
    ):
        raise ConfigError(
            f"{where}.values.kind = implicit has a head of its own: leave out dueling, exploration.kind = noisy, "
            "model.output = action_params and model.memory, or set values.kind = quantile"
        )
    is_plain = cfg.n_step == 1 and values.kind != "categorical" and not values.rescale and not policy.memory_size
    if cfg.munchausen.weight and not is_plain:
        raise ConfigError(
            f"{where}.munchausen.weight = {cfg.munchausen.weight:g} changes the reward of single decisions, and values "
            f"without atoms: set n_step = 1 (now {cfg.n_step}) and values.kind = mean, quantile or implicit, without "
            "values.rescale and model.memory"
        )
    if values.rescale and values.kind != "mean":
        raise ConfigError(f"{where}.values.rescale is for values.kind = mean, not {values.kind}: leave one of them out")
    if cfg.replay.burn_in and policy.memory is None:
        raise ConfigError(
            f"{where}.replay.burn_in = {cfg.replay.burn_in}, but the policy has no memory that would need it: set "
            "model.memory.kind, or leave it at 0"
        )
    if policy.memory_size and cfg.exploration.kind == "parameters":
        raise ConfigError(
            f"{where}.exploration.kind = parameters is not for a policy with a memory, whose memory would come from "
            "perturbed weights: use epsilon, boltzmann or noisy"
        )
