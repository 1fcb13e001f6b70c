"""`PlainSettings`: the settings of a run as rules read them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.schedules import Schedule, read_schedule


class PlainSettings(dict[str, Any]):
    """Values of the settings by path, schedules as mappings. Rules ask for the same ones at each look at a run, so the
    answers are kept; a run's settings do not change.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._known: dict[tuple[str, str], Any] = {}
        self._schedules: dict[str, list[tuple[str, Schedule]]] = {}

    def of(self, path: str, policy: str = "") -> Any:
        """Returns a setting of a policy, or of the run for an empty name; None if there is none."""
        if not policy:
            return self.get(path)
        if (path, policy) not in self._known:
            own = f"policies.{policy}.{path}"
            self._known[path, policy] = self[own] if own in self else self.get(f"algorithm.{path}")
        return self._known[path, policy]

    @cached_property
    def trained(self) -> dict[str, bool]:
        """The policies that are named in the settings, and whether each is trained."""
        names = dict.fromkeys(path.split(".")[1] for path in self if path.startswith("policies."))
        return {name: not self.get(f"policies.{name}.frozen") for name in names}

    def schedules(self, policy: str) -> list[tuple[str, Schedule]]:
        """Returns the settings of a policy that have a schedule, by their path below the algorithm."""
        if policy not in self._schedules:
            starts, found = (f"policies.{policy}.", "algorithm."), []
            for path, value in self.items():
                if isinstance(value, dict) and ("points" in value or "start" in value) and path.startswith(starts):
                    own = path.removeprefix(starts[0]).removeprefix(starts[1])
                    if self.of(own, policy) is value:  # a number of the policy's own hides a schedule of all
                        with suppress(ConfigError):
                            found.append((own, read_schedule(value)))
            self._schedules[policy] = sorted(found, key=itemgetter(0))
        return self._schedules[policy]
