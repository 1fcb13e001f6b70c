"""Loggers with the interface of ML-Agents' `logging_util`."""

from __future__ import annotations

import logging

CRITICAL, FATAL, ERROR, WARNING = logging.CRITICAL, logging.FATAL, logging.ERROR, logging.WARNING
INFO, DEBUG, NOTSET = logging.INFO, logging.DEBUG, logging.NOTSET

ROOT = "rookery_mlagents"
"""Parent logger of this package."""


def get_logger(name: str) -> logging.Logger:
    return logging.getLogger(name)


def set_log_level(log_level: int) -> None:
    logging.getLogger(ROOT).setLevel(log_level)
