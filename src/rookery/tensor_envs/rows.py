"""`TensorRows`: a `TensorEnv` as a `VectorEnv`, with direct access to the tensors.

As a `VectorEnv` it copies the results of each step into arrays of this process, which is correct but slow on a GPU:
every step waits for the device. A caller whose policy runs on the device uses `step_tensors` instead
(`rollout/loops/device.py`), and reports the ends afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import TensorTree
from rookery.core.errors import EnvError
from rookery.core.process.tracebacks import described
from rookery.core.spaces.arrays import Tree
from rookery.envs.adapters.lane import cause_of
from rookery.envs.adapters.reported import HowReported, ReportedNumbers
from rookery.envs.base import Rows, SeedPlan, Step, VectorBase, VectorEnv
from rookery.envs.schemes import EnvScheme
from rookery.envs.vector.closing import close_env
from rookery.tensor_envs.actions import TensorActions
from rookery.tensor_envs.contract import Parts, TensorContract
from rookery.tensor_envs.env import TensorEnv

LAST = ", in the last observation before a truncation"


class TensorRows(VectorBase):
    """Presents a `TensorEnv` as rows of arrays: one agent and one row per lane.

    The first episodes come from the seed that the plan has for lane 0; later ones are drawn by the environment, so that
    an episode depends on the ones before. Runs repeat nevertheless, and resume exactly if the environment can be saved.

    Args:
        env: The environment.
        num_lanes: Number of environments that it must have.
        name: Name of the environment for messages.

    Attributes:
        tensors: The environment.
        obs: Observations of all environments, ``[N, ...]`` by leaf path, on the device.
        to_env: Converts stored actions to the environment's.

    Raises:
        EnvError: If it has another number of environments, or its spaces cannot be used.
    """

    def __init__(self, env: TensorEnv, num_lanes: int, name: str) -> None:
        if env.num_envs != num_lanes:
            raise EnvError(f"{name} makes {env.num_envs} environments where num_envs={num_lanes} were asked for")
        self._contract = TensorContract(env, name)
        kind = self._contract.kind
        super().__init__((kind,), num_lanes, name, exact=env.can_be_saved)
        self.tensors = env
        self.to_env = TensorActions(kind.action, env.device)
        self.render_fps = env.render_fps
        if not env.can_be_saved:
            self.notes = (f"{name}: it names nothing in `saved`, so a resumed run begins new episodes (exact: false)",)
        if type(env).numbers is not TensorEnv.numbers:
            self.reported = TensorNumbers(env, name)
        self._seeds: SeedPlan | None = None
        self._clock = 0
        self._given = self.to_env.dtype, (num_lanes, *(kind.action.space.shape or ()))
        self._rows = Rows.allocate(kind, num_lanes)
        self._rows.waiting[:] = True
        self._step = Step((self._rows,), np.zeros(num_lanes, dtype=bool))
        self.obs: TensorTree = {}
        self._is_shown = True
        self._lanes = np.arange(num_lanes)

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.tensors.device

    # --- as tensors ---------------------------------------------------------------------------------------------------

    def step_tensors(self, actions: Tensor) -> Parts:
        """Steps every environment once, without waiting; `passed` must be called before the rows are used again.

        Args:
            actions: Result of `to_env`.

        Returns:
            Observations, rewards, ends and final observations, on the device; the environment may overwrite them in its
            next step.

        Raises:
            EnvError: If the environment raises, or its results have another form.
        """
        try:
            given = self.tensors.step(actions)
        except EnvError:
            raise
        except Exception as error:
            raise self._located(error) from cause_of(error)
        parts = self._contract.step(given)
        self.obs = parts[0]
        self._clock += 1
        self._is_shown = False
        return parts

    def passed(self, ended: np.ndarray) -> None:
        """Records the ends of steps that were made as tensors: ``[lanes]`` number of ended episodes in each."""
        self.episode += ended

    def check(self, obs: TensorTree, reward: Tensor, cut: Tensor, final_obs: TensorTree) -> None:
        """Checks the results of steps that were made as tensors: one read from the device, unless there is a fault.

        Args:
            obs: ``[S, N, ...]`` observations before each of the last S steps.
            reward: ``[S, N]`` their rewards.
            cut: ``[K, 2]`` step and lane of each episode that was cut off.
            final_obs: ``[K, ...]`` last observation of each of these.

        Raises:
            EnvError: If a value is not finite, or outside of the space; the message names lane and step.
        """
        contract, steps = self._contract, len(reward)
        flags = [
            *contract.sound(obs),
            *contract.sound(final_obs),
            *contract.sound(self.obs),
            torch.isfinite(reward.sum()),
        ]
        if bool(torch.stack(flags).all()):
            return
        shown = {path: torch.cat((leaf, self.obs[path].unsqueeze(0))) for path, leaf in obs.items()}
        earned, places = _array(reward), _array(cut)
        for step in range(steps + 1):
            if step:
                for lane in np.flatnonzero(~np.isfinite(earned[step - 1])).tolist():
                    raise self.breach(lane, _not_finite(earned[step - 1, lane]), steps - step)
                now = places[:, 0] == step - 1
                last = {path: _array(leaf)[now] for path, leaf in final_obs.items()}
                self._check(last, places[now, 1], LAST, steps - step)
            self._check({path: _array(leaf[step]) for path, leaf in shown.items()}, self._lanes, "", steps - step)

    def show(self) -> None:
        """Updates the rows after steps that were made as tensors, in the last of which no episode ended."""
        if not self._is_shown:
            self._clear()
            self._rows.obs = _arrays(self.obs)
            self._is_shown = True

    # --- as rows ------------------------------------------------------------------------------------------------------

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; later episodes are drawn by the environment."""
        self.episode[:] = 0
        return self._begin(seeds)

    def _begin(self, seeds: SeedPlan) -> Step:
        """Starts an episode in every lane, with the seed of lane 0's."""
        self._seeds, self._clock = seeds, 0
        try:
            given = self.tensors.reset(seeds(0, int(self.episode[0])))
        except Exception as error:
            raise self._located(error) from cause_of(error)
        self.obs = self._contract.obs(given, "what reset() returned")
        self._clear()
        self._show_checked()
        return self._step

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once; see `VectorEnv.step`."""
        if self._seeds is None:
            raise EnvError(f"{self.name}: step() before reset(seeds)")
        dtype, shape = self._given
        if actions[0].shape != shape:
            raise EnvError(f"{self.name}: step() got actions of shape {actions[0].shape}, expected {shape}")
        self._clear()
        given = torch.from_numpy(np.array(actions[0])).to(self.device, dtype)
        _, reward, terminated, truncated, final_obs = self.step_tensors(given)
        rows, step = self._rows, self._step
        rows.reward[:], rows.terminated[:], rows.truncated[:] = map(_array, (reward, terminated, truncated))
        if not np.isfinite(rows.reward).all():
            lane = int(np.flatnonzero(~np.isfinite(rows.reward))[0])
            raise self.breach(lane, _not_finite(rows.reward[lane]), 0)
        np.logical_or(rows.terminated, rows.truncated, out=step.ended)
        step.any_end = bool(step.ended.any())
        if step.any_end:
            rows.final_index = np.flatnonzero(rows.truncated & ~rows.terminated)
            rows.final_obs = {path: leaf[rows.final_index] for path, leaf in _arrays(final_obs).items()}
            self._check(rows.final_obs, rows.final_index, LAST, 0)
            self.episode += step.ended
        self._show_checked()
        return step

    def _show_checked(self) -> None:
        """Writes the observations of all environments, if they are valid."""
        self._rows.obs = _arrays(self.obs)
        self._is_shown = True
        self._check(self._rows.obs, self._lanes, "", 0)

    def _check(self, tree: Tree, lanes: np.ndarray, where: str, back: int) -> None:
        """Raises an EnvError for the first invalid observation."""
        spec = self.kinds[0].obs
        if not spec.check(tree, slice(None)):
            return
        for k, lane in enumerate(lanes.tolist()):
            if problem := spec.check(tree, slice(k, k + 1)):
                raise self.breach(lane, problem + where, back)

    def _clear(self) -> None:
        """Clears the rewards and ends of the last step."""
        rows, step = self._rows, self._step
        rows.reward[:] = 0.0
        rows.terminated[:] = rows.truncated[:] = step.ended[:] = False
        step.any_end = False
        if len(rows.final_index):
            rows.final_index, rows.final_obs = np.zeros(0, dtype=np.int64), self.kinds[0].obs.allocate(0)

    def breach(self, lane: int, problem: str, back: int) -> EnvError:
        """Returns an error with the fault of a lane.

        Args:
            lane: Number of the lane.
            problem: The fault.
            back: Vector steps since then.
        """
        return EnvError(f"{self.name}: environment {lane}, vector step {self._clock - back}: {problem}")

    def _located(self, error: Exception) -> EnvError:
        return EnvError(f"{self.name}: vector step {self._clock}: raised {described(error)}")

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of every environment; without the environment's own state if it cannot be saved."""
        shown = {path: array.copy() for path, array in _arrays(self.obs).items()}
        state: dict[str, Any] = {"rows": [{"obs": shown, "waiting": self._rows.waiting.copy()}]}
        state |= {"episode": self.episode.copy(), "clock": self._clock}
        return {**state, "tensors": self.tensors.state_dict() if self.tensors.can_be_saved else None}

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state, or begins new episodes if it lacks the environment's own; see
        `VectorEnv.load_state_dict`.
        """
        wanted = {"rows", "episode", "clock", "tensors"}
        if {*state} - {"lanes"} != wanted or len(state["episode"]) != self.num_lanes:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of other settings")
        self.episode[:] = state["episode"]
        if state["tensors"] is None or not self.tensors.can_be_saved or "lanes" in state:  # given up: see `restart`
            self.exact = False
            self.episode += 1
            return self._begin(seeds), np.ones(self.num_lanes, dtype=bool)
        self._seeds, self._clock = seeds, state["clock"]
        self.tensors.reset(seeds(0, 0))  # so that all attributes exist that the state is loaded into
        self.tensors.load_state_dict(state["tensors"])
        self.obs = {path: torch.from_numpy(leaf).to(self.device) for path, leaf in state["rows"][0]["obs"].items()}
        self._clear()
        self._show_checked()
        return self._step, np.zeros(self.num_lanes, dtype=bool)

    def render(self, lane: int) -> np.ndarray | None:
        """Returns an image ``[height, width, 3]`` uint8 of a lane, or None if the environment cannot render."""
        return self.tensors.render(lane)

    def close(self) -> None:
        """Closes the environment; its exceptions become warnings."""
        close_env(self.tensors, self.name)


class TensorNumbers(ReportedNumbers):
    """Additional numbers that an environment reports, read on request.

    Args:
        env: The environment.
        name: Name of the environment for messages.
    """

    def __init__(self, env: TensorEnv, name: str) -> None:
        super().__init__()
        self._env, self._name = env, name

    def take(self) -> dict[str, tuple[HowReported, list[float]]]:
        """Returns the current numbers, by name: one copy from the device for all of them.

        Raises:
            EnvError: If one is not a tensor of one number.
        """
        numbers = self._env.numbers()
        for key, value in numbers.items():
            if not isinstance(value, Tensor) or value.numel() != 1:
                found = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
                raise EnvError(f"{self._name}: numbers() returned {key!r} {found}, expected a tensor of one number")
        if numbers:
            read = torch.stack([value.reshape(()).to(torch.float64) for value in numbers.values()]).tolist()
            for key, number in zip(numbers, read, strict=True):
                self.add(key, number, "most_recent")
        return super().take()


def _not_finite(reward: float) -> str:
    return f"non-finite reward {reward}, expected a finite number"


def _array(tensor: Tensor) -> np.ndarray:
    """Returns the array of a tensor in this process: its own memory if it is on the CPU."""
    return tensor.cpu().numpy()


def _arrays(tree: TensorTree) -> Tree:
    return {path: _array(leaf) for path, leaf in tree.items()}


class TensorEnvs(EnvScheme):
    """Tensor environments that were created by their makers."""

    def build(
        self,
        maker: Any,
        num_lanes: int,
        settings: Mapping[str, Any],
        name: str,
        *,
        render: bool = False,
        max_entities: int | None = None,
        first: Any = None,
    ) -> VectorEnv:
        """See `EnvScheme.build`."""
        return TensorRows(first, num_lanes, name)


TENSORS = TensorEnvs()
