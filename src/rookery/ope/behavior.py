"""How likely the data's actions were to whoever did them: as was recorded, or by a policy cloned from other episodes.

A cloned policy of each half of the episodes judges the other half (Hanna, Niekum & Stone 2019 on importance sampling
with an estimated behaviour policy; halves as Chernozhukov et al. 2018 fit what they correct by).
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
from rookery.ope.judged_policy import JudgedPolicy
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from rookery.replay.recording import LIKELIEST, piece_of_episodes

Told = Callable[[int, int], None]
"""Is told how much of some work is played, and how much there is."""

CERTAIN = 0.99
"""Mean probability of what was done from which on choices count as not drawn."""

NARROW = 0.01
"""Standard deviation below which numbers count as not drawn, in units of half their range."""

AT_BOUNDS = 0.001
"""Largest share of numbers at a bound whose number before tanh is not recorded."""

ENOUGH = 20.0
"""Unlikely choices that one would expect among drawn ones, of which not one was made."""

CHUNK = 100
"""Gradient steps from one word of progress to the next."""

USE_FITTED = "use fqe, which needs no probabilities"


def clone(episodes: WholeEpisodes, learned: np.ndarray, gradient_steps: int, seed: int, told: Told) -> Policy:
    """Clones whoever made some of the episodes, by behavioural cloning.

    Args:
        episodes: The data.
        learned: ``[E]`` bool, which episodes are learned from.
        gradient_steps: How many are made; the best weights by a tenth of these episodes are taken.
        seed: Names what is drawn.
        told: Is told how many are made.
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
    learner.replay.own.append(piece_of_episodes(episodes.recorded(learned), 0), continues=False)
    for start in range(0, gradient_steps, CHUNK):
        learner.learn(min(CHUNK, gradient_steps - start))
        told(min(start + CHUNK, gradient_steps), gradient_steps)
    learner.look()
    return policy


@dataclass(frozen=True)
class ClonedBehavior:
    """Policies cloned from halves of the data, of which each tells of the other half.

    Attributes:
        halves: ``[E]`` which half each episode is in, 0 or 1.
        clones: Policy that was cloned from the other half, by half.
    """

    halves: np.ndarray
    clones: tuple[Policy, Policy]

    @torch.no_grad()
    def of(
        self, episodes: WholeEpisodes, look: Callable[[JudgedPolicy, TensorTree, Tensor], Tensor], width: int
    ) -> np.ndarray:
        """Asks the clones of every decision; gives what `look` finds, ``[N, width]`` float64.

        Args:
            episodes: The data.
            look: Takes a clone, observations and actions; gives ``[n, width]``.
            width: How many numbers that gives of a decision.
        """
        found = np.empty((len(episodes), width))
        for half, policy in enumerate(self.clones):
            judged = JudgedPolicy(policy, False)
            mine = self.halves[episodes.episode] == half
            for part in episodes.parts():
                rows = part[mine[part]]
                if len(rows):
                    action = episodes.actions(rows).to(device_of(policy))
                    found[rows] = look(judged, episodes.obs(rows), action).double().cpu().numpy()
        return found

    def log_probs(self, episodes: WholeEpisodes) -> np.ndarray:
        """Gives the log-probability of each of the data's actions, ``[N]``."""
        return self.of(episodes, lambda judged, obs, action: judged.behavior(obs).log_prob(action).unsqueeze(1), 1)[
            :, 0
        ]

    def probabilities(self, episodes: WholeEpisodes) -> np.ndarray:
        """Gives the probability of each choice in each decision, ``[N, A]``."""
        count = self.clones[0].action_spec.sizes[0]
        return self.of(episodes, lambda judged, obs, action: judged.probabilities(obs), count)

    def spread(self, episodes: WholeEpisodes) -> np.ndarray:
        """Gives the standard deviation of numbers in each decision, ``[N, k]``, as the distribution has it."""
        count = self.clones[0].action_spec.num_numbers

        def look(judged: JudgedPolicy, obs: TensorTree, action: Tensor) -> Tensor:
            behavior = judged.behavior(obs)
            spread: Tensor = behavior.log_std.exp().expand(len(action), count)  # type: ignore[attr-defined]
            if isinstance(behavior, SquashedGaussian):  # tanh narrows it by its slope
                return spread * (1.0 - behavior.mode().square())
            return spread

        return self.of(episodes, look, count)


# --- behaviour of which probabilities say nothing ---------------------------------------------------------------------


def bound_obstacle(episodes: WholeEpisodes, squashes: bool, *, cloned: bool) -> str:
    """Returns why numbers at a bound have no density that importance weights could be made of; empty if they have one.

    Args:
        episodes: The data.
        squashes: Whether the policy is squashed, so that numbers outside the bounds have none either.
        cloned: Whether the behaviour is cloned, from actions alone.
    """
    share = episodes.at_bounds(beyond=squashes, known=cloned)
    if share <= AT_BOUNDS:
        return ""
    text = f"{share:.2%} of the data's numbers lie at a bound or beyond, where an action has no density of its own"
    if cloned:
        return f"{text}; {USE_FITTED}"
    return (
        f"{text} (at most {AT_BOUNDS:.1%} may), and the data have no column action_raw, which says what tanh was taken "
        f"of: record episodes of drawn actions anew (rookery replay record --stochastic), or {USE_FITTED}"
    )


def recorded_obstacle(episodes: WholeEpisodes, squashes: bool) -> str:
    """Returns why recorded probabilities cannot be used; empty if they can; arguments as of `bound_obstacle`."""
    logp, action = episodes.logp, episodes.spaces.action
    assert logp is not None
    if not np.isfinite(logp).all():
        return f"a recorded log-probability is not finite; {USE_FITTED}, or probabilities = cloned"
    if episodes.likeliest:
        return f"{LIKELIEST}: the behaviour is deterministic; {USE_FITTED}"
    if action.num_numbers:
        if float(logp.std()) < 1e-6:
            return (
                "all recorded densities are equal, as those of likeliest actions are: the behaviour is deterministic, "
                f"and has no density; {USE_FITTED}"
            )
        return bound_obstacle(episodes, squashes, cloned=False)
    probability = np.exp(logp)
    if float(probability.mean()) > CERTAIN:
        return (
            f"what was done had a probability of {probability.mean():.3f}: the behaviour is deterministic; {USE_FITTED}"
        )
    above = probability - even_chances(episodes)
    unlikely = float((1.0 - probability).sum())
    if above.mean() > 1e-5 and above.min() >= -1e-6 and unlikely > ENOUGH:
        return (
            "not one unlikely action was played: likeliest actions were played and not drawn, so that the behaviour is "
            f"deterministic; {USE_FITTED}"
        )
    return ""


def even_chances(episodes: WholeEpisodes) -> np.ndarray:
    """Returns the probability of each action where all that is allowed in its decision is drawn alike, ``[N]``."""
    action = episodes.spaces.action
    found = np.full(len(episodes), 0.5**action.num_flags)
    for rows in episodes.parts():
        mask = episodes.obs(rows).get(MASK)
        for number, size in enumerate(action.sizes):
            first = sum(action.sizes[:number])
            found[rows] /= size if mask is None else mask[:, first : first + size].sum(1).clamp(min=1).numpy()
    return found


def cloned_obstacle(episodes: WholeEpisodes, cloned: ClonedBehavior, squashes: bool) -> str:
    """Returns why probabilities of a clone cannot be used; empty if they can; `squashes` as of `bound_obstacle`."""
    action = episodes.spaces.action
    if episodes.likeliest:
        return f"{LIKELIEST}: the behaviour is deterministic; {USE_FITTED}"
    if problem := bound_obstacle(episodes, squashes, cloned=True):
        return problem
    if action.kind == "box":
        spread = np.median(cloned.spread(episodes), axis=0)
        if float(spread.min()) < NARROW:
            return (
                f"the behaviour is deterministic: cloned, its numbers have a standard deviation of {spread.min():.1g}, "
                f"and a density of next to nothing means nothing; {USE_FITTED}"
            )
        return ""
    if not action.num_numbers:
        probability = float(np.exp(cloned.log_probs(episodes)).mean())
        if probability > CERTAIN:
            return (
                f"the behaviour is deterministic: cloned, what was done has a probability of {probability:.3f}; "
                f"{USE_FITTED}"
            )
    return ""
