"""Films of trained policies: several episodes one after the other, with captions, as animated WebP, GIF, PNG or mp4."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rookery.core.errors import ConfigError, EnvError
from rookery.core.files import FileError
from rookery.envs.make import make_env
from rookery.report.results import EvaluationResult
from rookery.rollout.worker import RolloutWorker
from rookery.training.evaluation import play, summarize

if TYPE_CHECKING:
    from rookery.training.trainer import Trainer

ANIMATED = (".webp", ".gif", ".png", ".apng")
VIDEO = (".mp4", ".mkv", ".mov", ".webm")

PAPER, INK, FAINT = (250, 248, 244), (62, 66, 84), (140, 142, 152)
LINE = 20
"""Height of a line of a caption, in pixels."""

MOST_LABELS = 6
"""Agents that are named under a picture."""

TITLE_SECONDS = 0.8
"""How long the title of an episode stands."""

LARGEST = 640
"""Longest side of a picture, in pixels; larger ones are scaled down."""


def record(
    trainer: Trainer,
    path: Path,
    *,
    episodes: int,
    deterministic: bool,
    labels: bool,
    max_frames: int,
    frames_per_second: float,
) -> EvaluationResult:
    """Plays episodes in one environment of its own and writes them as a film; returns what they came to.

    Args:
        trainer: Whose policies play.
        path: The file: ``.webp`` (smallest), ``.gif``, ``.png`` or, with the package av, ``.mp4``.
        episodes: How many; a title stands before each of several.
        deterministic: Play the most likely actions.
        labels: Write below the pictures who plays, and what each has earned.
        max_frames: Pictures, at most; what comes after them is played, and left out of the film.
        frames_per_second: Speed of the film.

    Raises:
        ConfigError: If such a file cannot be made.
        EnvError: If the environment draws no pictures.
        FileError: If the file cannot be written.
    """
    check_suffix(path)
    cfg = trainer.config.env
    env = make_env(
        cfg.name, cfg.config, cfg.wrappers, 1, cfg.implementation, render=True, max_entities=cfg.max_entities
    )
    recorder = Recorder(episodes, max_frames, labels)
    try:
        results = play(
            env,
            trainer.policies,
            trainer.mapping,
            trainer.streams,
            episodes=episodes,
            deterministic=deterministic,
            after_step=recorder,
        )
    finally:
        env.close()
    recorder.save(path, frames_per_second)
    if recorder.full:
        trainer.reporter.note(f"{path} shows the first {max_frames:,} pictures only")
    return summarize(results, env_steps=trainer.env_steps, deterministic=deterministic)


@dataclass(frozen=True)
class Frame:
    """One picture, packed: a film of thousands fits into memory.

    Attributes:
        size: Width and height.
        packed: Its compressed bytes.
        is_title: It stands longer than the others.
    """

    size: tuple[int, int]
    packed: bytes
    is_title: bool = False

    @classmethod
    def of(cls, picture: Image.Image, is_title: bool = False) -> Frame:
        """The frame of a picture."""
        return cls(picture.size, zlib.compress(picture.tobytes(), 1), is_title)

    def picture(self) -> Image.Image:
        """The picture again."""
        return Image.frombytes("RGB", self.size, zlib.decompress(self.packed))


class Recorder:
    """Collects pictures of lane 0 while `play` runs, and writes them as a film.

    Args:
        episodes: How many will be played; what comes after them is left out.
        max_frames: Pictures, at most.
        labels: Write below each picture who plays, and what each has earned so far.
    """

    def __init__(self, episodes: int, max_frames: int, labels: bool) -> None:
        self.episodes = episodes
        self.max_frames = max_frames
        self.labels = labels
        self.frames: list[Frame] = []
        self.full = False
        """Whether there was more to see than `max_frames`."""
        self._episode = -1
        self._returns: list[float] = []

    def __call__(self, worker: RolloutWorker) -> None:
        """Takes the picture of what lane 0 shows; of an episode's end there is none, as the next has begun."""
        episode = int(worker.env.episode[0])
        self._returns += [result.total for result in worker.finished[len(self._returns) :]]
        if episode >= self.episodes:
            return
        if len(self.frames) >= self.max_frames:
            self.full = True
            return
        seen = worker.env.render(0)
        if seen is None:
            raise EnvError(f"{worker.env.name} draws no pictures: its render() gave None with render_mode='rgb_array'")
        picture = Image.fromarray(seen)
        scale = LARGEST / max(picture.size)
        if scale < 1:
            picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
        if self.labels:
            picture = captioned(picture, self._captions(worker, episode))
        if self.frames and picture.size != self.frames[0].size:
            picture = picture.resize(self.frames[0].size)
        if episode != self._episode and self.episodes > 1:
            self.frames.append(Frame.of(self._title(picture, episode), is_title=True))
        self._episode = episode
        self.frames.append(Frame.of(picture))

    def _captions(self, worker: RolloutWorker, episode: int) -> list[str]:
        """Where the episode stands, then a line for each agent: who plays it, what it has earned."""
        lines = [f"episode {episode + 1} of {self.episodes}, step {int(worker.lengths[0])}"]
        names = list(worker.seats)
        people = []
        for number, kind in enumerate(worker.env.kinds):
            desk = worker.desks[number] if number < len(worker.desks) else None
            for column, agent in enumerate(kind.agents):
                earned = 0.0 if desk is None else float(desk.returns[column])
                player = names[desk.seat_of[column]] if desk is not None and desk.seat_of[column] >= 0 else ""
                people.append(f"{agent}{f' ({player})' if player else ''} {earned:+.2f}")
        if len(people) > MOST_LABELS:
            people[MOST_LABELS - 1 :] = [f"and {len(people) - MOST_LABELS + 1} more"]
        return [*lines, *people]

    def _title(self, picture: Image.Image, episode: int) -> Image.Image:
        """The first picture of an episode behind its number, and what the one before came to."""
        title = Image.blend(picture, Image.new("RGB", picture.size, PAPER), 0.8)
        draw = ImageDraw.Draw(title)
        center, middle = picture.width / 2, picture.height / 2
        size = max(min(picture.width // 12, 34), 12)
        draw.text((center, middle), f"episode {episode + 1} of {self.episodes}", INK, _font(size), anchor="mm")
        if self._returns:
            before = f"the one before: return {self._returns[-1]:.2f}"
            draw.text((center, middle + 1.4 * size), before, FAINT, _font(max(size // 2, 11)), anchor="mm")
        return title

    def save(self, path: Path, frames_per_second: float) -> None:
        """Writes the film; the form is that of the suffix. Animations play for ever.

        Raises:
            ConfigError: If the suffix is none of those known, or needs a package that is not installed.
            FileError: If the file cannot be written.
        """
        check_suffix(path)
        holds = [TITLE_SECONDS if frame.is_title else 1 / frames_per_second for frame in self.frames]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix.lower() in VIDEO:
                write_video(path, self.frames, holds, frames_per_second)
            else:
                write_animation(path, self.frames, holds)
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror or error}") from None


def check_suffix(path: Path) -> None:
    """Says early whether a film can be written to a file of this name.

    Raises:
        ConfigError: If not; says what can, or what to install.
    """
    suffix = path.suffix.lower()
    if suffix in VIDEO:
        try:
            import av  # noqa: F401
        except ImportError:
            raise ConfigError(
                f"{path}: {suffix} needs the package av: pip install 'rookery[video]'; .webp needs nothing"
            ) from None
    elif suffix not in ANIMATED:
        raise ConfigError(f"{path}: a film is one of {', '.join(('.webp', '.gif', '.png', '.mp4'))}, by its suffix")


def captioned(picture: Image.Image, lines: Sequence[str]) -> Image.Image:
    """A picture with lines of text below it, the first of them fainter."""
    framed = Image.new("RGB", (picture.width, picture.height + LINE * len(lines) + 8), PAPER)
    framed.paste(picture, (0, 0))
    draw = ImageDraw.Draw(framed)
    for number, line in enumerate(lines):
        top = picture.height + 4 + LINE * number
        draw.text((8, top + LINE / 2), line, INK if number else FAINT, _font(13), anchor="lm")
    return framed


def write_animation(path: Path, frames: Sequence[Frame], holds: Sequence[float]) -> None:
    """An animated picture; one frame at a time is unpacked."""
    film: Any = frames[0].picture()

    def seek(number: int) -> None:
        if number >= len(frames):
            raise EOFError
        film.paste(frames[number].picture())

    film.n_frames, film.seek = len(frames), seek  # what Pillow asks of a picture that has several
    durations = [round(1000 * hold) for hold in holds]
    film.save(path, save_all=True, duration=durations, loop=0, quality=80, method=4, minimize_size=True)


def write_video(path: Path, frames: Sequence[Frame], holds: Sequence[float], frames_per_second: float) -> None:
    """A video; both sides are made even, as its form wants."""
    import av

    width, height = (side - side % 2 for side in frames[0].size)
    with av.open(str(path), "w") as file:
        codec = "libvpx-vp9" if path.suffix.lower() == ".webm" else "libx264"
        stream = file.add_stream(codec, rate=round(frames_per_second))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame, hold in zip(frames, holds, strict=True):
            shown = np.asarray(frame.picture())[:height, :width]
            for _ in range(max(round(hold * frames_per_second), 1)):
                file.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(shown), format="rgb24")))
        file.mux(stream.encode(None))


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    return ImageFont.load_default(size)
