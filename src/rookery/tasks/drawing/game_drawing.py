"""Pictures of the games of several agents, as `drawing` draws the other tasks: ``[height, width, 3]`` uint8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from rookery.envs.drawing import INK, MARGIN, PAPER, RED, WOOD, Color, font
from rookery.tasks.drawing.task_drawing import (
    FOOTER,
    GOLD,
    GREEN,
    SMOOTH,
    TILE,
    TILE_AGAIN,
    TILE_VISITED,
    _draw_footer,
    _empty_board,
    _put,
    _tile,
)

BLUE: Color = (64, 112, 196)
STONES: dict[str, Color] = {"x": GREEN, "o": RED, "red": RED, "yellow": GOLD}
AGENTS: tuple[Color, ...] = (GREEN, BLUE, WOOD)
"""Colours of agents a, b and c."""


def draw_stones(
    board: np.ndarray, line: np.ndarray, agents: Sequence[str], turn: int | None, by_column: bool, plies: int
) -> np.ndarray:
    """Draws a board of two players: x and o as letters, others as discs; places of a full line are shaded.

    Args:
        board: Number of the player whose stone is in each place, or -1, ``[rows, columns]``.
        line: Which places belong to a full line, ``[rows, columns]`` bool.
        agents: Names of the two players.
        turn: Number of who is on turn; None after the end.
        by_column: Whether a move names a column, whose numbers are then written above the board.
        plies: Stones that were set.
    """
    rows, columns = board.shape
    empty, side, left = _empty_board(rows, columns)
    picture = empty.copy()
    for row, column in np.argwhere(line):
        top, start = MARGIN + row * side, left + column * side
        picture[top : top + side, start : start + side] = _tile(side, TILE_AGAIN)
    letters = all(len(agent) == 1 for agent in agents)
    for row, column in np.argwhere(board >= 0):
        agent = agents[board[row, column]]
        if not letters:
            _put(picture, (int(row), int(column)), side, left, STONES[agent])
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for row, column in np.argwhere(board >= 0) if letters else ():
        agent = agents[board[row, column]]
        x, y = left + (column + 0.5) * side, MARGIN + (row + 0.5) * side
        draw.text((x, y), agent.upper(), fill=STONES[agent], font=font(round(side * 0.7)), anchor="mm")
    for column in range(columns) if by_column else ():
        draw.text((left + (column + 0.5) * side, MARGIN - 5), str(column), fill=INK, font=font(12), anchor="ms")
    picture = np.array(image)
    if turn is not None:
        shown = [("on turn", STONES[agents[turn]], agents[turn])]
    elif line.any():
        winner = agents[int(board[line][0])]
        shown = [("won", STONES[winner], winner)]
    else:
        shown = [("draw", INK, "")]
    _draw_footer(picture, shown, plies, board.size)
    return picture


def draw_payoffs(payoffs: np.ndarray, game: int, timestep: int) -> np.ndarray:
    """Draws the payoffs of two games beside each other; the one that is played is dark.

    Args:
        payoffs: What the team gets, ``[games, actions of a, actions of b]``.
        game: Number of the game that is played, -1 before one is chosen.
        timestep: Steps of this episode so far.
    """
    side = 64
    width, height = 2 * MARGIN + 5 * side, MARGIN + 2 * side + FOOTER
    image = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(image)
    for number, matrix in enumerate(payoffs):
        tile, ink = (INK, PAPER) if number == game else (TILE, INK)
        for (row, column), pay in np.ndenumerate(matrix):
            x, y = MARGIN + (3 * number + column) * side, MARGIN + row * side
            image.paste(Image.fromarray(_tile(side, tile)), (x, y))
            middle = (x + side / 2, y + side / 2)
            draw.text(middle, f"{pay:g}", fill=ink, font=font(28), anchor="mm")
    picture = np.array(image)
    said = "a chooses the game" if game < 0 else f"game {game}: a the row, b the column"
    _draw_footer(picture, [(said, INK, "")], timestep, 2)
    return picture


def draw_corridor(
    cells: int, door: int, agents: Sequence[tuple[int, bool]], is_open: bool, timestep: int, max_timesteps: int
) -> np.ndarray:
    """Draws a corridor: the altar red, the exit green, the door a dark bar until it is open, agents as discs.

    Args:
        cells: Number of cells, the altar first and the exit last.
        door: First cell behind the door.
        agents: Cell of each agent, and whether it lives; one that does not is a cross below the altar.
        is_open: Whether the door is open.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    side, gap = 48, 16  # the door's own room
    width, height = 2 * MARGIN + cells * side + gap, MARGIN + 3 * side + FOOTER
    picture = np.full((height, width, 3), PAPER, dtype=np.uint8)
    left = [MARGIN + cell * side + (gap if cell >= door else 0) for cell in range(cells)]
    for cell in range(cells):
        color = RED if cell == 0 else GREEN if cell == cells - 1 else TILE_VISITED if is_open else TILE
        for row in range(3):
            top = MARGIN + row * side
            picture[top : top + side, left[cell] : left[cell] + side] = _tile(side, color)
    if not is_open:
        x = left[door] - gap
        picture[MARGIN : MARGIN + 3 * side, x + 4 : x + gap - 4] = INK
    for row, ((cell, lives), color) in enumerate(zip(agents, AGENTS, strict=True)):
        if lives:
            _put(picture, (row, 0), side, left[cell], color)
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for row, (_, lives) in enumerate(agents):
        if not lives:
            middle, level, arm = left[0] + side / 2, MARGIN + (row + 0.5) * side, side * 0.2
            for tilt in (-arm, arm):
                draw.line((middle - arm, level - tilt, middle + arm, level + tilt), fill=PAPER, width=4)
    picture = np.array(image)
    living = sum(lives for _, lives in agents)
    shown = [("alive", GREEN, str(living)), ("door", INK, "open" if is_open else "closed")]
    _draw_footer(picture, shown, timestep, max_timesteps)
    return picture


def draw_loads(
    shape: tuple[int, int],
    agents: Sequence[tuple[int, int]],
    loads: Sequence[tuple[int, int, int]],
    delivered: int,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws a grid with home in its leftmost column, loads as boxes with their weights, agents as discs.

    Args:
        shape: Rows and columns.
        agents: Row and column of each agent.
        loads: Row, column and weight of each load that is left.
        delivered: Weight that was delivered.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    rows, columns = shape
    empty, side, left = _empty_board(rows, columns)
    picture = empty.copy()
    for row in range(rows):
        picture[MARGIN + row * side : MARGIN + (row + 1) * side, left : left + side] = _tile(side, TILE_VISITED)
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for row, column, weight in loads:
        x, y, edge = left + column * side, MARGIN + row * side, side // 7
        box = (x + edge, y + edge, x + side - 1 - edge, y + side - 1 - edge)
        draw.rounded_rectangle(box, radius=side // 10, fill=INK)
        draw.text((x + side / 2, y + edge + 3), str(weight), fill=PAPER, font=font(round(side * 0.28)), anchor="mt")
    for number, ((row, column), color) in enumerate(zip(agents, AGENTS, strict=True)):
        radius = side * 0.14
        at = left + (column + 0.22 + 0.28 * number) * side, MARGIN + (row + 0.72) * side
        ring = (at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius)
        draw.ellipse(ring, fill=color, outline=PAPER, width=2)
        draw.text(at, "abc"[number], fill=PAPER, font=font(round(radius * 1.4)), anchor="mm")
    picture = np.array(image)
    _draw_footer(picture, [("delivered", GREEN, f"{delivered} of 6")], timestep, max_timesteps)
    return picture


def draw_pitch(
    players: Sequence[tuple[float, float, bool]],
    ball: tuple[float, float],
    half: np.ndarray,
    reach: float,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws a pitch from above: blue plays to the right, red to the left, each towards the line in the other's colour.

    Args:
        players: Place of each player, and whether it is of blue.
        ball: Place of the ball.
        half: Half of the pitch's length and width.
        reach: Radius of the faint ring around a player within which it kicks the ball.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    unit = 240
    wide, high = round(2 * half[0] * unit), round(2 * half[1] * unit)
    width, height = wide + 2 * MARGIN, MARGIN + high + FOOTER
    image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), PAPER)
    draw = ImageDraw.Draw(image)

    def at(x: float, y: float) -> tuple[float, float]:
        """Returns the pixel of a place."""
        return (MARGIN + (x + half[0]) * unit) * SMOOTH, (MARGIN + (half[1] - y) * unit) * SMOOTH

    def disc(x: float, y: float, radius: float, fill: Color | None, outline: Color | None = None) -> None:
        """Draws a disc, or a ring."""
        (a, b), r = at(x, y), radius * unit * SMOOTH
        draw.ellipse((a - r, b - r, a + r, b + r), fill=fill, outline=outline, width=2 * SMOOTH if outline else 0)

    draw.rectangle((*at(-half[0], half[1]), *at(half[0], -half[1])), fill=TILE_VISITED)
    draw.line((*at(0.0, half[1]), *at(0.0, -half[1])), fill=PAPER, width=3 * SMOOTH)
    disc(0.0, 0.0, 0.15, None, PAPER)
    for x, color in ((-half[0], BLUE), (half[0], RED)):
        draw.line((*at(x, half[1]), *at(x, -half[1])), fill=color, width=5 * SMOOTH)
    for x, y, is_blue in players:
        disc(x, y, reach, None, TILE_AGAIN)
        disc(x, y, reach * 0.6, BLUE if is_blue else RED)
    disc(*ball, reach * 0.35, INK)
    picture = np.array(image.reduce(SMOOTH))
    shown = [
        ("blue", BLUE, f"{sum(is_blue for *_, is_blue in players)}"),
        ("red", RED, f"{sum(not b for *_, b in players)}"),
    ]
    _draw_footer(picture, shown, timestep, max_timesteps)
    return picture
