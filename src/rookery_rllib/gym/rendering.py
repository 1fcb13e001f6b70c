"""`gym.envs.classic_control.rendering` of 2021 without windows: shapes rendered to images.

Coordinates are those of the viewer's bounds, x to the right and y up; colours are numbers from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from rookery_rllib.base.notices import say_once

RAD2DEG = 180 / math.pi

Points = Sequence[Sequence[float]]


class Attr:
    """Attribute of shapes."""

    def enable(self) -> None:
        """Does nothing: `Viewer.render` reads the attribute's values."""

    def disable(self) -> None:
        """Does nothing, as `enable`."""


class Transform(Attr):
    """Moves, turns and scales a shape: it is scaled first, moved last.

    Args:
        translation: Position of the shape's origin, [x, y].
        rotation: Counterclockwise angle in radians.
        scale: Factors along x and y.
    """

    def __init__(
        self, translation: Sequence[float] = (0.0, 0.0), rotation: float = 0.0, scale: Sequence[float] = (1.0, 1.0)
    ) -> None:
        self.set_translation(*translation)
        self.set_rotation(rotation)
        self.set_scale(*scale)

    def set_translation(self, newx: float, newy: float) -> None:
        self.translation = (float(newx), float(newy))

    def set_rotation(self, new: float) -> None:
        self.rotation = float(new)

    def set_scale(self, newx: float, newy: float) -> None:
        self.scale = (float(newx), float(newy))

    def matrix(self) -> np.ndarray:
        """Returns the transformation of points (x, y, 1), [3, 3]."""
        cos, sin = math.cos(self.rotation), math.sin(self.rotation)
        (x, y), (wide, high) = self.translation, self.scale
        return np.array([[cos * wide, -sin * high, x], [sin * wide, cos * high, y], [0.0, 0.0, 1.0]])


class Color(Attr):
    """A colour with its opacity, four numbers from 0 to 1."""

    def __init__(self, vec4: Sequence[float]) -> None:
        self.vec4 = tuple(vec4)


class LineStyle(Attr):
    """A pattern of dashes; lines are drawn solid."""

    def __init__(self, style: int) -> None:
        self.style = style


class LineWidth(Attr):
    """The width of lines, in pixels."""

    def __init__(self, stroke: float) -> None:
        self.stroke = stroke


class Geom:
    """A shape with its attributes."""

    def __init__(self) -> None:
        self._color = Color((0.0, 0.0, 0.0, 1.0))
        self.attrs: list[Attr] = [self._color]

    def render(self) -> None:
        """Does nothing: a shape is drawn by the viewer it was added to."""

    render1 = render

    def add_attr(self, attr: Attr) -> None:
        """Adds an attribute; of transformations, those added first are applied first."""
        self.attrs.append(attr)

    def set_color(self, r: float, g: float, b: float, a: float = 1.0) -> None:
        self._color.vec4 = (r, g, b, a)

    def draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        """Draws the shape.

        Args:
            canvas: The canvas.
            matrix: Transformation from the shape's coordinates to pixels, [3, 3].
            look: Default colour and width.
        """
        for attr in reversed(self.attrs):
            if isinstance(attr, Transform):
                matrix = matrix @ attr.matrix()
            elif isinstance(attr, Color):
                look = _Look(attr.vec4, look.width)
            elif isinstance(attr, LineWidth):
                look = _Look(look.color, attr.stroke)
        self._draw(canvas, matrix, look)

    def _draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        """Draws the shape itself."""


class Point(Geom):
    """One pixel at the origin."""

    def _draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        canvas.pen.point(_placed([(0.0, 0.0)], matrix), fill=look.ink)


class FilledPolygon(Geom):
    """A polygon that is filled."""

    def __init__(self, v: Points) -> None:
        super().__init__()
        self.v = v

    def _draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        if len(self.v) > 2:
            canvas.pen.polygon(_placed(self.v, matrix), fill=look.ink)


class PolyLine(Geom):
    """Lines from point to point."""

    def __init__(self, v: Points, close: bool) -> None:
        super().__init__()
        self.v = v
        self.close = close
        self.linewidth = LineWidth(1)
        self.add_attr(self.linewidth)

    def set_linewidth(self, x: float) -> None:
        self.linewidth.stroke = x

    def _draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        points = list(self.v)
        canvas.line([*points, points[0]] if self.close and points else points, matrix, look)


class Line(Geom):
    """One line."""

    def __init__(self, start: Sequence[float] = (0.0, 0.0), end: Sequence[float] = (0.0, 0.0)) -> None:
        super().__init__()
        self.start, self.end = start, end
        self.linewidth = LineWidth(1)
        self.add_attr(self.linewidth)

    def _draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        canvas.line([self.start, self.end], matrix, look)


class Compound(Geom):
    """Several shapes as one, whose colours are overridden by that of the compound."""

    def __init__(self, gs: Iterable[Geom]) -> None:
        super().__init__()
        self.gs = list(gs)
        for geom in self.gs:
            geom.attrs = [attr for attr in geom.attrs if not isinstance(attr, Color)]

    def _draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        for geom in self.gs:
            geom.draw(canvas, matrix, look)


class Image(Geom):
    """An image from a file, around the origin; width and height are in the viewer's coordinates."""

    def __init__(self, fname: str, width: float, height: float) -> None:
        super().__init__()
        self.set_color(1.0, 1.0, 1.0)
        self.width, self.height = width, height
        with Pillow.open(fname) as picture:
            self.img = np.asarray(picture.convert("RGBA"))
        self.flip = False

    def _draw(self, canvas: _Canvas, matrix: np.ndarray, look: _Look) -> None:
        rows, columns = self.img.shape[:2]
        to_plane = np.array(
            [[self.width / columns, 0.0, -self.width / 2], [0.0, -self.height / rows, self.height / 2], [0.0, 0.0, 1.0]]
        )  # from a pixel of the image to the plane
        back = np.linalg.inv(matrix @ to_plane)
        image = Pillow.fromarray(self.img).transform(
            canvas.image.size, Pillow.Transform.AFFINE, tuple(back[:2].ravel()), Pillow.Resampling.BILINEAR
        )
        canvas.image.paste(image, (0, 0), image)


def make_circle(radius: float = 10, res: int = 30, filled: bool = True) -> Geom:
    """Returns a circle around the origin, drawn as a polygon with `res` corners."""
    angles = [2 * math.pi * i / res for i in range(res)]
    return make_polygon([(math.cos(angle) * radius, math.sin(angle) * radius) for angle in angles], filled)


def make_polygon(v: Points, filled: bool = True) -> Geom:
    return FilledPolygon(v) if filled else PolyLine(v, True)


def make_polyline(v: Points) -> PolyLine:
    return PolyLine(v, False)


def make_capsule(length: float, width: float) -> Compound:
    """Returns a bar from the origin along x with round ends."""
    half = width / 2
    far = make_circle(half)
    far.add_attr(Transform(translation=(length, 0.0)))
    return Compound([make_polygon([(0, -half), (0, half), (length, half), (length, -half)]), make_circle(half), far])


class Viewer:
    """Draws shapes; no window is opened."""

    def __init__(self, width: int, height: int, display: Any = None) -> None:
        self.width, self.height = int(width), int(height)
        self.geoms: list[Geom] = []
        self.onetime_geoms: list[Geom] = []
        self.transform = Transform()
        self.window: Any = None
        self.isopen = True

    def set_bounds(self, left: float, right: float, bottom: float, top: float) -> None:
        """Sets the visible part of the plane; by default one unit is one pixel and (0, 0) is the lower left corner."""
        scale = self.width / (right - left), self.height / (top - bottom)
        self.transform = Transform((-left * scale[0], -bottom * scale[1]), scale=scale)

    def add_geom(self, geom: Geom) -> None:
        self.geoms.append(geom)

    def add_onetime(self, geom: Geom) -> None:
        self.onetime_geoms.append(geom)

    def render(self, return_rgb_array: bool = False) -> Any:
        """Returns an image [height, width, 3] uint8 on request, else whether the viewer is open."""
        shown, self.onetime_geoms = [*self.geoms, *self.onetime_geoms], []
        if not return_rgb_array:
            say_once("no windows are opened: render() shows nothing; render(mode='rgb_array') returns images")
            return self.isopen
        return self._drawn(shown)

    def get_array(self) -> np.ndarray:
        return self._drawn(self.geoms)

    def _drawn(self, geoms: Iterable[Geom]) -> np.ndarray:
        canvas = _Canvas(self.width, self.height)
        upright = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, float(self.height)], [0.0, 0.0, 1.0]])
        for geom in geoms:
            geom.draw(canvas, upright @ self.transform.matrix(), _Look((0.0, 0.0, 0.0, 1.0), 1.0))
        return np.array(canvas.image)

    def draw_circle(self, radius: float = 10, res: int = 30, filled: bool = True, **attrs: Any) -> Geom:
        """Adds a circle to the next image and returns it; `attrs` are ``color`` and ``linewidth``."""
        return self._once(make_circle(radius, res, filled), attrs)

    def draw_polygon(self, v: Points, filled: bool = True, **attrs: Any) -> Geom:
        return self._once(make_polygon(v, filled), attrs)

    def draw_polyline(self, v: Points, **attrs: Any) -> Geom:
        return self._once(make_polyline(v), attrs)

    def draw_line(self, start: Sequence[float], end: Sequence[float], **attrs: Any) -> Geom:
        return self._once(Line(start, end), attrs)

    def _once(self, geom: Geom, attrs: dict[str, Any]) -> Geom:
        if "color" in attrs:
            geom.set_color(*attrs["color"])
        if "linewidth" in attrs and isinstance(geom, PolyLine):
            geom.set_linewidth(attrs["linewidth"])
        self.add_onetime(geom)
        return geom

    def window_closed_by_user(self) -> None:
        self.isopen = False

    def close(self) -> None:
        self.isopen = False


class SimpleImageViewer:
    """Stores the last image in `image`; no window is opened."""

    def __init__(self, display: Any = None, maxwidth: int = 500) -> None:
        self.maxwidth = maxwidth
        self.isopen = False
        self.window: Any = None
        self.image: np.ndarray | None = None

    def imshow(self, arr: np.ndarray) -> None:
        say_once("no windows are opened: render() shows nothing; render(mode='rgb_array') returns images")
        self.image, self.isopen = arr, True

    def close(self) -> None:
        self.isopen = False


# -- drawing -----------------------------------------------------------------------------------------------------------


class _Look(NamedTuple):
    """Colour (red, green, blue, opacity) and width of lines, in pixels."""

    color: Sequence[float]
    width: float

    @property
    def ink(self) -> tuple[int, ...]:
        parts = [*self.color, 1.0][:4]
        return tuple(round(255 * min(max(float(part), 0.0), 1.0)) for part in parts)


class _Canvas:
    """A white image with drawing functions."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Pillow.new("RGB", (width, height), (255, 255, 255))
        self.pen = ImageDraw.Draw(self.image, "RGBA")

    def line(self, points: Points, matrix: np.ndarray, look: _Look) -> None:
        if len(points) > 1:
            self.pen.line(_placed(points, matrix), fill=look.ink, width=max(1, round(look.width)), joint="curve")


def _placed(points: Points, matrix: np.ndarray) -> list[tuple[float, float]]:
    """Returns points as pixels ``(x, y)``."""
    corners = np.array([[point[0], point[1], 1.0] for point in points], float).reshape(-1, 3)
    return [(float(x), float(y)) for x, y, _ in corners @ matrix.T]
