"""An ONNX file, looked at: what is in it, and what is wrong with it by the rules of what it is for."""

from __future__ import annotations

from pathlib import Path

from rookery.core.errors import ConfigError, nearest
from rookery.core.plugins import EXPORTERS
from rookery.onnx.check import Look, look_into
from rookery.onnx.graph import require_onnx


def check_file(path: str | Path) -> list[str]:
    """Says what is wrong with an ONNX file, a sentence each; nothing if it can be used.

    A file with names of ML-Agents is checked as Unity's importer would, any other by running it alone.

    Raises:
        ConfigError: If the extra is not installed, or there is no such file.
    """
    return look_at(path).problems


def look_at(path: str | Path) -> Look:
    """Looks at an ONNX file; raises as `check_file`."""
    require_onnx()
    file = Path(path)
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        names = [other.name for other in file.parent.glob("*.onnx")] if file.parent.is_dir() else []
        raise ConfigError(f"{file}: there is no such file{nearest(file.name, names)}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    return look_into(content, [rules for name in EXPORTERS.own if (rules := EXPORTERS.load(name).rules)])
