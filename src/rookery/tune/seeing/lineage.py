"""Who was copied from whom, and which parameters ruled when: read from the journal of an experiment with clones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rookery.tune.journal import Record


@dataclass
class Stage:
    """A part of a trial's life with the same parameters.

    Attributes:
        trial: Whose.
        begin: Age at which it began; of a clone, that of its donor's checkpoint.
        end: Age of its last result.
        params: What ruled, by path.
        parent: Where its weights came from; None = it began with new ones.
    """

    trial: str
    begin: float
    end: float
    params: dict[str, Any]
    parent: Stage | None = None


def stages(records: Iterable[Record], clock: str) -> dict[str, list[Stage]]:
    """The stages of every trial, oldest first.

    Args:
        records: Of the journal.
        clock: The column of a row that ages are counted in.
    """
    found: dict[str, list[Stage]] = {}
    for record in records:
        name = record.get("trial", "")
        if record["kind"] == "trial":
            found[name] = [Stage(name, 0.0, 0.0, dict(record["params"]))]
        elif record["kind"] == "result":
            age = record["row"].get(clock)
            found[name][-1].end = found[name][-1].end if age is None else float(age)
        for clone, action in record.get("actions", {}).items():
            if isinstance(action, Mapping):
                donor = found[action["donor"]][-1]
                found[clone].append(Stage(clone, donor.end, donor.end, dict(action["params"]), donor))
    return found


def ancestry(stage: Stage) -> list[tuple[Stage, float, float]]:
    """The stages whose learning is in a stage's weights, oldest first, each with the ages between which it counts."""
    line = [(stage, stage.begin, stage.end)]
    while (parent := line[0][0].parent) is not None:
        line.insert(0, (parent, parent.begin, line[0][1]))
    return line


def mutated(lives: Mapping[str, list[Stage]]) -> list[str]:
    """Paths of parameters that have changed within the life of a trial."""
    return list(
        dict.fromkeys(
            path
            for life in lives.values()
            for stage in life[1:]
            for path, value in stage.params.items()
            if value != life[0].params.get(path)
        )
    )
