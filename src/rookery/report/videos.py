"""Videos of several episodes with captions, as animated WebP, GIF or PNG, or in a video format."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.io.files import WriteError
from rookery.core.packages import install_line
from rookery.core.settings.starting_folder import shown

if TYPE_CHECKING:
    from PIL import Image  # else imported in the functions that make images: every training imports this module

ANIMATED_SUFFIXES = (".webp", ".gif", ".png", ".apng")
VIDEO_SUFFIXES = (".mp4", ".mkv", ".mov", ".webm")

PAPER, INK, FAINT = (250, 248, 244), (62, 66, 84), (140, 142, 152)
LINE = 20
"""Height of a caption line, in pixels."""

TITLE_SECONDS = 0.8
"""Duration of the title of an episode, in seconds."""

FEW_COLOURS = 1024
"""Largest number of colours of a drawing, with shades at its edges; photographs and shaded scenes have more."""

SAMPLES = 8
"""Approximate number of images that are checked for few colours."""

VideoProgress = Callable[[int, int], None]
"""Called with the number of encoded images and their total."""

LARGEST = 640
"""Longest side of an image, in pixels; larger ones are scaled down."""


@dataclass(frozen=True)
class Frame:
    """An image of a video, compressed, so that thousands fit into RAM.

    Attributes:
        size: Width and height in pixels.
        packed: Compressed bytes.
        is_title: Whether the image is a title, which is shown longer.
    """

    size: tuple[int, int]
    packed: bytes
    is_title: bool = False

    @classmethod
    def of(cls, image: Image.Image, is_title: bool = False) -> Frame:
        """Returns the frame of an image."""
        return cls(image.size, zlib.compress(image.tobytes(), 1), is_title)

    def image(self) -> Image.Image:
        """Returns the decompressed image."""
        from PIL import Image

        return Image.frombytes("RGB", self.size, zlib.decompress(self.packed))


class Video:
    """The images of several episodes, collected one by one and written as a video.

    Args:
        episodes: Number of episodes that will be shown; if several, each has a title.
        max_frames: Largest number of images, titles included; later ones are left out.
        frames_per_second: Speed of the video.
        max_seconds: Longest duration, likewise.
    """

    def __init__(
        self, episodes: int, max_frames: int, frames_per_second: float = 12.0, max_seconds: float = math.inf
    ) -> None:
        self.episodes = episodes
        self.max_frames = max_frames
        self.frames_per_second = frames_per_second
        self.max_seconds = max_seconds
        self.frames: list[Frame] = []
        self.seconds = 0.0
        """Duration so far."""
        self.is_full = False
        """Whether the video takes no more images."""
        self.left_out: list[int] = []
        """Episode of each image that was left out, as the video was full."""
        self._episode = -1

    def takes_next(self, episode: int) -> bool:
        """Returns whether the video has room for the next image of an episode and its title; if not, it is full, and
        the image counts as left out.
        """
        images = 1 + self._needs_title(episode)
        seconds = 1 / self.frames_per_second + TITLE_SECONDS * (images - 1)
        is_long = self.seconds + seconds > self.max_seconds + 1e-6  # the sum of many durations is rounded
        self.is_full |= bool(self.frames) and (is_long or len(self.frames) + images > self.max_frames)
        if self.is_full:
            self.left_out.append(episode)
        return not self.is_full

    def _needs_title(self, episode: int) -> bool:
        return episode != self._episode and self.episodes > 1

    def add(self, pixels: np.ndarray, episode: int, captions: Sequence[str], last_return: float | None) -> None:
        """Adds an image.

        Args:
            pixels: ``[height, width, 3]`` uint8; all images of a video have the size of its first.
            episode: Number of the image's episode, from 0.
            captions: Lines of text below the image.
            last_return: Return of the previous episode for the title; None if there is none.
        """
        from PIL import Image

        image = Image.fromarray(pixels)
        scale = LARGEST / max(image.size)
        if scale < 1:
            image = image.resize((round(image.width * scale), round(image.height * scale)))
        if captions:
            image = captioned(image, captions)
        if self.frames and image.size != self.frames[0].size:
            image = image.resize(self.frames[0].size)
        if self._needs_title(episode):
            self.frames.append(Frame.of(self._title(image, episode, last_return), is_title=True))
            self.seconds += TITLE_SECONDS
        self._episode = episode
        self.frames.append(Frame.of(image))
        self.seconds += 1 / self.frames_per_second

    def _title(self, image: Image.Image, episode: int, last_return: float | None) -> Image.Image:
        """Returns the title of an episode: its first image behind its number and the previous return."""
        from PIL import Image, ImageDraw

        title = Image.blend(image, Image.new("RGB", image.size, PAPER), 0.8)
        draw = ImageDraw.Draw(title)
        center, middle = image.width / 2, image.height / 2
        size = max(min(image.width // 12, 34), 12)
        draw.text((center, middle), f"episode {episode + 1} of {self.episodes}", INK, _font(size), anchor="mm")
        if last_return is not None:
            before = f"the one before: return {last_return:.2f}"
            draw.text((center, middle + 1.4 * size), before, FAINT, _font(max(size // 2, 11)), anchor="mm")
        return title

    def save(self, path: Path, progress: VideoProgress | None = None) -> None:
        """Writes the video to a file, whose suffix names the format; animations repeat forever.

        Args:
            path: The file.
            progress: Called with the number of encoded images and their total.

        Raises:
            ConfigError: If the suffix is unknown, or needs a package that is not installed.
            FileError: If the file cannot be written.
        """
        check_suffix(path)
        report = progress or (lambda encoded, total: None)
        holds = [TITLE_SECONDS if frame.is_title else 1 / self.frames_per_second for frame in self.frames]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix.lower() in VIDEO_SUFFIXES:
                write_video(path, self.frames, holds, self.frames_per_second, report)
            else:
                write_animation(path, self.frames, holds, report)
        except OSError as error:
            raise WriteError(f"{path}: cannot be written: {error.strerror or error}") from None


def check_suffix(path: Path) -> None:
    """Checks that a video can be written to a file of this name.

    Raises:
        ConfigError: If not; the message has the known suffixes, or the package to install.
    """
    suffix = path.suffix.lower()
    if suffix in VIDEO_SUFFIXES:
        try:
            import av  # noqa: F401
        except ImportError:
            raise ConfigError(
                f"{shown(path)}: {suffix} needs the package av: {install_line('video')}; .webp needs nothing"
            ) from None
    elif suffix not in ANIMATED_SUFFIXES:
        raise ConfigError(
            f"{shown(path)}: a video is one of {', '.join(('.webp', '.gif', '.png', '.mp4'))}, by its suffix"
        )


def captioned(image: Image.Image, lines: Sequence[str]) -> Image.Image:
    """Returns an image with lines of text below it, the first of them fainter."""
    from PIL import Image, ImageDraw

    framed = Image.new("RGB", (image.width, image.height + LINE * len(lines) + 8), PAPER)
    framed.paste(image, (0, 0))
    draw = ImageDraw.Draw(framed)
    for number, line in enumerate(lines):
        top = image.height + 4 + LINE * number
        draw.text((8, top + LINE / 2), line, INK if number else FAINT, _font(13), anchor="lm")
    return framed


def are_flat(frames: Sequence[Frame]) -> bool:
    """Returns whether images are drawings of few colours, from a sample: these are stored lossless, which is smaller
    for them than lossy compression.
    """
    some = frames[:: max(len(frames) // SAMPLES, 1)]
    return all(frame.image().getcolors(FEW_COLOURS) is not None for frame in some)


def write_animation(path: Path, frames: Sequence[Frame], holds: Sequence[float], report: VideoProgress) -> None:
    """Writes an animated image of frames with their durations; frames are decompressed one at a time."""
    animation: Any = frames[0].image()
    encoded = 0

    def seek(number: int) -> None:
        nonlocal encoded
        if number >= len(frames):
            raise EOFError
        animation.paste(frames[number].image())
        if number >= encoded:  # Pillow seeks to the first frame at the end
            encoded = number + 1
            report(encoded, len(frames))

    animation.n_frames, animation.seek = len(frames), seek  # Pillow's interface of images with several frames
    durations = [round(1000 * hold) for hold in holds]
    if are_flat(frames):
        options = {"lossless": True, "quality": 50}  # quality is the effort of lossless compression here
    else:
        options = {"quality": 80, "minimize_size": True}
    animation.save(path, save_all=True, duration=durations, loop=0, method=4, **options)


def write_video(
    path: Path, frames: Sequence[Frame], holds: Sequence[float], frames_per_second: float, report: VideoProgress
) -> None:
    """Writes a video; an odd row or column of pixels is left out, because the format requires even sides."""
    import av

    width, height = (side - side % 2 for side in frames[0].size)
    with av.open(str(path), "w") as file:
        codec = "libvpx-vp9" if path.suffix.lower() == ".webm" else "libx264"
        stream = file.add_stream(codec, rate=round(frames_per_second))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number, (frame, hold) in enumerate(zip(frames, holds, strict=True)):
            shown = np.asarray(frame.image())[:height, :width]
            for _ in range(max(round(hold * frames_per_second), 1)):
                file.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(shown), format="rgb24")))
            report(number + 1, len(frames))
        file.mux(stream.encode(None))


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
