"""Atari games with the usual preprocessing: grey 84x84 images, every fourth frame, the last four stacked (needs
`ale-py`).

`Atari` is one game as a Gymnasium environment whose state can be saved; `BatchedAtari` is ALE's own vector environment,
which plays many games in threads. Both follow `AtariRules`, and the same game with the same actions is the same in
both, pixel for pixel; only the random numbers (how long a game waits at its start, which actions stick) are drawn by
different generators. The preprocessing is that of Mnih et al., "Human-level control through deep reinforcement
learning" (2015), with sticky actions from Machado et al., "Revisiting the Arcade Learning Environment" (2018).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import gymnasium
import numpy as np
from ale_py import Action, ALEInterface, ALEState, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces

from rookery.core.errors import EnvError, nearest
from rookery.core.process.cpu import end_busy_waits, usable_cores
from rookery.core.settings.reach import Count, CountFromZero, Few, Label
from rookery.envs.adapters.batched import BatchedEnv
from rookery.envs.base import SeedPlan, Step

SIZE = 84
"""Height and width of an image."""

LOG_LIMIT = 10_000
"""Largest number of decisions of a lane that are kept, so that they can be repeated after a restart."""

RESEED_AFTER = 5_000
"""Decisions after which a lane of `BatchedAtari` takes a new seed when a game ends. ALE takes a seed only with the ROM,
and loading that costs as much as about 300 decisions, so that a seed for every game would cost more than playing it."""


@dataclass(frozen=True)
class AtariRules:
    """Preprocessing and rules of a game; the names are those of ALE.

    Attributes:
        game: Name of the game, ``pong`` or ``MsPacman``.
        frameskip: Frames an action lasts; the last two of them are merged (brighter pixel wins).
        stack_num: Images in an observation, the newest last.
        noop_max: A game starts with fewer than this many frames without an action.
        use_fire_reset: Press fire at the start, in games that have it.
        episodic_life: A lost life terminates the episode; the next one continues the same game.
        reward_clipping: Only the sign of a reward counts.
        full_action_space: All 18 actions instead of those that have an effect in this game.
        repeat_action_probability: Probability in each frame of repeating the action of the frame before ("sticky
            actions").
        max_num_frames_per_episode: Frames after which a game is truncated.
    """

    game: Label
    frameskip: Count = 4
    stack_num: Few = 4
    noop_max: CountFromZero = 30
    use_fire_reset: bool = True
    episodic_life: bool = False
    reward_clipping: bool = True
    full_action_space: bool = False
    repeat_action_probability: float = 0.0
    max_num_frames_per_episode: Count = 108_000

    def __post_init__(self) -> None:
        for name, least in (("frameskip", 1), ("stack_num", 1), ("noop_max", 0), ("max_num_frames_per_episode", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise EnvError(f"Atari: {name} is {value!r}, expected an integer of at least {least}")
        if not 0 <= self.repeat_action_probability < 1:
            probability = self.repeat_action_probability
            raise EnvError(f"Atari: repeat_action_probability is {probability!r}, expected at least 0 and less than 1")
        known = roms.get_all_rom_ids()
        plain = {rom.replace("_", ""): rom for rom in known}
        rom = plain.get(str(self.game).replace("_", "").lower())
        if rom is None:
            raise EnvError(f"Atari: game {self.game!r} is unknown{nearest(str(self.game), known)}")
        object.__setattr__(self, "game", rom)

    @classmethod
    def given(cls, settings: Mapping[str, Any]) -> AtariRules:
        """Returns the rules from `env.config`.

        Raises:
            EnvError: If a setting is unknown or out of range, or `game` is missing.
        """
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise EnvError(f"Atari has no setting {name!r}; it has {', '.join(known)}{nearest(name, known)}")
        if "game" not in settings:
            raise EnvError("Atari: game is missing; name one, as in env: {name: Atari, config: {game: pong}}")
        return cls(**settings)

    @property
    def observation_space(self) -> spaces.Box:
        """Returns the space of images ``[stack_num, 84, 84]``, uint8."""
        return spaces.Box(0, 255, (self.stack_num, SIZE, SIZE), np.uint8)


class Atari(gymnasium.Env[np.ndarray, np.int64]):
    """One Atari game, preprocessed: images ``[4, 84, 84]`` uint8, a discrete action, a clipped reward.

    An episode depends only on its seed and its actions, and `get_state` returns the state, so that runs repeat and
    resume to the last bit.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
    argument_types = AtariRules
    vector_entry_point: ClassVar[type[BatchedAtari]]  # vectorized variant, if requested

    def __init__(self, *, render_mode: str | None = None, **settings: Any) -> None:
        """Loads the game.

        Args:
            render_mode: ``"rgb_array"`` for colour images, or None.
            **settings: Fields of `AtariRules`; `game` must be given.

        Raises:
            EnvError: If a setting is unknown or out of range.
        """
        self.render_mode = render_mode
        self.rules = AtariRules.given(settings)
        ALEInterface.setLoggerMode(LoggerMode.Error)  # otherwise it prints a greeting
        self.ale = ALEInterface()
        # ALE's own random numbers are not used: sticky actions are drawn here, and a seed needs no reload of the ROM.
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("random_seed", 0)
        rom = roms.get_rom_path(self.rules.game)
        assert rom is not None, "AtariRules knows the games"
        self.ale.loadROM(rom)
        self._fresh = self.ale.cloneState(include_rng=True)
        full = self.rules.full_action_space
        self._actions = self.ale.getLegalActionSet() if full else self.ale.getMinimalActionSet()
        self._fires = self.rules.use_fire_reset and Action.FIRE in self._actions
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = self.rules.observation_space
        height, width = self.ale.getScreenDims()
        self._rows, self._columns = _shares(height), _shares(width)
        self._newest, self._before = np.zeros((2, height, width), np.uint8)
        self._stack = np.zeros(self.observation_space.shape, np.uint8)
        self._frames = 0
        self._lives = 0
        self._held = Action.NOOP  # action of the last frame
        self._goes_on = False  # only a life was lost: the next episode continues this game

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a game, or continues it if the last episode ended with one of several lives."""
        super().reset(seed=seed)
        if self._goes_on:
            self._goes_on = False
            return self._stack, {"lives": self._lives}
        self.ale.restoreState(self._fresh)
        self.ale.reset_game()
        if self._fires:
            self.ale.act(Action.FIRE)
        idle = int(self.np_random.integers(self.rules.noop_max)) if self.rules.noop_max else 0
        for _ in range(idle - self._fires):
            self.ale.act(Action.NOOP)
            if self.ale.game_over():
                self.ale.reset_game()
        self._frames, self._lives, self._held = 0, self.ale.lives(), Action.NOOP
        self._before[:] = 0
        self.ale.getScreenGrayscale(self._newest)
        self._stack = np.zeros_like(self._stack)
        self._look()
        return self._stack, {"lives": self._lives}

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays the frames of one action."""
        rules, ale = self.rules, self.ale
        wanted, reward = self._actions[int(action)], 0
        for left in range(rules.frameskip, 0, -1):
            if not rules.repeat_action_probability or self.np_random.random() >= rules.repeat_action_probability:
                self._held = wanted
            reward += ale.act(self._held)
            self._frames += 1
            over, lives = ale.game_over(), ale.lives()
            lost = 0 < lives < self._lives
            if over or self._frames >= rules.max_num_frames_per_episode:
                break
            if left == 2:
                ale.getScreenGrayscale(self._before)
            elif left == 1:
                ale.getScreenGrayscale(self._newest)
        self._lives = lives
        self._look()
        late = self._frames >= rules.max_num_frames_per_episode
        terminated = bool(over or (rules.episodic_life and lost))
        self._goes_on = terminated and not over and not late
        reward = max(-1, min(1, reward)) if rules.reward_clipping else reward
        return self._stack, float(reward), terminated, late and not terminated, {"lives": lives}

    def _look(self) -> None:
        """Adds the image of the last two frames to the stack: a new array, because the old one was returned."""
        np.maximum(self._newest, self._before, out=self._newest)
        self._stack = np.concatenate((self._stack[1:], _shrunk(self._newest, self._rows, self._columns)[None]))

    def get_state(self) -> dict[str, Any]:
        """Returns the state of the game, in numbers and arrays."""
        return {
            "ale": np.frombuffer(self.ale.cloneState(include_rng=True).serialize(), np.uint8).copy(),
            "frames": self._frames,
            "lives": self._lives,
            "held": self._held.value,
            "goes_on": self._goes_on,
            "newest": self._newest.copy(),
            "before": self._before.copy(),
            "stack": self._stack.copy(),
            "rng": self.np_random.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Loads a state from `get_state`, of this environment or another."""
        self.ale.restoreState(ALEState(state["ale"].tobytes()))
        self._frames, self._lives, self._goes_on = state["frames"], state["lives"], state["goes_on"]
        self._held = Action(state["held"])
        self._newest[:], self._before[:] = state["newest"], state["before"]
        self._stack = state["stack"].copy()
        self.np_random.bit_generator.state = state["rng"]

    def render(self) -> Any:
        """Returns the screen in colour, ``[210, 160, 3]`` uint8."""
        return self.ale.getScreenRGB() if self.render_mode == "rgb_array" else None


def _shares(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pixels of a side of `length` that contribute to each of the `SIZE` pixels of the shrunk side, and
    their weights.

    Returns:
        Indices ``[k, SIZE]`` in ascending order and weights ``[k, SIZE]`` float32 that sum to 1; k is the largest
        number of pixels that one output pixel covers, and unused entries have weight 0.
    """
    edges = np.minimum(np.arange(SIZE + 1) * (length / SIZE), length)
    low, high = edges[:-1], edges[1:]
    places = np.floor(low).astype(np.int64) + np.arange(int(np.ceil(length / SIZE)) + 1)[:, None]
    shares = np.minimum(places + 1, high) - np.maximum(places, low)
    shares = np.where(shares > 1e-3, shares / (high - low), 0.0)
    return np.minimum(places, length - 1), shares.astype(np.float32)


def _shrunk(
    picture: np.ndarray, rows: tuple[np.ndarray, np.ndarray], columns: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Returns `picture` in `SIZE` x `SIZE`, each pixel the mean of the area that it covers.

    Sums are formed in float32 from left to right and from top to bottom, as OpenCV's INTER_AREA forms them, because
    means that lie halfway between two greys are common and are rounded by their last bit.
    """
    grey = picture.astype(np.float32)
    narrow = sum(grey[:, place] * share for place, share in zip(*columns, strict=True))
    small = sum(narrow[place] * share[:, None] for place, share in zip(*rows, strict=True))
    shrunk: np.ndarray = np.rint(small).astype(np.uint8)
    return shrunk


def _enlarged(grey: np.ndarray) -> np.ndarray:
    """Returns a grey image four times as large, ``[height, width, 3]``."""
    picture: np.ndarray = np.repeat(np.kron(grey, np.ones((4, 4), np.uint8))[..., None], 3, axis=2)
    return picture


class BatchedAtari(BatchedEnv):
    """Many games at once: ALE's vector environment, which runs games in threads. A `VectorEnv` of one agent.

    Runs repeat bit for bit, whatever the number of threads. A lane takes the seed of its episode at the start and then
    again when a game ends after `RESEED_AFTER` decisions; games between them continue with ALE's own generator. A
    resumed run repeats the decisions since the last seed, all lanes at once.
    """

    render_fps = Atari.metadata["render_fps"]
    saved = ()  # see `state_dict`

    def __init__(self, num_lanes: int, *, num_threads: int = 0, **settings: Any) -> None:
        """Starts the threads.

        Args:
            num_lanes: Number of environments.
            num_threads: Number of threads that step them; 0 for one per core, at most one per environment.
            **settings: Fields of `AtariRules`; `game` must be given.

        Raises:
            EnvError: If a setting is unknown or out of range.
        """
        rules = AtariRules.given(settings)
        ALEInterface.setLoggerMode(LoggerMode.Error)
        threads = num_threads or min(num_lanes, usable_cores())
        # Each thread is pinned to one core: the system often wakes several on the same core.
        stay = threads == usable_cores() == os.cpu_count()
        self._env = AtariVectorEnv(
            num_envs=num_lanes,
            num_threads=threads,
            thread_affinity_offset=0 if stay else -1,
            autoreset_mode="SameStep",
            life_loss_info=rules.episodic_life,  # ALE's own `episodic_life` would begin a new game
            **{field.name: getattr(rules, field.name) for field in fields(rules) if field.name != "episodic_life"},
        )
        num_actions = len(self._env.ale.get_action_set())
        super().__init__(num_lanes, rules.observation_space, num_actions, f"Atari {rules.game}, batched")
        self._lanes = np.arange(num_lanes)
        self._frames = np.zeros(num_lanes, dtype=np.int64)  # of the running game
        self._seeded = np.zeros(num_lanes, dtype=np.int64)  # the last seed a lane took
        self._since = np.zeros(num_lanes, dtype=np.int64)  # decisions since then
        self._log = np.zeros((LOG_LIMIT, num_lanes), dtype=np.uint8)  # those decisions, the first LOG_LIMIT of them

    def _begin(self, lanes: np.ndarray) -> None:
        """Begins new games in some lanes, with the seeds of their episodes."""
        self._seeded[lanes] = [self._seed(lane) for lane in lanes.tolist()]
        self._since[lanes] = self._frames[lanes] = 0
        mask = np.isin(self._lanes, lanes)
        self._rows.obs["obs"] = self._env.reset(seed=self._seeded[lanes], options={"reset_mask": mask})[0]

    def _show(self) -> None:
        """Does nothing: observations are new arrays from ALE."""

    def _timestep(self, lane: int) -> int:
        return int(self._since[lane])

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once; see `VectorEnv.step`."""
        action = self._checked(actions).astype(np.int64, copy=False)
        if self._step.any_end:
            self._clear_ends()
        kept = self._since < LOG_LIMIT
        self._log[self._since[kept], self._lanes[kept]] = action[kept]
        self._since += 1
        rows = self._rows
        end_busy_waits()  # of the threads that choose the actions: the games' threads need the cores
        obs, rows.reward[:], terminated, truncated, infos = self._env.step(action)
        rows.obs["obs"] = obs  # new in each step, so nothing is copied
        if terminated.any() or truncated.any():
            self._end(terminated, truncated, infos)
        self._frames[:] = infos["episode_frame_number"]
        return self._step

    def _end(self, terminated: np.ndarray, truncated: np.ndarray, infos: Mapping[str, np.ndarray]) -> None:
        """Marks the lanes that ended, and gives new seeds to those with a long log."""
        rows, ended = self._rows, self._step.ended
        self._step.any_end = True
        rows.terminated[:], rows.truncated[:] = terminated, truncated
        np.logical_or(terminated, truncated, out=ended)
        rows.final_index = np.flatnonzero(truncated & ~terminated)
        rows.final_obs = {"obs": infos["final_obs"][rows.final_index]}
        self.episode[ended] += 1
        new_game = infos["episode_frame_number"] < self._frames  # else only a life was lost
        if self.keep_last_pictures:
            for lane in ended.nonzero()[0].tolist():
                last = infos["final_obs"] if new_game[lane] else rows.obs["obs"]
                self.last_pictures[lane] = _enlarged(last[lane, -1])
        long = new_game & (self._since >= RESEED_AFTER)
        if long.any():
            self._begin(np.flatnonzero(long))
            infos["episode_frame_number"][long] = 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of every lane: its last seed and the decisions since."""
        return {
            "rows": [{"obs": {"obs": self._rows.obs["obs"].copy()}, "waiting": self._rows.waiting.copy()}],
            "episode": self.episode.copy(),
            "seeds": self._seeded.copy(),
            "since": self._since.copy(),
            "log": self._log[: self._since.max(initial=0)].copy(),
            "exact": self.exact,
        }

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state by repeating every lane's decisions since its last seed.

        An episode is lost if there are more than `LOG_LIMIT` of them, or if it ends differently (as with another
        version of ALE); see `VectorEnv.load_state_dict`.
        """
        if set(state) != set(self.state_dict()) or len(state["seeds"]) != self.num_lanes:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of other settings")
        saved = state["rows"][0]["obs"]["obs"]
        if saved.shape != self._rows.obs["obs"].shape or state["log"].max(initial=0) >= self._num_actions:
            raise EnvError(f"{self.name}: the saved state is of another game, or of other settings")
        self._seeds = seeds
        self.episode[:], self._seeded[:], self._since[:] = state["episode"], state["seeds"], state["since"]
        self._log[: len(state["log"])] = state["log"]
        self._rows.obs["obs"] = obs = self._replay()
        lost = (self._since > LOG_LIMIT) | (obs != saved).reshape(self.num_lanes, -1).any(axis=1)
        if lost.any():
            self.episode[lost] += 1
            self._begin(np.flatnonzero(lost))
        self.exact = self.exact and state["exact"] and not lost.any()
        return self._show_start(), lost

    def _replay(self) -> np.ndarray:
        """Repeats all logs so that they end together: a lane with fewer decisions takes its seed later."""
        since = np.where(self._since > LOG_LIMIT, 0, self._since)
        steps = int(since.max())
        obs: np.ndarray
        obs, infos = self._env.reset(seed=self._seeded)
        for step in range(steps):
            waits = since < steps - step
            action = np.where(waits, 0, self._log[since - (steps - step), self._lanes])
            obs, _, _, _, infos = self._env.step(action.astype(np.int64))
            starts = since == steps - step - 1
            if starts.any():
                obs, infos = self._env.reset(seed=self._seeded[starts], options={"reset_mask": starts})
        self._frames[:] = infos["episode_frame_number"]
        return obs

    def render(self, lane: int) -> np.ndarray:
        """Returns the newest image of a lane, in grey and four times as large, ``[336, 336, 3]`` uint8."""
        return _enlarged(self._rows.obs["obs"][lane, -1])

    def close(self) -> None:
        """Ends the threads."""
        if env := vars(self).pop("_env", None):
            env.close()


Atari.vector_entry_point = BatchedAtari
