"""Games of a person at a terminal: display, input, refused moves, results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TextIO

import numpy as np

from rookery.cli.games.keyboard import KEEP, QUIT, Keyboard, TerminalKeys, action_of, blocks, default_keys
from rookery.core.errors import ConfigError, EnvError, SpaceError, nearest
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, ActionSpec
from rookery.core.timers import Timers
from rookery.envs.base import VectorBase, VectorEnv
from rookery.envs.vector.rendering import drawn
from rookery.policies.policy import Policy
from rookery.policies.scripted import forbidden
from rookery.report.standings import Record
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker
from rookery.run.evaluate.recording import FunctionPolicy
from rookery.run.opponents.matches import Entrant, entrant_of_run, side_returns
from rookery.run.opponents.ratings import score_of
from rookery.run.opponents.self_play import sides_of
from rookery.run.prepare import make_copies
from rookery.run.run import Run

QUITS = ("q", "quit", "exit")
"""Words that end the game."""

NO = ("n", "no", *QUITS)

ARROWS = {
    "FrozenLake": "left down right up",
    "CliffWalking": "up right down left",
    "Taxi": "down up right left",
    "MultiAgentArena": "up right down left",
    "KeyDoor": "up right down left",
    "HazardGrid": "up right down left",
    "CarryTogether": "up right down left",
    "Sacrifice": "left down right",
}
"""Arrow keys of the first actions of known environments, in the order of the actions."""


class PersonLeft(Exception):
    """The person has quit."""


class PersonInput(Protocol):
    """Shows a game to a person, and reads the person's input."""

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Shows a state as text, or as an image ``[H, W, 3]`` of bytes."""
        ...

    def say(self, line: str) -> None:
        """Shows a line."""
        ...

    def move(self, agent: str, spec: ActionSpec, mask: np.ndarray | None) -> Any:
        """Returns an action; raises PersonLeft, or various errors for an invalid action."""
        ...

    def go_on(self, question: str) -> bool:
        """Asks whether to continue."""
        ...

    def close(self) -> None:
        """Restores the terminal."""
        ...


class TypedMoves:
    """Reads moves as lines: numbers, or JSON for actions of several numbers.

    Args:
        source: Input stream.
        out: Output stream.
    """

    def __init__(self, source: TextIO, out: TextIO) -> None:
        self._source, self._out = source, out

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Writes the state, with an empty line above."""
        self._out.write("\n" + (blocks(picture) if not text and picture is not None else text + "\n"))
        self._out.flush()

    def say(self, line: str) -> None:
        """Writes a line."""
        self._out.write(line + "\n")
        self._out.flush()

    def move(self, agent: str, spec: ActionSpec, mask: np.ndarray | None) -> Any:
        """Asks for a move."""
        word = self._line(f"{agent}, your move ({moves_of(spec, mask)}; q quits): ")
        try:
            return action_of(spec, word)
        except json.JSONDecodeError:
            raise ValueError(f"{word or 'nothing'} is not a number") from None

    def go_on(self, question: str) -> bool:
        """Asks a question; Enter means yes."""
        try:
            return self._line(f"{question} [Enter = yes, n = no] ") not in NO
        except PersonLeft:
            return False

    def close(self) -> None:
        """Does nothing."""

    def _line(self, prompt: str) -> str:
        self._out.write(prompt)
        self._out.flush()
        line = self._source.readline()
        word = line.strip().lower()
        if not line or word in QUITS:
            raise PersonLeft
        return word


class PressedKeys:
    """Reads moves as single keys.

    Args:
        source: Source of keys.
        out: Output stream.
        keys: Actions by key.
    """

    def __init__(self, source: TerminalKeys, out: TextIO, keys: Mapping[str, Any]) -> None:
        self._source, self._out, self._keys = source, out, keys
        self._legend = Keyboard(source, keys, None, 0.0).legend()

    def show(self, text: str, picture: np.ndarray | None) -> None:
        """Writes the state at the top of an empty screen."""
        if self._out.isatty():
            self._out.write("\x1b[H\x1b[2J")
        self._out.write(blocks(picture) if not text and picture is not None else text + "\n")
        self._out.flush()

    def say(self, line: str) -> None:
        """Writes a line."""
        self._source.show(line, None)

    def move(self, agent: str, spec: ActionSpec, mask: np.ndarray | None) -> Any:
        """Waits for a key."""
        self.say(f"{agent}: {self._legend}; {QUIT} quits")
        key = self._source.read(None)
        if key in (None, QUIT):
            raise PersonLeft
        if key not in self._keys:
            raise ValueError(f"the key {key} has no move")
        return self._keys[str(key)]

    def go_on(self, question: str) -> bool:
        """Asks a question; Enter means yes."""
        self.say(f"{question} [{KEEP} = yes, {QUIT} = no]")
        while (key := self._source.read(None)) not in (KEEP, "space", "y"):
            if key in (None, QUIT, "n", "q"):
                return False
        return True

    def close(self) -> None:
        """Restores the settings of the terminal."""
        self._source.close()


def moves_of(spec: ActionSpec, mask: np.ndarray | None) -> str:
    """Returns the possible moves as text: those that a mask allows, or a range, or the space."""
    start = int(getattr(spec.space, "start", 0)) if spec.kind == "discrete" else 0
    if spec.kind != "discrete":
        return f"JSON, an action of {spec.space}"
    if mask is None:
        return f"{start} to {start + spec.sizes[0] - 1}"
    return ", ".join(str(start + place) for place in np.flatnonzero(mask))


def arrow_keys(name: str, spec: ActionSpec) -> dict[str, Any]:
    """Returns actions by key: digits, and arrows if the directions of actions are known."""
    keys = default_keys(spec)
    known = next((arrows for part, arrows in ARROWS.items() if part in name), "")
    for action, arrow in enumerate(known.split()):
        if spec.kind == "discrete" and action < spec.sizes[0]:
            keys[arrow] = int(getattr(spec.space, "start", 0)) + action
    return keys


# --- display of the environment ---------------------------------------------------------------------------------------


def env_to_show(run: Run) -> VectorEnv:
    """Makes an environment of a run that can be shown: as text if possible, else as images."""
    env = make_copies(run.config, 1, render=True)
    modes = env.render_modes if isinstance(env, VectorBase) else ()
    if "ansi" in modes and innermost(env).text(0) is None:
        env.close()
        own = run.config.env
        config = replace(run.config, env=replace(own, config={**own.config, "render_mode": "ansi"}))
        env = make_copies(config, 1)
    return env


def innermost(env: VectorEnv) -> VectorBase:
    """Returns the innermost environment of wrappers.

    Raises:
        ConfigError: If it cannot be shown.
    """
    while isinstance(getattr(env, "env", None), VectorBase):
        env = env.env  # type: ignore[attr-defined]
    if not isinstance(env, VectorBase):
        raise ConfigError(f"{env.name}: the environment cannot be shown at a terminal: it has neither text nor images")
    return env


def state_of(env: VectorBase) -> tuple[str, np.ndarray | None]:
    """Returns the state of lane 0, as text or as an image.

    Raises:
        ConfigError: If there is neither.
    """
    text = env.text(0)
    picture = drawn(env, 0) if text is None else None
    if text is None and picture is None:
        raise ConfigError(
            f"{env.name}: the environment cannot be shown at a terminal: it has neither images "
            "(render_mode='rgb_array') nor text (render_mode='ansi', or text(lane) of a batched environment)"
        )
    return text or "", picture


# --- playing ----------------------------------------------------------------------------------------------------------


@dataclass
class PersonGames:
    """Games of a person against, with or in place of the policies of a run.

    Attributes:
        run: Run with the environment and policies.
        env: One environment.
        person: Display and input.
        side: A side or an agent that the person always plays; None = the sides in turn, game by game.
        policy: Policy or snapshot of the others; None = the run's mapping.
        deterministic: Whether the others take their most likely actions.
        watch: Whether the person only watches.
        seed: Random seed of the games.
    """

    run: Run
    env: VectorEnv
    person: PersonInput
    side: str | None
    policy: str | None
    deterministic: bool
    watch: bool
    seed: int

    def __post_init__(self) -> None:
        self.record, self.games = Record(), 0
        self._shown = innermost(self.env)
        self._shown.keep_last_pictures = True
        self._sides = sides_of(self.env)
        self._all = [agent for kind in self.env.kinds for agent in kind.agents]
        self._fallen = ""
        if self.side is not None and self.side not in {*self._sides, *self._all}:
            known = list(dict.fromkeys([*self._sides, *self._all]))
            raise ConfigError(f"--side {self.side}: there is no such side{nearest(self.side, known)}; there are "
                              f"{', '.join(known)}")  # fmt: skip
        self._others = self._entrant()

    def play(self) -> None:
        """Plays until the person quits.

        Raises:
            EnvError: If the environment breaks its contract.
        """
        try:
            while True:
                self._finish(self._game())
                if not self.person.go_on("another episode?" if self.watch else "another game?"):
                    return
        except PersonLeft:
            return

    def tally(self) -> str:
        """Returns the results so far as text; empty if no game was finished."""
        if self.watch or not self.games:
            return ""
        count = f"{self.games} game{'' if self.games == 1 else 's'}"
        return f"{count}: you {self.record}" if self.record.games else count

    def _entrant(self) -> Entrant:
        """Returns the player of the other agents."""
        needed = self._all if self.watch else [agent for agent in self._all if agent not in self._seat(0)]
        if not needed:
            return Entrant("none", {})
        found = entrant_of_run(self.run, self.env, self.policy, "the run" if self.policy is None else self.policy)
        if self.watch or self.side is not None or len(self._sides) < 2:
            self._refuse_missing(found, needed)
        return found

    def _refuse_missing(self, entrant: Entrant, needed: Sequence[str]) -> None:
        missing = [agent for agent in needed if agent not in entrant.policies]
        if missing:
            able = ", ".join(entrant.policies)
            raise ConfigError(f"{entrant.name} cannot play {', '.join(missing)}, only {able}; play those (--side)")

    def _seat(self, game: int) -> tuple[str, ...]:
        """Returns the agents that the person plays in a game."""
        if self.side is not None:
            return self._sides.get(self.side, (self.side,))
        if len(self._sides) < 2:
            return (self._all[0],)
        return list(self._sides.values())[game % len(self._sides)]

    def _game(self) -> EpisodeResult:
        """Plays a game to its end."""
        mine = () if self.watch else self._seat(self.games)
        self._refuse_missing(self._others, [agent for agent in self._all if agent not in mine])
        policies: dict[str, Policy] = {}
        for kind in self.env.kinds:
            for agent in kind.agents:
                if agent in mine:
                    policies[agent] = FunctionPolicy(kind.obs, kind.action, self._asks(agent, kind.action), agent)
                else:
                    policies[agent] = self._others.policies[agent]
        streams = Streams(Streams(self.seed).integer(Role.MATCH, self.games))
        mapping = PolicyMapping({agent: agent for agent in policies}, list(policies))
        worker = RolloutWorker(self.env, mapping, streams, streams.episodes(Role.ENV), Timers(), self.deterministic)
        for agent, policy in policies.items():
            worker.add_policy(agent, policy, demand=None)
        if mine and len(self._all) > 1:
            self.person.say(f"\nyou are {' and '.join(mine)}")
        worker.reset()
        while True:
            if self.watch:
                self.person.show(*state_of(self._shown))
                if not self.person.go_on(f"step {int(worker.lengths[0])}, next?"):
                    raise PersonLeft
            sample = worker.sample(1)
            for name, kind in sample.newcomers.items():
                agents = ", ".join(kind.agents)
                raise EnvError(f"{self.env.name}: agents {agents} joined during the game; {name!r} has no player")
            if sample.finished:
                return sample.finished[-1]

    def _asks(self, agent: str, spec: ActionSpec) -> Callable[[Any, Any], Any]:
        """Returns a function that asks the person for the actions of an agent."""

        def decide(obs: Any, info: Mapping[str, Any]) -> Any:
            mask = np.asarray(info[MASK], dtype=bool) if MASK in info else None
            self.person.show(*state_of(self._shown))
            while True:
                try:
                    action = self.person.move(agent, spec, mask)
                    stored = spec.from_env([action])[0]
                except (SpaceError, ValueError, TypeError, KeyError, IndexError) as error:
                    self.person.say(f"that is not a move: {error}; there are {moves_of(spec, mask)}")
                    continue
                if mask is None or not forbidden(spec, stored, mask):
                    return action
                self.person.say(f"{np.asarray(action)} is not allowed; allowed are {moves_of(spec, mask)}")

        return decide

    def _finish(self, result: EpisodeResult) -> None:
        """Shows the result of a game, and counts it."""
        text, picture = self._shown.last_texts.pop(0, None), self._shown.last_pictures.pop(0, None)
        if text is not None or picture is not None:
            self.person.show(text or "", None if text else picture)
        steps = f"{result.length:,} step{'' if result.length == 1 else 's'}"
        earned = side_returns(result, self._sides)
        mine = () if self.watch else self._seat(self.games)
        self.games += 1
        if len(self._sides) < 2 or self.watch:
            text = ", ".join(f"{side} {value:.6g}" for side, value in earned.items())
            self.person.say(f"over after {steps}: return {text if len(earned) > 1 else f'{result.total:.6g}'}")
            return
        own = [side for side, agents in self._sides.items() if set(mine) & set(agents)]
        others = [value for side, value in earned.items() if side not in own]
        score = score_of(earned[own[0]], max(others))
        self.record = self.record.plus(score)
        word = {1.0: "you won", 0.5: "a draw", 0.0: "you lost"}[score]
        text = ", ".join(f"{side} {value:+.6g}" for side, value in earned.items())
        self.person.say(f"{word} after {steps}: {text}")


def terminal_input(env: VectorEnv, lines: bool) -> PersonInput:
    """Returns input and display at this terminal: single keys if every move has one, else lines.

    Args:
        env: The environment.
        lines: Whether to use lines in any case.
    """
    specs = [kind.action for kind in env.kinds]
    masked = any(kind.obs.has_mask for kind in env.kinds)
    if not lines and not masked and all(spec == specs[0] for spec in specs):
        try:
            keys = arrow_keys(env.name, specs[0])
        except ConfigError:  # such actions have no usual keys
            return TypedMoves(sys.stdin, sys.stdout)
        return PressedKeys(TerminalKeys(sys.stdin.fileno(), sys.stdout), sys.stdout, keys)
    return TypedMoves(sys.stdin, sys.stdout)
