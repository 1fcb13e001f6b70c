"""`ForeignEnv`: vector environments of other libraries, all kinds of Gymnasium's `VectorEnv`, as a Rookery `VectorEnv`.

They differ at the end of an episode. Some begin the next one in the same step, as Rookery does; some wait
for an explicit reset of lanes, which follows at once. Some reset a lane *instead of* its next step, with any action:
that lane then does not wait for an action, no decision is recorded, and its next observation is the first of the new
episode.

A foreign environment draws its later episodes itself and cannot save its state: it is never `exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array

from rookery.core.errors import EnvError, SpaceError
from rookery.core.process.tracebacks import described
from rookery.core.spaces.arrays import MASK, Tree, action_spec, check_maskable, mask_width, obs_spec
from rookery.core.spaces.entity_set import bounded
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.adapters.lane import cause_of, render_fps_of
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorBase
from rookery.envs.vector.closing import close_env
from rookery.envs.vector.rendering import RGB, as_image, last_picture

REFUSALS = (TypeError, ValueError, AssertionError, gymnasium.error.Error)
"""Exceptions of environments that do not take seeds in a given form."""


NUMBERS = "biuf"
"""Kinds of arrays of rewards and flags; a text such as "False" would count as true."""


class ForeignEnv(VectorBase):
    """A `gymnasium.vector.VectorEnv` with one agent and one row per lane."""

    def __init__(self, make: Callable[[], Any], num_lanes: int, name: str, max_entities: int | None = None) -> None:
        """Builds the environment, and resets it once if it may have action masks in `info`.

        Args:
            make: Maker of the environment, called with `num_lanes`.
            num_lanes: Number of environments.
            name: Name of the environment in messages.
            max_entities: Largest number of elements of a ``Sequence`` in an observation.

        Raises:
            EnvError: If it is not a vector environment of that size, does not declare its autoreset mode, or its spaces
                cannot be used.
        """
        self.name = name
        self._env = make()
        if not isinstance(self._env, gymnasium.vector.VectorEnv):
            raise EnvError(f"{name} makes {type(self._env).__name__}, expected a gymnasium.vector.VectorEnv")
        if self._env.num_envs != num_lanes:
            raise EnvError(f"{name} makes {self._env.num_envs} environments where num_envs={num_lanes} were asked for")
        self._mode = self._declared_mode()
        observed = bounded(self._env.single_observation_space, max_entities)
        action = self._env.single_action_space
        try:
            spec = obs_spec(observed, action)
            self._masks_in_info = bool(mask_width(action)) and not spec.has_mask and MASK in self._env.reset(seed=0)[1]
            if self._masks_in_info:
                spec = obs_spec(observed, action, info_mask=True)
            kind = Kind((AGENT,), spec, action_spec(action))
        except SpaceError as error:
            raise EnvError(f"{name}: {error}") from error
        super().__init__((kind,), num_lanes, name, exact=False)
        self.notes = (
            f"{name}: a foreign vector environment; it draws later episodes itself, and a resumed run begins new "
            "ones (exact: false)",
            *(f"{name}: {dropped}; that part is left out" for dropped in spec.dropped),
        )
        self.render_fps = render_fps_of(self._env)
        self._plan: SeedPlan | None = None
        self._clock = 0
        self._takes_lists = True  # of seeds, one for each lane
        self._rows = Rows.allocate(kind, num_lanes)
        self._step = Step((self._rows,), np.zeros(num_lanes, dtype=bool))
        # Unless something is unusual, one array of numbers is passed on as the environment returned it.
        leaf = spec.leaves[0]
        self._plain = leaf if len(spec.leaves) == 1 and leaf.kind == "box" else None
        self._given: np.ndarray | None = None  # the last action of every lane

    def _declared_mode(self) -> AutoresetMode:
        """Returns the autoreset mode that the environment declares."""
        declared = (self._env.metadata or {}).get("autoreset_mode")
        try:
            return AutoresetMode(declared)
        except ValueError:
            raise EnvError(
                f"{self.name}: metadata['autoreset_mode'] is {declared!r}, expected a "
                "gymnasium.vector.AutoresetMode: SAME_STEP, NEXT_STEP or DISABLED; without it the begin of episodes "
                "is unknown"
            ) from None

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane with its seed; later episodes are drawn by the environment."""
        self.episode[:] = 0
        return self._begin(seeds)

    def _begin(self, seeds: SeedPlan) -> Step:
        """Starts the current episode of every lane."""
        self._plan, self._clock, self._given = seeds, 0, None
        wanted = [seeds(lane, int(self.episode[lane])) for lane in range(self.num_lanes)]
        try:
            obs, infos = self._reset_with(wanted)
        except Exception as error:
            raise self._located(error) from cause_of(error)
        if MASK in infos:
            try:
                check_maskable(self._env.single_action_space, "infos")
            except SpaceError as error:
                raise EnvError(f"{self.name}: {error}") from error
        self._clear()
        self._rows.waiting[:] = True
        self._show(obs, infos)
        return self._step

    def _reset_with(self, seeds: list[int]) -> Any:
        """Resets all lanes with a seed each; an environment that takes only one number gets the first lane's."""
        for form in (seeds, np.array(seeds)):
            try:
                return self._env.reset(seed=form)
            except REFUSALS:
                self._takes_lists = False
        return self._env.reset(seed=seeds[0])

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, or resets the lanes whose episode ended in the last step, depending on the
        environment's autoreset mode.

        See `VectorEnv.step`.
        """
        if self._plan is None:
            raise EnvError(f"{self.name}: step() before reset(seeds)")
        rows = self._rows
        batch = self._batch(actions[0])
        resets = ~rows.waiting
        self._clear()
        self._clock += 1
        try:
            obs, reward, terminated, truncated, infos = self._env.step(batch)
            for name, given in (("rewards", reward), ("terminations", terminated), ("truncations", truncated)):
                if np.asarray(given).dtype.kind not in NUMBERS:
                    raise TypeError(f"step() returned {name} {given!r}, expected {self.num_lanes} numbers or flags")
            rows.reward[:] = reward
            rows.terminated[:], rows.truncated[:] = terminated, truncated
        except Exception as error:
            raise self._located(error) from cause_of(error)
        rows.reward[resets], rows.terminated[resets], rows.truncated[resets] = 0.0, False, False
        if not np.isfinite(rows.reward).all():
            lane = int(np.flatnonzero(~np.isfinite(rows.reward))[0])
            raise self._breach(lane, f"non-finite reward {rows.reward[lane]}, expected a finite number")
        rows.waiting[:] = True
        begun: Mapping[str, Any] | None = None
        np.logical_or(rows.terminated, rows.truncated, out=self._step.ended)
        if self._step.ended.any():
            obs, begun = self._end(obs, infos)
        self._show(obs, infos, begun)
        return self._step

    def _batch(self, actions: np.ndarray) -> Any:
        """Returns the actions of all lanes in the environment's form; lanes that do not wait repeat their last one."""
        waiting = self._rows.waiting
        if len(actions) != waiting.sum():
            raise EnvError(f"{self.name}: step() got {len(actions)} actions, expected {waiting.sum()}")
        if self._given is None or waiting.all():
            self._given = np.array(actions)
        else:
            self._given = np.array(self._given)  # the environment may have kept the last ones
            self._given[waiting] = actions
        space = self._env.single_action_space
        if isinstance(space, spaces.Dict | spaces.Tuple):
            empty: Any = create_empty_array(space, self.num_lanes)
            return concatenate(space, list(self._given), empty)
        return self._given.astype(self._env.action_space.dtype, copy=False)

    def _end(self, obs: Any, infos: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any] | None]:
        """Stores the last observations of truncated lanes, and begins the next episodes where needed.

        Returns:
            The current observations of all lanes; and the infos of episodes that were reset explicitly, None if none
            was.
        """
        rows, ended = self._rows, self._step.ended
        begun: Mapping[str, Any] | None = None
        if self.keep_last_pictures and self._mode is not AutoresetMode.SAME_STEP:  # which is now that of the next one
            self.last_pictures |= {lane: last_picture(self, lane) for lane in ended.nonzero()[0].tolist()}
        self.episode[ended] += 1
        rows.final_index = np.flatnonzero(rows.truncated & ~rows.terminated)
        if len(rows.final_index):
            last = infos.get("final_obs") if self._mode is AutoresetMode.SAME_STEP else obs
            if last is None:
                lane = int(rows.final_index[0])
                raise self._breach(lane, "was truncated and reset in the same step, but infos has no 'final_obs'")
            self._keep_finals(last)
        if self._mode is AutoresetMode.NEXT_STEP:
            rows.waiting[ended] = False
        elif self._mode is AutoresetMode.DISABLED:
            assert self._plan is not None
            numbers = enumerate(zip(self.episode.tolist(), ended.tolist(), strict=True))
            seeds = [self._plan(lane, episode) if over else None for lane, (episode, over) in numbers]
            given, options = seeds if self._takes_lists else None, {"reset_mask": ended.copy()}
            try:
                obs, begun = self._env.reset(seed=given, options=options)
            except Exception as error:
                raise self._located(error) from cause_of(error)
        return obs, begun

    def _keep_finals(self, last: Any) -> None:
        """Stores the last observations of the rows in `final_index`."""
        rows, spec = self._rows, self.kinds[0].obs
        rows.final_obs = spec.allocate(len(rows.final_index))
        for k, lane in enumerate(rows.final_index.tolist()):
            try:
                allowed = rows.final_obs[MASK][k].copy() if spec.has_mask else None  # no policy acts on it
                spec.write(_of_lane(last, lane, spec.space), rows.final_obs, k, allowed)
            except SpaceError as error:
                raise self._breach(lane, f"{error}, in the last observation before a truncation") from error
            if problem := spec.check(rows.final_obs, slice(k, k + 1)):
                raise self._breach(lane, f"{problem}, in the last observation before a truncation")

    def _show(self, obs: Any, infos: Mapping[str, Any], begun: Mapping[str, Any] | None = None) -> None:
        """Takes over the observations of all lanes, checked; `begun` are the infos of lanes that were reset after the
        step.
        """
        rows, spec, leaf = self._rows, self.kinds[0].obs, self._plain
        if leaf is not None and isinstance(obs, np.ndarray) and obs.dtype == leaf.dtype:
            if obs.shape != (expected := (self.num_lanes, *leaf.shape)):
                raise EnvError(f"{self.name}: observations have shape {obs.shape} where the space says {expected}")
            rows.obs = {leaf.path: obs}
        else:
            rows.obs = self._read(obs, infos, begun)
        if spec.check(rows.obs, slice(None)):
            for lane in range(self.num_lanes):
                if problem := spec.check(rows.obs, slice(lane, lane + 1)):
                    raise self._breach(lane, problem)
        if self.keep_infos != "none":
            lanes = range(self.num_lanes) if self.keep_infos == "all" else np.flatnonzero(self._step.ended).tolist()
            self.infos = {lane: {AGENT: _info_of_lane(infos, lane)} for lane in lanes}

    def _read(self, obs: Any, infos: Mapping[str, Any], begun: Mapping[str, Any] | None) -> Tree:
        masks = None
        if self._masks_in_info:
            masks = np.ones((self.num_lanes, mask_width(self.kinds[0].action.space)), dtype=bool)
            reset = np.zeros(self.num_lanes, dtype=bool) if begun is None else self._step.ended
            for step_infos, lanes in ((infos, ~reset), (begun or {}, reset)):
                for lane in np.flatnonzero(step_infos.get(f"_{MASK}", MASK in step_infos) & lanes).tolist():
                    if (mask := step_infos[MASK][lane]) is not None:
                        masks[lane] = np.concatenate([np.ravel(part) for part in mask]) if type(mask) is tuple else mask
        try:
            tree, _ = self.kinds[0].obs.read(obs, masks)
        except SpaceError as error:
            raise EnvError(f"{self.name}: {error}, in the observations of all environments") from error
        if self.kinds[0].obs.has_mask:
            tree[MASK][~self._rows.waiting] = True  # after the end often no action is allowed, and no policy acts on it
        return tree

    def _clear(self) -> None:
        """Clears the rewards and ends of the last step."""
        rows = self._rows
        rows.reward[:] = 0.0
        rows.terminated[:] = rows.truncated[:] = self._step.ended[:] = False
        if len(rows.final_index):
            rows.final_index, rows.final_obs = np.zeros(0, dtype=np.int64), self.kinds[0].obs.allocate(0)

    def _breach(self, lane: int, problem: str) -> EnvError:
        return EnvError(
            f"{self.name}: environment {lane}, episode {self.episode[lane]}, vector step {self._clock}: {problem}"
        )

    def _located(self, error: Exception) -> EnvError:
        return EnvError(f"{self.name}: vector step {self._clock}: raised {described(error)}")

    def state_dict(self) -> dict[str, Any]:
        """Returns the observations of lanes; their internal state cannot be saved."""
        rows = self._rows
        shown = {path: array.copy() for path, array in rows.obs.items()}
        return {"rows": [{"obs": shown, "waiting": rows.waiting.copy()}], "episode": self.episode.copy()}

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Begins the next episode in every lane: none can be resumed; see `VectorEnv.load_state_dict`."""
        if set(state) != {"rows", "episode"} or len(state["episode"]) != self.num_lanes:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of other settings")
        self.episode[:] = state["episode"] + 1
        return self._begin(seeds), np.ones(self.num_lanes, dtype=bool)

    def render(self, lane: int) -> np.ndarray | None:
        """Returns an image ``[height, width, 3]`` uint8 of a lane, or None if the environment cannot render."""
        if self._env.render_mode not in RGB:
            return None
        frames = self._env.render()
        return None if frames is None else as_image(frames[lane])

    def close(self) -> None:
        """Closes the environment; its exceptions become warnings."""
        close_env(self._env, self.name)


def _of_lane(batch: Any, lane: int, space: spaces.Space[Any]) -> Any:
    """Returns the part of one lane from a batch in the structure of `space`."""
    if isinstance(batch, Mapping) and isinstance(space, spaces.Dict):
        return {key: _of_lane(value, lane, space[key]) for key, value in batch.items() if key in space.spaces}
    if isinstance(batch, tuple) and isinstance(space, spaces.Tuple):
        return tuple(_of_lane(value, lane, inside) for value, inside in zip(batch, space.spaces, strict=True))
    return batch[lane]


def _info_of_lane(infos: Mapping[str, Any], lane: int) -> dict[str, Any]:
    """Returns the infos of one lane from those of a vector environment: ``_key`` marks the lanes that have `key`."""
    lane_infos = {}
    for key, value in infos.items():
        of = infos.get(f"_{key}")
        if not key.startswith("_") and (of is None or of[lane]):
            lane_infos[key] = _info_of_lane(value, lane) if isinstance(value, Mapping) else value[lane]
    return lane_infos
