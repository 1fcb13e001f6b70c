"""Films: pictures of several episodes one after the other, with captions, as animated WebP, GIF, PNG or as video."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rookery.core.errors import ConfigError
from rookery.core.io.files import WriteError
from rookery.core.settings.starting_folder import shown

ANIMATED = (".webp", ".gif", ".png", ".apng")
VIDEO = (".mp4", ".mkv", ".mov", ".webm")

PAPER, INK, FAINT = (250, 248, 244), (62, 66, 84), (140, 142, 152)
LINE = 20
"""Height of a line of a caption, in pixels."""

TITLE_SECONDS = 0.8
"""Seconds that the title of an episode stands."""

FEW_COLOURS = 1024
"""Colours that a drawing has at most, with the shades at its edges; a photograph or a shaded scene has more."""

SAMPLES = 8
"""Pictures of a film that are looked at to tell one from the other, about."""

Progress = Callable[[int, int], None]
"""Told how many pictures have been encoded, and how many there are."""

LARGEST = 640
"""Longest side of a picture, in pixels; larger ones are scaled down."""


@dataclass(frozen=True)
class Frame:
    """A picture of a film, compressed, so that thousands fit into RAM.

    Attributes:
        size: Width and height in pixels.
        packed: Compressed bytes of the picture.
        is_title: Whether the picture is a title, which stands longer than the others.
    """

    size: tuple[int, int]
    packed: bytes
    is_title: bool = False

    @classmethod
    def of(cls, picture: Image.Image, is_title: bool = False) -> Frame:
        """Makes the frame of a picture."""
        return cls(picture.size, zlib.compress(picture.tobytes(), 1), is_title)

    def picture(self) -> Image.Image:
        """Returns the picture again."""
        return Image.frombytes("RGB", self.size, zlib.decompress(self.packed))


class Film:
    """The pictures of several episodes, collected one by one and written as a film.

    Args:
        episodes: Number of episodes that will be shown; a title stands before each of several.
        max_frames: Largest number of pictures; later ones are left out.
    """

    def __init__(self, episodes: int, max_frames: int) -> None:
        self.episodes = episodes
        self.max_frames = max_frames
        self.frames: list[Frame] = []
        self.is_cut = False
        """Whether there was more to see than `max_frames`."""
        self._episode = -1

    @property
    def is_full(self) -> bool:
        """Whether the film takes no more pictures."""
        return len(self.frames) >= self.max_frames

    def add(self, pixels: np.ndarray, episode: int, captions: Sequence[str], last_return: float | None) -> None:
        """Adds a picture.

        Args:
            pixels: ``[height, width, 3]`` uint8; the pictures of a film are all shown as large as its first.
            episode: Number of the episode that the picture belongs to, from 0.
            captions: Lines of text to write below the picture.
            last_return: Return of the episode before, which the title of an episode shows; None if there is none.
        """
        picture = Image.fromarray(pixels)
        scale = LARGEST / max(picture.size)
        if scale < 1:
            picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
        if captions:
            picture = captioned(picture, captions)
        if self.frames and picture.size != self.frames[0].size:
            picture = picture.resize(self.frames[0].size)
        if episode != self._episode and self.episodes > 1:
            self.frames.append(Frame.of(self._title(picture, episode, last_return), is_title=True))
        self._episode = episode
        self.frames.append(Frame.of(picture))

    def _title(self, picture: Image.Image, episode: int, last_return: float | None) -> Image.Image:
        """Returns the first picture of an episode behind its number and the return of the episode before."""
        title = Image.blend(picture, Image.new("RGB", picture.size, PAPER), 0.8)
        draw = ImageDraw.Draw(title)
        center, middle = picture.width / 2, picture.height / 2
        size = max(min(picture.width // 12, 34), 12)
        draw.text((center, middle), f"episode {episode + 1} of {self.episodes}", INK, _font(size), anchor="mm")
        if last_return is not None:
            before = f"the one before: return {last_return:.2f}"
            draw.text((center, middle + 1.4 * size), before, FAINT, _font(max(size // 2, 11)), anchor="mm")
        return title

    def save(self, path: Path, frames_per_second: float, progress: Progress | None = None) -> None:
        """Writes the film to a file, whose suffix names the form; animations play for ever.

        Args:
            path: The file.
            frames_per_second: Speed of the film.
            progress: Function that is told of every picture that has been encoded, and how many there are.

        Raises:
            ConfigError: If the suffix is none of those known, or needs a package that is not installed.
            FileError: If the file cannot be written.
        """
        check_suffix(path)
        tell = progress or (lambda encoded, total: None)
        holds = [TITLE_SECONDS if frame.is_title else 1 / frames_per_second for frame in self.frames]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix.lower() in VIDEO:
                write_video(path, self.frames, holds, frames_per_second, tell)
            else:
                write_animation(path, self.frames, holds, tell)
        except OSError as error:
            raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from None


def check_suffix(path: Path) -> None:
    """Checks that a film can be written to a file of this name.

    Raises:
        ConfigError: If it cannot; says which suffixes can, or what to install.
    """
    suffix = path.suffix.lower()
    if suffix in VIDEO:
        try:
            import av  # noqa: F401
        except ImportError:
            raise ConfigError(
                f"{shown(path)}: {suffix} needs the package av: pip install 'rookery[video]'; .webp needs nothing"
            ) from None
    elif suffix not in ANIMATED:
        raise ConfigError(
            f"{shown(path)}: a film is one of {', '.join(('.webp', '.gif', '.png', '.mp4'))}, by its suffix"
        )


def captioned(picture: Image.Image, lines: Sequence[str]) -> Image.Image:
    """Returns a picture with lines of text below it, the first of them fainter."""
    framed = Image.new("RGB", (picture.width, picture.height + LINE * len(lines) + 8), PAPER)
    framed.paste(picture, (0, 0))
    draw = ImageDraw.Draw(framed)
    for number, line in enumerate(lines):
        top = picture.height + 4 + LINE * number
        draw.text((8, top + LINE / 2), line, INK if number else FAINT, _font(13), anchor="lm")
    return framed


def are_flat(frames: Sequence[Frame]) -> bool:
    """Returns whether pictures are drawings of few colours, judged by some of them: these are kept without loss, which
    takes less room for them than blurring does.
    """
    some = frames[:: max(len(frames) // SAMPLES, 1)]
    return all(frame.picture().getcolors(FEW_COLOURS) is not None for frame in some)


def write_animation(path: Path, frames: Sequence[Frame], holds: Sequence[float], tell: Progress) -> None:
    """Writes an animated picture of frames, unpacked one at a time, each of which stands for its seconds."""
    film: Any = frames[0].picture()
    encoded = 0

    def seek(number: int) -> None:
        nonlocal encoded
        if number >= len(frames):
            raise EOFError
        film.paste(frames[number].picture())
        if number >= encoded:  # Pillow goes back to the first when it is done
            encoded = number + 1
            tell(encoded, len(frames))

    film.n_frames, film.seek = len(frames), seek  # what Pillow asks of a picture that has several
    durations = [round(1000 * hold) for hold in holds]
    if are_flat(frames):
        options = {"lossless": True, "quality": 50}  # for these the second is how hard to look for the smallest file
    else:
        options = {"quality": 80, "minimize_size": True}
    film.save(path, save_all=True, duration=durations, loop=0, method=4, **options)


def write_video(
    path: Path, frames: Sequence[Frame], holds: Sequence[float], frames_per_second: float, tell: Progress
) -> None:
    """Writes a video; an odd row or column of pixels is left out, because the format demands even sides."""
    import av

    width, height = (side - side % 2 for side in frames[0].size)
    with av.open(str(path), "w") as file:
        codec = "libvpx-vp9" if path.suffix.lower() == ".webm" else "libx264"
        stream = file.add_stream(codec, rate=round(frames_per_second))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number, (frame, hold) in enumerate(zip(frames, holds, strict=True)):
            shown = np.asarray(frame.picture())[:height, :width]
            for _ in range(max(round(hold * frames_per_second), 1)):
                file.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(shown), format="rgb24")))
            tell(number + 1, len(frames))
        file.mux(stream.encode(None))


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    return ImageFont.load_default(size)
