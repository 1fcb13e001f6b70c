"""JSON from files: `parse_json` raises a ValueError for every invalid text; `unique_keys` refuses duplicate keys."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


class DuplicateKeyError(ValueError):
    """A key occurs twice in one object, so that only its last value would count.

    Attributes:
        key: The key.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} stands twice in one object")
        self.key = key


def unique_keys(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON as a dict; the ``object_pairs_hook`` of `json.loads`.

    Args:
        pairs: Keys and values, in order.

    Raises:
        DuplicateKeyError: If a key occurs twice.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKeyError(key)
        found[key] = value
    return found


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
