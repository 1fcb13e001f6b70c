"""Policies as ONNX files: for Unity (`write_unity`), for anybody (`write_generic`), and what is wrong with one."""

from rookery.onnx.check import check_file
from rookery.onnx.generic import write_generic
from rookery.onnx.graph import ExportError
from rookery.onnx.unity import write_unity
from rookery.onnx.written import Written

__all__ = ["ExportError", "Written", "check_file", "write_generic", "write_unity"]
