"""Tests of an experiment on TensorBoard's HParams page, read by TensorBoard itself."""

import pytest
from experiments import Experiment
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.plugins.hparams.backend_context import Context
from tensorboard.plugins.hparams.list_session_groups import Handler

from rookery import tune
from rookery.report.tensorboard import write_experiment, write_session
from rookery.tune.analysis import Analysis

SPACE = {
    "algorithm.lr": {"loguniform": [0.0001, 0.01]},
    "algorithm.model.hidden": {"grid_search": [[64, 64], [128, 128]]},
    "sampling.num_envs": {"choice": [8, 16]},
}


@pytest.fixture
def written(tmp_path):
    """Two suggestions with two seeds each; the last trial fails."""
    made = Experiment(tmp_path, SPACE, repeats=2)
    for number, (lr, hidden) in enumerate([(0.0005, [64, 64]), (0.003, [128, 128])]):
        params = {"algorithm.lr": lr, "algorithm.model.hidden": hidden, "sampling.num_envs": 8}
        for repeat in range(2):
            made.whole(f"{number:05d}-{repeat}", params, [1.0, 10.0 * number + repeat])
    made.end("00001-1", "ERROR", "ValueError")
    made.journal.close()
    write_experiment(tmp_path, SPACE, ["score"])
    for result in Analysis(tmp_path).trials:
        write_session(result.folder, result.number, result.params, result.status == "ERROR", SPACE)
    return tmp_path


def plugin_data(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return events.PluginTagToContent("hparams")


def test_the_experiment_says_what_can_vary_and_what_is_measured(written):
    content = plugin_data(written)[metadata.EXPERIMENT_TAG]
    experiment = metadata.parse_experiment_plugin_data(content)
    infos = {info.name: info for info in experiment.hparam_infos}
    assert list(infos) == ["lr", "hidden", "num_envs"]
    assert (infos["lr"].domain_interval.min_value, infos["lr"].domain_interval.max_value) == (0.0001, 0.01)
    assert [value.string_value for value in infos["hidden"].domain_discrete.values] == ["64,64", "128,128"]
    assert [value.number_value for value in infos["num_envs"].domain_discrete.values] == [8.0, 16.0]
    assert [info.name.tag for info in experiment.metric_infos] == ["score"]


def test_a_trial_says_what_was_chosen_and_how_it_ended(written):
    data = plugin_data(written / "trials" / "00001-1")
    start = metadata.parse_session_start_info_plugin_data(data[metadata.SESSION_START_INFO_TAG])
    end = metadata.parse_session_end_info_plugin_data(data[metadata.SESSION_END_INFO_TAG])
    assert (start.hparams["lr"].number_value, start.hparams["hidden"].string_value) == (0.003, "128,128")
    assert 0 < start.start_time_secs <= end.end_time_secs
    assert end.status == api_pb2.STATUS_FAILURE


def test_the_page_of_tensorboard_shows_the_mean_over_seeds(written):
    events = EventMultiplexer().AddRunsFromDirectory(str(written))
    events.Reload()
    context = Context(TBContext(data_provider=MultiplexerDataProvider(events, str(written))))
    metric = api_pb2.MetricInfo(name=api_pb2.MetricName(tag="score"))
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0,
        slice_size=10,
        aggregation_type=api_pb2.AGGREGATION_AVG,
        allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE],
        col_params=[api_pb2.ColParams(metric=metric.name)],
    )
    response = Handler(RequestContext(), context, "", request).run()
    shown = {group.name: group for group in response.session_groups}
    assert {name: group.hparams["lr"].number_value for name, group in shown.items()} == {
        "00000": 0.0005,
        "00001": 0.003,
    }
    assert {name: group.metric_values[0].value for name, group in shown.items()} == {"00000": 0.5, "00001": 10.5}
    assert [len(group.sessions) for group in shown.values()] == [2, 2]


def test_rows_of_a_training_are_not_written_again(tmp_path):
    made = Experiment(tmp_path, {"lr": {"uniform": [0, 1]}})
    made.whole("00000", {"lr": 0.5}, [1.0])
    (made.folders["00000"] / "events.out.tfevents.1").touch()
    write_session(made.folders["00000"], 0, {"lr": 0.5}, False, {"lr": {"uniform": [0, 1]}})
    events = EventAccumulator(str(made.folders["00000"]))
    events.Reload()
    assert events.Tags()["scalars"] == []


def test_every_trial_that_is_over_is_there_after_a_run(tmp_path):
    def hill(config):
        if config["x"] == 3:
            raise ValueError("too steep")
        yield {"height": config["x"]}

    analysis = tune.run(trainable=hill, config={"x": tune.grid_search([1, 2, 3])}, metric="height",
                        folder=tmp_path / "hill", place="here", console="quiet")  # fmt: skip
    content = plugin_data(tmp_path / "hill")[metadata.EXPERIMENT_TAG]
    assert [info.name for info in metadata.parse_experiment_plugin_data(content).hparam_infos] == ["x"]
    ends = [plugin_data(trial.folder)[metadata.SESSION_END_INFO_TAG] for trial in analysis.trials]
    statuses = [metadata.parse_session_end_info_plugin_data(end).status for end in ends]
    assert statuses == [api_pb2.STATUS_SUCCESS, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE]
