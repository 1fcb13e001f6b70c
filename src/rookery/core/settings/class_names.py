"""Names of settings classes: short names such as ``ppo``, import paths, or the classes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.settings.fields import Settings, object_name
from rookery.core.settings.hints import ALGORITHM_NAMES
from rookery.core.settings.layers import import_object


class ClassNames:
    """Table of the short names of config classes.

    Args:
        paths: Import path of a config class by short name.
    """

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = paths

    def spelled(self, name: Any) -> Any:
        """Returns a short name in its canonical spelling, regardless of case; other texts are returned unchanged."""
        if not isinstance(name, str) or ":" in name:
            return name
        return next((known for known in self.paths if known.lower() == name.lower()), name)

    def find(self, name: Any) -> tuple[type[Settings] | None, str]:
        """Returns the config class of a name, and a message if the name is wrong."""
        if isinstance(name, type) and issubclass(name, Settings):
            return name, ""
        if not isinstance(name, str) or not name:
            own = f":{getattr(name, '__name__', None)}Config"
            near = next((f"; did you mean {own[1:]}?" for path in self.paths.values() if path.endswith(own)), "")
            return None, f"must be a name or a class of settings{near}"
        if ":" not in name and name not in self.paths:
            if meant := ALGORITHM_NAMES.get(name.lower()):
                return None, f"no such name; {meant}"
            there = f"there are {', '.join(self.paths)}{nearest(name, list(self.paths))}"
            module, _, last = name.rpartition(".")
            other = "or give the import path of a settings class, my.module:MyConfig"
            return None, f"no such name; {there}; {f'write {module}:{last}' if module else other}"
        try:
            found = import_object(self.paths.get(name, name))
        except ConfigError as error:
            return None, str(error)
        if not (isinstance(found, type) and issubclass(found, Settings)):
            return None, "names no settings class"
        return found, ""

    def of(self, cls: type[Settings]) -> str:
        """Returns the short name of a class if it has one, else ``module:Name``."""
        path = object_name(cls)
        return next((name for name, known in self.paths.items() if known == path), path)
