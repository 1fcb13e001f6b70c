"""CartPole-v1 as a `VectorEnv`: all lanes are stepped by a few array operations, bit-identical to Gymnasium.

The equations are those of Florian, "Correct equations for the dynamics of the cart-pole system" (2007), without
friction, integrated by explicit Euler steps in float64. Sums and products are computed in the order of Gymnasium's
CartPole-v1, and initial states are drawn from seeds in the same way: episodes are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from rookery.core.seeding import generator_of, seed_words
from rookery.core.settings.reach import Count
from rookery.envs import drawing
from rookery.envs.adapters.batched import BatchedEnv, check_least, check_render_mode
from rookery.envs.base import SeedPlan, Step
from rookery.envs.native.variants import CartPoleInC, CVariant

GRAVITY = 9.8  # m / s^2
POLE_MASS = 0.1  # kg
TOTAL_MASS = 0.1 + 1.0  # kg, of pole and cart
HALF_POLE = 0.5  # m
POLE_MASS_LENGTH = POLE_MASS * HALF_POLE
FORCE = 10.0  # N, to the left or to the right
STEP_SECONDS = 0.02
POSITION_LIMIT = 2.4  # m from the middle, beyond which an episode terminates
ANGLE_LIMIT = 12 * 2 * math.pi / 360  # rad from upright

SEEDS_AT_ONCE = 256
"""Number of episodes that are seeded together, but at least `SEEDS_A_LANE` of each lane."""
SEEDS_A_LANE = 8


class BatchedCartPole(BatchedEnv):
    """Vectorized CartPole-v1: a `VectorEnv` with one agent, one row per lane.

    An observation is position, velocity, angle and angular velocity, float32; action 0 pushes left, 1 right. The reward
    is 1 for every step. As in Gymnasium, a pole that falls in the very last step is both terminated and truncated; it
    is then not among the `final_index` rows, since it has no future.

    Attributes:
        title: Name of one environment.
        shows_velocities: Whether the velocities are part of an observation.
        native_variant: Its variant in C.
    """

    title: ClassVar[str] = "CartPole-v1"
    render_fps = 50
    shows_velocities: ClassVar[bool] = True
    native_variant: ClassVar[type[CVariant]] = CartPoleInC
    saved = ("_motion", "_began", "_clock", "_deadline")

    def __init__(
        self,
        num_lanes: int,
        *,
        sutton_barto_reward: bool = False,
        render_mode: str | None = None,
        max_episode_steps: Count = 500,
    ) -> None:
        """Creates `num_lanes` cart-poles.

        Args:
            num_lanes: Number of environments.
            sutton_barto_reward: Whether the reward is -1 for the step that terminates and 0 for others.
            render_mode: ``"rgb_array"`` or None; images are drawn either way.
            max_episode_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least(type(self).__name__, 1, max_episode_steps=max_episode_steps)
        check_render_mode(type(self).__name__, render_mode)
        bound = np.array([POSITION_LIMIT * 2, np.inf, ANGLE_LIMIT * 2, np.inf], dtype=np.float32)
        bound = bound if self.shows_velocities else bound[::2]
        super().__init__(num_lanes, spaces.Box(-bound, bound), 2, f"{self.title}, batched")
        self.max_episode_steps = int(max_episode_steps)
        self._rewards = (
            (0.0, -1.0) if sutton_barto_reward else (1.0, 1.0)
        )  # reward of other steps, and of the terminating one
        self._coming: dict[tuple[int, int], np.ndarray] = {}  # by lane and later episode, the words of its seed

        self._clock = 0  # vector steps since reset
        self._began = np.zeros(num_lanes, dtype=np.int64)  # the clock when a lane's episode began
        self._deadline = 0  # the clock at which the next episode reaches its time limit
        self._allocate(num_lanes)

    def _allocate(self, num_lanes: int) -> None:
        """Allocates the state of all lanes, the views of it that a step needs, and work arrays."""
        # The state is the upper four rows of this array and its derivative the lower four, so that a step is a single
        # sum.
        self._motion = np.zeros((6, num_lanes))  # position, angle, their velocities, their accelerations
        self._state, self._slope = self._motion[:4], self._motion[2:]
        self._position_and_angle, self._angle = self._motion[:2], self._motion[1]
        self._acceleration, self._angle_acceleration = self._motion[4:]
        # the slab in the order of the state, [derivative, coordinate, lane], and the state in the order in which it is
        # drawn
        whole = self._state.reshape(2, 2, num_lanes)
        self._start_by_draw = whole.transpose(1, 0, 2)
        self._state_by_obs = whole if self.shows_velocities else whole[:1]
        self._obs_by_state = self._rows.obs["obs"].reshape(num_lanes, 2, -1).transpose(2, 1, 0)

        # Work arrays and constants; whole arrays, because converting a number costs as much as a sum. The cosine is
        # stored beside the angular velocity, at the place of the acceleration, so that both go through the same
        # operations at once.
        self._cos, self._velocity_and_cos = self._acceleration, self._motion[3:5]
        self._sin, self._work = np.zeros((2, num_lanes))
        self._thrust, self._inertia = self._both = np.zeros((2, num_lanes))
        self._change, self._reach = np.zeros((4, num_lanes)), np.zeros((2, num_lanes))
        self._fallen = np.zeros((2, num_lanes), dtype=bool)
        self._limit = np.repeat([[POSITION_LIMIT], [ANGLE_LIMIT]], num_lanes, axis=1)
        self._force = np.array([-FORCE, FORCE])
        self._tau = np.full((4, num_lanes), STEP_SECONDS)
        self._masses = np.repeat([[POLE_MASS_LENGTH], [POLE_MASS]], num_lanes, axis=1)
        self._total_masses = np.full((2, num_lanes), TOTAL_MASS)
        constants = (GRAVITY, HALF_POLE, POLE_MASS_LENGTH, 4.0 / 3.0)
        self._constants = tuple(np.full(num_lanes, value) for value in constants)

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; see `VectorEnv.reset`."""
        self._coming, self._clock, self._deadline = {}, 0, self.max_episode_steps
        return super().reset(seeds)

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state instead of `reset`; see `BatchedEnv.load_state_dict`."""
        self._coming = {}
        return super().load_state_dict(state, seeds)

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once: 0 pushes left, 1 right; see `VectorEnv.step`."""
        action = self._checked(actions)
        if self._step.any_end:
            self._clear_ends()
        fell = self._move_one(action.item()) if self.num_lanes == 1 else self._move(action)
        self._clock += 1
        self._rows.reward.fill(self._rewards[0])
        if fell or self._clock == self._deadline:
            self._end()
        return self._step

    def _move(self, action: np.ndarray) -> bool:
        """Advances every lane by a step and writes its observation; returns whether one of them fell."""
        self._accelerate(action)
        np.multiply(self._slope, self._tau, self._change)
        np.add(self._state, self._change, self._state)
        self._obs_by_state[...] = self._state_by_obs
        np.absolute(self._position_and_angle, self._reach)
        np.greater(self._reach, self._limit, self._fallen)
        return True in self._fallen.tobytes()

    def _move_one(self, action: int) -> bool:
        """Same as `_move` for a single lane, with scalars: a quarter of the cost of operations on arrays of length
        one.
        """
        position, angle, velocity, turning = self._state.ravel().tolist()
        sin, cos = np.sin(angle).item(), np.cos(angle).item()  # NumPy's, whose last bits are not those of `math`
        thrust = ((FORCE if action else -FORCE) + POLE_MASS_LENGTH * (turning * turning) * sin) / TOTAL_MASS
        inertia = HALF_POLE * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS)
        turn = (GRAVITY * sin - cos * thrust) / inertia
        push = thrust - POLE_MASS_LENGTH * turn * cos / TOTAL_MASS
        position, angle = position + STEP_SECONDS * velocity, angle + STEP_SECONDS * turning
        moved = (position, angle, velocity + STEP_SECONDS * push, turning + STEP_SECONDS * turn)
        self._motion[:, 0] = (*moved, push, turn)
        self._obs_by_state[...] = self._state_by_obs
        self._fallen[:, 0] = fell = abs(position) > POSITION_LIMIT, abs(angle) > ANGLE_LIMIT
        return True in fell

    def _accelerate(self, action: np.ndarray) -> None:
        """Computes both accelerations, in Gymnasium's order of operations, so that they are bit-identical.

        The last argument of each operation is its output.
        """
        gravity, half_pole, pole_mass_length, four_thirds = self._constants
        sin, cos, thrust, inertia, work = self._sin, self._cos, self._thrust, self._inertia, self._work
        np.sin(self._angle, sin)
        np.cos(self._angle, cos)

        # thrust = (force + pole_mass_length * angle_velocity**2 * sin) / total_mass
        # inertia = half_pole * (4/3 - pole_mass * cos**2 / total_mass)
        both = self._both
        np.square(self._velocity_and_cos, both)
        np.multiply(self._masses, both, both)
        np.multiply(thrust, sin, thrust)
        self._force.take(action, out=work, mode="clip")
        np.add(work, thrust, thrust)
        np.divide(both, self._total_masses, both)
        np.subtract(four_thirds, inertia, inertia)
        np.multiply(half_pole, inertia, inertia)

        # angle_acceleration = (gravity * sin - cos * thrust) / inertia
        turn = self._angle_acceleration
        np.multiply(gravity, sin, turn)
        np.multiply(cos, thrust, work)
        np.subtract(turn, work, turn)
        np.divide(turn, inertia, turn)

        # acceleration = thrust - pole_mass_length * angle_acceleration * cos / total_mass
        np.multiply(pole_mass_length, turn, work)
        np.multiply(work, cos, work)
        np.divide(work, self._total_masses[0], work)
        np.subtract(thrust, work, self._acceleration)

    def _begin(self, lanes: np.ndarray) -> None:
        for lane, episode in zip(lanes.tolist(), self.episode[lanes].tolist(), strict=True):
            if (lane, episode) not in self._coming:
                self._seed_ahead()
            rng = generator_of(self._coming.pop((lane, episode)))
            self._start_by_draw[..., lane] = rng.uniform(low=-0.05, high=0.05, size=(2, 2))
        self._began[lanes] = self._clock

    def _seed_ahead(self) -> None:
        """Seeds the next episodes of every lane together: seeding a single episode costs as much as a step."""
        seeds = self._seeds
        assert seeds is not None, "set by reset() or load_state_dict()"
        num = max(SEEDS_AT_ONCE // self.num_lanes, SEEDS_A_LANE)
        coming = [(lane, first + k) for lane, first in enumerate(self.episode.tolist()) for k in range(num)]
        self._coming = dict(zip(coming, seed_words([seeds(*episode) for episode in coming]), strict=True))

    def _end(self) -> None:
        """Marks the lanes that fell or reached the time limit and starts their next episodes."""
        rows = self._rows
        np.logical_or(self._fallen[0], self._fallen[1], rows.terminated)
        rows.reward[rows.terminated] = self._rewards[1]
        if self._clock == self._deadline:
            np.equal(self._clock - self._began, self.max_episode_steps, out=rows.truncated)
        self._begin_next()
        self._deadline = self._began.item(self._began.argmin()) + self.max_episode_steps

    def _show(self) -> None:
        self._obs_by_state[...] = self._state_by_obs

    def _timestep(self, lane: int) -> int:
        return int(self._clock - self._began[lane])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        position, angle = self._position_and_angle[:, lane].tolist()
        return drawing.draw_cart_pole(position, angle, self._timestep(lane), self.max_episode_steps)


BATCHED_VARIANTS = {"CartPole-v1": BatchedCartPole}
"""Vector environments that are bit-identical to a Gymnasium id, and may replace it."""

TIME_LIMITS = {
    "CartPole-v1": 500,
    "Acrobot-v1": 500,
    "MountainCar-v0": 200,
    "MountainCarContinuous-v0": 999,
    "Pendulum-v1": 200,
}
"""Maximum episode length, in steps, of Gymnasium's ids that have variants in C or in Python."""


def is_gymnasiums(spec: EnvSpec) -> bool:
    """Returns whether an id with a variant refers to Gymnasium's environment: a program may register or change it."""
    own = str(spec.entry_point).startswith("gymnasium.envs.classic_control.")
    changed = spec.kwargs or spec.additional_wrappers or spec.max_episode_steps != TIME_LIMITS.get(spec.id)
    return own and not changed
