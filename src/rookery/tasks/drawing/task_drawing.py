"""Pictures of the bundled tasks: functions from a state to ``[height, width, 3]`` uint8, with even sides for video.

What does not change from frame to frame (tiles, discs, their shadows) is drawn once, large, scaled down for smooth
edges and kept; a frame copies it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from rookery.envs.drawing import FAINT, INK, MARGIN, PAPER, RED, WOOD, Color, font

TILE: Color = (237, 233, 225)
TILE_VISITED: Color = (198, 228, 205)
TILE_AGAIN: Color = (164, 212, 178)
GREEN: Color = (38, 148, 92)
GOLD: Color = (222, 166, 44)

SMOOTH = 4  # how much larger shapes are drawn than they are shown
FOOTER = 46  # pixels under the board
BOARD = 440  # pixels the longer side of a board aims at
NARROWEST = 320  # pixels the footer's text needs
CARD = 28  # pixels of a card's side
STRIP = 22  # cards in a row


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
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    rows, columns = visited.shape
    empty, side, left = _empty_board(rows, columns)
    picture = empty.copy()
    board = picture[MARGIN : MARGIN + rows * side, left : left + columns * side]
    tiles = board.reshape(rows, side, columns, side, 3).swapaxes(1, 2)
    tiles[visited] = _tile(side, TILE_VISITED)

    diameter = max(round(side * 0.76), 9)
    for (row, column), color, label in zip(cells, (GREEN, RED), "12", strict=True):
        disc, alpha = _disc(diameter, color, label)
        top = MARGIN + row * side + (side - len(disc)) // 2
        start = left + column * side + (side - len(disc)) // 2
        under = picture[top : top + len(disc), start : start + len(disc)]
        under[:] = disc + under * (1.0 - alpha)

    earned = [(label, color, f"{round(value, 1) + 0.0:+.1f}")  # adding 0 makes -0 a 0
              for label, color, value in zip(("explorer", "blocker"), (GREEN, RED), returns, strict=True)]  # fmt: skip
    _draw_footer(picture, earned, timestep, max_timesteps)
    return picture


def draw_sorter(
    side: int,
    explorer: tuple[int, int],
    tiles: Sequence[tuple[int, int, int, bool]],
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws the sorter: numbered tiles, green once they were visited in their turn, and the explorer, a disc.

    Args:
        side: Number of places in a row and in a column.
        explorer: Row and column of the explorer.
        tiles: Row, column and number of each tile, and whether it was visited.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    empty, pixels, left = _empty_board(side, side)
    image = Image.fromarray(empty.copy())
    draw = ImageDraw.Draw(image)
    for row, column, number, visited in tiles:
        x, y = left + column * pixels, MARGIN + row * pixels
        image.paste(Image.fromarray(_tile(pixels, GREEN if visited else WOOD)), (x, y))
        middle = (x + pixels / 2, y + pixels / 2)
        draw.text(middle, str(number), fill=PAPER, font=font(round(pixels * 0.45)), anchor="mm")
    row, column = explorer
    x, y, edge = left + column * pixels, MARGIN + row * pixels, max(pixels // 14, 2)
    box = (x + edge, y + edge, x + pixels - 1 - edge, y + pixels - 1 - edge)
    draw.ellipse(box, outline=INK, width=edge)
    picture = np.array(image)
    sorted_tiles = sum(visited for *_, visited in tiles)
    _draw_footer(picture, [("in order", GREEN, f"{sorted_tiles} of {len(tiles)}")], timestep, max_timesteps)
    return picture


def draw_deep_sea(visited: np.ndarray, diver: tuple[int, int], total: float, timestep: int) -> np.ndarray:
    """Draws the deep sea: the way so far green, the diver a disc, the treasure gold, cells that no way leads to faint.

    Args:
        visited: Cells that were visited in this episode, ``[size, size]`` bool.
        diver: Row and column of the diver.
        total: Return so far.
        timestep: Steps of this episode so far.
    """
    size = len(visited)
    empty, side, left = _empty_board(size, size)
    picture = empty.copy()
    tiles = _tiles_of(picture, size, side, left)
    row, column = np.indices((size, size))
    tiles[column > row] = PAPER
    tiles[visited] = _tile(side, TILE_VISITED)
    tiles[-1, -1] = _tile(side, GOLD)
    _put(picture, diver, side, left, GREEN)
    _draw_footer(picture, [("return", GREEN, f"{round(total, 3) + 0.0:+.3f}")], timestep, size)
    return picture


def draw_key_door(
    visited: np.ndarray,
    explorer: tuple[int, int],
    has_key: bool,
    total: float,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws key and door: walls dark, the door gold until the key is taken, the goal red, the way so far green.

    Args:
        visited: Cells that were visited in this episode, without the key and with it, ``[2, size, size]`` bool.
        explorer: Row and column of the explorer, a disc.
        has_key: Whether the explorer has the key.
        total: Return so far.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    size = visited.shape[1]
    empty, side, left = _empty_board(size, size)
    picture = empty.copy()
    tiles = _tiles_of(picture, size, side, left)
    tiles[visited[0]] = _tile(side, TILE_VISITED)
    tiles[visited[1]] = _tile(side, TILE_AGAIN)
    tiles[1:, size // 2] = _tile(side, INK)
    if not has_key:
        tiles[0, size // 2] = _tile(side, GOLD)
        tiles[-1, 0] = _key(side)
    tiles[-1, -1] = _tile(side, RED)
    _put(picture, explorer, side, left, GREEN)
    shown = [("return", GREEN, f"{total:.0f}"), ("key", GOLD, "taken" if has_key else "not yet")]
    _draw_footer(picture, shown, timestep, max_timesteps)
    return picture


def _tiles_of(picture: np.ndarray, size: int, side: int, left: int) -> np.ndarray:
    """Returns the tiles of a square board as a view ``[size, size, side, side, 3]`` of its picture."""
    board = picture[MARGIN : MARGIN + size * side, left : left + size * side]
    return board.reshape(size, side, size, side, 3).swapaxes(1, 2)


def _put(picture: np.ndarray, cell: tuple[int, int], side: int, left: int, color: Color) -> None:
    """Draws a disc without a label into the middle of a tile."""
    disc, alpha = _disc(max(round(side * 0.6), 5), color, "")
    start = side // 2 - len(disc) // 2
    top, first = MARGIN + cell[0] * side + start, left + cell[1] * side + start
    under = picture[top : top + len(disc), first : first + len(disc)]
    under[:] = disc + under * (1.0 - alpha)


@lru_cache(maxsize=8)
def _key(side: int) -> np.ndarray:
    """Returns a tile with a key on it, ``[side, side, 3]``."""
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
    """Draws a wall from the side: the explorer, a disc, on the floor or on the block, and the goal, a green strip.

    Args:
        places: Number of columns, column of the wall and column of the goal.
        column: Column of the explorer.
        block: Column of the block.
        carries: Whether the explorer carries the block, above its head.
        wall_height: Height of the wall, in columns.
        block_height: Height of the block, in columns.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    columns, wall, goal = places
    unit, high = 24, 9  # pixels of a column, and columns above the floor
    width, floor = 2 * MARGIN + columns * unit, MARGIN + high * unit
    image = Image.new("RGB", (width, floor + 8 + FOOTER), PAPER)
    draw = ImageDraw.Draw(image)

    def box(place: int, low: float, top: float, color: Color, inset: int = 1) -> None:
        """Draws a box in a column, between two heights."""
        left = MARGIN + place * unit
        corners = (left + inset, floor - round(top * unit), left + unit - 1 - inset, floor - 1 - round(low * unit))
        if corners[3] > corners[1]:
            draw.rounded_rectangle(corners, radius=4, fill=color)

    draw.rectangle((MARGIN, floor, width - MARGIN - 1, floor + 7), fill=FAINT)
    draw.rectangle((MARGIN + goal * unit, floor, MARGIN + (goal + 1) * unit - 1, floor + 7), fill=GREEN)
    box(wall, 0.0, wall_height, INK)
    stands = 0.0 if carries or block != column else block_height
    low = stands + 1.0 if carries else 0.0
    box(block, low, low + block_height, WOOD)
    left, top = MARGIN + column * unit, floor - round((stands + 1.0) * unit)
    draw.ellipse((left + 2, top + 2, left + unit - 3, top + unit - 3), fill=GREEN, outline=INK, width=2)
    picture = np.array(image)
    _draw_footer(picture, [("wall", INK, f"{wall_height:.1f}")], timestep, max_timesteps)
    return picture


def _draw_footer(
    picture: np.ndarray, earned: Sequence[tuple[str, Color, str]], timestep: int, max_timesteps: int
) -> None:
    """Writes returns, the time and a bar that fills up into the last `FOOTER` rows of a picture."""
    height, width = picture.shape[:2]
    strip = Image.new("RGB", (width - 2 * MARGIN, 20), PAPER)
    draw = ImageDraw.Draw(strip)
    x = 0.0
    for label, color, shown in earned:
        draw.text((x, 15), label, fill=color, font=font(13), anchor="ls")
        x += draw.textlength(label, font=font(13)) + 6
        draw.text((x, 15), shown, fill=INK, font=font(13), anchor="ls")
        x += max(62, draw.textlength(shown, font=font(13)) + 16)
    draw.text((strip.width, 15), f"{timestep} / {max_timesteps}", fill=INK, font=font(13), anchor="rs")
    top = height - FOOTER + 10
    picture[top : top + 20, MARGIN : width - MARGIN] = np.asarray(strip)
    bar = picture[top + 25 : top + 28, MARGIN : width - MARGIN]
    bar[:] = FAINT
    bar[:, : round(bar.shape[1] * timestep / max_timesteps)] = INK


@lru_cache(maxsize=8)
def _empty_board(rows: int, columns: int) -> tuple[np.ndarray, int, int]:
    """Returns the picture of an empty board, the side of a tile and the left margin of the board, in pixels."""
    side = min(max(BOARD // max(rows, columns), 2), 80)
    width = max(columns * side, NARROWEST) + 2 * MARGIN
    width += width % 2
    height = MARGIN + rows * side + FOOTER
    height += height % 2
    left = (width - columns * side) // 2
    picture = np.empty((height, width, 3), dtype=np.uint8)
    picture[:] = PAPER
    picture[MARGIN : MARGIN + rows * side, left : left + columns * side] = np.tile(
        _tile(side, TILE), (rows, columns, 1)
    )
    return picture, side, left


@lru_cache(maxsize=64)
def _tile(side: int, color: Color) -> np.ndarray:
    """Returns a tile with round corners and a gap around it, ``[side, side, 3]``."""
    image = Image.new("RGB", (side * SMOOTH, side * SMOOTH), PAPER)
    gap = min(max(side // 24, 1), side // 4) * SMOOTH
    box = (gap, gap, side * SMOOTH - 1 - gap, side * SMOOTH - 1 - gap)
    ImageDraw.Draw(image).rounded_rectangle(box, radius=side * SMOOTH // 8, fill=color)
    return np.asarray(image.resize((side, side), Image.Resampling.BOX))


@lru_cache(maxsize=64)
def _disc(diameter: int, color: Color, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a labelled disc with a shadow: colour times alpha ``[size, size, 3]``, and alpha ``[size, size, 1]``."""
    size = diameter + 6
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


@dataclass(frozen=True)
class Strip:
    """The part of a sequence that an agent has seen, for `draw_strips`.

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
    """Draws sequences of cards, one above the other, with the answers below; the card that is shown now is dark.

    Args:
        strips: Sequence of each agent; its latest `STRIP` cards are drawn.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    high = CARD + 18  # a card and the disc below it
    picture = np.empty((MARGIN + high * len(strips) + FOOTER, 2 * MARGIN + STRIP * CARD, 3), dtype=np.uint8)
    picture[:] = PAPER
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for row, strip in enumerate(strips):
        first = max(len(strip.cards) - STRIP, 0)
        top = MARGIN + row * high
        for place, card in enumerate(strip.cards[first:]):
            left, now = MARGIN + place * CARD, first + place == len(strip.cards) - 1
            box = (left + 2, top + 2, left + CARD - 3, top + CARD - 3)
            draw.rounded_rectangle(box, radius=5, fill=INK if now else TILE)
            middle = (left + CARD / 2, top + CARD / 2)
            draw.text(middle, card, fill=PAPER if now else INK, font=font(14), anchor="mm")
        for place, right in enumerate(strip.right[first:]):
            if right is not None:
                x, y = MARGIN + place * CARD + CARD / 2, top + CARD + 6
                draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=GREEN if right else RED)
    picture = np.array(image)
    earned = [(strip.label, INK, f"{round(strip.earned, 2) + 0.0:+.2f}") for strip in strips]
    _draw_footer(picture, earned, timestep, max_timesteps)
    return picture
