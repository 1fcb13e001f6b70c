"""Pictures of the tasks after ML-Agents' examples, as `drawing` draws the others: ``[height, width, 3]`` uint8."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from rookery.envs.drawing import FAINT, INK, MARGIN, PAPER, RED, WOOD, Color, font
from rookery.tasks.drawing.game_drawing import BLUE
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

VIOLET: Color = (132, 88, 176)
KINDS: tuple[Color, ...] = (GREEN, RED, BLUE, GOLD, VIOLET, WOOD)
"""Colours of the kinds of cells."""

CAMERA = math.radians(36.0)
"""By how much the camera looks down on a plate."""


def draw_line(places: int, prizes: tuple[int, int], agent: int, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a line of places: the small prize faint gold, the large one gold, the agent a disc.

    Args:
        places: Number of places.
        prizes: Places of the small and of the large prize.
        agent: Place of the agent.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    empty, side, left = _empty_board(1, places)
    picture = empty.copy()
    small, large = prizes
    for place, color in ((small, WOOD), (large, GOLD)):
        start = left + place * side
        picture[MARGIN : MARGIN + side, start : start + side] = _tile(side, color)
    _put(picture, (0, agent), side, left, GREEN)
    _draw_footer(picture, [("small", WOOD, "+0.1"), ("large", GOLD, "+1")], timestep, max_timesteps)
    return picture


def draw_plate(
    frame: np.ndarray, half: float, ball: np.ndarray, radius: float, timestep: int, max_timesteps: int
) -> np.ndarray:
    """Draws a ball on a tilted cube, of which the faces are shown that look up or to the front.

    Args:
        frame: Directions of the cube's axes in the world, ``[axis, x y z]``; y points up.
        half: Half of the cube's width.
        ball: Place of the ball's middle ``[3]``, from the middle of the cube.
        radius: Radius of the ball.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    unit, wide, high = 42, 380, 380
    width, height = wide + 2 * MARGIN, MARGIN + high + FOOTER
    image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), PAPER)
    draw = ImageDraw.Draw(image)
    depth, rise = math.sin(CAMERA), math.cos(CAMERA)

    def at(point: np.ndarray) -> tuple[float, float]:
        """Returns the pixel of a place."""
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
    picture = np.array(image.reduce(SMOOTH))
    aside = float(np.hypot(ball[0], ball[2]))
    _draw_footer(picture, [("from the middle", INK, f"{aside:.2f}")], timestep, max_timesteps)
    return picture


def draw_goal_grid(cells: np.ndarray, goal: int, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a grid with a green plus, a red cross and the agent, a disc; the goal's tile is shaded.

    Args:
        cells: What is in each cell, ``[rows, columns]``: 0 nothing, 1 the plus, 2 the cross, 3 the agent.
        goal: Number of the goal, 0 the plus or 1 the cross.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    empty, side, left = _empty_board(*cells.shape)
    image = Image.fromarray(empty.copy())
    draw = ImageDraw.Draw(image)
    for row, column in np.argwhere((cells == 1) | (cells == 2)):
        thing = int(cells[row, column])
        x, y = left + int(column) * side, MARGIN + int(row) * side
        if thing == 1 + goal:
            image.paste(Image.fromarray(_tile(side, TILE_AGAIN)), (x, y))
        x, y, arm = x + side // 2, y + side // 2, side * (0.28 if thing == 1 else 0.2)
        for right, down in ((1, 0), (0, 1)) if thing == 1 else ((1, 1), (1, -1)):
            ends = (x - right * arm, y - down * arm, x + right * arm, y + down * arm)
            draw.line(ends, fill=GREEN if thing == 1 else RED, width=side // 9)
    picture = np.array(image)
    for row, column in np.argwhere(cells == 3):
        _put(picture, (int(row), int(column)), side, left, BLUE)
    named = ("plus", GREEN) if goal == 0 else ("cross", RED)
    _draw_footer(picture, [("goal", named[1], named[0])], timestep, max_timesteps)
    return picture


def draw_push_block(
    goal: np.ndarray,
    block: Sequence[int],
    agent: Sequence[int],
    looks: int,
    timestep: int,
    max_timesteps: int,
) -> np.ndarray:
    """Draws a room with the goal green, the block a box, and the agent a disc with a nose to where it looks.

    Args:
        goal: Which cells are of the goal, ``[rows, columns]`` bool.
        block: Row and column of the block.
        agent: Row and column of the agent.
        looks: Quarters to the right from up.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    empty, side, left = _empty_board(*goal.shape)
    picture = empty.copy()
    for row, column in np.argwhere(goal):
        top, start = MARGIN + row * side, left + column * side
        picture[top : top + side, start : start + side] = _tile(side, TILE_AGAIN)
    top, start = MARGIN + block[0] * side, left + block[1] * side
    picture[top : top + side, start : start + side] = _tile(side, WOOD)
    _put(picture, (agent[0], agent[1]), side, left, BLUE)
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    right, down = ((0, -1), (1, 0), (0, 1), (-1, 0))[looks]
    x, y = left + (agent[1] + 0.5) * side, MARGIN + (agent[0] + 0.5) * side
    tip, base, wide = 0.48 * side, 0.26 * side, 0.14 * side
    points = [(x + right * tip, y + down * tip)]
    points += [(x + right * base + turn * down * wide, y + down * base - turn * right * wide) for turn in (-1, 1)]
    draw.polygon(points, fill=INK)
    picture = np.array(image)
    _draw_footer(picture, [("goal", GREEN, ""), ("block", WOOD, "")], timestep, max_timesteps)
    return picture


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
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    half, agent_radius, meal_radius, beam = sizes
    wide = 440
    unit = wide / (2 * half)
    width, height = wide + 2 * MARGIN, MARGIN + wide + FOOTER
    image = Image.new("RGB", (width * SMOOTH, height * SMOOTH), PAPER)
    draw = ImageDraw.Draw(image)

    def at(x: float, y: float) -> tuple[float, float]:
        """Returns the pixel of a place."""
        return (MARGIN + (x + half) * unit) * SMOOTH, (MARGIN + (half - y) * unit) * SMOOTH

    def disc(x: float, y: float, radius: float, fill: Color) -> None:
        """Draws a disc, never too small to be seen."""
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
    picture = np.array(image.reduce(SMOOTH))
    num = sum(is_frozen for *_, is_frozen, _ in agents)
    shown = [("food", GREEN, "+1"), ("poison", RED, "-1"), ("frozen", INK, str(num))]
    _draw_footer(picture, shown, timestep, max_timesteps)
    return picture


def draw_match3(cells: np.ndarray, special: np.ndarray, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a board: a disc in a colour for each kind, with a ring if it is special, with a star if in the second way.

    Args:
        cells: Kind of each cell, ``[rows, columns]``, the highest row first; negative where none is.
        special: 0, or in which way each cell is special, 1 or 2.
        timestep: Moves of this episode so far.
        max_timesteps: Moves of a whole episode.
    """
    empty, side, left = _empty_board(*cells.shape)
    picture = empty.copy()
    for row, column in np.argwhere(cells < 0):
        top, start = MARGIN + row * side, left + column * side
        picture[top : top + side, start : start + side] = PAPER
    for row, column in np.argwhere(cells >= 0):
        _put(picture, (int(row), int(column)), side, left, KINDS[int(cells[row, column]) % len(KINDS)])
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for row, column in np.argwhere((special > 0) & (cells >= 0)):
        x, y = left + (int(column) + 0.5) * side, MARGIN + (int(row) + 0.5) * side
        if special[row, column] == 1:
            r = side * 0.15
            draw.ellipse((x - r, y - r, x + r, y + r), outline=PAPER, width=max(side // 16, 1))
        else:
            draw.text((x, y), "+", fill=PAPER, font=font(round(side * 0.6)), anchor="mm")
    picture = np.array(image)
    _draw_footer(picture, [("ring", INK, "x2"), ("plus", INK, "x3")], timestep, max_timesteps)
    return picture
