"""Fitted Q evaluation (FQE; Le, Voloshin & Yue 2019, arXiv:1903.08738): action values of a policy, learned from data.

Values are returns until the end of an episode as recorded. If episodes were truncated, nothing counts after that, and
values depend on the time in the episode (Voloshin et al. 2019, arXiv:1911.06854), which networks then observe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.off_policy.critics import target_copy
from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.core.flat import flatten
from rookery.core.metrics import Metrics
from rookery.core.optim import Adam, ClosedForm, OutputGradients, gradient_step, track
from rookery.core.spaces.arrays import ActionSpec, Leaf, ObsSpec
from rookery.models.build import CRITIC_ACTION, ModelConfig, build_critic_trunk, build_trunk
from rookery.models.heads import VALUE_GAIN
from rookery.models.layers import linear
from rookery.models.structure import Inputs, Structure, Tower
from rookery.native.forward import attach
from rookery.ope.episodes import PART, WholeEpisodes
from rookery.ope.evaluated_policy import EvaluatedPolicy
from rookery.policies.normalize import ObsNormalizer

TIME = "\0time"
"""Observation path of the time in an episode."""

SAMPLES = 10
"""Number of continuous actions sampled from the policy in each decision."""

BATCH, RATE, TAU, CHUNK = 256, 1e-3, 0.01, 100
"""Batch size; initial learning rate, which decays to 0 by a cosine schedule; rate of the target network's update; and
gradient steps between two calls of the progress function.
"""

FEW_NUMBERS = 1 << 25
"""Total size of all observations up to which they are normalized once and cached."""


@dataclass(frozen=True)
class FitStep:
    """Settings of a gradient step."""

    lr: float
    model: ModelConfig
    max_grad_norm: float | None = None


@dataclass(frozen=True)
class FitBatch:
    """Batch of decisions, ``[n, ...]``.

    Attributes:
        obs: Observations as networks take them, with continuous actions among them.
        choice: The discrete action; None for continuous ones.
        target: Target value.
    """

    obs: TensorTree
    choice: Tensor | None
    target: Tensor

    def __len__(self) -> int:
        return len(self.target)


def _error(q: Tensor, batch: FitBatch) -> Tensor:
    value = q.squeeze(1) if batch.choice is None else q.gather(1, batch.choice.unsqueeze(1)).squeeze(1)
    return value - batch.target


def fit_loss(q: Tensor, batch: FitBatch, cfg: FitStep) -> tuple[Tensor, Metrics]:
    """Returns the mean squared error of values, ``[n, A]`` for discrete or ``[n, 1]`` for continuous actions."""
    loss = _error(q, batch).square().mean()
    return loss, {"loss": loss.detach()}


def fit_gradient(q: Tensor, batch: FitBatch, cfg: FitStep) -> OutputGradients:
    """Returns the gradient of `fit_loss` with respect to the values, and its metrics."""
    error = _error(q, batch)
    share = error.mul(2.0 / len(error)).unsqueeze(1)
    gradient = share if batch.choice is None else torch.zeros_like(q).scatter_(1, batch.choice.unsqueeze(1), share)
    return [gradient], {"loss": error.square().mean()}


FIT_GRADIENT = ClosedForm(fit_loss, fit_gradient)


class ActionValue(nn.Module):
    """Q network: values of all discrete actions, ``[n, A]``, or of the continuous action in the input, ``[n, 1]``.

    Args:
        obs: Layout of the network's observations.
        action: Layout of actions.
        model: Settings of the network.
        generator: Random generator of the weights.
    """

    def __init__(self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.model = model
        if action.kind == "box":
            self.trunk = build_critic_trunk(obs, action, model, generator=generator)
        else:
            self.trunk = build_trunk(obs, model, generator=generator)
        width = self.trunk.num_features
        assert isinstance(width, int)
        self.linear = linear(width, sum(action.sizes) or 1, gain=VALUE_GAIN, generator=generator)

    def forward(self, batch: FitBatch) -> Tensor:
        """Returns the values of the rows."""
        found: Tensor = self.linear(self.trunk(batch.obs))
        return found

    def structure(self) -> Structure:
        """Returns the structure of `forward`."""
        tower = Tower(self.trunk, (self.linear,))
        return Structure((tower,), self.model, lambda batch: Inputs(batch.obs), lambda parts, batch: parts[0])


class FittedInputs:
    """Inputs of networks from recorded observations: normalized by their statistics, with the time if values depend on
    it.

    Args:
        episodes: The data.
        device: Device of the networks.
    """

    def __init__(self, episodes: WholeEpisodes, device: torch.device) -> None:
        self.episodes, self._device = episodes, device
        obs = episodes.spaces.obs.own
        images = [leaf.path for leaf in obs.leaves if leaf.is_image]
        self._normalizer = ObsNormalizer(obs, 10.0, images)
        self._paths = [leaf.path for leaf in obs.leaves]
        if self._normalizer.paths:
            for rows in episodes.chunks():
                self._normalizer.update(episodes.obs(rows))
        self._normalizer.to(device)
        self.sees_time = not episodes.terminated.all()
        spec = self._normalizer.spec
        time = Leaf(TIME, "box", (1,), np.dtype(np.float32))
        mask = [leaf for leaf in spec.leaves if leaf.kind == "mask"]
        others = [leaf for leaf in spec.leaves if leaf.kind != "mask"]
        self.spec = replace(spec, leaves=(*others, time, *mask)) if self.sees_time else spec
        numbers = sum(math.prod(leaf.shape) for leaf in spec.leaves) * len(episodes)
        self._known = self._made(np.arange(len(episodes))) if numbers <= FEW_NUMBERS else None

    def _made(self, rows: np.ndarray) -> TensorTree:
        raw = self.episodes.obs(rows)
        seen: TensorTree = self._normalizer({path: raw[path].to(self._device) for path in self._paths})
        if self.sees_time:
            longest = float(self.episodes.length.max())
            time = torch.from_numpy(self.episodes.time[rows]).to(self._device, torch.float32)
            seen[TIME] = (2.0 * time / longest - 1.0).unsqueeze(1)
        return seen

    def __call__(self, rows: np.ndarray, numbers: Tensor | None = None) -> TensorTree:
        """Returns the observations of some decisions, with continuous actions beside them if given."""
        if self._known is None:
            seen = self._made(rows)
        else:
            index = torch.from_numpy(rows).to(self._device)
            seen = {path: leaf.index_select(0, index) for path, leaf in self._known.items()}
        return seen if numbers is None else {**seen, CRITIC_ACTION: numbers}


class PlannedActions:
    """Actions of the policy in every decision of the data, computed once.

    Args:
        evaluated: The policy.
        episodes: The data.
        rng: Samples continuous actions.

    Attributes:
        probability: ``[N, A]`` of each discrete action; None for continuous ones.
        numbers: ``[S, N, k]`` sampled continuous actions; None for discrete ones.
        played: Recorded actions as networks take them.
    """

    def __init__(self, evaluated: EvaluatedPolicy, episodes: WholeEpisodes, rng: np.random.Generator) -> None:
        device = device_of(evaluated.policy)
        every = list(episodes.chunks())
        self.probability: Tensor | None = None
        self.numbers: Tensor | None = None
        self.played = torch.cat([episodes.actions(rows) for rows in every]).to(device)
        if evaluated.is_discrete:
            with torch.no_grad():
                self.probability = torch.cat([evaluated.probabilities(episodes.obs(rows)) for rows in every])
        else:
            self.numbers = torch.cat([evaluated.sample_actions(episodes.obs(rows), SAMPLES, rng) for rows in every], 1)
            self.played = evaluated.within_bounds(self.played)


class FittedQ:
    """Action values of a policy, learned by fitted Q evaluation.

    Args:
        seen: Observations as networks take them.
        planned: Actions of the policy.
        gamma: Discount.
        seed: Random seed of weights and batches.
    """

    def __init__(self, seen: FittedInputs, planned: PlannedActions, gamma: float, seed: int) -> None:
        self._seen, self._planned, self._gamma = seen, planned, gamma
        self._episodes = seen.episodes
        self._rng = np.random.default_rng(seed)
        self._model = ModelConfig(hidden=(128, 128), activation="relu")
        generator = torch.Generator().manual_seed(seed)
        net = ActionValue(seen.spec, self._episodes.spaces.action, self._model, generator).to(planned.played.device)
        self._optimizer = Adam(flatten([net]), betas=(0.9, 0.999), eps=1e-8)
        self._target, self._target_data = target_copy(net)
        self._forward, self._slow = attach(net), attach(self._target, learns=False)
        self._scale = 1.0
        self._bounds: tuple[Tensor, Tensor] | None = None

    def fit(self, rows: np.ndarray, gradient_steps: int, progress: Callable[[int, int], None]) -> None:
        """Learns from the decisions of some whole episodes.

        Args:
            rows: Indices of the decisions.
            gradient_steps: Number of gradient steps.
            progress: Called with the steps done and their total.
        """
        episodes = self._episodes
        self._scale = float(episodes.returns_to_go(self._gamma)[rows].std()) or 1.0
        self._bounds = self._bounds_of(rows)
        for step in range(gradient_steps):
            rate = RATE * 0.5 * (1.0 + math.cos(math.pi * step / gradient_steps))
            drawn = rows[self._rng.integers(0, len(rows), BATCH)]
            gradient_step(
                self._forward, fit_loss, self._batch(drawn), self._optimizer, FitStep(rate, self._model), FIT_GRADIENT
            )
            track(self._target_data, self._optimizer.flat.data, TAU)
            if (step + 1) % CHUNK == 0 or step + 1 == gradient_steps:
                progress(step + 1, gradient_steps)

    def _bounds_of(self, rows: np.ndarray) -> tuple[Tensor, Tensor] | None:
        """Returns the lowest and highest possible return from each decision on, ``[N]`` each, in units of the scale:
        with the extreme rewards of some decisions, over the steps that the longest episode has left, or over the
        discounted horizon. Values beyond are clipped, so that they cannot diverge where data do not cover the policy's
        actions.
        """
        episodes, gamma = self._episodes, self._gamma
        if self._seen.sees_time:
            left = (episodes.length.max() - episodes.time).astype(np.float64)
        else:
            left = np.full(len(episodes), np.inf)
        if gamma == 1.0 and not self._seen.sees_time:
            return None
        counted = left if gamma == 1.0 else (1.0 - gamma**left) / (1.0 - gamma)
        reward = episodes.reward[rows] / self._scale
        ends = (min(float(reward.min()), 0.0) * counted, max(float(reward.max()), 0.0) * counted)
        low, high = (torch.from_numpy(end).to(self._planned.played.device, torch.float32) for end in ends)
        return low, high

    def _within(self, value: Tensor, index: Tensor) -> Tensor:
        """Returns values clipped to the bounds of their decisions."""
        if self._bounds is None:
            return value
        low, high = self._bounds
        return torch.minimum(torch.maximum(value, low[index]), high[index])

    def _batch(self, rows: np.ndarray) -> FitBatch:
        """Returns decisions with their targets: reward plus discounted value of the next decision under the policy (eq.
        2).
        """
        continues = ~self._episodes.is_last[rows]
        after = self._values(np.where(continues, rows + 1, rows), one=True)
        device = after.device
        reward = torch.from_numpy(self._episodes.reward[rows] / self._scale).to(device, torch.float32)
        target = reward + self._gamma * torch.from_numpy(continues).to(device) * after
        played = self._planned.played[torch.from_numpy(rows).to(device)]
        if self._planned.numbers is None:
            return FitBatch(self._seen(rows), played, target)
        return FitBatch(self._seen(rows, played), None, target)

    @torch.no_grad()
    def _values(self, rows: np.ndarray, *, one: bool) -> Tensor:
        """Returns state values under the policy, ``[n]``, in units of the scale.

        Args:
            rows: Which decisions.
            one: Whether a single sampled continuous action is used instead of the mean over all samples.
        """
        index = torch.from_numpy(rows).to(self._planned.played.device)
        if self._planned.probability is not None:
            every = self._net(FitBatch(self._seen(rows), None, index))
            return self._within((every * self._planned.probability[index]).sum(1), index)
        numbers = self._planned.numbers
        assert numbers is not None
        which = [int(self._rng.integers(len(numbers)))] if one else range(len(numbers))
        found = [self._net(FitBatch(self._seen(rows, numbers[n, index]), None, index)).squeeze(1) for n in which]
        return self._within(torch.stack(found).mean(0), index)

    def _net(self, batch: FitBatch) -> Tensor:
        """Returns values of the target network."""
        found: Tensor = self._slow.outputs(batch)
        return found

    @torch.no_grad()
    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns state values under the policy and values of the recorded actions, ``[n]`` each."""
        value, q = np.empty(len(rows)), np.empty(len(rows))
        for start in range(0, len(rows), PART):
            part = rows[start : start + PART]
            index = torch.from_numpy(part).to(self._planned.played.device)
            played = self._planned.played[index]
            if self._planned.numbers is None:
                every = self._net(FitBatch(self._seen(part), played, played))
                valued = every.gather(1, played.unsqueeze(1)).squeeze(1)
            else:
                valued = self._net(FitBatch(self._seen(part, played), None, played)).squeeze(1)
            value[start : start + PART] = self._values(part, one=False).double().cpu().numpy()
            q[start : start + PART] = self._within(valued, index).double().cpu().numpy()
        return value * self._scale, q * self._scale
