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
from rookery.report.experiment import format_value, is_number, short_names
from rookery.report.metrics_file import read_rows
from rookery.report.tensorboard import TensorBoard

PLUGIN = "hparams"


def write_experiment(folder: Path, space: Mapping[str, Mapping[str, Any]], metrics: Iterable[str]) -> None:
    """Writes which parameters and metrics there are.

    Args:
        folder: Folder of the experiment.
        space: Descriptions of domains by path, ``{"algorithm.lr": {"loguniform": [0.0001, 0.01]}}``.
        metrics: Columns of `metrics.jsonl` to show.

    Raises:
        FileError: If the disk is full.
    """
    from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    message = Experiment(time_created_secs=time.time())
    for path, name in short_names(space).items():
        ((kind, arguments),) = space[path].items()
        numeric = _is_numeric(space[path])
        info = HParamInfo(name=name, description=path)
        info.type = DataType.DATA_TYPE_FLOAT64 if numeric else DataType.DATA_TYPE_STRING
        for value in arguments if kind in ("choice", "grid_search") else ():
            one = {"number_value": value} if numeric else {"string_value": format_value(value)}
            info.domain_discrete.values.add(**one)
        if "uniform" in kind or "randint" in kind:
            info.domain_interval.min_value, info.domain_interval.max_value = arguments[:2]
        message.hparam_infos.append(info)
    for metric in metrics:
        message.metric_infos.append(MetricInfo(name=MetricName(tag=metric.replace(".", "/")), display_name=metric))
    _write(folder, {"experiment": HParamsPluginData(version=0, experiment=message)})


def write_session(
    folder: Path, number: int, params: Mapping[str, Any], failed: bool, space: Mapping[str, Mapping[str, Any]]
) -> None:
    """Writes what a trial tried and how it ended; and its rows, if it is no training, which has written them itself.

    Args:
        folder: Folder of the trial, which is over.
        number: Number of its suggestion.
        params: Parameters by path.
        failed: Whether the trial failed.
        space: Descriptions of domains by path.

    Raises:
        FileError: If the disk is full.
    """
    from tensorboard.plugins.hparams.api_pb2 import Status
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    began = (folder / "params.json").stat().st_mtime
    start = SessionStartInfo(group_name=f"{number:05d}", start_time_secs=began)
    for path, name in short_names(space).items():
        if path in params:
            if _is_numeric(space[path]) and is_number(params[path]):
                start.hparams[name].number_value = params[path]
            else:
                start.hparams[name].string_value = format_value(params[path])
    status = Status.STATUS_FAILURE if failed else Status.STATUS_SUCCESS
    end = SessionEndInfo(status=status, end_time_secs=time.time())
    messages = {
        "session_start_info": HParamsPluginData(version=0, session_start_info=start),
        "session_end_info": HParamsPluginData(version=0, session_end_info=end),
    }
    _write(folder, messages, [] if any(folder.glob("events.out.tfevents.*")) else read_rows(folder))


def _is_numeric(description: Mapping[str, Any]) -> bool:
    """Whether all values of a domain are numbers."""
    ((kind, arguments),) = description.items()
    return all(map(is_number, arguments)) if kind in ("choice", "grid_search") else kind != "sample_from"


def _write(folder: Path, messages: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> None:
    try:
        board = TensorBoard(folder)
        for tag, message in messages.items():
            board.add_plugin_data(PLUGIN, f"_hparams_/{tag}", message.SerializeToString())
        for row in rows:
            board.add_row({**row, "env_steps": row.get("env_steps", row["iteration"])})
        board.close()
    except OSError as error:
        raise FileError(f"{folder}: TensorBoard's file cannot be written: {error.strerror}") from None
