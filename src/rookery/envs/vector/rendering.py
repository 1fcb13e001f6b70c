"""Images of environments, as ``[height, width, 3]`` uint8 RGB, from any form that their `render` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.process.tracebacks import described
from rookery.envs.adapters.lane import Breach, cause_of, shape_of
from rookery.envs.base import VectorBase, VectorEnv

RGB = ("rgb_array", "rgb_array_list")
"""Render modes that return images."""

CHANNELS = (1, 3, 4)
"""Channels of a pixel: grey, RGB, and RGB with opacity, which is dropped."""

ROUNDING = 1e-3
"""Tolerance above 1 or 255 for floats, due to rounding."""

UNCLEAR = 2.0
"""Upper bound of floats above 1 that are ambiguous: excessive brightness, or an almost black image."""

EXPECTED = (
    "expected an image [height, width, 3] (or 4, or 1, or none, or channels first) of uint8, numbers from 0 to 255, "
    "floats from 0 to 1, or flags"
)


def picture(env: Any) -> np.ndarray | None:
    """Returns the rendered image of one environment, or None if it has no images.

    Args:
        env: The environment, of any style.

    Raises:
        Breach: If its `render` raises, or does not return an image.
    """
    mode = getattr(env, "render_mode", "rgb_array")
    if mode not in RGB or not callable(getattr(env, "render", None)):
        return None
    try:
        shown = env.render()
    except NotImplementedError:
        return None
    except Exception as error:
        raise Breach(f"render() raised {described(error)}") from cause_of(error)
    return as_image(shown[-1] if isinstance(shown, list) and shown else shown)


def drawn(env: VectorEnv | VectorBase, lane: int) -> np.ndarray | None:
    """Returns the image of a lane, ``[height, width, 3]`` uint8, or None if the environment cannot render.

    Args:
        env: A vectorized environment, also a user's own class.
        lane: Number of the lane.

    Raises:
        EnvError: If rendering raises, or does not return an image.
    """
    try:
        return as_image(env.render(lane))
    except EnvError:
        raise
    except Exception as error:
        problem = error.problem if isinstance(error, Breach) else f"render() raised {described(error)}"
        raise EnvError(f"{env.name}: environment {lane}: {problem}") from cause_of(error)


def keep_last(env: VectorBase, lane: int) -> None:
    """Keeps the image and the text of the final state of a lane's episode."""
    env.last_pictures[lane] = last_picture(env, lane)
    try:
        env.last_texts[lane] = env.text(lane)
    except Exception:  # as below
        env.last_texts[lane] = None


def last_picture(env: VectorBase, lane: int) -> np.ndarray | None:
    """Renders the final state of a lane's episode; None without images, or if the episode has not ended."""
    try:
        return drawn(env, lane)
    except EnvError:  # raised by an environment that has removed the objects it draws
        return None


def as_image(shown: Any) -> np.ndarray | None:
    """Returns an image in the form ``[height, width, 3]`` uint8; None stays None.

    Args:
        shown: Result of a `render`: an array or an object that converts to one. Floats up to 1 and flags are brightness
            from 0 to 1, other numbers from 0 to 255; ``[height, width]`` and one channel are grey; of RGBA the opacity
            is dropped; channels may come first.

    Raises:
        Breach: If it is not an image; with its type and shape.
    """
    if shown is None:
        return None
    plain = isinstance(shown, np.ndarray) and shown.dtype == np.uint8 and shown.ndim == 3 and shown.shape[2] == 3
    if plain and shown.size:
        return np.ascontiguousarray(shown)
    array: np.ndarray
    try:
        array = np.asarray(_in_rgb(shown)) if not isinstance(shown, str | Mapping | list | tuple) else np.empty(0)
    except Exception as error:  # any exception of the object's conversion
        raise Breach(
            f"render() returned {_described(shown)}, whose numbers cannot be read: {described(error)}"
        ) from None
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.ndim == 3 and array.shape[2] not in CHANNELS and array.shape[0] in CHANNELS:
        array = array.transpose(1, 2, 0)
    if array.ndim != 3 or array.shape[2] not in CHANNELS or not array.size:
        raise Breach(f"render() returned {_described(shown)}, {EXPECTED}")
    array = array[:, :, :3]
    array = np.broadcast_to(array, (*array.shape[:2], 3))
    return np.ascontiguousarray(_bytes(array, shown))


def _in_rgb(shown: Any) -> Any:
    """Returns a Pillow image in RGB, since its numbers may be palette indices or inks; other objects unchanged."""
    is_pillows = isinstance(getattr(shown, "mode", None), str) and callable(getattr(shown, "convert", None))
    return shown.convert("RGB") if is_pillows else shown


def _bytes(array: np.ndarray, shown: Any) -> np.ndarray:
    """Returns brightness as bytes."""
    kind = array.dtype.kind
    if array.dtype == np.uint8:
        return array
    if kind == "b":
        return np.where(array, np.uint8(255), np.uint8(0))
    if kind in "iuf":
        low, high = array.min(), array.max()
        if kind == "f" and low >= 0 and high <= 1 + ROUNDING:
            return np.asarray(np.rint(np.minimum(array, 1.0) * 255), np.uint8)
        if low >= 0 and (UNCLEAR <= high <= 255 + ROUNDING if kind == "f" else high <= 255):
            return np.asarray(np.rint(np.minimum(array, 255)), np.uint8)
        raise Breach(f"render() returned {_described(shown)} of {array.dtype} from {low} to {high}, {EXPECTED}")
    raise Breach(f"render() returned {_described(shown)} of {array.dtype}, {EXPECTED}")


def _described(shown: Any) -> str:
    """Describes the type and shape of a `render` result."""
    if isinstance(shown, list):
        return f"a list of {len(shown)}"
    shape = getattr(shown, "shape", None)
    if not isinstance(shown, np.ndarray) and isinstance(shape, tuple):
        return f"{type(shown).__name__} of shape {tuple(shape)}"
    return shape_of(shown)
