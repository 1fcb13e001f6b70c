"""JSON from files: `parse_json` raises a ValueError for every invalid text."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text.

    Args:
        text: The text; bytes are UTF-8.

    Raises:
        ValueError: If it is not JSON, or its lists and objects are nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its lists and objects are nested too deeply") from None
