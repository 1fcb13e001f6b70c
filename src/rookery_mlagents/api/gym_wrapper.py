"""`UnityToGymWrapper`: an environment of the low-level API with one agent as a Gymnasium environment."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery_mlagents.api.exceptions import UnityException
from rookery_mlagents.api.loggers import get_logger
from rookery_mlagents.api.specs import ActionTuple
from rookery_mlagents.api.steps import DecisionSteps, TerminalSteps


class UnityGymException(UnityException, gymnasium.error.Error): ...


class ActionFlattener:
    def __init__(self, branched_action_space: Sequence[int]) -> None:
        combinations = itertools.product(*(range(size) for size in branched_action_space))
        self.action_lookup = {number: list(choices) for number, choices in enumerate(combinations)}
        self.action_space = spaces.Discrete(len(self.action_lookup))

    def lookup_action(self, action: int) -> list[int]:
        return self.action_lookup[int(action)]


class UnityToGymWrapper(gymnasium.Env[Any, Any]):
    """One agent of an environment as a Gymnasium environment with the present API: `step` returns five values.

    ``info["step"]`` has the agent's `DecisionSteps` or `TerminalSteps`; where actions are choices,
    ``info["action_mask"]`` marks the allowed ones (1), as Gymnasium's environments do. With `allow_multiple_obs` images
    come first, and then all vectors as one.
    """

    def __init__(
        self,
        unity_env: Any,
        uint8_visual: bool = False,
        flatten_branched: bool = False,
        allow_multiple_obs: bool = False,
        action_space_seed: int | None = None,
    ) -> None:
        self.metadata = {"render_modes": ["rgb_array"]}
        self.render_mode = "rgb_array"
        self._env, self._multiple = unity_env, allow_multiple_obs
        self.visual_obs: np.ndarray | None = None
        self.game_over = False
        if not unity_env.behavior_specs:
            unity_env.step()
        names = list(unity_env.behavior_specs)
        if len(names) != 1:
            raise UnityGymException(
                f"there are {len(names)} behaviours ({', '.join(names)}), and a Gymnasium environment has one agent; "
                "UnityParallelEnv shows several"
            )
        self.name: str = names[0]
        self.group_spec = unity_env.behavior_specs[self.name]
        shapes = [tuple(sensor.shape) for sensor in self.group_spec.observation_specs]
        self._pictures = [place for place, shape in enumerate(shapes) if len(shape) == 3]
        self._vectors = [place for place, shape in enumerate(shapes) if len(shape) == 1]
        if not self._pictures and not self._vectors:
            raise UnityGymException(f"behaviour {self.name}: its observations {shapes} are neither images nor vectors")
        log = get_logger(__name__)
        self.uint8_visual = uint8_visual and bool(self._pictures)
        if uint8_visual and not self._pictures:
            log.warning("uint8_visual does nothing: behaviour %s has no image observations", self.name)
        if len(self._pictures) + bool(self._vectors) > 1 and not allow_multiple_obs:
            log.warning("only the first image of behaviour %s is shown; allow_multiple_obs=True shows all", self.name)
        self._flattener: ActionFlattener | None = None
        self.action_space = self._action_space(flatten_branched)
        if action_space_seed is not None:
            self.action_space.seed(action_space_seed)
        self.observation_space = self._observation_space(shapes)
        self._begun: DecisionSteps | None = None
        self._begin()

    def _action_space(self, flatten: bool) -> spaces.Space[Any]:
        spec = self.group_spec.action_spec
        numbers, branches = spec.continuous_size, [int(size) for size in spec.discrete_branches]
        if numbers and branches:
            raise UnityGymException(
                f"behaviour {self.name} decides {numbers} numbers and {len(branches)} choices, and this wrapper shows "
                "one of both; train it as it is (rookery train takes such environments), or use UnityParallelEnv"
            )
        if not numbers and not branches:
            raise UnityGymException(f"behaviour {self.name} decides nothing")
        self.action_size = numbers or len(branches)
        if numbers:
            if flatten:
                get_logger(__name__).warning("flatten_branched does nothing: behaviour %s has no choices", self.name)
            return spaces.Box(-1.0, 1.0, (numbers,), np.float32)
        if len(branches) == 1:
            return spaces.Discrete(branches[0])
        if flatten:
            self._flattener = ActionFlattener(branches)
            return self._flattener.action_space
        return spaces.MultiDiscrete(branches)

    def _observation_space(self, shapes: Sequence[tuple[int, ...]]) -> spaces.Space[Any]:
        top, kind = (255, np.uint8) if self.uint8_visual else (1, np.float32)
        shown: list[spaces.Space[Any]] = [spaces.Box(0, top, shapes[place], kind) for place in self._pictures]
        if self._vectors:
            shown.append(spaces.Box(-np.inf, np.inf, (sum(shapes[place][0] for place in self._vectors),), np.float32))
        return spaces.Tuple(shown) if self._multiple else shown[0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; the game's seed is set in `UnityEnvironment` and cannot be changed here."""
        super().reset(seed=seed)
        decisions = self._begun if self._begun is not None else self._begin()
        self._begun, self.game_over = None, False
        return self._seen(decisions), self._info(decisions)

    def _begin(self) -> DecisionSteps:
        """Resets the environment; the constructor makes the first reset, which determines the number of agents."""
        self._env.reset()
        decisions: DecisionSteps = self._env.get_steps(self.name)[0]
        self._check_agents(len(decisions))
        while not len(decisions):
            self._env.step()
            decisions = self._env.get_steps(self.name)[0]
        self._begun = decisions
        return decisions

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.game_over:
            raise UnityGymException("the episode has ended: call reset() before step()")
        if self._flattener is not None:
            action = self._flattener.lookup_action(action)
        row = np.asarray(action).reshape(1, self.action_size)
        actions = self.group_spec.action_spec.empty_action(1)
        if self.group_spec.action_spec.continuous_size:
            actions.add_continuous(row)
        else:
            actions.add_discrete(row)
        self._set(actions)
        while True:
            self._env.step()
            decisions, terminals = self._env.get_steps(self.name)
            self._check_agents(max(len(decisions), len(terminals)))
            if len(terminals):
                self.game_over = True
                cut = bool(terminals.interrupted[0])
                return self._seen(terminals), float(terminals.reward[0]), not cut, cut, self._info(terminals)
            if len(decisions):
                return self._seen(decisions), float(decisions.reward[0]), False, False, self._info(decisions)

    def _set(self, actions: ActionTuple) -> None:
        self._env.set_actions(self.name, actions)

    def _seen(self, steps: DecisionSteps | TerminalSteps) -> Any:
        """Returns the observation of the only agent, in the form of the observation space."""
        images = [self._picture(steps.obs[place][0]) for place in self._pictures]
        if images:
            self.visual_obs = images[0]
        shown = images
        if self._vectors:
            shown = [
                *images,
                np.concatenate([np.asarray(steps.obs[place][0], np.float32) for place in self._vectors]),
            ]
        return tuple(shown) if self._multiple else shown[0]

    def _picture(self, values: np.ndarray) -> np.ndarray:
        return (255.0 * values).astype(np.uint8) if self.uint8_visual else np.asarray(values, np.float32)

    def _info(self, steps: DecisionSteps | TerminalSteps) -> dict[str, Any]:
        info: dict[str, Any] = {"step": steps}
        masks = getattr(steps, "action_mask", None)
        if masks is not None and self._flattener is None:
            allowed = [1 - np.asarray(branch[0]).astype(np.int8) for branch in masks]
            info["action_mask"] = allowed[0] if len(allowed) == 1 else tuple(allowed)
        return info

    def render(self) -> Any:
        if self.visual_obs is None:
            return None
        picture = self.visual_obs if self.uint8_visual else (255.0 * self.visual_obs).astype(np.uint8)
        if picture.shape[0] < picture.shape[2]:
            picture = np.moveaxis(picture, 0, 2)
        return np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture[:, :, :3]

    def close(self) -> None:
        self._env.close()

    @staticmethod
    def _check_agents(n_agents: int) -> None:
        if n_agents > 1:
            raise UnityGymException(
                f"there are {n_agents} agents, and a Gymnasium environment has one; UnityParallelEnv shows several, "
                "and rookery train takes such environments as they are"
            )
