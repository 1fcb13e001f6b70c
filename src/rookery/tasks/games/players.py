"""Scripted players of the bundled games: functions ``player(obs, rng) -> actions`` for N agents at once.

``obs`` is a tree of observations ``[N, ...]`` by leaf path, ``rng`` a NumPy generator, and the actions ``[N, ...]`` are
as the environment takes them. Players have no memory. Their import paths name them:
``rookery.tasks.games.players:one``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import MASK, Tree
from rookery.tasks import ball_plate, basic, goal_grid, match3, push_block
from rookery.tasks.games import board_games, carry_together, food_collector, line_soccer, sacrifice


def tic_tac_toe_perfect(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Draws one of the optimal moves of tic-tac-toe, ``[N]`` int64; never loses."""
    planes = obs["board"].reshape(-1, 2, 9).astype(np.int64) << np.arange(9)
    own, other = planes.sum(axis=2).T
    return _draw(_best_moves()[own, other], rng)


def connect_four_one_ply(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Draws a move of connect four, ``[N]`` int64: a winning one if possible, else one that blocks a line if necessary,
    else any.
    """
    planes = obs["board"].reshape(-1, 2, board_games.BITS.size).astype(np.int64) << board_games.BITS.ravel()
    own, other = planes.sum(axis=2).T
    allowed, moves = obs[MASK].astype(bool), np.arange(board_games.COLUMNS)
    stones = board_games.dropped(moves, (own | other)[:, None])
    wins = allowed & board_games.has_four(own[:, None] | stones)
    saves = allowed & board_games.has_four(other[:, None] | stones)
    good = np.where(wins.any(axis=1)[:, None], wins, np.where(saves.any(axis=1)[:, None], saves, allowed))
    return _draw(good, rng)


def line_soccer_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays a team of line soccer, ``[N, 2]`` float32: one player runs behind the ball and kicks it towards the goal,
    the others stay between the ball and their own goal. Directions have some random noise.
    """
    seen = obs["obs"].astype(np.float64)
    own, to_ball = seen[:, line_soccer.PLACE], 2 * seen[:, line_soccer.BALL]
    ball = own + to_ball
    ways = 2 * seen[:, line_soccer.OTHERS :].reshape(len(seen), -1, 2)
    mates = ways[:, : ways.shape[1] // 2]
    there = (mates != 0.0).any(axis=2)  # of the smaller of two teams some are missing
    mates_nearest = np.where(there, np.linalg.norm(to_ball[:, None] - mates, axis=2), np.inf).min(
        axis=1, initial=np.inf
    )
    nearest = np.linalg.norm(to_ball, axis=1) <= mates_nearest

    to_goal = np.array([line_soccer.HALF[0], 0.0]) - ball
    aim = to_goal / np.maximum(np.linalg.norm(to_goal, axis=1, keepdims=True), 1e-6)
    behind = ball - aim * line_soccer.REACH * 1.5
    is_behind = (to_ball * aim).sum(axis=1) > 0.8 * np.linalg.norm(to_ball, axis=1)
    around = behind + np.stack([np.zeros(len(seen)), np.where(to_ball[:, 1] > 0, -1.0, 1.0) * 0.12], axis=1)
    fetch = np.where((to_ball[:, 0] < 0)[:, None], around, behind)  # not through the ball, into the own goal
    attack = np.where(is_behind[:, None], ball, fetch)
    guard = ball * (0.5, 0.3) - (line_soccer.HALF[0] * 0.5, 0.0)
    way = np.where(nearest[:, None], attack, guard) - own
    way /= np.maximum(np.linalg.norm(way, axis=1, keepdims=True), line_soccer.SPEED)
    return np.clip(way + rng.normal(0.0, 0.1, way.shape), -1.0, 1.0).astype(np.float32)


def sacrifice_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays Sacrifice optimally, ``[N]`` int64: the leftmost agent walks to the altar, the others to the exit."""
    flags = obs["obs"]
    cells = np.arange(sacrifice.CELLS)
    own = (flags[:, : sacrifice.CELLS] * cells).sum(axis=1)
    mates = np.where(flags[:, sacrifice.CELLS : -1] > 0, cells, sacrifice.CELLS).min(axis=1)
    goes = (own < mates) & (flags[:, -1] == 0)
    return np.where(goes, sacrifice.LEFT, sacrifice.RIGHT)


def carry_together_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays CarryTogether, ``[N]`` int64: all agents fetch the heaviest remaining load, one after the other."""
    seen = obs["obs"]
    loads = seen[:, carry_together.LOADS :].reshape(len(seen), -1, 4)
    heaviest = loads.shape[1] - 1 - np.argmax(loads[:, ::-1, 0] > 0, axis=1)
    mine = loads[np.arange(len(seen)), heaviest]
    vertical = np.where(mine[:, 2] > 0, carry_together.DOWN, carry_together.UP)
    horizontal = np.where(mine[:, 3] > 0, carry_together.RIGHT, carry_together.LEFT)
    walk = np.where(mine[:, 2] != 0, vertical, horizontal)
    return np.where((mine[:, 2] == 0) & (mine[:, 3] == 0), carry_together.LIFT, walk)


def matrix_game_best(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays the two-step game with a return of 8, ``[N]`` int64: always the second action."""
    return np.ones(len(obs["own"]), dtype=np.int64)


def basic_best(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays Basic with a return of 0.93, ``[N]`` int64: always to the right."""
    return np.full(len(obs["obs"]), basic.RIGHT)


def ball_plate_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays BallPlate, ``[N, 2]`` float32: tilts the cube against the ball's position and velocity, which must be
    observed.

    Raises:
        ConfigError: If the speed is not observed, as in the hard task.
    """
    seen = obs["obs"].astype(np.float64)
    if seen.shape[1] < 8:
        raise ConfigError("ball_plate_script: the hard task does not show the ball's speed, which this player needs")
    place, speed = seen[:, [2, 4]], seen[:, [5, 7]]
    wanted = np.clip(0.15 * place + 0.2 * speed, -0.45, 0.45) * (1.0, -1.0)
    tilt = 2 * np.arcsin(seen[:, :2])
    turn = (wanted - tilt) / (ball_plate.TURN * ball_plate.STEPS)
    return np.asarray(np.clip(turn, -1.0, 1.0).astype(np.float32))


def goal_grid_best(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays GoalGrid by a shortest path around the wrong goal, ``[N]`` int64; needs ``one_hot`` observations.

    Raises:
        ConfigError: If the grid is observed in another way.
    """
    num, allowed, grid = len(obs["goal"]), obs[MASK].astype(bool), _part(obs, "grid", "goal_grid_best", "one_hot")
    size = int(np.sqrt(grid.shape[1] // 3))
    things = grid.reshape(num, size * size, 3).argmax(axis=1)  # cell of the plus, the cross and the agent
    rows = np.arange(num)
    goal = obs["goal"].argmax(axis=1)
    far = np.full((num, size + 2, size + 2), np.inf)  # steps to the goal, with a margin around
    inside = far[:, 1:-1, 1:-1]
    for _ in range(size * size):
        best = np.min([far[:, 1 + r : 1 + r + size, 1 + c : 1 + c + size] for r, c in goal_grid.WAY], axis=0) + 1.0
        np.minimum(inside, best, out=inside)
        inside[rows, things[rows, 1 - goal] // size, things[rows, 1 - goal] % size] = np.inf
        inside[rows, things[rows, goal] // size, things[rows, goal] % size] = 0.0
    row, column = np.divmod(things[:, 2], size)
    to = np.stack([far[rows, 1 + row + r, 1 + column + c] for r, c in goal_grid.WAY], axis=1)
    return _draw(allowed & (to == to.min(axis=1, keepdims=True)), rng)


def push_block_best(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays PushBlock by a shortest path, ``[N]`` int64; needs ``grid`` observations.

    Raises:
        ConfigError: If the room is observed in another way.
    """
    grid = _part(obs, "grid", "push_block_best", "grid").astype(bool)
    view = grid.shape[1]
    size = (view + 1) // 2
    fewest = push_block.distances(size)
    # in each view, where the room begins, and the quarters by which the goal is turned away from up
    is_room = ~grid[..., push_block.WALL - 1]
    top, left = is_room.any(axis=2).argmax(axis=1), is_room.any(axis=1).argmax(axis=1)
    chosen = np.full(len(grid), push_block.STAY)
    moves = np.array([push_block.FORWARD, push_block.RIGHT, push_block.BACK, push_block.LEFT])
    for one, (first, start) in enumerate(zip(top, left, strict=True)):
        room = grid[one, first : first + size, start : start + size]
        agent = np.zeros((size, size), dtype=bool)
        agent[size - 1 - first, size - 1 - start] = True
        goal, block = room[..., push_block.GOAL - 1], room[..., push_block.BLOCK - 1]
        quarters = int(np.argmax([side.all() for side in (goal[0], goal[:, -1], goal[-1], goal[:, 0])]))
        goal, block, agent = (np.rot90(cells, quarters) for cells in (goal, block, agent))
        place, there = np.argwhere(agent)[0], np.argwhere(block)[0]
        steps = []
        for way in ((-1, 0), (0, 1), (1, 0), (0, -1)):
            to = place + way
            pushed = there + way if (to == there).all() else there
            both = np.stack([to, pushed])
            free = ((both >= 0) & (both < size)).all()
            steps.append(fewest[to @ (size, 1), pushed @ (size, 1)] if free else np.inf)
        best = int(rng.choice(np.flatnonzero(steps == np.min(steps))))
        chosen[one] = moves[(best + quarters) % 4]
    return chosen


def food_collector_script(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays FoodCollector, ``[N]`` dicts: walks to the nearest visible food and around poison, else straight ahead."""
    view = obs["view"]
    cells = view.shape[1]
    middle = (np.arange(cells) + 0.5) * 2 * food_collector.SEEN / cells - food_collector.SEEN
    ahead, aside = np.meshgrid(-middle, middle, indexing="ij")
    far = np.hypot(ahead, aside)
    food, poison = view[..., food_collector.FOOD] > 0, view[..., food_collector.POISON] > 0
    nearest = np.where(food, far, np.inf).reshape(len(view), -1).argmin(axis=1)
    sees = np.asarray(food.any(axis=(1, 2)))
    way = np.stack([ahead.ravel()[nearest], aside.ravel()[nearest]], axis=1)
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    way = np.where(sees[:, None], way, (1.0, 0.0))
    push = poison * np.maximum(3.0 - far, 0.0) / np.maximum(far, 0.5)
    danger = np.stack([(push * ahead).sum(axis=(1, 2)), (push * aside).sum(axis=(1, 2))], axis=1)
    length = np.linalg.norm(danger, axis=1, keepdims=True)
    danger /= np.maximum(length, 1e-9)
    past = np.stack([-danger[:, 1], danger[:, 0]], axis=1)  # on that side of the poison to which the way leads anyway
    past *= np.where((way * past).sum(axis=1, keepdims=True) >= 0.0, 1.0, -1.0)
    leads_there = (length > 0.0) & ((way * danger).sum(axis=1, keepdims=True) > 0.0)
    way = np.where(leads_there, past - 0.3 * danger, way)
    way /= np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1.0)
    wall = view[:, : cells // 2, cells // 2 - 1 : cells // 2 + 1, food_collector.WALL].sum(axis=(1, 2)) / cells
    turn = np.where(sees, 0.0, np.where(wall > 0.3, 1.0, rng.uniform(-0.3, 0.3, len(view))))
    moves = np.concatenate([way, turn[:, None]], axis=1).astype(np.float32)
    answers = np.empty(len(view), dtype=object)
    answers[:] = [{"laser": np.int64(0), "move": move} for move in moves]
    return answers


def match3_greedy(obs: Tree, rng: np.random.Generator) -> np.ndarray:
    """Plays Match3, ``[N]`` int64: one of the moves that clear the most points immediately; needs ``visual``
    observations.

    Raises:
        ConfigError: If the board is observed in another way.
    """
    boards = []
    if obs["cells"].ndim != 4:
        raise ConfigError("match3_greedy: it needs image observations: env.config.observation=visual")
    for part in ("cells", "special"):
        flags = obs[part].astype(np.int8)
        boards.append(np.where(flags.any(axis=3), flags.argmax(axis=3), match3.OUTSIDE))
    cells, special = boards
    points = match3.move_points(cells, np.maximum(special, 0))
    return _draw(points == points.max(axis=1, keepdims=True), rng)


def _part(obs: Tree, part: str, player: str, observation: str) -> np.ndarray:
    """Returns a part of observations; raises a ConfigError with the needed setting if it is missing."""
    if part not in obs:
        raise ConfigError(f"{player}: it needs {part!r} in observations: env.config.observation={observation}")
    return obs[part]


def _draw(good: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws one of the good moves ``[N, moves]`` of each row uniformly, ``[N]`` int64."""
    return np.asarray(np.where(good, rng.random(good.shape), -1.0).argmax(axis=1))


@lru_cache(maxsize=1)
def _best_moves() -> np.ndarray:
    """Computes the best moves of tic-tac-toe by minimax, ``[512, 512, 9]`` bool, by own and opponent's stones."""
    best = np.zeros((512, 512, 9), dtype=bool)
    values: dict[tuple[int, int], int] = {}

    def value(own: int, other: int) -> int:
        """Returns the value for the player to move: 1, 0 or -1."""
        if (own, other) not in values:
            if board_games.WINNING[other]:
                values[own, other] = -1
            else:
                free = [move for move in range(9) if not (own | other) >> move & 1]
                worth = [-value(other, own | 1 << move) for move in free]
                values[own, other] = max(worth, default=0)
                best[own, other, [m for m, w in zip(free, worth, strict=True) if w == values[own, other]]] = True
        return values[own, other]

    value(0, 0)
    for move in range(9):  # where the other began, too
        value(0, 1 << move)
    return best
