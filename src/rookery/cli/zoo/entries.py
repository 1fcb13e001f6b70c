"""Entries of the zoo: trained pairs of an environment and an algorithm, read from ``benchmarks/zoo`` of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rookery
from rookery.core.errors import ConfigError, nearest
from rookery.core.io.json_text import parse_json
from rookery.core.settings.layers import Layer, yaml_layer

if TYPE_CHECKING:
    from rookery.report.results import EvaluationResult

RESULT = "entry.json"
"""File of an entry with its scores."""

SETTINGS = "settings.yaml"
"""File of an entry with the settings of its trainings, for ``rookery train``."""

CURVE = "curve.svg"
"""File of an entry with its learning curves."""

WEIGHTS = "weights"
"""Folder of an entry with the policies of one training."""

HEAD = ("PAIR", "environment", "algorithm", "score", "95 % interval", "env steps", "seconds", "published elsewhere")
"""Columns of the table of entries."""


@dataclass(frozen=True)
class ZooEntry:
    """A pair of an environment and an algorithm with the results of several trainings.

    Attributes:
        environment: Name of the environment.
        algorithm: Name of the algorithm.
        env_steps: Environment steps of each training.
        episodes: Number of episodes that measure each training.
        deterministic: Whether the most likely actions are taken in these episodes, or sampled ones.
        score: Mean score of the trainings. The score of a training is the mean return of its episodes.
        interval: 95 % interval of `score` over seeds, by `statistics.mean_interval`.
        seconds: Mean duration of a training.
        runs: Results of each training: ``seed``, ``score``, ``env_steps``, ``seconds``.
        weights: Training whose policies are stored: ``seed``, ``score``, and ``interval``, the 95 % interval of its
            mean return over episodes; None if no policies are stored.
        published: Score that another project has published for as many steps: ``score``, ``by``, ``source``; None if
            there is none.
        machine: Versions of the packages, and the CPU.
    """

    environment: str
    algorithm: str
    env_steps: int
    episodes: int
    deterministic: bool
    score: float
    interval: Sequence[float]
    seconds: float
    runs: Sequence[dict[str, Any]]
    weights: dict[str, Any] | None
    published: dict[str, Any] | None
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Returns the content of `RESULT`."""
        return asdict(self)

    @property
    def played(self) -> str:
        """Description of the measurement of a training: ``100 episodes, most likely actions``."""
        return f"{self.episodes} episodes, {'most likely' if self.deterministic else 'sampled'} actions"

    def cells(self, name: str) -> tuple[str, ...]:
        """Returns the texts of its line in the table, under `HEAD`.

        Args:
            name: Name of the entry.
        """
        low, high = self.interval
        other = "" if self.published is None else f"{self.published['score']:g} ({self.published['by']})"
        return (
            name,
            self.environment.rpartition(":")[2],
            self.algorithm,
            f"{self.score:.2f}",
            f"{low:.2f} to {high:.2f}",
            f"{self.env_steps:,}",
            f"{self.seconds:.1f}",
            other,
        )


def find_zoo(folder: Path | None) -> Path:
    """Returns the folder of the zoo: a given one, or that of the source which this package runs from.

    Raises:
        ConfigError: If there is none.
    """
    place = folder or Path(rookery.__path__[0]).parents[1] / "benchmarks" / "zoo"
    if any(place.glob(f"*/{RESULT}")):
        return place
    if folder is not None:
        raise ConfigError(
            f"--zoo {folder}: there is no entry in it: it must be the folder benchmarks/zoo of the source"
        )
    raise ConfigError(
        "the zoo is not a part of the installed package: it is the folder benchmarks/zoo of a checkout of Rookery's "
        "source; name it with --zoo DIR"
    )


def entry_names(zoo: Path) -> list[str]:
    """Returns the names of all entries."""
    return sorted(path.parent.name for path in zoo.glob(f"*/{RESULT}"))


def completed_names(incomplete: str) -> Iterator[str]:
    """Yields the names of entries that begin with a text; a shell completes them."""
    try:
        names = entry_names(find_zoo(None))
    except ConfigError:
        return
    yield from (name for name in names if name.startswith(incomplete))


def find_entry(zoo: Path, name: str) -> Path:
    """Returns the folder of an entry.

    Raises:
        ConfigError: If there is none of that name.
    """
    known = entry_names(zoo)
    if name not in known:
        raise ConfigError(f"zoo: there is no pair {name!r}{nearest(name, known)}; rookery zoo list shows all")
    return zoo / name


def read_entry(folder: Path) -> ZooEntry:
    """Reads an entry.

    Raises:
        ConfigError: If its file cannot be read.
    """
    file = folder / RESULT
    try:
        return ZooEntry(**parse_json(file.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{file}: is no entry of the zoo: {error}") from None


def evaluate_weights(folder: Path, seed: int, episodes: int) -> EvaluationResult:
    """Plays episodes with the stored policies of an entry, with actions as its settings say.

    Args:
        folder: Folder of the entry.
        seed: Seed of the environment.
        episodes: Number of episodes.

    Raises:
        ConfigError: If the environment is missing, or the policies do not fit the settings.
        FileError: If the policies cannot be read.
    """
    from rookery.policies.export import policy_names
    from rookery.run.trainer import Trainer

    weights = folder / WEIGHTS
    stored = {f"policies.{name}.init_from": f"{weights}:{name}" for name in policy_names(weights)}
    layers = [yaml_layer(folder / SETTINGS), Layer(str(weights), {**stored, "seed": seed, "logging.console": "quiet"})]
    with Trainer(config=layers, preset="none") as trainer:
        return trainer.evaluate(episodes)
