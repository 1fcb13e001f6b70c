"""Environments in a C file or a library, named by its path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rookery.envs.native.c_env import c_env_of, c_name, is_c_file
from rookery.envs.schemes import EnvScheme


class CFiles(EnvScheme):
    """Paths of C files and of libraries."""

    def matches(self, name: str) -> bool:
        """See `EnvScheme.matches`."""
        return is_c_file(name)

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        return c_env_of(name)

    def short_name(self, name: str) -> str:
        """See `EnvScheme.short_name`."""
        return c_name(name)

    def code_of(self, name: str) -> str:
        """See `EnvScheme.code_of`."""
        return os.path.abspath(name)

    def file_in(self, name: str) -> str:
        """See `EnvScheme.file_in`."""
        return name

    def has_file(self, name: str) -> bool:
        """See `EnvScheme.has_file`."""
        return Path(name).is_file()


C_FILES = CFiles()
