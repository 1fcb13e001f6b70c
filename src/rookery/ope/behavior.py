"""Action probabilities of the behaviour policy: as recorded, or by a policy cloned from other episodes.

A policy cloned from each half of the episodes is applied to the other half (Hanna, Niekum & Stone 2019 on importance
sampling with an estimated behaviour policy; cross-fitting on halves as in Chernozhukov et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.offline.bc import BC, BCConfig
from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK
from rookery.models.build import ModelConfig
from rookery.models.squashed import SquashedGaussian
from rookery.ope.episodes import WholeEpisodes
from rookery.ope.evaluated_policy import EvaluatedPolicy
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from rookery.replay.recording import LIKELIEST, segment_of_episodes

StepProgress = Callable[[int, int], None]
"""Called with the gradient steps done and their total."""

CERTAIN = 0.99
"""Mean probability of the recorded actions from which on a discrete behaviour counts as deterministic."""

NARROW = 0.01
"""Standard deviation, in units of half the range, below which a continuous behaviour counts as deterministic."""

AT_BOUNDS = 0.001
"""Largest allowed share of values at a bound whose input of tanh is not recorded."""

ENOUGH = 20.0
"""Expected number of unlikely actions from which on their absence shows a deterministic behaviour."""

CHUNK = 100
"""Gradient steps between two calls of the progress function."""

USE_FITTED = "use fqe, which needs no probabilities"


def clone(
    episodes: WholeEpisodes, learned: np.ndarray, gradient_steps: int, seed: int, progress: StepProgress
) -> Policy:
    """Clones the behaviour policy of some episodes by behavioural cloning.

    Args:
        episodes: The data.
        learned: ``[E]`` bool, the training episodes.
        gradient_steps: Number of gradient steps; the best weights on a held-out tenth of these episodes are kept.
        seed: Random seed.
        progress: Called with the steps done.
    """
    obs, action = episodes.spaces.obs, episodes.spaces.action
    size = int(episodes.length[learned].sum())
    inside = action.kind == "box" and action.is_bounded and float(np.abs(episodes.buffer.action).max()) < 1.0
    cfg = BCConfig(
        gradient_steps=gradient_steps,
        distribution="squashed" if inside else "gaussian",
        replay=ReplayConfig(capacity=max(size, 256)),
        model=ModelConfig(normalize_obs=True),
    )
    streams = Streams(seed)
    generator = torch.Generator().manual_seed(streams.integer(Role.INIT, "behavior"))
    policy = cfg.build_policy(obs, action, "behavior", generator)
    learner = BC(policy, cfg, streams, "behavior")
    learner.replay.own.append(segment_of_episodes(episodes.recorded(learned), 0), continues=False)
    for start in range(0, gradient_steps, CHUNK):
        learner.learn(min(CHUNK, gradient_steps - start))
        progress(min(start + CHUNK, gradient_steps), gradient_steps)
    learner.validate()
    return policy


@dataclass(frozen=True)
class ClonedBehavior:
    """Policies cloned from the two halves of the data; each is applied to the other half.

    Attributes:
        halves: ``[E]`` which half each episode is in, 0 or 1.
        clones: Policy that was cloned from the other half, by half.
    """

    halves: np.ndarray
    clones: tuple[Policy, Policy]

    @torch.no_grad()
    def of(
        self, episodes: WholeEpisodes, look: Callable[[EvaluatedPolicy, TensorTree, Tensor], Tensor], width: int
    ) -> np.ndarray:
        """Applies `look` with the right clone to every decision; returns ``[N, width]`` float64.

        Args:
            episodes: The data.
            look: Takes a clone, observations and actions; returns ``[n, width]``.
            width: Number of values for each decision.
        """
        found = np.empty((len(episodes), width))
        for half, policy in enumerate(self.clones):
            evaluated = EvaluatedPolicy(policy, False)
            mine = self.halves[episodes.episode] == half
            for part in episodes.chunks():
                rows = part[mine[part]]
                if len(rows):
                    action = episodes.actions(rows).to(device_of(policy))
                    found[rows] = look(evaluated, episodes.obs(rows), action).double().cpu().numpy()
        return found

    def log_probs(self, episodes: WholeEpisodes) -> np.ndarray:
        """Returns the log-probability of each of the data's actions, ``[N]``."""

        def log_prob(evaluated: EvaluatedPolicy, obs: TensorTree, action: Tensor) -> Tensor:
            return evaluated.behavior(obs).log_prob(action).unsqueeze(1)

        return self.of(episodes, log_prob, 1)[:, 0]

    def probabilities(self, episodes: WholeEpisodes) -> np.ndarray:
        """Returns the probability of each discrete action in each decision, ``[N, A]``."""
        count = self.clones[0].action_spec.sizes[0]
        return self.of(episodes, lambda evaluated, obs, action: evaluated.probabilities(obs), count)

    def spread(self, episodes: WholeEpisodes) -> np.ndarray:
        """Returns the standard deviation of the action distribution in each decision, ``[N, k]``."""
        count = self.clones[0].action_spec.num_numbers

        def look(evaluated: EvaluatedPolicy, obs: TensorTree, action: Tensor) -> Tensor:
            behavior = evaluated.behavior(obs)
            spread: Tensor = behavior.log_std.exp().expand(len(action), count)  # type: ignore[attr-defined]
            if isinstance(behavior, SquashedGaussian):  # scaled by the slope of tanh
                return spread * (1.0 - behavior.mode().square())
            return spread

        return self.of(episodes, look, count)


# --- behaviour without usable probabilities ---------------------------------------------------------------------------


def bound_obstacle(episodes: WholeEpisodes, squashes: bool, *, cloned: bool) -> str:
    """Returns the reason why actions at a bound have no density for importance weights, or an empty string.

    Args:
        episodes: The data.
        squashes: Whether the policy is squashed, so that actions outside the bounds have no density either.
        cloned: Whether the behaviour is cloned, from actions alone.
    """
    share = episodes.at_bounds(beyond=squashes, known=cloned)
    if share <= AT_BOUNDS:
        return ""
    text = (
        f"{share:.2%} of the data's action values lie at a bound or beyond, where an action has no density of its own"
    )
    if cloned:
        return f"{text}; {USE_FITTED}"
    return (
        f"{text} (at most {AT_BOUNDS:.1%} may), and the data have no column action_raw, which holds the input of "
        f"tanh: record episodes of sampled actions again (rookery replay record --stochastic), or {USE_FITTED}"
    )


def recorded_obstacle(episodes: WholeEpisodes, squashes: bool) -> str:
    """Returns the reason why recorded probabilities cannot be used, or an empty string; arguments as in
    `bound_obstacle`.
    """
    logp, action = episodes.logp, episodes.spaces.action
    assert logp is not None
    if not np.isfinite(logp).all():
        return f"a recorded log-probability is not finite; {USE_FITTED}, or probabilities = cloned"
    if episodes.likeliest:
        return f"{LIKELIEST}: the behaviour is deterministic; {USE_FITTED}"
    if action.num_numbers:
        if float(logp.std()) < 1e-6:
            return (
                "all recorded densities are equal, as for most likely actions: the behaviour is deterministic, "
                f"and has no density; {USE_FITTED}"
            )
        return bound_obstacle(episodes, squashes, cloned=False)
    probability = np.exp(logp)
    if float(probability.mean()) > CERTAIN:
        return (
            f"recorded actions have a mean probability of {probability.mean():.3f}: the behaviour is deterministic; "
            f"{USE_FITTED}"
        )
    above = probability - uniform_probabilities(episodes)
    unlikely = float((1.0 - probability).sum())
    if above.mean() > 1e-5 and above.min() >= -1e-6 and unlikely > ENOUGH:
        return (
            "no unlikely action was recorded: the most likely actions were taken, not sampled ones, so that the "
            "behaviour is "
            f"deterministic; {USE_FITTED}"
        )
    return ""


def uniform_probabilities(episodes: WholeEpisodes) -> np.ndarray:
    """Returns the probability of each action under a uniform policy over the allowed actions, ``[N]``."""
    action = episodes.spaces.action
    found = np.full(len(episodes), 0.5**action.num_flags)
    for rows in episodes.chunks():
        mask = episodes.obs(rows).get(MASK)
        for number, size in enumerate(action.sizes):
            first = sum(action.sizes[:number])
            found[rows] /= size if mask is None else mask[:, first : first + size].sum(1).clamp(min=1).numpy()
    return found


def cloned_obstacle(episodes: WholeEpisodes, cloned: ClonedBehavior, squashes: bool) -> str:
    """Returns the reason why probabilities of a clone cannot be used, or an empty string; `squashes` as in
    `bound_obstacle`.
    """
    action = episodes.spaces.action
    if episodes.likeliest:
        return f"{LIKELIEST}: the behaviour is deterministic; {USE_FITTED}"
    if problem := bound_obstacle(episodes, squashes, cloned=True):
        return problem
    if action.kind == "box":
        spread = np.median(cloned.spread(episodes), axis=0)
        if float(spread.min()) < NARROW:
            return (
                f"the behaviour is deterministic: its clone has a standard deviation of {spread.min():.1g}, "
                f"and the density of so narrow a distribution means nothing; {USE_FITTED}"
            )
        return ""
    if not action.num_numbers:
        probability = float(np.exp(cloned.log_probs(episodes)).mean())
        if probability > CERTAIN:
            return (
                "the behaviour is deterministic: under its clone, recorded actions have a probability of "
                f"{probability:.3f}; "
                f"{USE_FITTED}"
            )
    return ""
