"""A person plays: keys from a terminal or a window, what they stand for, and what is shown between two decisions."""

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
"""Keys that stand for no action: give the running episode up; end; keep an episode that is over."""

ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
"""Last letters of what a terminal sends for the arrow keys."""

NAMED = {"\x7f": DISCARD, "\b": DISCARD, "\x1b": QUIT, "\r": KEEP, "\n": KEEP, " ": "space", "\t": "tab"}
"""Keys that a terminal sends as one character and that have names."""

PAIRS = (("left", "right"), ("down", "up"), ("a", "d"), ("s", "w"))
"""Keys for the least and the largest value of each number of a box."""

WIDEST, TALLEST = 64, 24
"""Characters of a picture in a terminal; each shows two points, one above the other."""

AFTER_ESCAPE = 0.05
"""Seconds in which the rest of an arrow key comes, if it is one."""


class KeySource(Protocol):
    """Shows what there is to decide on, and gives the keys that are pressed."""

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Shows some lines, and a picture ``[H, W, 3]`` of bytes if there is one."""
        ...

    def read(self, seconds: float | None) -> str | None:
        """Gives the next key by its name; None if none comes in so many seconds (None = it waits)."""
        ...

    def close(self) -> None:
        """Leaves everything as it was."""
        ...


class TerminalKeys:
    """Reads keys from a terminal, without waiting for the end of a line.

    Args:
        descriptor: Of the terminal that keys come from.
        out: What is written to.

    Raises:
        ConfigError: If that is no terminal.
    """

    def __init__(self, descriptor: int, out: TextIO) -> None:
        if not os.isatty(descriptor):
            raise ConfigError("--from keyboard: standard input is no terminal, and no keys come from it")
        import termios
        import tty

        self._descriptor, self._out = descriptor, out
        self._before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Writes the picture in colours, where the terminal can, and the lines below it."""
        if picture is not None and self._out.isatty():
            self._out.write("\x1b[H\x1b[2J" + blocks(picture))
        self._out.write(text + "\n")
        self._out.flush()

    def read(self, seconds: float | None) -> str | None:
        """Gives the next key; the end of what comes from the terminal is `QUIT`."""
        found = self._character(seconds)
        if found != "\x1b":
            return found if found is None else NAMED.get(found, found) or QUIT
        if self._character(AFTER_ESCAPE) not in ("[", "O"):
            return QUIT
        last = self._character(AFTER_ESCAPE)
        while last is not None and not last.isalpha() and last != "~":
            last = self._character(AFTER_ESCAPE)
        return ARROWS.get(last or "", "unknown")

    def _character(self, seconds: float | None) -> str | None:
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return None
        try:
            first = os.read(self._descriptor, 1)
        except OSError:  # of a terminal that has closed
            return ""
        more = next((count for bits, count in ((0xF0, 3), (0xE0, 2), (0xC0, 1)) if first and first[0] >= bits), 0)
        return (first + (os.read(self._descriptor, more) if more else b"")).decode(errors="replace")

    def close(self) -> None:
        """Lets the terminal wait for the ends of lines again."""
        import termios

        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)


class WindowKeys:
    """Reads keys from a window that shows the environment's pictures.

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
        """Draws the picture, and the last lines below it."""
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
        """Gives the next key; a window that is closed is `QUIT`."""
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
        """Gives a key that is held down, where nobody is waited for."""
        pressed = self._pygame.key.get_pressed()
        known = [name for pair in PAIRS for name in pair] + [*digits, *ascii_lowercase, "space"]
        return next((name for name in known if pressed[self._pygame.key.key_code(name)]), None)

    def close(self) -> None:
        """Closes the window."""
        self._pygame.display.quit()


def blocks(picture: np.ndarray) -> str:
    """A picture as characters of a terminal, each of which shows two points."""
    height, width = picture.shape[:2]
    step = max(width / WIDEST, height / (2 * TALLEST), 1.0)
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


# --- what keys stand for ----------------------------------------------------------------------------------------------


def usual_keys(spec: ActionSpec) -> dict[str, Any]:
    """Actions by key, where the user does not say them.

    Raises:
        ConfigError: If there are no usual ones for such actions.
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
        f"--from keyboard: which keys are actions of {space}? Say --key left=ACTION (JSON), once for each"
    )


def keys_of(spec: ActionSpec, given: Sequence[str]) -> dict[str, Any]:
    """Actions by key, as the user says them (``left=0``), or the usual ones.

    Raises:
        ConfigError: If one is no action; names all that are not.
    """
    if not given:
        return usual_keys(spec)
    found, problems = {}, []
    for word in given:
        key, _, text = word.rpartition("=")
        if key in (DISCARD, QUIT) or not key:
            problems.append(f"--key {word}: must be KEY=ACTION, and {DISCARD} and {QUIT} have a meaning of their own")
            continue
        try:
            found[key] = action_of(spec, text)
        except (ValueError, SpaceError, TypeError, KeyError, IndexError) as error:
            problems.append(f"--key {word}: {text} is no action of {spec.space} ({error})")
    if problems:
        raise ConfigError(*problems)
    return found


def action_of(spec: ActionSpec, text: str) -> Any:
    """An action that is written as JSON; raises what it is raised for one that is none."""
    value = json.loads(text)
    action = value if spec.kind == "composite" else np.asarray(value)
    spec.from_env([action])
    return action


class Keyboard:
    """Decides what a person decides.

    Args:
        source: Where keys come from.
        keys: Actions by key.
        idle: What is done when no key is pressed; None = a key is waited for.
        seconds: How long a key may take, where there is such an action.

    Attributes:
        recorder: Who plays; whoever makes it says so.
        episode: Number of the episode, from 1.
    """

    def __init__(self, source: KeySource, keys: Mapping[str, Any], idle: Any, seconds: float) -> None:
        self.source, self.keys, self.idle, self.seconds = source, keys, idle, seconds
        self.recorder: EpisodeRecorder | None = None
        self.episode = 1

    def __call__(self, obs: Any) -> Any:
        """Shows what is seen and gives the action of the key that is pressed.

        Raises:
            EpisodeDiscarded: If the person gives the episode up.
            RecordingEnded: If the person has had enough.
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
            self.source.show(f"{key}: is no action; {self.legend()}", None)

    def wanted(self, result: EpisodeResult) -> bool:
        """Asks whether an episode that is over is to be kept.

        Raises:
            RecordingEnded: If the person has had enough; the episode is not kept.
        """
        told = f"episode {self.episode} is over: return {result.total:.6g}, {result.length:,} steps"
        self.source.show(f"{told}\n{KEEP} keeps it, {DISCARD} discards it, {QUIT} discards it and ends", self.picture())
        while (key := self.source.read(None)) not in (KEEP, DISCARD):
            if key == QUIT:
                raise RecordingEnded
        self.episode += key == KEEP
        return key == KEEP

    def legend(self) -> str:
        """Says which key is which action."""
        actions: dict[str, list[str]] = {}
        for key, action in self.keys.items():
            actions.setdefault(shown(action), []).append(key)
        return ", ".join(f"{' or '.join(keys)} = {action}" for action, keys in actions.items())

    def lines(self, obs: Any, is_drawn: bool) -> str:
        """What is shown below the picture, or in its place where none `is_drawn`."""
        found = [] if is_drawn else [shown(obs)]
        if self.recorder is not None:
            now = self.recorder.standing()
            found.append(f"episode {self.episode}, step {now.length}, return {now.total:.6g}")
        return "\n".join([*found, f"{self.legend()}; {DISCARD} discards, {QUIT} ends"])

    def picture(self) -> np.ndarray | None:
        """A picture of the environment as it stands; None if it draws none."""
        return None if self.recorder is None else self.recorder.picture()


def shown(value: Any) -> str:
    """A value in a few characters."""
    text = np.array2string(np.asarray(value), precision=3, threshold=16, edgeitems=4, separator=", ")
    return text.replace("\n", "") if not isinstance(value, Mapping | tuple) else str(value)


def source_of(view: str) -> KeySource:
    """Where keys come from: a window where there is a display and pygame, else the terminal.

    Args:
        view: ``auto``, ``terminal`` or ``window``.

    Raises:
        ConfigError: If it is none of these, or cannot be had.
    """
    if view not in ("auto", "terminal", "window"):
        raise ConfigError(f"--view {view}: must be auto, terminal or window")
    has_display = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if view == "window":
        return WindowKeys()
    if view == "auto" and has_display:
        try:
            return WindowKeys()
        except ConfigError:  # pygame is not there, or the display cannot be used
            pass
    return TerminalKeys(sys.stdin.fileno(), sys.stdout)
