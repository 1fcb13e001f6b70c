"""`Exporter`: an export format of policies. The table is `EXPORTERS` of `core/plugins.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rookery.onnx.check import OnnxRules


@dataclass(frozen=True)
class Exporter:
    """An export format of policies.

    Attributes:
        write: Writes a policy: ``write(policy, path, observations=..., **options)``, with observations of the run,
            ``[N, ...]`` by leaf path, or None. It returns a `Written`, or None.
        suffix: Suffix of its files, such as ``.onnx``.
        options: Names of further arguments of `write` that ``rookery export`` passes on: ``opset``, ``version``.
        rules: Rules by which its files are checked if they are ONNX files; None = other files.
    """

    write: Callable[..., Any]
    suffix: str
    options: tuple[str, ...] = ()
    rules: OnnxRules | None = None
