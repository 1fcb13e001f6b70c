"""Images that environments draw: the cart-pole, and the colours and fonts of all of them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import ImageFont

Color = tuple[int, int, int]

PAPER: Color = (250, 248, 244)
INK: Color = (62, 66, 84)
FAINT: Color = (226, 221, 211)
RED: Color = (207, 72, 84)
WOOD: Color = (206, 150, 92)

MARGIN = 20
"""Pixels around an image."""


@lru_cache(maxsize=64)
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Returns the font of all images in a size in pixels."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


def draw_cart_pole(position: float, angle: float, timestep: int, max_timesteps: int) -> np.ndarray:
    """Draws a cart on its track with the pole it balances, and a bar that fills up with time, ``[400, 600, 3]`` uint8.

    Args:
        position: Position of the cart, from -2.4 at the left end of the track to 2.4 at its right end.
        angle: Angle of the pole in radians, 0 upright, positive to the right.
        timestep: Steps of this episode so far.
        max_timesteps: Steps of a whole episode.
    """
    from PIL import Image, ImageDraw

    scale = 3  # drawn larger and scaled down for smooth edges
    width, height, unit = 600 * scale, 400 * scale, 600 * scale / 5.6
    image = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(image)

    def line(start: tuple[float, float], end: tuple[float, float], thick: float, color: Color) -> None:
        """Draws a line with round ends."""
        draw.line((*start, *end), fill=color, width=round(thick))
        for x, y in (start, end):
            draw.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=color)

    middle, ground = width / 2, height * 0.68
    line((middle - 2.4 * unit, ground), (middle + 2.4 * unit, ground), 4 * scale, FAINT)
    for limit in (-2.4, 2.4):
        line((middle + limit * unit, ground - 8 * scale), (middle + limit * unit, ground + 8 * scale), 4 * scale, RED)
    x, half, tall = middle + position * unit, 34 * scale, 34 * scale
    top = ground - 8 * scale - tall
    draw.rounded_rectangle((x - half, top, x + half, top + tall), radius=7 * scale, fill=INK)
    for wheel in (x - half * 0.58, x + half * 0.58):
        draw.ellipse((wheel - 8 * scale, ground - 15 * scale, wheel + 8 * scale, ground + scale), fill=INK)
        draw.ellipse((wheel - 3 * scale, ground - 10 * scale, wheel + 3 * scale, ground - 4 * scale), fill=PAPER)
    axle = top + 8 * scale
    line((x, axle), (x + math.sin(angle) * unit, axle - math.cos(angle) * unit), 11 * scale, WOOD)
    draw.ellipse((x - 5 * scale, axle - 5 * scale, x + 5 * scale, axle + 5 * scale), fill=PAPER)

    left, right, bar = MARGIN * scale, width - MARGIN * scale, height - 26 * scale
    draw.rectangle((left, bar, right, bar + 3 * scale - 1), fill=FAINT)
    draw.rectangle((left, bar, left + (right - left) * timestep / max_timesteps, bar + 3 * scale - 1), fill=INK)
    text = f"{timestep} / {max_timesteps}"
    draw.text((right, bar - 8 * scale), text, fill=INK, font=font(13 * scale), anchor="rs")
    return np.array(image.reduce(scale))
