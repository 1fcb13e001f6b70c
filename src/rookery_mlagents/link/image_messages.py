"""Images in Unity's messages: one or several concatenated PNGs, whose channels are combined."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from PIL import Image

from rookery_mlagents.link.messages import PNG, ObservationProto
from rookery_mlagents.link.protobuf_wire import WireError

SIGNATURE = b"\x89PNG\r\n\x1a\n"

TRANSLATIONAL, PLAIN = 2, 1
"""Properties of a dimension: neighbouring values are related; unspecified."""

UNUSED = -1
"""Marks an unused PNG channel in a channel mapping."""


def channels_first(shape: Sequence[int], properties: Sequence[int]) -> bool:
    """Returns whether an image has its channels first, ``[C, H, W]``; else they are last.

    Players of package 3 and later send such images, older ones the others; the properties decide, if there are any.
    """
    return len(shape) == 3 and tuple(properties) == (PLAIN, TRANSLATIONAL, TRANSLATIONAL)


def decoded(obs: ObservationProto) -> np.ndarray:
    """Returns the image of a PNG-compressed observation, uint8 in its own shape.

    Raises:
        WireError: If it is not an image, or has another shape than announced.
    """
    if len(obs.shape) != 3:
        raise WireError(f"observation {obs.name!r} is packed as PNG, and its shape {obs.shape} is not that of an image")
    first = channels_first(obs.shape, obs.dimension_properties)
    channels = obs.shape[0] if first else obs.shape[2]
    size = (obs.shape[2], obs.shape[1]) if first else (obs.shape[1], obs.shape[0])
    try:
        most = max(channels, len(obs.compressed_channel_mapping), 1)
        parts = [_planes(one, size) for one in islice(_pictures(obs.compressed_data), most)]
        found = np.concatenate(parts, axis=2)
    except Exception as error:  # Pillow raises many kinds of errors for a damaged image
        raise WireError(f"observation {obs.name!r}: its PNG cannot be read ({error})") from None
    mapping = np.array(obs.compressed_channel_mapping or _usual_mapping(channels, found.shape[2]))
    if len(mapping) != found.shape[2]:
        raise WireError(f"observation {obs.name!r}: {found.shape[2]} channels, and {len(mapping)} places for them")
    missing = sorted(set(range(channels)) - set(mapping.tolist()))
    if missing:
        raise WireError(f"observation {obs.name!r}: none of its PNGs has channel {missing[0]} of {channels}")
    picture = np.stack([found[:, :, mapping == channel].mean(axis=2) for channel in range(channels)], axis=2)
    picture = np.rint(picture).astype(np.uint8)
    picture = np.moveaxis(picture, 2, 0) if first else picture
    if picture.shape != tuple(obs.shape):
        raise WireError(f"observation {obs.name!r}: an image of shape {picture.shape} where {obs.shape} was announced")
    return picture


def encoded(picture: np.ndarray, name: str) -> ObservationProto:
    """Encodes a uint8 image ``[H, W, C]`` or ``[C, H, W]`` losslessly as a message."""
    first = picture.shape[0] < picture.shape[2]
    planes = np.moveaxis(picture, 0, 2) if first else picture
    channels = planes.shape[2]
    mapping = [0, 0, 0] if channels == 1 else [*range(channels), *[UNUSED] * (-channels % 3)]
    content = b""
    for start in range(0, len(mapping), 3):
        three = [planes[:, :, max(channel, 0)] * (channel >= 0) for channel in mapping[start : start + 3]]
        file = io.BytesIO()
        Image.fromarray(np.stack(three, axis=2).astype(np.uint8)).save(file, "PNG")
        content += file.getvalue()
    properties = (PLAIN, TRANSLATIONAL, TRANSLATIONAL) if first else (TRANSLATIONAL, TRANSLATIONAL, PLAIN)
    return ObservationProto(picture.shape, PNG, content, None, tuple(mapping), properties, 0, name)


def _planes(png: bytes, size: tuple[int, int]) -> np.ndarray:
    """Decodes an image ``[H, W, 3]``; raises a ValueError if it has another width or height."""
    with Image.open(io.BytesIO(png)) as picture:
        if picture.size != size:  # before decompression: a few bytes can declare a huge image
            raise ValueError(f"an image of shape {picture.size[::-1]} where {size[::-1]} was announced")
        return np.asarray(picture.convert("RGB"))


def _usual_mapping(channels: int, found: int) -> list[int]:
    """Returns the default channel mapping: the image channel of each PNG channel."""
    if channels == 1:
        return [0] * found
    return [channel if channel < channels else UNUSED for channel in range(found)]


def _pictures(content: bytes) -> Iterator[bytes]:
    """Splits bytes into concatenated PNGs."""
    start = 0
    while start < len(content):
        if content[start : start + 8] != SIGNATURE:
            raise ValueError(f"no PNG begins at byte {start:,}")
        place, kind = start + 8, b""
        while kind != b"IEND":
            if place + 8 > len(content):
                raise ValueError(f"the PNG at byte {start:,} has no end")
            (size,), kind = struct.unpack_from(">I", content, place), content[place + 4 : place + 8]
            place += 12 + size
        yield content[start:place]
        start = place
