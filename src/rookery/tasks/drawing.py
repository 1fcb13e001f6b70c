"""Images of the bundled tasks: functions from a state to ``[height, width, 3]`` uint8, with even sides for video.

Most take last `timestep`, the steps of this episode so far, and `max_timesteps`, those of a whole episode.

`Picture` and `Board` hold an image while it is drawn. The parts that do not change from frame to frame (tiles, discs,
their shadows) is drawn once, large, scaled down for smooth edges and kept; a frame copies it together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from rookery.envs.drawing import FAINT, INK, MARGIN, PAPER, RED, WOOD, Color, font

TILE: Color = (237, 233, 225)
TILE_VISITED: Color = (198, 228, 205)
TILE_AGAIN: Color = (164, 212, 178)
GREEN: Color = (38, 148, 92)
GOLD: Color = (222, 166, 44)
BLUE: Color = (64, 112, 196)
VIOLET: Color = (132, 88, 176)
STONES: dict[str, Color] = {"x": GREEN, "o": RED, "red": RED, "yellow": GOLD}
AGENTS: tuple[Color, ...] = (GREEN, BLUE, WOOD)
"""Colours of agents a, b and c."""

KINDS: tuple[Color, ...] = (GREEN, RED, BLUE, GOLD, VIOLET, WOOD)
"""Colours of the kinds of tiles."""

SMOOTH = 4  # scale at which shapes are drawn before they are reduced
FOOTER = 46  # pixels under the board
BOARD = 440  # pixels that the longer side of a board aims at
NARROWEST = 320  # pixels the footer's text needs
CARD = 28  # pixels of a card's side
STRIP = 22  # cards in a row

CAMERA = math.radians(36.0)
"""Foreshortening of a plate seen from above."""


# --- parts of images --------------------------------------------------------------------------------------------------


class Picture:
    """Image that is being drawn.

    Attributes:
        pixels: The image drawn so far, ``[height, width, 3]`` uint8.
    """

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels

    @contextmanager
    def pen(self) -> Iterator[ImageDraw.ImageDraw]:
        """Yields Pillow's drawing interface; at the end of the block, `pixels` contains the result."""
        image = Image.fromarray(self.pixels)
        yield ImageDraw.Draw(image)
        self.pixels = np.array(image)

    def tile(self, x: int, y: int, side: int, color: Color) -> None:
        """Draws a tile, given its upper left corner."""
        self.pixels[y : y + side, x : x + side] = _tile(side, color)

    def disc(self, x: int, y: int, diameter: int, color: Color, label: str = "") -> None:
        """Draws a disc with its shadow, given the upper left corner of the shadow."""
        disc, alpha = _disc(diameter, color, label)
        under = self.pixels[y : y + len(disc), x : x + len(disc)]
        under[:] = disc + under * (1.0 - alpha)

    def stone(self, x: int, y: int, side: int, color: Color) -> None:
        """Draws a disc into the middle of a tile, given the upper left corner of the tile."""
        diameter = max(round(side * 0.6), 5)
        start = side // 2 - _size(diameter) // 2
        self.disc(x + start, y + start, diameter, color)

    def finish(self, shown: Sequence[tuple[str, Color, str]], timestep: int, max_timesteps: int) -> np.ndarray:
        """Writes labels with their values, the time and a progress bar below the image, and returns all pixels.

        Args:
            shown: Label, its colour and its value, from left to right.
            timestep: Steps of this episode so far.
            max_timesteps: Steps of a whole episode.
        """
        height, width = self.pixels.shape[:2]
        strip = Image.new("RGB", (width - 2 * MARGIN, 20), PAPER)
        draw = ImageDraw.Draw(strip)
        x = 0.0
        for label, color, value in shown:
            draw.text((x, 15), label, fill=color, font=font(13), anchor="ls")
            x += draw.textlength(label, font=font(13)) + 6
            draw.text((x, 15), value, fill=INK, font=font(13), anchor="ls")
            x += max(62, draw.textlength(value, font=font(13)) + 16)
        draw.text((strip.width, 15), f"{timestep} / {max_timesteps}", fill=INK, font=font(13), anchor="rs")
        top = height - FOOTER + 10
        self.pixels[top : top + 20, MARGIN : width - MARGIN] = np.asarray(strip)
        bar = self.pixels[top + 25 : top + 28, MARGIN : width - MARGIN]
        bar[:] = FAINT
        bar[:, : round(bar.shape[1] * timestep / max_timesteps)] = INK
        return self.pixels


def blank(width: int, height: int) -> Picture:
    """Returns an empty image of this size in pixels."""
    return Picture(np.full((height, width, 3), PAPER, dtype=np.uint8))


class Board(Picture):
    """Image of a board with rows and columns of tiles.

    Attributes:
        side: Side of a tile, in pixels.
        left: Left margin of the board, in pixels.
        shape: Number of rows and of columns.
    """

    def __init__(self, rows: int, columns: int) -> None:
        empty, self.side, self.left = _empty_board(rows, columns)
        super().__init__(empty.copy())
        self.shape = rows, columns

    @property
    def tiles(self) -> np.ndarray:
        """All tiles, a view ``[rows, columns, side, side, 3]`` of `pixels`."""
        rows, columns = self.shape
        board = self.pixels[MARGIN : MARGIN + rows * self.side, self.left : self.left + columns * self.side]
        return board.reshape(rows, self.side, columns, self.side, 3).swapaxes(1, 2)

    def fill(self, where: Any, color: Color) -> None:
        """Draws tiles in a colour: ``where`` is an index of rows and columns, or a mask of them."""
        self.tiles[where] = _tile(self.side, color)

    def corner(self, row: float, column: float) -> tuple[float, float]:
        """Returns the pixel x, y of a tile's upper left corner; add 0.5 to row and column for its middle."""
        return self.left + column * self.side, MARGIN + row * self.side

    def put(self, cell: Sequence[int], color: Color) -> None:
        """Draws a disc into the middle of the tile at a row and a column."""
        self.stone(self.left + cell[1] * self.side, MARGIN + cell[0] * self.side, self.side, color)


@lru_cache(maxsize=8)
def _empty_board(rows: int, columns: int) -> tuple[np.ndarray, int, int]:
    """Returns the image of an empty board, the side of a tile and the left margin of the board, in pixels."""
    side = min(max(BOARD // max(rows, columns), 2), 80)
    width = max(columns * side, NARROWEST) + 2 * MARGIN
    width += width % 2
    height = MARGIN + rows * side + FOOTER
    height += height % 2
    left = (width - columns * side) // 2
    picture = np.full((height, width, 3), PAPER, dtype=np.uint8)
    tiles = np.tile(_tile(side, TILE), (rows, columns, 1))
    picture[MARGIN : MARGIN + rows * side, left : left + columns * side] = tiles
    return picture, side, left


@lru_cache(maxsize=64)
def _tile(side: int, color: Color) -> np.ndarray:
    """Returns a tile with round corners and a gap around it, ``[side, side, 3]``."""
    image = Image.new("RGB", (side * SMOOTH, side * SMOOTH), PAPER)
    gap = min(max(side // 24, 1), side // 4) * SMOOTH
    box = (gap, gap, side * SMOOTH - 1 - gap, side * SMOOTH - 1 - gap)
    ImageDraw.Draw(image).rounded_rectangle(box, radius=side * SMOOTH // 8, fill=color)
    return np.asarray(image.resize((side, side), Image.Resampling.BOX))


def _size(diameter: int) -> int:
    """Returns the side of the image of a disc with its shadow, in pixels."""
    return diameter + 6


@lru_cache(maxsize=64)
def _disc(diameter: int, color: Color, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a labelled disc with a shadow: colour times alpha ``[size, size, 3]``, and alpha ``[size, size, 1]``."""
    size = _size(diameter)
    large, edge = size * SMOOTH, 3 * SMOOTH
    y, x = np.mgrid[0:large, 0:large] + 0.5 - large / 2
    shadow = np.clip((diameter * SMOOTH / 2 + edge - np.hypot(x, y - edge / 2)) / (1.5 * edge), 0, 1) * 0.22
    layers = np.dstack([np.full((large, large, 3), INK), np.rint(shadow * 255)])
    image = Image.fromarray(layers.astype(np.uint8))
    draw = ImageDraw.Draw(image)
    draw.ellipse((edge, edge, large - 1 - edge, large - 1 - edge), fill=(*color, 255))
    if diameter >= 14:
        letters = font(round(diameter * SMOOTH * 0.55))
        draw.text((large / 2, large / 2), label, fill=(255, 255, 255, 255), font=letters, anchor="mm")
    pixels = np.asarray(image, dtype=np.float32).reshape(size, SMOOTH, size, SMOOTH, 4)
    alpha = pixels[..., 3:] / 255
    return (pixels[..., :3] * alpha).mean(axis=(1, 3)), alpha.mean(axis=(1, 3))


# --- tasks of one agent ----------------------------------------------------------------------------------------------


def draw_arena(
    visited: np.ndarray,
    cells: Sequence[tuple[int, int]],
    returns: Sequence[float],
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws the arena: visited tiles green, agent1 a green disc, agent2 a red disc, returns and time below.

    Args:
        visited: Tiles that agent1 has visited, ``[rows, columns]`` bool.
        cells: Row and column of each of the two agents.
        returns: Return so far of each of them in this episode.
    """
    board = Board(*visited.shape)
    board.fill(visited, TILE_VISITED)
    diameter = max(round(board.side * 0.76), 9)
    start = (board.side - _size(diameter)) // 2
    for (row, column), color, label in zip(cells, (GREEN, RED), "12", strict=True):
        x, y = board.left + column * board.side, MARGIN + row * board.side
        board.disc(x + start, y + start, diameter, color, label)
    earned = [(label, color, f"{round(value, 1) + 0.0:+.1f}")  # adding 0 makes -0 a 0
              for label, color, value in zip(("explorer", "blocker"), (GREEN, RED), returns, strict=True)]  # fmt: skip
    return board.finish(earned, timestep, max_timesteps)


def draw_sorter(
    side: int,
    explorer: tuple[int, int],
    tiles: Sequence[tuple[int, int, int, bool]],
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws the sorter: numbered tiles, green once visited in order, and the explorer, a disc.

    Args:
        side: Number of places in a row and in a column.
        explorer: Row and column of the explorer.
        tiles: Row, column and number of each tile, and whether it was visited.
    """
    board = Board(side, side)
    for row, column, _, visited in tiles:
        board.fill((row, column), GREEN if visited else WOOD)
    with board.pen() as pen:
        letters, edge = font(round(board.side * 0.45)), max(board.side // 14, 2)
        for row, column, number, _ in tiles:
            pen.text(board.corner(row + 0.5, column + 0.5), str(number), fill=PAPER, font=letters, anchor="mm")
        x, y = board.corner(*explorer)
        box = (x + edge, y + edge, x + board.side - 1 - edge, y + board.side - 1 - edge)
        pen.ellipse(box, outline=INK, width=edge)
    sorted_tiles = sum(visited for *_, visited in tiles)
    return board.finish([("in order", GREEN, f"{sorted_tiles} of {len(tiles)}")], timestep, max_timesteps)


def draw_deep_sea(visited: np.ndarray, diver: tuple[int, int], total: float, timestep: int) -> np.ndarray:
    """Draws the deep sea: the path so far green, the diver a disc, the treasure gold, unreachable cells faint.

    Args:
        visited: Cells that were visited in this episode, ``[size, size]`` bool.
        diver: Row and column of the diver.
        total: Return so far.
        timestep: Steps of this episode so far.
    """
    size = len(visited)
    board = Board(size, size)
    row, column = np.indices((size, size))
    board.tiles[column > row] = PAPER
    board.fill(visited, TILE_VISITED)
    board.fill((-1, -1), GOLD)
    board.put(diver, GREEN)
    return board.finish([("return", GREEN, f"{round(total, 3) + 0.0:+.3f}")], timestep, size)


def draw_hazards(
    hazard: np.ndarray, visited: np.ndarray, walker: tuple[int, int], total: float, timestep: int, max_timesteps: int
) -> np.ndarray:
    """Draws a grid with hazards red, the path so far green, the goal gold in the lower right corner.

    Args:
        hazard: Cells with a cost, ``[rows, columns]`` bool.
        visited: Cells that were visited in this episode, alike.
        walker: Row and column of the walker, a disc.
        total: Return so far.
    """
    board = Board(*hazard.shape)
    board.fill(hazard, RED)
    board.fill(visited, TILE_VISITED)
    board.fill((-1, -1), GOLD)
    board.put(walker, GREEN)
    return board.finish([("return", GREEN, f"{total:+.2f}")], timestep, max_timesteps)


def draw_key_door(
    visited: np.ndarray,
    explorer: tuple[int, int],
    has_key: bool,
    total: float,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws key and door: walls dark, the door gold until the key is taken, the goal red, the path so far green.

    Args:
        visited: Cells that were visited in this episode, without the key and with it, ``[2, size, size]`` bool.
        explorer: Row and column of the explorer, a disc.
        has_key: Whether the explorer has the key.
        total: Return so far.
    """
    size = visited.shape[1]
    board = Board(size, size)
    board.fill(visited[0], TILE_VISITED)
    board.fill(visited[1], TILE_AGAIN)
    board.fill((slice(1, None), size // 2), INK)
    if not has_key:
        board.fill((0, size // 2), GOLD)
        board.tiles[-1, 0] = _key(board.side)
    board.fill((-1, -1), RED)
    board.put(explorer, GREEN)
    shown = [("return", GREEN, f"{total:.0f}"), ("key", GOLD, "taken" if has_key else "not yet")]
    return board.finish(shown, timestep, max_timesteps)


@lru_cache(maxsize=8)
def _key(side: int) -> np.ndarray:
    """Returns a tile with a key, ``[side, side, 3]``."""
    unit = side * SMOOTH / 24
    image = Image.fromarray(_tile(side, TILE)).resize((side * SMOOTH, side * SMOOTH))
    draw = ImageDraw.Draw(image)
    draw.ellipse((4 * unit, 8 * unit, 12 * unit, 16 * unit), outline=GOLD, width=max(round(2 * unit), 1))
    for box in ((11, 11, 20, 13), (15, 12, 17, 16), (18, 12, 20, 16)):
        draw.rectangle(tuple(edge * unit for edge in box), fill=GOLD)
    return np.asarray(image.resize((side, side), Image.Resampling.BOX))


def draw_wall(
    places: tuple[int, int, int],
    column: int,
    block: int,
    carries: bool,
    wall_height: float,
    block_height: float,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws the wall from the side: the explorer, a disc, on the floor or on the block, and the goal, a green strip.

    Args:
        places: Number of columns, column of the wall and column of the goal.
        column: Column of the explorer.
        block: Column of the block.
        carries: Whether the explorer carries the block, above its head.
        wall_height: Height of the wall, in columns.
        block_height: Height of the block, in columns.
    """
    columns, wall, goal = places
    unit, high = 24, 9  # pixels of a column, and columns above the floor
    width, floor = 2 * MARGIN + columns * unit, MARGIN + high * unit
    picture = blank(width, floor + 8 + FOOTER)

    def box(place: int, low: float, top: float, color: Color, inset: int = 1) -> None:
        """Draws a box in a column, between two heights."""
        left = MARGIN + place * unit
        corners = (left + inset, floor - round(top * unit), left + unit - 1 - inset, floor - 1 - round(low * unit))
        if corners[3] > corners[1]:
            pen.rounded_rectangle(corners, radius=4, fill=color)

    with picture.pen() as pen:
        pen.rectangle((MARGIN, floor, width - MARGIN - 1, floor + 7), fill=FAINT)
        pen.rectangle((MARGIN + goal * unit, floor, MARGIN + (goal + 1) * unit - 1, floor + 7), fill=GREEN)
        box(wall, 0.0, wall_height, INK)
        stands = 0.0 if carries or block != column else block_height
        low = stands + 1.0 if carries else 0.0
        box(block, low, low + block_height, WOOD)
        left, top = MARGIN + column * unit, floor - round((stands + 1.0) * unit)
        pen.ellipse((left + 2, top + 2, left + unit - 3, top + unit - 3), fill=GREEN, outline=INK, width=2)
    return picture.finish([("wall", INK, f"{wall_height:.1f}")], timestep, max_timesteps)


@dataclass(frozen=True)
class Strip:
    """Part of a sequence seen by an agent, for `draw_strips`.

    Attributes:
        label: Name of the agent in the footer.
        cards: Text on each card seen so far, the card shown now last.
        right: Whether the answer to each card was right, as far as answers were given; None where nothing was asked.
        earned: Return so far.
    """

    label: str
    cards: Sequence[str]
    right: Sequence[bool | None]
    earned: float


def draw_strips(strips: Sequence[Strip], timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws sequences of cards, one above the other, with the answers below; the current card is dark.

    Args:
        strips: Sequence of each agent; its latest `STRIP` cards are drawn.
    """
    high = CARD + 18  # a card and the disc below it
    picture = blank(2 * MARGIN + STRIP * CARD, MARGIN + high * len(strips) + FOOTER)
    with picture.pen() as pen:
        for row, strip in enumerate(strips):
            first = max(len(strip.cards) - STRIP, 0)
            top = MARGIN + row * high
            for place, card in enumerate(strip.cards[first:]):
                left, now = MARGIN + place * CARD, first + place == len(strip.cards) - 1
                box = (left + 2, top + 2, left + CARD - 3, top + CARD - 3)
                pen.rounded_rectangle(box, radius=5, fill=INK if now else TILE)
                middle = (left + CARD / 2, top + CARD / 2)
                pen.text(middle, card, fill=PAPER if now else INK, font=font(14), anchor="mm")
            for place, right in enumerate(strip.right[first:]):
                if right is not None:
                    x, y = MARGIN + place * CARD + CARD / 2, top + CARD + 6
                    pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=GREEN if right else RED)
    earned = [(strip.label, INK, f"{round(strip.earned, 2) + 0.0:+.2f}") for strip in strips]
    return picture.finish(earned, timestep, max_timesteps)


# --- games of several agents ------------------------------------------------------------------------------------------


def draw_stones(
    board: np.ndarray, line: np.ndarray, agents: Sequence[str], turn: int | None, by_column: bool, plies: int
) -> np.ndarray:
    """Draws a board of two players: x and o as letters, others as discs; cells of a full line are shaded.

    Args:
        board: Number of the player whose stone is in each place, or -1, ``[rows, columns]``.
        line: Which places belong to a full line, ``[rows, columns]`` bool.
        agents: Names of the two players.
        turn: Number of the player whose turn it is; None after the end.
        by_column: Whether a move names a column, whose numbers are then written above the board.
        plies: Number of stones on the board.
    """
    drawn = Board(*board.shape)
    drawn.fill(line, TILE_AGAIN)
    letters = all(len(agent) == 1 for agent in agents)
    with drawn.pen() as pen:
        for column in range(board.shape[1]) if by_column else ():
            x, y = drawn.corner(0, column + 0.5)
            pen.text((x, y - 5), str(column), fill=INK, font=font(12), anchor="ms")
        for row, column in np.argwhere(board >= 0) if letters else ():
            agent, middle = agents[board[row, column]], drawn.corner(row + 0.5, column + 0.5)
            pen.text(middle, agent.upper(), fill=STONES[agent], font=font(round(drawn.side * 0.7)), anchor="mm")
    for row, column in () if letters else np.argwhere(board >= 0):
        drawn.put((row, column), STONES[agents[board[row, column]]])
    if turn is not None:
        shown = [("on turn", STONES[agents[turn]], agents[turn])]
    elif line.any():
        winner = agents[int(board[line][0])]
        shown = [("won", STONES[winner], winner)]
    else:
        shown = [("draw", INK, "")]
    return drawn.finish(shown, plies, board.size)


def draw_payoffs(payoffs: np.ndarray, game: int, timestep: int) -> np.ndarray:
    """Draws the payoffs of two games side by side; the current game is dark.

    Args:
        payoffs: Reward of the team, ``[games, actions of a, actions of b]``.
        game: Number of the game that is played, -1 before one is chosen.
        timestep: Steps of this episode so far.
    """
    side = 64
    picture = blank(2 * MARGIN + 5 * side, MARGIN + 2 * side + FOOTER)
    for (number, row, column), pay in np.ndenumerate(payoffs):
        tile, ink = (INK, PAPER) if number == game else (TILE, INK)
        x, y = MARGIN + (3 * number + column) * side, MARGIN + row * side
        picture.tile(x, y, side, tile)
        with picture.pen() as pen:
            pen.text((x + side / 2, y + side / 2), f"{pay:g}", fill=ink, font=font(28), anchor="mm")
    text = "a chooses the game" if game < 0 else f"game {game}: a the row, b the column"
    return picture.finish([(text, INK, "")], timestep, 2)


def draw_corridor(
    cells: int, door: int, agents: Sequence[tuple[int, bool]], is_open: bool, timestep: int, max_timesteps: int
) -> np.ndarray:
    """Draws a corridor: the altar red, the exit green, the door a dark bar until it is open, agents as discs.

    Args:
        cells: Number of cells, the altar first and the exit last.
        door: First cell behind the door.
        agents: Cell of each agent, and whether it is alive; a dead one is drawn as a cross below the altar.
        is_open: Whether the door is open.
    """
    side, gap = 48, 16  # the door's own room
    picture = blank(2 * MARGIN + cells * side + gap, MARGIN + 3 * side + FOOTER)
    left = [MARGIN + cell * side + (gap if cell >= door else 0) for cell in range(cells)]
    for cell in range(cells):
        color = RED if cell == 0 else GREEN if cell == cells - 1 else TILE_VISITED if is_open else TILE
        for row in range(3):
            picture.tile(left[cell], MARGIN + row * side, side, color)
    if not is_open:
        x = left[door] - gap
        picture.pixels[MARGIN : MARGIN + 3 * side, x + 4 : x + gap - 4] = INK
    for row, ((cell, lives), color) in enumerate(zip(agents, AGENTS, strict=True)):
        if lives:
            picture.stone(left[cell], MARGIN + row * side, side, color)
            continue
        middle, level, arm = left[0] + side / 2, MARGIN + (row + 0.5) * side, side * 0.2
        with picture.pen() as pen:
            for tilt in (-arm, arm):
                pen.line((middle - arm, level - tilt, middle + arm, level + tilt), fill=PAPER, width=4)
    living = sum(lives for _, lives in agents)
    shown = [("alive", GREEN, str(living)), ("door", INK, "open" if is_open else "closed")]
    return picture.finish(shown, timestep, max_timesteps)


def draw_loads(
    shape: tuple[int, int],
    agents: Sequence[tuple[int, int]],
    loads: Sequence[tuple[int, int, int]],
    delivered: int,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws a grid with home as the leftmost column, loads as boxes with their weights, and agents as discs.

    Args:
        shape: Rows and columns.
        agents: Row and column of each agent.
        loads: Row, column and weight of each load that is left.
        delivered: Weight that was delivered.
    """
    board = Board(*shape)
    board.fill((slice(None), 0), TILE_VISITED)
    side, edge, radius = board.side, board.side // 7, board.side * 0.14
    with board.pen() as pen:
        for row, column, weight in loads:
            x, y = board.corner(row, column)
            box = (x + edge, y + edge, x + side - 1 - edge, y + side - 1 - edge)
            pen.rounded_rectangle(box, radius=side // 10, fill=INK)
            pen.text((x + side / 2, y + edge + 3), str(weight), fill=PAPER, font=font(round(side * 0.28)), anchor="mt")
        for number, ((row, column), color) in enumerate(zip(agents, AGENTS, strict=True)):
            at = board.corner(row + 0.72, column + 0.22 + 0.28 * number)
            ring = (at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius)
            pen.ellipse(ring, fill=color, outline=PAPER, width=2)
            pen.text(at, "abc"[number], fill=PAPER, font=font(round(radius * 1.4)), anchor="mm")
    return board.finish([("delivered", GREEN, f"{delivered} of 6")], timestep, max_timesteps)


def draw_pitch(
    players: Sequence[tuple[float, float, bool]],
    ball: tuple[float, float],
    half: np.ndarray,
    reach: float,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws a pitch from above: blue attacks to the right, red to the left; each goal line has the colour of its
    attacker.

    Args:
        players: Place of each player, and whether it is of blue.
        ball: Place of the ball.
        half: Half of the pitch's length and width.
        reach: Radius of the faint ring around a player within which it kicks the ball.
    """
    unit = 240
    wide, high = round(2 * half[0] * unit), round(2 * half[1] * unit)
    width, height = wide + 2 * MARGIN, MARGIN + high + FOOTER
    image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), PAPER)
    draw = ImageDraw.Draw(image)

    def at(x: float, y: float) -> tuple[float, float]:
        """Returns the pixel of a position."""
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
    picture = Picture(np.array(image.reduce(SMOOTH)))
    shown = [
        ("blue", BLUE, f"{sum(is_blue for *_, is_blue in players)}"),
        ("red", RED, f"{sum(not b for *_, b in players)}"),
    ]
    return picture.finish(shown, timestep, max_timesteps)


# --- tasks after ML-Agents' examples ----------------------------------------------------------------------------------


def draw_line(places: int, prizes: tuple[int, int], agent: int, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a line of positions: the small reward faint gold, the large one gold, the agent a disc.

    Args:
        places: Number of places.
        prizes: Places of the small and of the large prize.
        agent: Place of the agent.
    """
    board = Board(1, places)
    for place, color in zip(prizes, (WOOD, GOLD), strict=True):
        board.fill((0, place), color)
    board.put((0, agent), GREEN)
    return board.finish([("small", WOOD, "+0.1"), ("large", GOLD, "+1")], timestep, max_timesteps)


def draw_plate(
    frame: np.ndarray, half: float, ball: np.ndarray, radius: float, timestep: int, max_timesteps: int
) -> np.ndarray:
    """Draws a ball on a tilted cube, of which only the visible faces are drawn.

    Args:
        frame: Directions of the cube's axes in the world, ``[axis, x y z]``; y points up.
        half: Half of the cube's width.
        ball: Place of the ball's middle ``[3]``, from the middle of the cube.
        radius: Radius of the ball.
    """
    unit, wide, high = 42, 380, 380
    width, height = wide + 2 * MARGIN, MARGIN + high + FOOTER
    image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), PAPER)
    draw = ImageDraw.Draw(image)
    depth, rise = math.sin(CAMERA), math.cos(CAMERA)

    def at(point: np.ndarray) -> tuple[float, float]:
        """Returns the pixel of a position."""
        x, y = point[0], point[1] * rise + point[2] * depth
        return (width / 2 + x * unit) * SMOOTH, (MARGIN + high * 0.6 - y * unit) * SMOOTH

    sight = np.array([0.0, depth, -rise])  # towards the camera
    faces = [(axis, sign) for axis in range(3) for sign in (-1.0, 1.0) if sign * frame[axis] @ sight > 0.0]
    for axis, sign in sorted(faces, key=lambda face: face[0] == 1):  # the top last
        one, other = (frame[k] * half for k in range(3) if k != axis)
        middle = sign * half * frame[axis]
        corners = [middle + a * one + b * other for a, b in ((-1, -1), (-1, 1), (1, 1), (1, -1))]
        light = TILE_VISITED if axis == 1 else TILE_AGAIN if axis == 2 else GREEN
        draw.polygon([at(corner) for corner in corners], fill=light, outline=PAPER, width=2 * SMOOTH)
    local = frame @ ball
    if np.abs(local[[0, 2]]).max() < half and local[1] > half:  # the ball's shadow, on the plate below
        spot = ball - (local[1] - half) / max(frame[1][1], 0.1) * np.array([0.0, 1.0, 0.0])
        x, y = at(spot)
        r = radius * unit * SMOOTH
        draw.ellipse((x - r, y - r * 0.45, x + r, y + r * 0.45), fill=GREEN)
    x, y = at(ball)
    r = radius * unit * SMOOTH
    draw.ellipse((x - r, y - r, x + r, y + r), fill=INK)
    draw.ellipse((x - r * 0.5, y - r * 0.65, x - r * 0.1, y - r * 0.25), fill=FAINT)
    picture = Picture(np.array(image.reduce(SMOOTH)))
    aside = float(np.hypot(ball[0], ball[2]))
    return picture.finish([("from the middle", INK, f"{aside:.2f}")], timestep, max_timesteps)


def draw_goal_grid(cells: np.ndarray, goal: int, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a grid with a green plus, a red cross and the agent, a disc; the goal's tile is shaded.

    Args:
        cells: What is in each cell, ``[rows, columns]``: 0 nothing, 1 the plus, 2 the cross, 3 the agent.
        goal: Number of the goal, 0 the plus or 1 the cross.
    """
    board = Board(*cells.shape)
    board.fill(cells == 1 + goal, TILE_AGAIN)
    half = board.side // 2
    with board.pen() as pen:
        for row, column in np.argwhere((cells == 1) | (cells == 2)):
            is_plus = cells[row, column] == 1
            (x, y), arm = board.corner(row, column), board.side * (0.28 if is_plus else 0.2)
            for right, down in ((1, 0), (0, 1)) if is_plus else ((1, 1), (1, -1)):
                ends = (x + half - right * arm, y + half - down * arm, x + half + right * arm, y + half + down * arm)
                pen.line(ends, fill=GREEN if is_plus else RED, width=board.side // 9)
    for row, column in np.argwhere(cells == 3):
        board.put((row, column), BLUE)
    named = ("plus", GREEN) if goal == 0 else ("cross", RED)
    return board.finish([("goal", named[1], named[0])], timestep, max_timesteps)


def draw_push_block(
    goal: np.ndarray,
    block: Sequence[int],
    agent: Sequence[int],
    looks: int,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws a room with the goal green, the block as a box, and the agent as a disc with a nose in its direction.

    Args:
        goal: Which cells are of the goal, ``[rows, columns]`` bool.
        block: Row and column of the block.
        agent: Row and column of the agent.
        looks: Quarters to the right from up.
    """
    board = Board(*goal.shape)
    board.fill(goal, TILE_AGAIN)
    board.fill((block[0], block[1]), WOOD)
    board.put(agent, BLUE)
    right, down = ((0, -1), (1, 0), (0, 1), (-1, 0))[looks]
    x, y = board.corner(agent[0] + 0.5, agent[1] + 0.5)
    tip, base, wide = 0.48 * board.side, 0.26 * board.side, 0.14 * board.side
    points = [(x + right * tip, y + down * tip)]
    points += [(x + right * base + turn * down * wide, y + down * base - turn * right * wide) for turn in (-1, 1)]
    with board.pen() as pen:
        pen.polygon(points, fill=INK)
    return board.finish([("goal", GREEN, ""), ("block", WOOD, "")], timestep, max_timesteps)


def draw_food(
    agents: Sequence[tuple[float, float, float, bool, bool]],
    meals: Sequence[tuple[float, float, bool]],
    sizes: tuple[float, float, float, float],
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws an arena from above: food green, poison red, agents blue with a nose, grey if frozen, lasers as lines.

    Args:
        agents: Place of each agent, angle to which it looks, whether it is frozen and whether it shoots.
        meals: Place of each piece, and whether it is food.
        sizes: Half of the arena's width, radius of an agent and of a piece, and length of a laser.
    """
    half, agent_radius, meal_radius, beam = sizes
    wide = 440
    unit = wide / (2 * half)
    width, height = wide + 2 * MARGIN, MARGIN + wide + FOOTER
    image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), PAPER)
    draw = ImageDraw.Draw(image)

    def at(x: float, y: float) -> tuple[float, float]:
        """Returns the pixel of a position."""
        return (MARGIN + (x + half) * unit) * SMOOTH, (MARGIN + (half - y) * unit) * SMOOTH

    def disc(x: float, y: float, radius: float, fill: Color) -> None:
        """Draws a disc of a visible minimum size."""
        (a, b), r = at(x, y), max(radius * unit, 3.5) * SMOOTH
        draw.ellipse((a - r, b - r, a + r, b + r), fill=fill)

    draw.rectangle((*at(-half, half), *at(half, -half)), fill=TILE)
    for x, y, is_food in meals:
        disc(x, y, meal_radius, GREEN if is_food else RED)
    for x, y, heading, _, shoots in agents:
        if shoots:
            far = (x + beam * math.cos(heading), y + beam * math.sin(heading))
            draw.line((*at(x, y), *at(*far)), fill=GOLD, width=3 * SMOOTH)
    near, far_side = MARGIN * SMOOTH, (MARGIN + wide) * SMOOTH
    for outside in (
        (0, 0, image.width, near),
        (0, far_side, image.width, image.height),
        (0, 0, near, image.height),
        (far_side, 0, image.width, image.height),
    ):
        draw.rectangle(outside, fill=PAPER)  # lasers end at the walls
    for x, y, heading, frozen, _ in agents:
        color = INK if frozen else BLUE
        disc(x, y, agent_radius * 1.3, color)
        nose = agent_radius * 2.2
        tip = at(x + nose * math.cos(heading), y + nose * math.sin(heading))
        draw.line((*at(x, y), *tip), fill=color, width=3 * SMOOTH)
    picture = Picture(np.array(image.reduce(SMOOTH)))
    num = sum(is_frozen for *_, is_frozen, _ in agents)
    shown = [("food", GREEN, "+1"), ("poison", RED, "-1"), ("frozen", INK, str(num))]
    return picture.finish(shown, timestep, max_timesteps)


def draw_match3(cells: np.ndarray, special: np.ndarray, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a board: a disc in a colour for each kind, with a ring for the first special type and a star for the
    second.

    Args:
        cells: Kind of each cell, ``[rows, columns]``, the highest row first; negative where none is.
        special: 0, or in which way each cell is special, 1 or 2.
        timestep: Moves of this episode so far.
        max_timesteps: Moves of a whole episode.
    """
    board = Board(*cells.shape)
    board.tiles[cells < 0] = PAPER
    for row, column in np.argwhere(cells >= 0):
        board.put((row, column), KINDS[cells[row, column] % len(KINDS)])
    with board.pen() as pen:
        for row, column in np.argwhere((special > 0) & (cells >= 0)):
            (x, y), r = board.corner(row + 0.5, column + 0.5), board.side * 0.15
            if special[row, column] == 1:
                pen.ellipse((x - r, y - r, x + r, y + r), outline=PAPER, width=max(board.side // 16, 1))
            else:
                pen.text((x, y), "+", fill=PAPER, font=font(round(board.side * 0.6)), anchor="mm")
    return board.finish([("ring", INK, "x2"), ("plus", INK, "x3")], timestep, max_timesteps)


# --- tasks with goals -------------------------------------------------------------------------------------------------


def draw_bits(bits: np.ndarray, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws rows of bits: the present ones above those of the goal.

    Args:
        bits: ``[2, n]`` 0 or 1.
    """
    board = Board(*bits.shape)
    board.fill(bits == 1, TILE_AGAIN)
    differ = int((bits[0] != bits[1]).sum())
    for column in np.flatnonzero(bits[0] == bits[1]).tolist():
        board.put((0, column), GREEN)
    return board.finish([("bits that differ", INK, str(differ))], timestep, max_timesteps)


def draw_points(points: np.ndarray, radius: float, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a point, blue, and a goal, gold, in a square from -1 to 1: their first axes, at most two.

    Args:
        points: ``[2, n]`` the point, and the goal.
        radius: Radius of the goal.
    """
    wide = 400
    picture = blank(wide + 2 * MARGIN, MARGIN + wide + FOOTER)
    picture.pixels[MARGIN : MARGIN + wide, MARGIN : MARGIN + wide] = TILE
    shown = np.zeros((2, 2))
    shown[:, : points.shape[1]] = points[:, :2]
    with picture.pen() as pen:
        for (x, y), size, color in ((shown[1], radius, GOLD), (shown[0], 0.05, BLUE)):
            middle, r = (MARGIN + (x + 1) * wide / 2, MARGIN + (1 - y) * wide / 2), size * wide / 2
            pen.ellipse((middle[0] - r, middle[1] - r, middle[0] + r, middle[1] + r), fill=color)
    distance = float(np.linalg.norm(points[0] - points[1]))
    return picture.finish([("distance", INK, f"{distance:.2f}")], timestep, max_timesteps)


def draw_arms(means: np.ndarray, pulled: int | None) -> np.ndarray:
    """Draws the mean reward of each arm as a bar, the best one gold; a dot marks the one that was pulled.

    Args:
        means: ``[arms]``.
        pulled: Number of the pulled arm, or None.
    """
    bar, high = 32, 240
    picture = blank(bar * len(means) + 2 * MARGIN, high + 2 * MARGIN)
    low, top = min(float(means.min()), 0.0), max(float(means.max()), 0.0)
    heights = MARGIN + high * (top - np.append(means, 0.0)) / max(top - low, 1e-9)
    with picture.pen() as pen:
        for arm, end in enumerate(heights[:-1]):
            left = MARGIN + bar * arm
            color = GOLD if arm == int(means.argmax()) else BLUE
            pen.rectangle((left + 4, min(end, heights[-1]), left + bar - 4, max(end, heights[-1]) + 1), fill=color)
            if arm == pulled:
                middle = left + bar / 2
                pen.ellipse((middle - 5, end - 5, middle + 5, end + 5), fill=INK)
    return picture.pixels
