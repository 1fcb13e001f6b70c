"""Wrappers with running statistics of their own are named, and findings that they explain are joined."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics

from rookery.doctor.own_statistics import own_statistics, statistics_not_shared
from rookery.run.findings.catalog import finding


def made(*wrappers):
    env = gymnasium.make("CartPole-v1")
    for wrapper in wrappers:
        env = wrapper(env)
    return env


def test_statistics_of_wrappers_are_found_by_their_parts():
    found = own_statistics(made(NormalizeObservation, NormalizeReward, RecordEpisodeStatistics))
    assert [(one.owner, one.of) for one in found] == [("NormalizeReward", "rewards"),
                                                     ("NormalizeObservation", "observations")]  # fmt: skip
    assert not own_statistics(made(RecordEpisodeStatistics))


SURVIVES = finding("state-survives-reset", "other steps", "observations differ first")
OTHERWISE = finding("state-survives-reset", "other steps", "ends differ first")
BELOW = finding("evaluation-below-training", "the evaluation is 1, and training 9")


@pytest.mark.parametrize(
    ("wrappers", "before", "rules", "severity"),
    [
        ((NormalizeObservation,), [SURVIVES, BELOW], ["statistics-not-shared"], "warning"),
        ((NormalizeObservation,), [SURVIVES], ["statistics-not-shared"], "note"),
        ((NormalizeObservation,), [OTHERWISE], ["statistics-not-shared", "state-survives-reset"], "note"),
        ((NormalizeReward,), [SURVIVES], ["statistics-not-shared", "state-survives-reset"], "note"),
        ((), [SURVIVES, BELOW], ["state-survives-reset", "evaluation-below-training"], None),
    ],
)
def test_findings_that_statistics_explain_are_joined(wrappers, before, rules, severity):
    found = statistics_not_shared(before, lambda: made(*wrappers), ["main"], 16)
    assert [one.rule for one in found] == rules
    if severity:
        assert found[0].severity == severity
        assert wrappers[0].__name__ in found[0].message
        setting = {NormalizeObservation: "algorithm.model.normalize_obs=true",
                   NormalizeReward: "algorithm.normalize_values=true"}[wrappers[0]]  # fmt: skip
        assert setting in found[0].remedies
    assert statistics_not_shared(before, None, ["main"], 16) == before
