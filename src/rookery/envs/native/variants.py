"""C variants of Python environments of Rookery or Gymnasium, with bit-identical results.

Their sources are in ``sources/``; the installation builds one library from them. If it is missing, the environments in
Python run. A bundled batched environment names its variant in the attribute ``native_variant``, a vectorized one
without single instances in ``native_replacement``; `IDS_IN_C` has Gymnasium's.
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import gymnasium
import numpy as np

from rookery.core.errors import EnvError
from rookery.envs import drawing
from rookery.envs.adapters.batched import check_render_mode
from rookery.envs.base import SeedPlan, Step
from rookery.envs.native.c_env import CEnv
from rookery.envs.native.compiler import FOLDER
from rookery.envs.native.library import library_of

LIBRARY = FOLDER / "sources" / "twins.so"

BUILD = "python setup.py build_ext --inplace"


class CVariant(CEnv):
    """C environment that replaces a Python one. Attributes: see `CEnv`.

    Attributes:
        draws: Whether it can render.
    """

    draws: ClassVar[bool] = True
    library = LIBRARY
    arguments: ClassVar[Mapping[str, Any]] = {"render_mode": None}
    run_arguments: ClassVar[tuple[str, ...]] = ()

    def __init__(self, num_lanes: int, *, render_mode: str | None = None, **settings: Any) -> None:
        """Creates the environments; the settings are those of the Python environment."""
        check_render_mode(self.loaded().name, render_mode)
        super().__init__(num_lanes, **settings)


class BatchedCVariant(CVariant):
    """Variant of a bundled `BatchedEnv`: each resumes from the other's saved state."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in the form of the batched environment; as fields if episodes have parameters."""
        state = super().state_dict()
        return state if self._has_parameters() else self.as_batched(state)

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state of either, instead of `reset`; see `VectorEnv.load_state_dict`."""
        if "fields" not in state and "lanes" not in state:
            try:
                fields = self.from_batched(state)
            except (KeyError, IndexError, ValueError):  # of another environment, or of other settings
                fields = {**state, "fields": {}, "settings": self._settings}
            state = {"settings": self._settings, "episode": state["episode"], **fields}
        return super().load_state_dict(state, seeds)

    def _has_parameters(self) -> bool:
        """Returns whether an episode has parameters that the batched environment does not have."""
        return False

    @abstractmethod
    def as_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts a state of fields to the saved state of the batched environment."""

    @abstractmethod
    def from_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts a state of the batched environment to the clock, the starts of episodes, and the fields."""


class CartPoleInC(BatchedCVariant):
    """`BatchedCartPole` in C, whose episodes may have parameters."""

    symbol = "cart_pole"

    def as_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the motion of carts and poles, with accelerations of 0, which every step recomputes."""
        fields, began = state["fields"], state["began"]
        motion = np.zeros((6, self.num_lanes))
        for row, name in enumerate(("position", "angle", "velocity", "turning")):
            motion[row] = fields[name]
        deadline = int(began.min()) + int(self._settings[0])
        return {
            "episode": state["episode"],
            "motion": motion,
            "began": began,
            "clock": state["clock"],
            "deadline": deadline,
        }

    def from_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Splits the motion into fields."""
        motion, began, clock = state["motion"], state["began"], int(state["clock"])
        fields = {name: motion[row] for row, name in enumerate(("position", "angle", "velocity", "turning"))}
        physics = np.tile(self._defaults, (self.num_lanes, 1))
        fields = {**fields, "steps": np.asarray(clock - began), "physics": physics}
        return {"clock": clock, "began": began, "fields": fields}

    def _has_parameters(self) -> bool:
        return bool((self.fields["physics"] != self._defaults).any())

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        position, angle = (float(self.fields[name][lane]) for name in ("position", "angle"))
        return drawing.draw_cart_pole(position, angle, self._timestep(lane), int(self._settings[0]))


class StatelessCartPoleInC(CartPoleInC):
    """`BatchedStatelessCartPole` in C."""

    symbol = "stateless_cart_pole"


class GymnasiumCVariant(CVariant):
    """Variant of a classic Gymnasium environment without a batched one in Python; single environments draw its
    images.
    """

    draws = False


class MountainCarInC(GymnasiumCVariant):
    """MountainCar-v0 in C."""

    symbol = "mountain_car"


class ContinuousMountainCarInC(GymnasiumCVariant):
    """MountainCarContinuous-v0 in C."""

    symbol = "mountain_car_continuous"


class PendulumInC(GymnasiumCVariant):
    """Pendulum-v1 in C."""

    symbol = "pendulum"


class AcrobotInC(GymnasiumCVariant):
    """Acrobot-v1 in C; the first observation uses NumPy's sines and cosines of float32, which C does not have."""

    symbol = "acrobot"

    def _begin(self, lanes: np.ndarray) -> None:
        super()._begin(lanes)
        self._show_first(lanes)

    def _show(self) -> None:
        super()._show()
        self._show_first(np.flatnonzero(self.fields["steps"] == 0))

    def _show_first(self, lanes: np.ndarray) -> None:
        obs, angles = self._rows.obs["obs"], self.fields["motion"][lanes, :2].astype(np.float32)
        obs[lanes, 0:4:2], obs[lanes, 1:4:2] = np.cos(angles), np.sin(angles)


IDS_IN_C: dict[str, type[CVariant]] = {
    "Acrobot-v1": AcrobotInC,
    "MountainCar-v0": MountainCarInC,
    "MountainCarContinuous-v0": ContinuousMountainCarInC,
    "Pendulum-v1": PendulumInC,
}
"""Variants of Gymnasium's ids without a batched one in Python."""

COMPARED_STEPS = 100
"""Number of steps in which a variant is compared with Gymnasium's environment before use, because versions of Gymnasium
may have other rules.
"""


@cache
def native_unavailable_reason() -> str:
    """Returns the reason why variants in C are not used here, or an empty string."""
    if not LIBRARY.is_file():
        return f"the variants in C are not built; with a C compiler: {BUILD}"
    try:
        library_of(LIBRARY, CartPoleInC.symbol)
    except EnvError as error:
        return f"the variants in C cannot be used: {error}; build them again: {BUILD}"
    angles = np.random.default_rng(0).uniform(-4.0, 4.0, 1000)
    for c_func, np_func in ((math.sin, np.sin), (math.cos, np.cos)):
        # Environments in Python use NumPy, those in C the C library, as `math` does; some last bits may differ.
        if [c_func(angle) for angle in angles.tolist()] != np_func(angles).tolist():
            return (
                f"NumPy and the C library do not agree on {c_func.__name__}, so numbers would differ in their last bits"
            )
    return ""


def native_variant_of(batched: Any) -> type[CVariant] | None:
    """Returns the variant in C of a bundled vector environment; None if it has none that can be used here.

    Args:
        batched: Its class; a subclass may have other rules, so its parent's variant is not used.
    """
    variant: type[CVariant] | None = vars(batched).get("native_variant") if inspect.isclass(batched) else None
    return variant if variant is not None and not native_unavailable_reason() else None


def prefer_native(found: Any) -> type[CVariant] | None:
    """Returns the variant in C of a vectorized environment without single instances; None if it has none."""
    variant: type[CVariant] | None = vars(found).get("native_replacement") if inspect.isclass(found) else None
    return variant if variant is not None and not native_unavailable_reason() else None


def variant_of_id(name: str) -> type[CVariant] | None:
    """Returns the variant in C of an id in `IDS_IN_C`; None if it cannot be used, or Gymnasium's rules differ."""
    variant = IDS_IN_C.get(name)
    return (
        variant
        if variant is not None and not native_unavailable_reason() and matches_gymnasium(name, variant)
        else None
    )


@cache
def matches_gymnasium(name: str, variant: type[CVariant]) -> bool:
    """Returns whether a variant is bit-identical to Gymnasium's environment."""
    single, many, rng = gymnasium.make(name, disable_env_checker=True), variant(1), np.random.default_rng(0)
    (rows,) = many.reset(lambda lane, episode: 17).rows
    obs, _ = single.reset(seed=17)
    for _ in range(COMPARED_STEPS - 1):
        if not np.array_equal(rows.obs["obs"][0], obs):
            return False
        action = many.kinds[0].action
        stored = rng.uniform(-1, 1, (1, *action.shape)) if action.num_numbers else rng.integers(0, action.sizes[0], 1)
        given = action.to_env(stored.astype(action.dtype))
        obs, reward, terminated, _, _ = single.step(given[0])
        many.step([given])
        if rows.reward[0] != reward or rows.terminated[0] != terminated:
            return False
        if terminated:
            break
    single.close()
    return True
