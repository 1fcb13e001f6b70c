"""`Exporter`: a format that policies are exported in. The table is `EXPORTERS` of `core/plugins.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rookery.onnx.check import OnnxRules


@dataclass(frozen=True)
class Exporter:
    """A format that policies are exported in.

    Attributes:
        write: Writes a policy: ``write(policy, path, observations=..., **options)``, where observations are some of the
            run, ``[N, ...]`` by leaf path, or None. It returns a `Written`, or None if it has nothing to tell.
        suffix: End of the names of its files, ``.onnx``.
        options: Names of further arguments of `write` that ``rookery export`` passes on: ``opset``, ``version``.
        rules: Rules by which its files are checked if they are ONNX files; None = they are something else.
    """

    write: Callable[..., Any]
    suffix: str
    options: tuple[str, ...] = ()
    rules: OnnxRules | None = None
