"""`TAGS`: table of ML-Agents' TensorBoard tags, and the metrics they show.

The step axis is the agent steps of the behaviour, its decisions. A summary covers the time since the previous one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PPO, SAC, POCA = "ppo", "sac", "poca"

ALL = (PPO, SAC, POCA)
"""Trainers of ML-Agents."""

HISTOGRAM, GROUP_HISTOGRAM = "returns", "group_returns"
"""Metrics shown as histograms instead of scalars."""

ANY = re.compile(r"<(\w+)>")
"""Placeholder in a tag for the name of a signal or a parameter."""


@dataclass(frozen=True)
class Tag:
    """A tag of ML-Agents 1.1.0.

    Attributes:
        name: The tag; ``<signal>`` stands for a reward signal with a capital letter, ``<parameter>`` for a parameter of
            the environment.
        trainers: Trainers that it belongs to.
        measure: Name of the shown measure (`measures_of`); a signal or parameter follows a slash. Empty =
            it is not written.
        reason: The reason why it is not written, or its difference from ML-Agents.
    """

    name: str
    trainers: Sequence[str]
    measure: str = ""
    reason: str = ""


VARIATIONAL = "with use_vail only"

TAGS = (
    Tag("Environment/Cumulative Reward", ALL, "return"),
    Tag("Environment/Cumulative Reward_hist", ALL, HISTOGRAM),
    Tag("Environment/Episode Length", ALL, "length", "in env steps, where ML-Agents counts decisions but the first"),
    Tag("Environment/Lesson Number/<parameter>", ALL, "lesson/<parameter>"),
    Tag("Environment/Group Cumulative Reward", ALL, "group_return"),
    Tag("Environment/Group Cumulative Reward_hist", ALL, GROUP_HISTOGRAM),
    Tag("Policy/Entropy", ALL, "entropy", "summed over the numbers of an action, where ML-Agents takes their mean"),
    Tag("Policy/Learning Rate", ALL, "lr"),
    Tag("Policy/Epsilon", (PPO, POCA), "clip"),
    Tag("Policy/Beta", (PPO, POCA), "entropy_coef"),
    Tag(
        "Policy/<signal> Reward",
        ALL,
        "reward/<signal>",
        "an episode's sum; of signals beside extrinsic, the mean of a decision times the mean length",
    ),
    Tag("Policy/<signal> Value Estimate", (PPO, POCA), "value/<signal>"),
    Tag("Policy/<signal> Value", (SAC,), "q/<signal>", "as extrinsic, of all signals: critics learn their sum"),
    Tag("Policy/<signal> Baseline Estimate", (POCA,), "baseline/<signal>"),
    Tag("Policy/Continuous Entropy Coeff", (SAC,), "continuous_alpha"),
    Tag("Policy/Discrete Entropy Coeff", (SAC,), "discrete_alpha"),
    Tag("Policy/GAIL Policy Estimate", ALL, "gail_policy_estimate"),
    Tag("Policy/GAIL Expert Estimate", ALL, "gail_expert_estimate"),
    Tag("Policy/GAIL Beta", ALL, "gail_information_weight", VARIATIONAL),
    Tag("Policy/GAIL Grad Mag Loss", ALL, "gail_penalty"),
    Tag("Losses/Policy Loss", ALL, "policy_loss", "with its sign, where ML-Agents takes it away"),
    Tag("Losses/Value Loss", ALL, "value_loss", "not of SAC, whose critics are all there is: no network of values"),
    Tag("Losses/Baseline Loss", (POCA,), "baseline_loss"),
    Tag("Losses/Q1 Loss", (SAC,), "critic_loss_1"),
    Tag("Losses/Q2 Loss", (SAC,), "critic_loss_2"),
    Tag("Losses/Curiosity Forward Loss", ALL, "curiosity_forward_loss"),
    Tag("Losses/Curiosity Inverse Loss", ALL, "curiosity_inverse_loss"),
    Tag("Losses/GAIL Loss", ALL, "gail_loss"),
    Tag("Losses/GAIL KL Loss", ALL, "gail_information", VARIATIONAL),
    Tag("Losses/RND Loss", ALL, "rnd_loss"),
    Tag("Losses/Pretraining Loss", ALL, "imitation_loss", "a log-likelihood, not the squared error of a drawn action"),
    Tag("Self-play/ELO", ALL, "elo"),
    Tag("Is Training", ALL, "", "hidden from TensorBoard there too; the console line and the gauges say it"),
    Tag("Step", ALL, "", "hidden from TensorBoard there too: it is the axis"),
)
"""All tags of ML-Agents 1.1.0 except the text ``Hyperparameters``, in the order of its documentation."""


@dataclass(frozen=True)
class Seen:
    """Measurements of a behaviour since the previous summary.

    Attributes:
        returns: Return of each agent's episode that has ended.
        lengths: Its length in environment steps.
        group_returns: Return of each group's episode, if the environment names groups.
        learning: Metrics of the algorithm, each the mean over the updates.
        values: Mean value of the states that were learned from, by reward signal.
        baselines: Mean of the baselines.
        strengths: Strength of each reward signal.
        settings: Present values of the algorithm's settings with a schedule: ``lr``, ``clip``,
            ``entropy_coef``.
        lessons: Number of the lesson of each parameter, from 0.
        elo: Rating, of a behaviour that plays against itself.
        coefficients: Temperature of the numbers of an action, ``continuous_alpha``, and of its choices,
            ``discrete_alpha``, as far as an algorithm has them.
        beside: Numbers of callbacks and of the environment, which keep their names.
    """

    returns: Sequence[float]
    lengths: Sequence[int]
    group_returns: Sequence[float]
    learning: Mapping[str, float]
    values: Mapping[str, float]
    baselines: Mapping[str, float]
    strengths: Mapping[str, float]
    settings: Mapping[str, float]
    lessons: Mapping[str, int]
    elo: float | None
    coefficients: Mapping[str, float]
    beside: Mapping[str, float]


def mean(values: Sequence[float]) -> float | None:
    """Returns the mean; None for an empty sequence."""
    return math.fsum(values) / len(values) if values else None


def measures_of(seen: Seen) -> dict[str, float]:
    """Returns the metrics shown by tags, by the names used in `TAGS`; missing ones are left out."""
    learning, length = dict(seen.learning), mean(seen.lengths)
    found: dict[str, float | None] = {
        **learning,
        **seen.settings,
        **seen.coefficients,
        "return": mean(seen.returns),
        "length": length,
        "group_return": mean(seen.group_returns),
        "elo": seen.elo,
        "policy_loss": learning.get("policy_loss", learning.get("actor_loss")),
    }
    for name, strength in seen.strengths.items():
        one = learning.get(f"{name}_reward")
        found[f"reward/{name}"] = None if one is None or length is None else one * length * strength
    earned = mean(seen.returns)
    if earned is not None:
        found["reward/extrinsic"] = (earned + (mean(seen.group_returns) or 0.0)) * seen.strengths.get("extrinsic", 1.0)
    found |= {f"value/{name}": value for name, value in seen.values.items()}
    found |= {f"baseline/{name}": value for name, value in seen.baselines.items()}
    found |= {f"lesson/{name}": float(lesson) for name, lesson in seen.lessons.items()}
    if "critic_loss" in learning:
        found["q/extrinsic"] = learning.get("q_mean")
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def tags_of(seen: Seen, trainer: str) -> dict[str, float]:
    """Returns the value of each tag of a summary.

    Args:
        seen: The measurements.
        trainer: ``ppo``, ``sac`` or ``poca``; another name stands for an algorithm of one's own, which has the tags of
            all.
    """
    measures, shown = measures_of(seen), dict[str, float]()
    for tag in TAGS:
        if tag.measure in ("", HISTOGRAM, GROUP_HISTOGRAM) or (trainer in ALL and trainer not in tag.trainers):
            continue
        kind = ANY.search(tag.measure)
        if kind is None:
            if tag.measure in measures:
                shown[tag.name] = measures[tag.measure]
            continue
        before = tag.measure[: kind.start()]
        for name, value in measures.items():
            if name.startswith(before):
                one = name.removeprefix(before)
                shown[ANY.sub(one.capitalize() if kind[1] == "signal" else one, tag.name)] = value
    return shown | dict(seen.beside)


def distributions_of(seen: Seen) -> dict[str, Sequence[float]]:
    """Returns the single values of the tags that are means over episodes."""
    numbers = {"return": seen.returns, "length": seen.lengths, "group_return": seen.group_returns}
    return {tag.name: numbers[tag.measure] for tag in TAGS if tag.measure in numbers}


def histograms_of(seen: Seen) -> dict[str, Sequence[float]]:
    """Returns the values that each tag shows as a histogram."""
    numbers = {HISTOGRAM: seen.returns, GROUP_HISTOGRAM: seen.group_returns}
    return {tag.name: numbers[tag.measure] for tag in TAGS if tag.measure in numbers}
