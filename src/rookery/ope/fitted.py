"""Fitted Q evaluation (FQE; Le, Voloshin & Yue 2019, arXiv:1903.08738): what actions are worth under a policy, learned
from data, which never ask what else could have been played.

What is valued is the return until the end of an episode as data show ends. Where episodes were cut off, nothing counts
after that, and values depend on the time in the episode (Voloshin et al. 2019, arXiv:1911.06854): networks see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from rookery.algorithms.off_policy.critics import target_of
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
from rookery.ope.judged_policy import JudgedPolicy
from rookery.policies.normalize import ObsNormalizer

TIME = "\0time"
"""Path under which networks see the time in an episode."""

SAMPLES = 10
"""Actions that are drawn of a policy in each decision, where they are numbers."""

BATCH, RATE, TAU, CHUNK = 256, 1e-3, 0.01, 100
"""Decisions in a gradient step; the first learning rate, which falls to 0 as half a cosine does; how far targets follow
in a step; and steps from one word of progress to the next.
"""

FEW_NUMBERS = 1 << 25
"""Numbers of all observations together up to which these are normalized once and kept."""


@dataclass(frozen=True)
class FitStep:
    """What a gradient step reads."""

    lr: float
    model: ModelConfig
    max_grad_norm: float | None = None


@dataclass(frozen=True)
class FitBatch:
    """Decisions, ``[n, ...]``.

    Attributes:
        obs: What they were made on, as networks take it, numbers of the action among it.
        choice: What was chosen; None of numbers.
        target: What that should be worth.
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
    """Mean square of the error of values, ``[n, A]`` of all choices or ``[n, 1]`` of numbers."""
    loss = _error(q, batch).square().mean()
    return loss, {"loss": loss.detach()}


def fit_gradient(q: Tensor, batch: FitBatch, cfg: FitStep) -> OutputGradients:
    """Gives the gradient of `fit_loss` with respect to the values, and its metrics."""
    error = _error(q, batch)
    share = error.mul(2.0 / len(error)).unsqueeze(1)
    gradient = share if batch.choice is None else torch.zeros_like(q).scatter_(1, batch.choice.unsqueeze(1), share)
    return [gradient], {"loss": error.square().mean()}


FIT_GRADIENT = ClosedForm(fit_loss, fit_gradient)


class ActionValue(nn.Module):
    """Values of all choices, ``[n, A]``, or of numbers that come with the observation, ``[n, 1]``.

    Args:
        obs: Layout of what the network sees.
        action: Layout of actions.
        model: Settings of the network.
        generator: Draws the weights.
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
        """Values of the rows."""
        found: Tensor = self.linear(self.trunk(batch.obs))
        return found

    def structure(self) -> Structure:
        """Declares what `forward` computes."""
        tower = Tower(self.trunk, (self.linear,))
        return Structure((tower,), self.model, lambda batch: Inputs(batch.obs), lambda parts, batch: parts[0])


class FittedInputs:
    """Shows networks the observations of data: normalized by their statistics, with the time where that matters.

    Args:
        episodes: The data.
        device: Where networks are.
    """

    def __init__(self, episodes: WholeEpisodes, device: torch.device) -> None:
        self.episodes, self._device = episodes, device
        obs = episodes.spaces.obs.own
        pictures = [leaf.path for leaf in obs.leaves if leaf.is_image]
        self._normalizer = ObsNormalizer(obs, 10.0, pictures)
        self._paths = [leaf.path for leaf in obs.leaves]
        if self._normalizer.paths:
            for rows in episodes.parts():
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
        """Gives the observations of some decisions, with the numbers of actions beside them if any are given."""
        if self._known is None:
            seen = self._made(rows)
        else:
            index = torch.from_numpy(rows).to(self._device)
            seen = {path: leaf.index_select(0, index) for path, leaf in self._known.items()}
        return seen if numbers is None else {**seen, CRITIC_ACTION: numbers}


class PlannedActions:
    """What the policy does in every decision of the data, found out once.

    Args:
        judged: The policy.
        episodes: The data.
        rng: Draws numbers.

    Attributes:
        probability: ``[N, A]`` of each choice; None of numbers.
        numbers: ``[S, N, k]`` some actions of numbers; None of choices.
        played: What was done in the data, as networks take it.
    """

    def __init__(self, judged: JudgedPolicy, episodes: WholeEpisodes, rng: np.random.Generator) -> None:
        device = device_of(judged.policy)
        every = list(episodes.parts())
        self.probability: Tensor | None = None
        self.numbers: Tensor | None = None
        self.played = torch.cat([episodes.actions(rows) for rows in every]).to(device)
        if judged.takes_choices:
            with torch.no_grad():
                self.probability = torch.cat([judged.probabilities(episodes.obs(rows)) for rows in every])
        else:
            self.numbers = torch.cat([judged.numbers(episodes.obs(rows), SAMPLES, rng) for rows in every], 1)
            self.played = judged.within_bounds(self.played)


class FittedQ:
    """Values of actions under a policy, in units of what episodes earn.

    Args:
        seen: Observations as networks take them.
        planned: What the policy does.
        gamma: Discount.
        seed: Names the first weights and what is drawn.
    """

    def __init__(self, seen: FittedInputs, planned: PlannedActions, gamma: float, seed: int) -> None:
        self._seen, self._planned, self._gamma = seen, planned, gamma
        self._episodes = seen.episodes
        self._rng = np.random.default_rng(seed)
        self._model = ModelConfig(hidden=(128, 128), activation="relu")
        generator = torch.Generator().manual_seed(seed)
        net = ActionValue(seen.spec, self._episodes.spaces.action, self._model, generator).to(planned.played.device)
        self._optimizer = Adam(flatten([net]), betas=(0.9, 0.999), eps=1e-8)
        self._target, self._target_data = target_of(net)
        self._forward, self._slow = attach(net), attach(self._target, learns=False)
        self._scale = 1.0
        self._bounds: tuple[Tensor, Tensor] | None = None

    def fit(self, rows: np.ndarray, gradient_steps: int, told: Callable[[int, int], None]) -> None:
        """Learns from some decisions, all those of their episodes.

        Args:
            rows: Numbers of the decisions.
            gradient_steps: How many are made.
            told: Is told how many are made.
        """
        episodes = self._episodes
        self._scale = float(episodes.ahead(self._gamma)[rows].std()) or 1.0
        self._bounds = self._bounds_of(rows)
        for step in range(gradient_steps):
            rate = RATE * 0.5 * (1.0 + math.cos(math.pi * step / gradient_steps))
            drawn = rows[self._rng.integers(0, len(rows), BATCH)]
            gradient_step(
                self._forward, fit_loss, self._batch(drawn), self._optimizer, FitStep(rate, self._model), FIT_GRADIENT
            )
            track(self._target_data, self._optimizer.flat.data, TAU)
            if (step + 1) % CHUNK == 0 or step + 1 == gradient_steps:
                told(step + 1, gradient_steps)

    def _bounds_of(self, rows: np.ndarray) -> tuple[Tensor, Tensor] | None:
        """Gives the least and the most that can be earned from each decision on, ``[N]`` each, in units of the scale:
        with the rewards of some decisions, in as many steps as the longest episode has left, or as a discount lets
        count. Values beyond are cut off, so that none grow without end where data do not show what the policy does.
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
        """Values of some decisions, cut off at their bounds."""
        if self._bounds is None:
            return value
        low, high = self._bounds
        return torch.minimum(torch.maximum(value, low[index]), high[index])

    def _batch(self, rows: np.ndarray) -> FitBatch:
        """Decisions with what they should be worth: what they earned, and what comes after under the policy (eq. 2)."""
        goes_on = ~self._episodes.is_last[rows]
        after = self._values(np.where(goes_on, rows + 1, rows), one=True)
        device = after.device
        reward = torch.from_numpy(self._episodes.reward[rows] / self._scale).to(device, torch.float32)
        target = reward + self._gamma * torch.from_numpy(goes_on).to(device) * after
        played = self._planned.played[torch.from_numpy(rows).to(device)]
        if self._planned.numbers is None:
            return FitBatch(self._seen(rows), played, target)
        return FitBatch(self._seen(rows, played), None, target)

    @torch.no_grad()
    def _values(self, rows: np.ndarray, *, one: bool) -> Tensor:
        """What observations are worth under the policy, ``[n]``, in units of the scale.

        Args:
            rows: Which decisions.
            one: Whether one of the policy's actions stands for all, where they are numbers.
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
        """Values by the slow network."""
        found: Tensor = self._slow.outputs(batch)
        return found

    @torch.no_grad()
    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gives what the observations of some decisions are worth under the policy, and what was done there, ``[n]``
        each.
        """
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
