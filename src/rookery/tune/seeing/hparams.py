"""An experiment as the HParams page of TensorBoard shows it: parameters beside metrics, a line a trial.

The page reads three messages: the experiment, in its folder, says which parameters and metrics there are; in the folder
of each trial the start of its session says what was chosen, and the end how it ended. Repeats over seeds are one group,
of which the page shows the mean. A trial appears when it is over: readers of an event file never go back to an older
one, so a file beside that of a training at work would hide what comes after it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.core.files import FileError
from rookery.report.metrics_file import read_rows
from rookery.report.tensorboard import TensorBoard
from rookery.tune.seeing.words import short_names, told
from rookery.tune.trial import Status, Trial, is_number

PLUGIN = "hparams"
EXPERIMENT = "_hparams_/experiment"
START = "_hparams_/session_start_info"
END = "_hparams_/session_end_info"


def write_experiment(folder: Path, space: Mapping[str, Mapping[str, Any]], metrics: Iterable[str]) -> None:
    """Writes which parameters and metrics there are.

    Args:
        folder: Of the experiment.
        space: Descriptions of domains by path, ``{"algorithm.lr": {"loguniform": [0.0001, 0.01]}}``.
        metrics: Columns of `metrics.jsonl` to show.

    Raises:
        FileError: If the disk is full.
    """
    from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    message = Experiment(time_created_secs=time.time())
    for path, name in short_names(space).items():
        info = HParamInfo(name=name, description=path)
        values = _values(space[path])
        if _is_numeric(space[path]):
            info.type = DataType.DATA_TYPE_FLOAT64
            for value in values or ():
                info.domain_discrete.values.add(number_value=value)
            if values is None:
                ((kind, bounds),) = space[path].items()
                if "uniform" in kind or "randint" in kind:
                    info.domain_interval.min_value, info.domain_interval.max_value = bounds[:2]
        else:
            info.type = DataType.DATA_TYPE_STRING
            for value in values or ():
                info.domain_discrete.values.add(string_value=told(value))
        message.hparam_infos.append(info)
    for metric in metrics:
        message.metric_infos.append(MetricInfo(name=MetricName(tag=metric.replace(".", "/")), display_name=metric))
    _write(folder, {EXPERIMENT: HParamsPluginData(version=0, experiment=message)})


def write_session(trial: Trial, space: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes what a trial tried and how it ended; and its rows, if it is no training, which has written them itself.

    Args:
        trial: One that is over.
        space: Descriptions of domains by path.

    Raises:
        FileError: If the disk is full.
    """
    from tensorboard.plugins.hparams.api_pb2 import Status as SessionStatus
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    made = trial.folder / "params.json"
    start = SessionStartInfo(group_name=f"{trial.number:05d}", start_time_secs=made.stat().st_mtime)
    for path, name in short_names(space).items():
        if path not in trial.params:
            continue
        value = trial.params[path]
        if _is_numeric(space[path]) and is_number(value):
            start.hparams[name].number_value = value
        else:
            start.hparams[name].string_value = told(value)
    failed = trial.status is Status.ERROR
    status = SessionStatus.STATUS_FAILURE if failed else SessionStatus.STATUS_SUCCESS
    end = SessionEndInfo(status=status, end_time_secs=time.time())
    rows = [] if any(trial.folder.glob("events.out.tfevents.*")) else read_rows(trial.folder)
    messages = {
        START: HParamsPluginData(version=0, session_start_info=start),
        END: HParamsPluginData(version=0, session_end_info=end),
    }
    _write(trial.folder, messages, rows)


def _values(description: Mapping[str, Any]) -> Sequence[Any] | None:
    """The values of a choice or a grid; None for other domains."""
    ((kind, arguments),) = description.items()
    return arguments if kind in ("choice", "grid_search") else None


def _is_numeric(description: Mapping[str, Any]) -> bool:
    """Whether all values of a domain are numbers."""
    values = _values(description)
    return "sample_from" not in description if values is None else all(map(is_number, values))


def _write(folder: Path, messages: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> None:
    try:
        board = TensorBoard(folder)
        for tag, message in messages.items():
            board.add_plugin_data(PLUGIN, tag, message.SerializeToString())
        for row in rows:
            board.add_row({**row, "env_steps": row.get("env_steps", row["iteration"])})
        board.close()
    except OSError as error:
        raise FileError(f"{folder}: TensorBoard's file cannot be written: {error.strerror}") from None
