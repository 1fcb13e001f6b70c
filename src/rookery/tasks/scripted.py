"""Environments with scripted episodes: observations and correct answers are drawn at the start of an episode.

Actions affect only rewards, so an episode is a `Script`, drawn whole from its seed. One class plays a script at a time
(`ScriptedTask`, a Gymnasium environment), others many at once with the same numbers, bit for bit (`BatchedTask`, and
`ScriptedInC` if it is compiled). The tasks themselves are in `memory_tasks.py`.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.envs.adapters.batched import BatchedEnv, check_render_mode
from rookery.envs.base import Step
from rookery.envs.native.variants import BatchedCVariant

UNASKED = -1
"""Correct answer of a step without a question."""


@dataclass(frozen=True)
class Script:
    """Episode of T steps, drawn in advance.

    Attributes:
        obs: Observation before each step and after the last, ``[T + 1, ...]`` int64.
        answer: Right action of each step, or `UNASKED`, ``[T]`` int64.
    """

    obs: np.ndarray
    answer: np.ndarray


class ScriptedTask(gymnasium.Env[Any, int], ABC):
    """Environment with scripted episodes: a correct answer is rewarded with `reward`, a wrong one with ``-reward``.

    Attributes:
        reward: Reward of a right answer.
        max_steps: Number of steps of the longest script.
        truncates: Whether the end of a script is a time limit (truncated) or the end of the task (terminated).
        batched: Vectorized environment with the same numbers, or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}
    truncates: ClassVar[bool] = False
    batched: ClassVar[type[BatchedTask] | None] = None

    def __init__(
        self,
        observation_space: spaces.Discrete | spaces.MultiDiscrete,
        num_actions: int,
        reward: float,
        max_steps: int,
        render_mode: str | None,
    ) -> None:
        """Creates the environment; subclasses call this constructor.

        Raises:
            ValueError: If the render mode is not ``"rgb_array"`` or None.
        """
        check_render_mode(type(self).__name__, render_mode)
        self.observation_space: Any = observation_space
        self.action_space: Any = spaces.Discrete(num_actions)
        self.reward, self.max_steps, self.render_mode = reward, max_steps, render_mode
        self._script: Script | None = None
        self._taken: list[int] = []

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Script:
        """Draws an episode with random numbers of `rng` only."""

    @abstractmethod
    def card(self, obs: Any) -> str:
        """Returns the letters shown in images for an observation; an empty string if there are none."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, from a seed or from the environment's random generator."""
        super().reset(seed=seed)
        self._script, self._taken = self.draw(self.np_random), []
        return self._script.obs[0].copy(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an answer; raises an EnvError if it is not in the action space or no episode is running."""
        script, time = self._script, len(self._taken)
        if script is None or time == len(script.answer):
            raise EnvError(f"{type(self).__name__}: no episode is under way; call reset() first")
        if not self.action_space.contains(action):
            raise EnvError(f"{type(self).__name__}: step {time}: action {action!r} is not in {self.action_space}")
        self._taken.append(int(action))
        answer = script.answer[time]
        reward = 0.0 if answer == UNASKED else self.reward if action == answer else -self.reward
        ended = time + 1 == len(script.answer)
        return script.obs[time + 1].copy(), reward, ended and not self.truncates, ended and self.truncates, {}

    def get_state(self) -> dict[str, Any]:
        """Returns the state of the episode, and of the random generator for the next one."""
        assert self._script is not None, "called between two steps"
        return {
            "obs": self._script.obs.copy(),
            "answer": self._script.answer.copy(),
            "taken": list(self._taken),
            "rng": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state from `get_state`, of this environment or another."""
        self._script = Script(state["obs"].copy(), state["answer"].copy())
        self._taken = list(state["taken"])
        self.np_random.bit_generator.state = state["rng"]

    def picture(self, script: Script, taken: Sequence[int]) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of an episode after the actions `taken`."""
        from rookery.tasks import drawing

        return drawing.draw_strips([self.strip("return", script, taken)], len(taken), len(script.answer))

    def strip(self, label: str, script: Script, taken: Sequence[int]) -> Any:
        """Returns the observations and answers so far as a `drawing.Strip`."""
        from rookery.tasks import drawing

        cards = [self.card(obs) for obs in script.obs[: len(taken) + 1]]
        answers = zip(taken, script.answer.tolist(), strict=False)
        right = [None if answer == UNASKED else action == answer for action, answer in answers]
        return drawing.Strip(label, cards, right, self.reward * (right.count(True) - right.count(False)))

    def render(self) -> Any:
        """Returns an image of the episode so far, or None before the first episode."""
        return None if self._script is None else self.picture(self._script, self._taken)


class BatchedTask(BatchedEnv):
    """Vectorized `ScriptedTask`: a `VectorEnv` of one agent, one row per lane.

    Attributes:
        task: Class of the task.
        native_variant: Its variant in C.
    """

    task: ClassVar[type[ScriptedTask]]
    native_variant: ClassVar[type[ScriptedInC]]
    render_fps = ScriptedTask.metadata["render_fps"]
    saved = ("_time", "_length", "_shown", "_answer", "_taken")

    def __init__(self, num_lanes: int, **settings: Any) -> None:
        """Creates `num_lanes` environments with these settings of `task`; raises a ValueError if one is out of
        range.
        """
        self._one = self.task(**settings)
        space, num_actions = self._one.observation_space, int(self._one.action_space.n)
        super().__init__(num_lanes, space, num_actions, f"{self.task.__name__}, batched")

        self._lanes = np.arange(num_lanes)
        self._time, self._length = np.zeros((2, num_lanes), dtype=np.int64)  # of each lane's episode
        # the scripts of all lanes, [step, lane], valid up to each one's length
        self._shown = np.zeros((self._one.max_steps + 1, num_lanes, *space.shape), dtype=np.int64)
        self._answer, self._taken = np.zeros((2, self._one.max_steps, num_lanes), dtype=np.int64)

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, with the answers as actions; see `VectorEnv.step`."""
        action = self._checked(actions)
        if self._step.any_end:
            self._clear_ends()
        here = self._time, self._lanes
        answer = self._answer[here]
        self._taken[here] = action
        reward = self._one.reward
        np.copyto(self._rows.reward, np.where(action == answer, reward, -reward))
        self._rows.reward[answer == UNASKED] = 0.0
        self._time += 1
        self._show()
        over = self._time == self._length
        if over.any():
            (self._rows.truncated if self._one.truncates else self._rows.terminated)[:] = over
            self._begin_next()
        return self._step

    def _show(self) -> None:
        self._rows.obs["obs"][:] = self._shown[self._time, self._lanes]

    def _begin(self, lanes: np.ndarray) -> None:
        for lane in lanes.tolist():
            script = self._one.draw(np.random.default_rng(self._seed(lane)))
            length = len(script.answer)
            self._shown[: length + 1, lane], self._answer[:length, lane] = script.obs, script.answer
            self._length[lane] = length
        self._time[lanes] = 0

    def _timestep(self, lane: int) -> int:
        return int(self._time[lane])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        length = int(self._length[lane])
        script = Script(self._shown[: length + 1, lane], self._answer[:length, lane])
        return self._one.picture(script, self._taken[: self._timestep(lane), lane].tolist())


def batched_variant_of(task: type[ScriptedTask]) -> type[BatchedTask]:
    """Returns a vectorized class for `task`; its constructor has the settings of the task as arguments."""
    lanes = inspect.Parameter("num_lanes", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="int")
    signature = inspect.Signature([lanes, *inspect.signature(task).parameters.values()])
    about = f"Many `{task.__name__}` in one: a `VectorEnv` of one agent, one row per lane."
    return type(f"Batched{task.__name__}", (BatchedTask,), {
        "task": task, "__signature__": signature, "__doc__": about, "__module__": task.__module__,
        "native_variant": _native_variant_of(task, signature),
    })  # fmt: skip


class ScriptedInC(BatchedCVariant):
    """C implementation of `BatchedTask`, for the tasks that have one; see `BatchedTask`."""

    task: ClassVar[type[ScriptedTask]]
    render_fps = ScriptedTask.metadata["render_fps"]

    def __init__(self, num_lanes: int, **settings: Any) -> None:
        """Creates `num_lanes` environments with these settings of `task`; raises a ValueError if one is out of
        range.
        """
        self._one = self.task(**settings)
        super().__init__(num_lanes, **{name: getattr(self._one, name) for name in self.loaded().settings})
        self.name = f"{self.task.__name__}, in C"

    def as_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts the state to that of the batched environment: scripts with steps first and lanes second."""
        fields, lanes, width = state["fields"], self.num_lanes, self._shape_of_obs
        return {
            "episode": state["episode"],
            "time": fields["time"],
            "length": fields["length"],
            "shown": fields["shown"].reshape(lanes, -1, *width).swapaxes(0, 1),
            "answer": fields["answer"].reshape(lanes, -1).T,
            "taken": fields["taken"].reshape(lanes, -1).T,
        }

    def from_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts the state of the batched environment."""
        fields = {name: state[name].swapaxes(0, 1).reshape(self.fields[name].shape) for name in ("answer", "taken")}
        fields["shown"] = state["shown"].swapaxes(0, 1).reshape(self.fields["shown"].shape)
        fields |= {"time": state["time"], "length": state["length"], "decks": np.zeros_like(self.fields["decks"])}
        return {"clock": 0, "began": -state["time"], "fields": fields}

    @property
    def _shape_of_obs(self) -> tuple[int, ...]:
        return tuple(self._one.observation_space.shape)

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        length, time = int(self.fields["length"][lane]), int(self.fields["time"][lane])
        shown = self.fields["shown"][lane].reshape(-1, *self._shape_of_obs)[: length + 1]
        script = Script(shown, np.ravel(self.fields["answer"][lane])[:length])
        return self._one.picture(script, np.ravel(self.fields["taken"][lane])[:time].tolist())


def _native_variant_of(task: type[ScriptedTask], signature: inspect.Signature) -> type[ScriptedInC]:
    """Returns the class of a task in C; its name in the library is that of the task in snake case:
    ``repeat_after_me``.
    """
    symbol = re.sub(r"(?<!^)(?=[A-Z])", "_", task.__name__).lower()
    about = f"Many `{task.__name__}` in one, in C."
    return type(f"{task.__name__}InC", (ScriptedInC,), {
        "task": task, "symbol": symbol, "__signature__": signature, "__doc__": about, "__module__": task.__module__
    })  # fmt: skip
