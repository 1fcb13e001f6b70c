"""``run_logs/training_status.json``: lessons, ratings and checkpoints of a run, in ML-Agents' format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

FORMAT = "0.3.0"
"""``stats_format_version`` of ML-Agents 1.1.0."""

MLAGENTS = "1.1.0"
"""Version of ML-Agents whose file formats are written."""


@dataclass(frozen=True)
class CheckpointEntry:
    """A checkpoint of a behaviour.

    Attributes:
        steps: Agent steps of the behaviour.
        file_path: Its ONNX file; where there is none, its weights; empty if there are none either.
        reward: Mean return since the summary before, or None if no episode has ended.
        creation_time: Seconds since 1970.
        auxillary_file_paths: Other files of it, spelled as ML-Agents does.
    """

    steps: int
    file_path: str
    reward: float | None
    creation_time: float
    auxillary_file_paths: tuple[str, ...] = ()


def status_text(
    lessons: Mapping[str, int],
    checkpoints: Mapping[str, Sequence[CheckpointEntry]],
    final: Mapping[str, CheckpointEntry],
    ratings: Mapping[str, float],
) -> str:
    """Returns the text of the file.

    Args:
        lessons: Number of the lesson of each parameter, from 0.
        checkpoints: Those of each behaviour that are kept, the oldest first.
        final: The latest model of each behaviour.
        ratings: Rating of each behaviour that plays against itself.
    """
    content: dict[str, object] = {name: {"lesson_num": lesson} for name, lesson in lessons.items()}
    for name in dict.fromkeys((*checkpoints, *final, *ratings)):
        entry: dict[str, object] = {"checkpoints": [asdict(one) for one in checkpoints.get(name, ())]}
        if name in final:
            entry["final_checkpoint"] = asdict(final[name])
        if name in ratings:
            entry["elo"] = ratings[name]
        content[name] = entry
    content["metadata"] = {"stats_format_version": FORMAT, "mlagents_version": MLAGENTS, **known_versions()}
    return json.dumps(content, indent=4) + "\n"


@cache
def known_versions() -> Mapping[str, str]:
    """Returns the versions of the software of a run, under the names of the file."""
    found = {}
    for key, package in (("torch_version", "torch"), ("rookery_version", "rookery")):
        try:
            found[key] = version(package)
        except PackageNotFoundError:
            continue
    return found
