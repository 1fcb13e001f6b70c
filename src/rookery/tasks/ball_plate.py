"""BallPlate: an agent tilts a cube to balance a ball on it. ML-Agents' 3DBall with different physics.

The cube is 5 wide and turns about its middle, which is the origin; y points up. The ball, of radius 0.5 x ``scale``, is
dropped onto it from above. An action turns the cube about its z axis and its x axis, by up to 2 degrees in each of the
5 steps of physics of 0.02 s that a decision lasts, and not beyond a tilt of 29 degrees. A decision pays 0.1; it costs 1
and ends the episode if the ball has fallen: 3 beside the middle, or 2 below. After `max_steps` decisions an episode is
truncated: 1000 pay 100, which is the best return.

A step of physics: the cube turns, gravity and air act on the ball, and where the ball touches the cube, it is pushed
out, and loses what speed it has into the cube. Friction there lets it roll: it changes the speed of the point of
contact as far as `FRICTION` times the pressure can. The cube is moved and not pushed, so on its top neither the mass
nor the radius changes how a ball rolls; but ``mass`` says how little air slows it (`AIR`), and a larger ball goes over
the edge later. All three parameters can be drawn, with the bounds that ML-Agents recommends.

Returns (`benchmarks/results/worlds.md`): random actions 1.0, the scripted player 100.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.parameters import Parameter

HALF = 2.5
"""Half of the cube's width."""

SECONDS, STEPS = 0.02, 5
"""Seconds per physics step, and physics steps per decision."""

TURN = np.deg2rad(2.0)
"""Angle by which an action of 1 turns the cube in one physics step."""

MOST_TILT = 0.25
"""Absolute z or x component of the cube's quaternion beyond which the cube is not turned further."""

FRICTION = 0.6
"""Maximum friction as a share of the contact pressure."""

AIR = 0.02
"""Drag on a ball of speed 1 and scale 1; proportional to the speed and to the square of the scale."""

RADIUS, HEIGHT, AROUND, FIRST_TILT = 0.5, 4.0, 1.5, 10.0
"""Radius of a ball of scale 1; initial height of the ball and maximum distance from the middle; and maximum initial
tilt of the cube about each axis, in degrees.
"""

ASIDE, BELOW = 3.0, -2.0
"""Position at which the ball counts as fallen: this far from the middle to the side, or below this height."""

FALL, HELD = -1.0, 0.1
"""Rewards of a decision in which the ball falls, and in which it does not."""

PARAMETERS = {
    "mass": Parameter(1.0, 0.1, 20.0),
    "gravity": Parameter(9.81, 4.0, 105.0),
    "scale": Parameter(1.0, 0.2, 5.0),
}
"""Environment parameters: mass of the ball, gravity, and size of the ball."""


class BallPlate(BatchedAgents):
    """Vectorized BallPlate environments; one row per lane.

    Actions are ``[2]``, turns about z and about x, each from -1 to 1. An observation ``[8]`` has the parts z and x of
    the cube's quaternion, the place of the ball, and its speed; the hard task leaves out the speed, ``[5]``.

    Attributes:
        hard: Whether the speed cannot be seen.
    """

    render_fps = 10
    parameters = PARAMETERS
    saved = (*BatchedAgents.saved, "_turned", "_place", "_speed", "_spin", "_mass", "_gravity", "_scale")

    def __init__(self, num_lanes: int, hard: bool = False, max_steps: Count = 1000) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of balls.
            hard: Whether to leave out the ball's speed.
            max_steps: Number of decisions after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("BallPlate", 1, max_steps=max_steps)
        name = f"BallPlate{', hard' if hard else ''}, batched"
        space = spaces.Box(-np.inf, np.inf, (5 if hard else 8,))
        super().__init__(num_lanes, space, spaces.Box(-1.0, 1.0, (2,)), name, (AGENT,))
        self.hard, self.max_steps = bool(hard), int(max_steps)
        self._turned = np.zeros((4, num_lanes))  # the cube's quaternion: w, x, y, z
        self._turned[0] = 1.0
        self._place, self._speed, self._spin = np.zeros((3, 3, num_lanes))  # of the ball, [x y z, lanes]
        self._mass, self._gravity, self._scale = np.ones((3, num_lanes))

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        about_z, about_x = np.ascontiguousarray(actions[:, 0].T.astype(np.float64)) * TURN
        fell = np.zeros(self.num_lanes, dtype=bool)
        for _ in range(STEPS):
            self._turn(3, about_z)
            self._turn(1, about_x)
            self._move()
            x, y, z = self._place
            fell |= (np.abs(x) > ASIDE) | (np.abs(z) > ASIDE) | (y < BELOW)
        self._reward[:, 0] = np.where(fell, FALL, HELD)
        return fell, self._steps >= self.max_steps

    def _turn(self, axis: int, angle: np.ndarray) -> None:
        """Turns the cube about one of its own axes, 1 x or 3 z, by angles ``[lanes]``, unless it is tilted too far."""
        tilt = self._turned[axis]
        allowed = np.where(angle > 0.0, tilt < MOST_TILT, tilt > -MOST_TILT)
        self._turned[...] = turned(self._turned, axis, np.where(allowed, angle, 0.0))

    def _move(self) -> None:
        """Advances the balls by one physics step."""
        place, speed, spin = self._place, self._speed, self._spin
        radius = RADIUS * self._scale
        speed[1] -= self._gravity * SECONDS
        speed *= np.exp(-AIR * self._scale * self._scale / self._mass * SECONDS)
        place += speed * SECONDS

        frame = axes(self._turned)  # of the cube, in the world
        local = [_dot(axis, place) for axis in frame]
        nearest = [np.minimum(np.maximum(part, -HALF), HALF) for part in local]
        ways = [part - near for part, near in zip(local, nearest, strict=True)]
        distance = np.sqrt(ways[0] * ways[0] + ways[1] * ways[1] + ways[2] * ways[2])
        touches = (distance < radius) & (distance > 0.0)
        safe = np.where(touches, distance, 1.0)
        normal = [
            (ways[0] * frame[0][k] + ways[1] * frame[1][k] + ways[2] * frame[2][k]) / safe * touches for k in range(3)
        ]

        into = np.minimum(_dot(normal, speed), 0.0)
        depth = np.where(touches, radius - distance, 0.0)
        for k in range(3):
            place[k] += depth * normal[k]
            speed[k] -= into * normal[k]
        # how fast the point of contact slides: speed of the middle plus that of turning about it
        lever = _cross(spin, normal)
        across = _dot(normal, speed)
        slide = [speed[k] - across * normal[k] - radius * lever[k] for k in range(3)]
        slides = np.sqrt(slide[0] * slide[0] + slide[1] * slide[1] + slide[2] * slide[2])
        # a solid ball stops to slide with a push of 2/7 of its mass times that; the friction gives so much at most
        push = np.minimum(2.0 / 7.0, -FRICTION * into / np.maximum(slides, 1e-12)) * touches
        torque = _cross(normal, slide)
        for k in range(3):
            speed[k] -= push * slide[k]
            spin[k] += 2.5 / radius * push * torque[k]

    def _start(self, lanes: np.ndarray) -> None:
        for lane in lanes.tolist():
            values = self._drawn(lane)
            for name, kept in (("mass", self._mass), ("gravity", self._gravity), ("scale", self._scale)):
                kept[lane] = values.get(name, PARAMETERS[name].default)
            rng = self._rng(lane)
            first = np.deg2rad(rng.uniform(-FIRST_TILT, FIRST_TILT, 2))
            whole = np.array([[1.0], [0.0], [0.0], [0.0]])
            self._turned[:, lane] = turned(turned(whole, 1, first[:1]), 3, first[1:])[:, 0]
            x, z = rng.uniform(-AROUND, AROUND, 2)
            self._place[:, lane] = x, HEIGHT, z
        self._speed[:, lanes] = self._spin[:, lanes] = 0.0

    def _observe(self) -> None:
        seen = self._rows.obs["obs"]
        seen[:, 0], seen[:, 1] = self._turned[3], self._turned[1]
        seen[:, 2:5] = self._place.T
        if not self.hard:
            seen[:, 5:8] = self._speed.T

    def text(self, lane: int) -> str:
        """Returns position and velocity of a lane's ball and the cube's tilt as text."""
        x, y, z = self._place[:, lane]
        lines = [f"ball at x {x:+.2f}, height {y:+.2f}, z {z:+.2f}"]
        x, y, z = self._speed[:, lane]
        lines += [f"speed   x {x:+.2f},        {y:+.2f}, z {z:+.2f}"]
        about_x, about_z = (np.rad2deg(2 * np.arcsin(self._turned[k, lane])) for k in (1, 3))
        return "\n".join([*lines, f"cube turned by {about_z:+.0f} degrees about z, {about_x:+.0f} about x"])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        frame = np.array(axes(self._turned[:, lane : lane + 1]))[:, :, 0]
        radius = RADIUS * float(self._scale[lane])
        return drawing.draw_plate(frame, HALF, self._place[:, lane], radius, self._timestep(lane), self.max_steps)


def turned(quaternions: np.ndarray, axis: int, angle: np.ndarray) -> np.ndarray:
    """Returns quaternions ``[4, N]`` (w, x, y, z) after a rotation about one of their own axes, 1 x or 3 z.

    Args:
        quaternions: Quaternions of length 1.
        axis: The axis, 1 or 3.
        angle: Angles ``[N]`` in radians.
    """
    w, x, y, z = quaternions
    cosine, sine = np.cos(angle / 2), np.sin(angle / 2)
    if axis == 1:
        new = (w * cosine - x * sine, x * cosine + w * sine, y * cosine + z * sine, z * cosine - y * sine)
    else:
        new = (w * cosine - z * sine, x * cosine + y * sine, y * cosine - x * sine, z * cosine + w * sine)
    length = np.sqrt(new[0] * new[0] + new[1] * new[1] + new[2] * new[2] + new[3] * new[3])
    return np.stack([part / length for part in new])


def axes(quaternions: np.ndarray) -> list[list[np.ndarray]]:
    """Returns the axes x, y and z rotated by quaternions ``[4, N]``, as three components ``[N]`` each."""
    w, x, y, z = quaternions
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
        [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
        [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
    ]


def _dot(one: list[np.ndarray], other: list[np.ndarray] | np.ndarray) -> np.ndarray:
    return np.asarray(one[0] * other[0] + one[1] * other[1] + one[2] * other[2])


def _cross(one: list[np.ndarray] | np.ndarray, other: list[np.ndarray]) -> list[np.ndarray]:
    return [
        one[1] * other[2] - one[2] * other[1],
        one[2] * other[0] - one[0] * other[2],
        one[0] * other[1] - one[1] * other[0],
    ]
