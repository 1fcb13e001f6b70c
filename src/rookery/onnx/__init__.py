"""ONNX export of policies: for Unity (`write_unity`), for any program (`write_generic`), and checks of ONNX files."""

from typing import Any

from rookery.core.plugins import EXPORTERS
from rookery.onnx.check import check_file
from rookery.onnx.generic import write_generic
from rookery.onnx.graph import ExportError
from rookery.onnx.written import Written

__all__ = ["ExportError", "Written", "check_file", "write_generic"]


def __getattr__(name: str) -> Any:
    if name != "write_unity":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return EXPORTERS.load("unity").write
