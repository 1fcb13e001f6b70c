"""``--inference``: runs the policies without learning until the user stops it; then prints their returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rookery.face import (
    FOLDER,
    ConfigError,
    EpisodeResult,
    Interrupted,
    Layer,
    Trainer,
    bounded,
    list_checkpoints,
    write_line,
)
from rookery_mlagents.files.console_line import console_line
from rookery_mlagents.files.run_options import RunOptions
from rookery_mlagents.key_meanings import parameters_of
from rookery_mlagents.learn.learn import (
    MLAGENTS,
    Request,
    check_folder,
    closed_on_error,
    environment_of,
    options_of,
    overrides_of,
    plan_of,
)

LOOK_EVERY = 100
"""Vector steps between two checks for finished episodes."""

ENDLESS = 1 << 60
"""Number of episodes of a measurement that only an interruption ends."""


@dataclass
class Earned:
    """Episode returns of the agents of a behaviour.

    Attributes:
        returns: Of each agent's episode since the latest line.
        steps: Env steps of these and all before, each agent's by itself.
        count, total, squares: Episodes, sum and sum of squares of their returns, over all.
        line_at: Steps at which the next line is written.
    """

    returns: list[float]
    steps: int
    count: int
    total: float
    squares: float
    line_at: int

    def take(self, value: float, length: int) -> None:
        """Adds an episode of an agent."""
        self.returns.append(value)
        self.steps, self.count = self.steps + length, self.count + 1
        self.total, self.squares = self.total + value, self.squares + value * value

    def text(self) -> str:
        """Returns the line printed at the end."""
        mean = self.total / self.count
        deviation = math.sqrt(max(0.0, self.squares / self.count - mean * mean))
        return f"mean reward {mean:.3f}, std of reward {deviation:.3f}, {self.count:,} episodes, {self.steps:,} steps"


def play(request: Request, seconds: Callable[[], float]) -> dict[str, Earned]:
    """Runs the policies of a run, or new ones, until an interrupt or until `episodes` have finished.

    Args:
        request: The request; no files are written.
        seconds: Gives a time to count from.

    Returns:
        What each behaviour has earned.

    Raises:
        ConfigError: If a part of the request is not possible; names it and a remedy.
    """
    options = options_of(request)
    folder = check_folder(options)
    if options.checkpoint_settings.resume:
        if not list_checkpoints(folder / FOLDER):
            raise ConfigError(f"--resume: {folder} holds no checkpoint yet")
        layers = [
            Layer("--inference", {"evaluation.lesson": "current"}),
            given_now(options, request),
            overrides_of(request),
        ]
        trainer = Trainer.load(folder, config=layers, console="quiet", trust_code=request.trust_code)
    else:
        plan = plan_of(request)
        options = plan.options
        with closed_on_error(plan.copies), TemporaryDirectory() as demonstrations:
            trainer = Trainer(config=plan.layers(request, Path(demonstrations)), stand_in=plan.copies)
        plan.begin(trainer, request.trust_pickle)
    with trainer:
        return _play(trainer, options, request, seconds)


def given_now(options: RunOptions, request: Request) -> Layer:
    """Returns the user's present settings of the environment and the seed. Without a file, only flags count, because
    all other options are those stored by the run.
    """
    values: dict[str, object] = {}
    lines: dict[str, str] = {}
    if _is_given(options, request, "env_settings.env_path", "env_settings.env_args"):
        env = environment_of(options)
        values |= env.values
        lines |= env.lines
        if not _is_given(options, request, "env_settings.env_path"):
            del values["env.name"]
    if _is_given(options, request, "env_settings.seed") and options.env_settings.seed >= 0:
        values["seed"], lines["seed"] = options.env_settings.seed, options.places["env_settings.seed"]
    if request.file is not None:
        values |= parameters_of(options)
    return Layer(options.file or "flags", values, lines)


def _copies(options: RunOptions, request: Request) -> int | None:
    """Returns the requested number of environments; None = as many as the run has."""
    if not _is_given(options, request, "env_settings.num_envs", "env_settings.num_areas"):
        return None
    return options.env_settings.num_envs * options.env_settings.num_areas


def _is_given(options: RunOptions, request: Request, *keys: str) -> bool:
    """Returns whether the user now sets one of some keys, by a flag or in a file."""
    places = [options.places[key] for key in keys if key in options.places]
    return any(request.file is not None or place.startswith("--") for place in places)


def _play(trainer: Trainer, options: RunOptions, request: Request, seconds: Callable[[], float]) -> dict[str, Earned]:
    """Runs the policies in environments used for nothing else."""
    likeliest = any(one.network_settings.deterministic for one in options.behaviors.values())
    freq = {name: _summary_freq(options, name) for name in trainer.policies}
    earned = {name: Earned([], 0, 0, 0.0, 0.0, every) for name, every in freq.items()}
    count = _copies(options, request) or trainer.config.sampling.num_envs
    episodes = request.episodes or ENDLESS
    with trainer._copies(count) as copies:
        played, began = bounded(trainer, copies, episodes, likeliest, trainer._interrupt), seconds()
        with trainer._interrupt.watching():
            try:
                while not played.over:
                    played.play(LOOK_EVERY)
                    _take(played.finished, earned)
                    if request.console == MLAGENTS:
                        _tell(earned, freq, seconds() - began)
            except Interrupted:
                _take(played.finished, earned)
    return earned


def _take(finished: list[EpisodeResult], earned: Mapping[str, Earned]) -> None:
    """Removes finished episodes from a list and adds them."""
    for episode in finished:
        for agent, value in episode.agents.items():
            name = episode.policies[agent]
            if name in earned:
                earned[name].take(value, episode.length)
    finished.clear()


def _tell(earned: Mapping[str, Earned], freq: Mapping[str, int], seconds: float) -> None:
    """Writes a line for each behaviour that has reached `Earned.line_at`."""
    for name, one in earned.items():
        if one.steps >= one.line_at:
            step = one.steps - one.steps % freq[name]
            write_line(console_line(name, step, seconds, one.returns, is_training=False))
            one.returns, one.line_at = [], step + freq[name]


def _summary_freq(options: RunOptions, name: str) -> int:
    """Steps between two lines of a behaviour."""
    try:
        return options.of(name).summary_freq
    except ConfigError:
        return 50_000
