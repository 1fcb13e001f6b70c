"""Keyboard input of a person: keys from a terminal or a window, their actions, and the display between decisions."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Mapping, Sequence
from string import ascii_lowercase, digits
from typing import Any, Protocol, TextIO

import numpy as np
from gymnasium import spaces

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.spaces.arrays import ActionSpec
from rookery.rollout.hooks import EpisodeResult
from rookery.run.evaluate.recording import EpisodeDiscarded, EpisodeRecorder, RecordingEnded

DISCARD, QUIT, KEEP = "backspace", "escape", "enter"
"""Keys without an action: discard the running episode; quit; keep a finished episode."""

ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
"""Last letters of a terminal's escape sequences for arrow keys."""

NAMED = {"\x7f": DISCARD, "\b": DISCARD, "\x1b": QUIT, "\r": KEEP, "\n": KEEP, " ": "space", "\t": "tab"}
"""Names of keys that a terminal sends as one character."""

PAIRS = (("left", "right"), ("down", "up"), ("a", "d"), ("s", "w"))
"""Keys for the lowest and the highest value of each number of a box."""

MAX_COLUMNS, MAX_ROWS = 64, 24
"""Maximum size of an image in a terminal, in characters; each shows two pixels, one above the other."""

ESCAPE_SECONDS = 0.05
"""Seconds to wait for the rest of an arrow key's escape sequence."""


class KeySource(Protocol):
    """Shows the state of an environment, and reads keys."""

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Shows lines of text, and an image ``[H, W, 3]`` of bytes if there is one."""
        ...

    def read(self, seconds: float | None) -> str | None:
        """Returns the name of the next key; None if none is pressed within `seconds` (None = no limit)."""
        ...

    def close(self) -> None:
        """Restores the terminal or closes the window."""
        ...


class TerminalKeys:
    """Reads keys from a terminal, without waiting for the end of a line.

    Args:
        descriptor: File descriptor of the terminal.
        out: Output stream.

    Raises:
        ConfigError: If the descriptor is not a terminal.
    """

    def __init__(self, descriptor: int, out: TextIO) -> None:
        if not os.isatty(descriptor):
            raise ConfigError("--from keyboard: standard input is not a terminal, so it has no keys")
        if sys.platform == "win32":
            raise ConfigError("--view terminal: on Windows keys of a terminal cannot be read; use --view window")
        import termios
        import tty

        self._descriptor, self._out = descriptor, out
        self._before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Writes the image in colours, if the output is a terminal, and the lines below it."""
        if picture is not None and self._out.isatty():
            self._out.write("\x1b[H\x1b[2J" + blocks(picture))
        self._out.write(text + "\n")
        self._out.flush()

    def read(self, seconds: float | None) -> str | None:
        """Returns the next key; the end of the input is `QUIT`."""
        found = self._character(seconds)
        if found != "\x1b":
            return found if found is None else NAMED.get(found, found) or QUIT
        if self._character(ESCAPE_SECONDS) not in ("[", "O"):
            return QUIT
        last = self._character(ESCAPE_SECONDS)
        while last is not None and not last.isalpha() and last != "~":
            last = self._character(ESCAPE_SECONDS)
        return ARROWS.get(last or "", "unknown")

    def _character(self, seconds: float | None) -> str | None:
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return None
        try:
            first = os.read(self._descriptor, 1)
        except OSError:  # the terminal has closed
            return ""
        more = next((count for bits, count in ((0xF0, 3), (0xE0, 2), (0xC0, 1)) if first and first[0] >= bits), 0)
        return (first + (os.read(self._descriptor, more) if more else b"")).decode(errors="replace")

    def close(self) -> None:
        """Restores the settings of the terminal."""
        if sys.platform != "win32":
            import termios

            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)


class WindowKeys:
    """Reads keys from a window that shows the environment's images.

    Raises:
        ConfigError: If pygame is not installed, or there is no display.
    """

    def __init__(self) -> None:
        try:
            import pygame
        except ImportError:
            raise ConfigError("--view window needs pygame: pip install pygame; or play with --view terminal") from None
        self._pygame: Any = pygame
        try:
            pygame.display.init()
            pygame.font.init()
        except pygame.error as error:
            raise ConfigError(f"--view window: {error}; play with --view terminal") from None
        self._names = {pygame.K_RETURN: KEEP, pygame.K_KP_ENTER: KEEP, pygame.K_BACKSPACE: DISCARD,
                       pygame.K_ESCAPE: QUIT}  # fmt: skip
        self._window: Any = None

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Draws the image, and the last lines below it."""
        pygame, lines = self._pygame, text.splitlines()[-2:]
        picture = np.zeros((120, 480, 3), np.uint8) if picture is None else picture
        height, width = picture.shape[:2]
        scale = max(1, 360 // max(height, 1))
        size = max(width * scale, 360), height * scale + 20 * len(lines) + 8
        if self._window is None or self._window.get_size() != size:
            self._window = pygame.display.set_mode(size)
            pygame.display.set_caption("rookery replay record")
        self._window.fill((20, 20, 20))
        surface = pygame.surfarray.make_surface(np.ascontiguousarray(picture.swapaxes(0, 1)))
        self._window.blit(pygame.transform.scale(surface, (width * scale, height * scale)), (0, 0))
        font = pygame.font.Font(None, 20)
        for number, line in enumerate(lines):
            self._window.blit(font.render(line, True, (230, 230, 230)), (6, height * scale + 4 + 20 * number))
        pygame.display.flip()

    def read(self, seconds: float | None) -> str | None:
        """Returns the next key; closing the window is `QUIT`."""
        pygame = self._pygame
        clock, passed = pygame.time.Clock(), 0.0
        while True:
            while (event := pygame.event.poll()).type != pygame.NOEVENT:
                if event.type == pygame.QUIT:
                    return QUIT
                if event.type == pygame.KEYDOWN:
                    return self._names.get(event.key) or str(pygame.key.name(event.key))
            if seconds is not None and passed >= seconds:
                return self._held()
            passed += clock.tick(100) / 1000

    def _held(self) -> str | None:
        """Returns a key that is held down, or None."""
        pressed = self._pygame.key.get_pressed()
        known = [name for pair in PAIRS for name in pair] + [*digits, *ascii_lowercase, "space"]
        return next((name for name in known if pressed[self._pygame.key.key_code(name)]), None)

    def close(self) -> None:
        """Closes the window."""
        self._pygame.display.quit()


def blocks(picture: np.ndarray) -> str:
    """Returns an image as characters of a terminal, each of which shows two pixels."""
    height, width = picture.shape[:2]
    step = max(width / MAX_COLUMNS, height / (2 * MAX_ROWS), 1.0)
    rows = (np.arange(int(height / step / 2) * 2) * step).astype(int)
    columns = (np.arange(int(width / step)) * step).astype(int)
    points = picture[np.ix_(rows, columns)][..., :3].astype(int)
    lines = []
    for upper, lower in zip(points[::2].tolist(), points[1::2].tolist(), strict=True):
        cells = [
            f"\x1b[38;2;{a[0]};{a[1]};{a[2]};48;2;{b[0]};{b[1]};{b[2]}m\u2580"
            for a, b in zip(upper, lower, strict=True)
        ]
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines) + "\n"


# --- actions of keys --------------------------------------------------------------------------------------------------


def default_keys(spec: ActionSpec) -> dict[str, Any]:
    """Returns the default actions by key.

    Raises:
        ConfigError: If there are no defaults for the action space.
    """
    space = spec.space
    if isinstance(space, spaces.Discrete) and space.n <= len(digits + ascii_lowercase):
        found: dict[str, Any] = {key: int(space.start) + number for number, key in enumerate(digits + ascii_lowercase)}
        found = dict(list(found.items())[: int(space.n)])
        if space.n == 2:
            found |= {"left": int(space.start), "right": int(space.start) + 1}
        return found
    if isinstance(space, spaces.Box) and spec.num_numbers <= len(PAIRS):
        bounded = np.isfinite(space.low) & np.isfinite(space.high)
        low, high = (
            np.where(bounded, bound, one).astype(space.dtype) for bound, one in ((space.low, -1), (space.high, 1))
        )
        middle = ((low.astype(np.float64) + high) / 2).astype(space.dtype)
        found = {"space": middle}
        for number, keys in zip(range(spec.num_numbers), PAIRS, strict=False):
            for key, extreme in zip(keys, (low, high), strict=True):
                found[key] = middle.copy()
                found[key].flat[number] = extreme.flat[number]
        return found
    raise ConfigError(
        f"--from keyboard: there are no default keys for actions of {space}; give --key left=ACTION (JSON) for each"
    )


def keys_to_actions(spec: ActionSpec, given: Sequence[str]) -> dict[str, Any]:
    """Returns actions by key, as given by the user (``left=0``), or the defaults.

    Raises:
        ConfigError: If some are not actions; names all of them.
    """
    if not given:
        return default_keys(spec)
    found, problems = {}, []
    for word in given:
        key, _, text = word.rpartition("=")
        if key in (DISCARD, QUIT) or not key:
            problems.append(f"--key {word}: must be KEY=ACTION, and {DISCARD} and {QUIT} are reserved")
            continue
        try:
            found[key] = action_of(spec, text)
        except (ValueError, SpaceError, TypeError, KeyError, IndexError) as error:
            problems.append(f"--key {word}: {text} is not an action of {spec.space} ({error})")
    if problems:
        raise ConfigError(*problems)
    return found


def action_of(spec: ActionSpec, text: str) -> Any:
    """Returns an action from JSON; raises various errors for an invalid one."""
    value = json.loads(text)
    action = value if spec.kind == "composite" else np.asarray(value)
    spec.from_env([action])
    return action


class Keyboard:
    """Player that acts by a person's keys.

    Args:
        source: Source of keys.
        keys: Actions by key.
        idle: Action if no key is pressed; None = wait for a key.
        seconds: Time to wait for a key, if there is an idle action.

    Attributes:
        recorder: Recorder of the episodes, set by its maker.
        episode: Number of the episode, from 1.
    """

    def __init__(self, source: KeySource, keys: Mapping[str, Any], idle: Any, seconds: float) -> None:
        self.source, self.keys, self.idle, self.seconds = source, keys, idle, seconds
        self.recorder: EpisodeRecorder | None = None
        self.episode = 1

    def __call__(self, obs: Any) -> Any:
        """Shows the observation and returns the action of the pressed key.

        Raises:
            EpisodeDiscarded: If the person discards the episode.
            RecordingEnded: If the person quits.
        """
        picture = self.picture()
        self.source.show(self.lines(obs, picture is not None), picture)
        while True:
            key = self.source.read(None if self.idle is None else self.seconds)
            if key is None:
                return self.idle
            if key == QUIT:
                raise RecordingEnded
            if key == DISCARD:
                raise EpisodeDiscarded
            if key in self.keys:
                return self.keys[key]
            self.source.show(f"{key}: this key has no action; {self.legend()}", None)

    def wanted(self, result: EpisodeResult) -> bool:
        """Asks whether to keep a finished episode.

        Raises:
            RecordingEnded: If the person quits; the episode is not kept.
        """
        text = f"episode {self.episode} is over: return {result.total:.6g}, {result.length:,} steps"
        self.source.show(f"{text}\n{KEEP} keeps it, {DISCARD} discards it, {QUIT} discards it and ends", self.picture())
        while (key := self.source.read(None)) not in (KEEP, DISCARD):
            if key == QUIT:
                raise RecordingEnded
        self.episode += key == KEEP
        return key == KEEP

    def legend(self) -> str:
        """Returns the keys of all actions, as text."""
        actions: dict[str, list[str]] = {}
        for key, action in self.keys.items():
            actions.setdefault(short_text(action), []).append(key)
        return ", ".join(f"{' or '.join(keys)} = {action}" for action, keys in actions.items())

    def lines(self, obs: Any, is_drawn: bool) -> str:
        """Returns the text below the image, or in its place if no image `is_drawn`."""
        found = [] if is_drawn else [short_text(obs)]
        if self.recorder is not None:
            now = self.recorder.standing()
            found.append(f"episode {self.episode}, step {now.length}, return {now.total:.6g}")
        return "\n".join([*found, f"{self.legend()}; {DISCARD} discards, {QUIT} ends"])

    def picture(self) -> np.ndarray | None:
        """Returns an image of the environment; None if it has none."""
        return None if self.recorder is None else self.recorder.picture()


def short_text(value: Any) -> str:
    """Returns a value as short text."""
    text = np.array2string(np.asarray(value), precision=3, threshold=16, edgeitems=4, separator=", ")
    return text.replace("\n", "") if not isinstance(value, Mapping | tuple) else str(value)


def key_source(view: str) -> KeySource:
    """Returns the source of keys: a window if there is a display and pygame, else the terminal.

    Args:
        view: ``auto``, ``terminal`` or ``window``.

    Raises:
        ConfigError: If it is none of these, or not available.
    """
    if view not in ("auto", "terminal", "window"):
        raise ConfigError(f"--view {view}: must be auto, terminal or window")
    has_display = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if view == "window":
        return WindowKeys()
    if view == "auto" and has_display:
        try:
            return WindowKeys()
        except ConfigError:  # pygame is not installed, or the display cannot be used
            pass
    return TerminalKeys(sys.stdin.fileno(), sys.stdout)
