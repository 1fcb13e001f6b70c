"""Line soccer: two teams of discs and a ball between two goal lines; vectorized.

Each player chooses the direction and the speed of its run. A player that touches the ball kicks it away from itself.
The ball slows down, and comes back from the side lines. Beyond a goal line, wherever, it is a goal, which ends the
episode: the team that scored gets 1, the other -1, as the reward of the group. Two play against two, where `max_steps`
cut the episode off, or any number of strikers against goalies, who win if no goal was scored by then.

Observations and actions of a player are in the view of its own team, which plays from left to right: so one policy can
play both. The pitch is 2 long and 0.8 wide, its middle is (0, 0).
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count, FewFromZero
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents

SPEED = 0.06
"""Maximum distance of a player per step."""

KICK, FRICTION = 0.08, 0.93
"""Speed of the ball after a kick, and share of it that remains after a step."""

REACH = 0.1
"""Distance from a player's centre at which the player kicks the ball."""

HALF = np.array([1.0, 0.4])
"""Half of the pitch's length and width."""

PLACE, BALL, BALL_SPEED, TIME, OTHERS = slice(0, 2), slice(2, 4), slice(4, 6), 6, 7
"""Entries of an observation: own position; offset of the ball; its velocity; the share of time that is left; and, from
here on, the offsets of team mates and then of opponents, two each. Offsets are divided by 2, the ball's velocity by
`KICK`.
"""


class LineSoccer(BatchedAgents):
    """Vectorized line soccer environments; one row per lane and player; groups are ``blue`` and ``red``.

    Actions are ``[2]``, forward and to the left in the view of the own team, each from -1 to 1; a longer vector than 1
    is shortened to it.

    Attributes:
        teams: Number of players of blue and of red.
    """

    render_fps = 15
    saved = (*BatchedAgents.saved, "_place", "_ball", "_speed")

    def __init__(
        self,
        num_lanes: int,
        players: FewFromZero = 2,
        strikers: FewFromZero = 0,
        goalies: FewFromZero = 0,
        max_steps: Count = 200,
        time_cost: float = 0.0,
        progress: float = 0.0,
    ) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of pitches.
            players: Number of players of each team.
            strikers: Number of players of blue, if there are goalies: they must score in time.
            goalies: Number of players of red, if there are strikers: they win if time runs out.
            max_steps: Number of steps that an episode may have.
            time_cost: Cost of an episode of `max_steps` steps for each player, as its own reward.
            progress: Own reward of a player for the ball's way from the middle to the goal of the other team; negative
                for the way back. The winner is the same with and without.

        Raises:
            ValueError: If a setting is out of range, or only one of `strikers` and `goalies` is given.
        """
        check_least("LineSoccer", 1, players=players, max_steps=max_steps)
        check_least("LineSoccer", 0, strikers=strikers, goalies=goalies)
        if bool(strikers) != bool(goalies):
            given, missing = ("strikers", "goalies") if strikers else ("goalies", "strikers")
            raise ValueError(f"LineSoccer: {given} but no {missing}: one team is missing; say how many {missing}, too")
        if not time_cost >= 0.0:
            raise ValueError(f"LineSoccer: time_cost is {time_cost!r}, it must be at least 0")
        if not 0.0 <= progress < 1.0:
            raise ValueError(f"LineSoccer: progress is {progress!r}, it must be at least 0 and less than 1")
        self.teams = (int(strikers), int(goalies)) if strikers else (int(players), int(players))
        self.max_steps, self.time_cost, self.progress = int(max_steps), float(time_cost), float(progress)
        self._holds = bool(strikers)
        blue, red = (
            tuple(f"{team}_{k}" for k in range(n)) for team, n in zip(("blue", "red"), self.teams, strict=True)
        )
        num, largest = len(blue) + len(red), max(self.teams)
        self._size = OTHERS + 2 * (2 * largest - 1)
        super().__init__(
            num_lanes,
            spaces.Box(-1.0, 1.0, (self._size,)),
            spaces.Box(-1.0, 1.0, (2,)),
            f"LineSoccer {len(blue)} against {len(red)}, batched",
            (*blue, *red),
            {"blue": blue, "red": red},
            group_rewards=True,
        )
        self._view = np.repeat([1.0, -1.0], self.teams)[:, None]  # red observes the pitch rotated by 180 degrees
        self._place, self._ball, self._speed = (
            np.zeros(shape) for shape in ((num_lanes, num, 2), *[(num_lanes, 2)] * 2)
        )
        self._seen = self._rows.obs["obs"].reshape(num_lanes, num, self._size)
        # order of the other players in each player's observation: team mates first, then opponents
        team = np.repeat([0, 1], self.teams)
        self._pairs = [
            (player, other, OTHERS + 2 * slot)
            for player in range(num)
            for first, kind in ((0, team == team[player]), (largest - 1, team != team[player]))
            for slot, other in enumerate((k for k in np.flatnonzero(kind) if k != player), first)
        ]
        self._seer, self._shown_agent, self._shown_at = (np.array(column) for column in zip(*self._pairs, strict=True))

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        length = np.maximum(np.sqrt((actions * actions).sum(axis=2, keepdims=True)), 1.0)
        self._place += actions / length * self._view * SPEED
        np.clip(self._place, -HALF, HALF, out=self._place)

        way = self._ball[:, None] - self._place
        distance = np.sqrt((way * way).sum(axis=2))
        touches = distance < REACH
        if touches.any():
            ahead = np.where(distance[..., None] > 1e-6, way / np.maximum(distance, 1e-6)[..., None], self._forward())
            kicked = (ahead * touches[..., None]).sum(axis=1)
            force = np.sqrt((kicked * kicked).sum(axis=1, keepdims=True))
            kicked *= KICK / np.maximum(
                force, 1e-3
            )  # between two players who kick against each other it slips out sideways
            np.copyto(self._speed, kicked, where=touches.any(axis=1)[:, None])
        before = self._ball[:, 0].copy()
        self._ball += self._speed
        self._speed *= FRICTION

        along, height = self._ball.T  # views
        bounces = np.abs(height) > HALF[1]
        if bounces.any():
            np.copyto(height, np.sign(height) * 2 * HALF[1] - height, where=bounces)
            np.copyto(self._speed[:, 1], -self._speed[:, 1], where=bounces)
        goal = np.abs(along) > HALF[0]
        over = self._steps >= self.max_steps
        winner = np.where(goal, np.sign(along), -1.0 * (over & self._holds))
        self._group_reward[...] = winner[:, None] * self._view[:, 0]
        if self.time_cost:
            self._reward -= self.time_cost / self.max_steps
        if self.progress:
            self._reward += self.progress * (np.clip(along, -1.0, 1.0) - before)[:, None] * self._view[:, 0]
        return (goal | over, np.zeros_like(over)) if self._holds else (goal, over)

    def _forward(self) -> np.ndarray:
        """Returns the direction in which each player attacks, ``[players, 2]``."""
        return self._view * (1.0, 0.0)

    def _start(self, lanes: np.ndarray) -> None:
        self._speed[lanes] = 0.0
        for lane in lanes.tolist():
            rng = self._rng(lane)
            self._ball[lane] = 0.0, rng.uniform(-0.3, 0.3)
            own = rng.uniform((-0.9, -0.35), (-0.2, 0.35), (self._place.shape[1], 2))
            self._place[lane] = own * self._view  # each team in its own half

    def _observe(self) -> None:
        seen, view, place = self._seen, self._view, self._place
        seen[:, :, PLACE] = place * view
        seen[:, :, BALL] = (self._ball[:, None] - place) * view / 2
        seen[:, :, BALL_SPEED] = np.clip(self._speed[:, None] * view / KICK, -1.0, 1.0)
        seen[:, :, TIME] = (1.0 - self._steps / self.max_steps)[:, None]
        ways = (place[:, self._shown_agent] - place[:, self._seer]) * view[self._seer] / 2
        seen[:, self._seer, self._shown_at] = ways[..., 0]
        seen[:, self._seer, self._shown_at + 1] = ways[..., 1]

    def text(self, lane: int) -> str:
        """Returns the pitch of a lane as text: B and R are players, o is the ball; goal lines are left and right."""
        width, height = 41, 11

        def cell(place: np.ndarray) -> tuple[int, int]:
            column, row = (place / HALF + 1.0) / 2 * (width - 1, height - 1)
            return height - 1 - min(max(round(row), 0), height - 1), min(max(round(column), 0), width - 1)

        cells = [[" "] * width for _ in range(height)]
        for place, view in zip(self._place[lane], self._view[:, 0], strict=True):
            row, column = cell(place)
            cells[row][column] = "B" if view > 0 else "R"
        row, column = cell(self._ball[lane])
        cells[row][column] = "o"
        side = "-" * (width + 2)
        return "\n".join([side, *(f"|{''.join(row)}|" for row in cells), side])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        players = [
            (float(x), float(y), view > 0) for (x, y), view in zip(self._place[lane], self._view[:, 0], strict=True)
        ]
        ball, steps = (float(self._ball[lane, 0]), float(self._ball[lane, 1])), self._timestep(lane)
        return drawing.draw_pitch(players, ball, HALF, REACH, steps, self.max_steps)
