"""Loggers of a trial's results, and the classes that scripts derive from.

- params.json: the configuration
- result.json: a line of JSON for each result
- progress.csv: a row for each result, nested names joined with ``/``
- events.out.tfevents...: TensorBoard, tags ``ray/tune/...``, over ``timesteps_total``
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping, Sequence
from io import StringIO
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from rookery_rllib.base import nested_dicts
from rookery_rllib.trainer.trial.result_keys import (
    EXPR_PARAM_FILE,
    EXPR_PROGRESS_FILE,
    EXPR_RESULT_FILE,
    TIME_TOTAL_S,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
)

TAGS = "ray/tune/"
"""Prefix of TensorBoard tags."""

NOT_DRAWN = ("config", "pid", "timestamp", TIME_TOTAL_S, TRAINING_ITERATION)
"""Results that are not useful as a curve."""


def flatten_dict(dt: Mapping[Any, Any], delimiter: str = "/", prevent_delimiter: bool = False) -> dict[str, Any]:
    """Returns a flat dict whose keys are texts."""
    return {str(path): part for path, part in nested_dicts.flatten_dict(dt, delimiter, prevent_delimiter).items()}


class SafeFallbackEncoder(json.JSONEncoder):
    def __init__(self, nan_str: str = "null", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nan_str = nan_str

    def default(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if hasattr(value, "tolist") and callable(value.tolist):  # numpy's numbers, tensors
            return value.tolist()
        if isinstance(value, set | frozenset | tuple):
            return list(value)
        if isinstance(value, Mapping):
            return dict(value)
        return str(value)


def json_text(value: Any, **options: Any) -> str:
    """Writes a result or configuration as JSON; other keys than texts are written as printed."""
    return json.dumps(_with_text_keys(value), cls=SafeFallbackEncoder, **options)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _with_text_keys(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_keys(part) for part in value]
    return value


def pretty_print(result: Mapping[str, Any]) -> str:
    """Returns a result as indented lines of YAML, without its configuration and without None values."""
    from ruamel.yaml import YAML

    shown = {key: value for key, value in result.items() if value is not None and key not in ("config", "hist_stats")}
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.width = 4096
    text = StringIO()
    writer.dump(json.loads(json_text(shown, sort_keys=True)), text)
    return text.getvalue()


# --- one trial --------------------------------------------------------------------------------------------------------


class Logger:
    def __init__(self, config: Any, logdir: str, trial: Any = None) -> None:
        self.config, self.logdir, self.trial = config, logdir, trial
        self._init()

    def _init(self) -> None: ...

    def on_result(self, result: dict[str, Any]) -> None:
        raise NotImplementedError

    def update_config(self, config: Any) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class NoopLogger(Logger):
    def on_result(self, result: dict[str, Any]) -> None: ...


class JsonLogger(Logger):
    def _init(self) -> None:
        self.update_config(self.config)
        self.local_file = os.path.join(self.logdir, EXPR_RESULT_FILE)
        self.local_out = open(self.local_file, "a", encoding="utf-8")  # noqa: SIM115

    def on_result(self, result: dict[str, Any]) -> None:
        self.local_out.write(json_text(result) + "\n")
        self.local_out.flush()

    def update_config(self, config: Any) -> None:
        self.config = config
        text = json_text(config, indent=2, sort_keys=True)
        Path(self.logdir, EXPR_PARAM_FILE).write_text(text, encoding="utf-8")

    def flush(self) -> None:
        if not self.local_out.closed:
            self.local_out.flush()

    def close(self) -> None:
        self.local_out.close()


class CSVLogger(Logger):
    def _init(self) -> None:
        path = Path(self.logdir, EXPR_PROGRESS_FILE)
        columns = first_row(path)
        self._file = path.open("a", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._file, columns, extrasaction="ignore") if columns else None

    def on_result(self, result: dict[str, Any]) -> None:
        row = flatten_dict({key: value for key, value in result.items() if key != "config"})
        if self._writer is None:
            self._writer = csv.DictWriter(self._file, list(row), extrasaction="ignore")
            self._writer.writeheader()
        self._writer.writerow(row)
        self._file.flush()

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def first_row(path: Path) -> list[str]:
    """Returns the columns of a CSV file; none without a file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file), [])


class TBXLogger(Logger):
    def _init(self) -> None:
        from rookery.face import TensorBoard

        self._file_writer = TensorBoard(Path(self.logdir))

    def on_result(self, result: dict[str, Any]) -> None:
        """Writes the numbers of a result as scalars, and its lists of numbers as histograms."""
        step = int(result.get(TIMESTEPS_TOTAL) or result[TRAINING_ITERATION])
        flat = flatten_dict({key: value for key, value in result.items() if key not in NOT_DRAWN})
        row: dict[str, Any] = {}
        bars: dict[str, Any] = {}
        for name, value in flat.items():
            if isinstance(value, Number | np.number) and not isinstance(value, bool | complex):
                number = float(value)  # type: ignore[arg-type]
                if not math.isnan(number):
                    row[f"{TAGS}{name}"] = number
            elif isinstance(value, list | tuple | np.ndarray) and (numbers := finite_numbers(value)) is not None:
                bars[f"{TAGS}{name}"] = numbers
        self._file_writer.add_row(row, step)
        if bars:
            self._file_writer.add_histogram(bars, step)
        self._file_writer.flush()

    def flush(self) -> None:
        self._file_writer.flush()

    def close(self) -> None:
        self._file_writer.close()


def finite_numbers(values: Any) -> Any:
    """Returns the finite numbers of a list as an array ``[n]``; None for other values."""
    try:
        numbers = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return None
    numbers = numbers[np.isfinite(numbers)]
    return numbers if numbers.size else None


DEFAULT_LOGGERS = (JsonLogger, CSVLogger, TBXLogger)


class UnifiedLogger(Logger):
    def __init__(
        self, config: Any, logdir: str, trial: Any = None, loggers: Sequence[type[Logger]] | None = None
    ) -> None:
        self._classes = DEFAULT_LOGGERS if loggers is None else tuple(loggers)
        super().__init__(config, logdir, trial)

    def _init(self) -> None:
        self._loggers = [made(self.config, self.logdir, self.trial) for made in self._classes]

    def on_result(self, result: dict[str, Any]) -> None:
        for logger in self._loggers:
            logger.on_result(result)

    def update_config(self, config: Any) -> None:
        for logger in self._loggers:
            logger.update_config(config)

    def flush(self) -> None:
        for logger in self._loggers:
            logger.flush()

    def close(self) -> None:
        for logger in self._loggers:
            logger.close()
