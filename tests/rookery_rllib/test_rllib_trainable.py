"""Trainables of 2021: results, checkpoints with their markers and without pickles, functions that report."""

import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from messages import check_error
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.io.files import FileError
from rookery_rllib.trainer.trial import session
from rookery_rllib.trainer.trial.loggers import flatten_dict, pretty_print
from rookery_rllib.trainer.trial.trainable import Trainable, with_parameters, wrap_function


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    return tmp_path / "results"


class Counter(Trainable):
    def setup(self, config):
        self.count = config.get("start", 0)

    def step(self):
        self.count += 1
        return {"count": self.count, "timesteps_this_iter": 10, "episodes_this_iter": 2, "nested": {"a": 1}}

    def save_checkpoint(self, folder):
        path = os.path.join(folder, f"checkpoint-{self.iteration}")
        Path(path).write_text(str(self.count))
        return path

    def load_checkpoint(self, checkpoint):
        self.count = int(Path(checkpoint).read_text())


class Weights(Counter):
    def save_checkpoint(self, folder):
        return {"count": self.count, "array": np.arange(3.0), "tensor": torch.ones(2), "number": np.float32(0.5)}

    def load_checkpoint(self, checkpoint):
        self.count, self.loaded = checkpoint["count"], checkpoint


def test_a_result_has_the_keys_of_2021():
    counter = Counter({"start": 5})
    counter.train()
    result = counter.train()
    assert result["count"] == 7
    assert (result["training_iteration"], result["timesteps_total"], result["episodes_total"]) == (2, 20, 4)
    assert result["config"] == {"start": 5}
    assert result["done"] is False
    assert result["time_total_s"] >= result["time_this_iter_s"] > 0
    assert result["pid"] == os.getpid()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", result["date"])
    assert (counter.trial_name, counter.iteration, counter.training_iteration) == ("default", 2, 2)


def test_results_go_where_tune_result_dir_says(results):
    counter = Counter()
    counter.train()
    counter.train()
    counter.stop()
    assert Path(counter.logdir).parent == results
    lines = Path(counter.logdir, "result.json").read_text().splitlines()
    assert [json.loads(line)["count"] for line in lines] == [1, 2]
    rows = Path(counter.logdir, "progress.csv").read_text().splitlines()
    assert len(rows) == 3 and "nested/a" in rows[0].split(",")
    assert list(Path(counter.logdir).glob("events.out.tfevents.*"))


def test_tags_of_tensorboard_are_those_of_ray():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    counter = Counter()
    counter.train()
    counter.stop()
    events = EventAccumulator(counter.logdir)
    events.Reload()
    assert "ray/tune/nested/a" in events.Tags()["scalars"]
    assert events.Scalars("ray/tune/count")[0].step == 10


def test_a_checkpoint_looks_as_theirs():
    counter = Counter()
    for _ in range(31):
        counter.train()
    path = counter.save()
    assert path.endswith("checkpoint_000031/checkpoint-31")
    assert sorted(os.listdir(os.path.dirname(path))) == [
        ".is_checkpoint", "checkpoint-31", "checkpoint-31.tune_metadata"
    ]  # fmt: skip
    assert json.loads(Path(path + ".tune_metadata").read_text())["iteration"] == 31
    for place in (path, os.path.dirname(path)):
        other = Counter()
        other.restore(place)
        assert (other.count, other.iteration) == (31, 31)
        result = other.train()
        assert (result["timesteps_total"], result["iterations_since_restore"], result["training_iteration"]) == (
            320, 1, 32
        )  # fmt: skip


def test_a_dict_is_saved_without_a_pickle():
    weights = Weights()
    weights.train()
    path = weights.save()
    other = Weights()
    other.restore(path)
    assert other.count == 1
    np.testing.assert_array_equal(other.loaded["array"], np.arange(3.0))
    assert torch.equal(other.loaded["tensor"], torch.ones(2))
    assert other.loaded["number"] == 0.5
    assert other.loaded["tune_checkpoint_path"] == path


def test_objects_hold_a_whole_checkpoint():
    counter, other = Counter(), Counter()
    counter.train()
    other.restore_from_object(counter.save_to_object())
    assert (other.count, other.iteration) == (1, 1)
    with pytest.raises(ConfigError, match="save_to_object"):
        other.restore_from_object(pickle.dumps({"data": {}}))


def test_a_checkpoint_of_ray_itself_is_refused(tmp_path):
    folder = tmp_path / "checkpoint_000010"
    folder.mkdir()
    (folder / "checkpoint-10").write_bytes(pickle.dumps({"worker": b""}))
    (folder / "checkpoint-10.tune_metadata").write_bytes(pickle.dumps({"iteration": 10}))
    with pytest.raises(FileError, match=r"was written by Ray: a pickle.*Export the weights.*get_weights"):
        Counter().restore(str(folder / "checkpoint-10"))


def test_a_checkpoint_is_deleted_with_its_directory():
    counter = Counter()
    path = counter.save()
    counter.delete_checkpoint(path)
    assert not os.path.exists(os.path.dirname(path))


def test_buffered_training_ends_where_a_result_is_the_last():
    class Three(Counter):
        def step(self):
            return {**super().step(), "done": self.count == 3}

    assert [result["count"] for result in Three().train_buffered(60.0)] == [1, 2, 3]
    assert len(Three().train_buffered(60.0, max_buffer_length=2)) == 2
    assert len(Three().train_buffered(0.0)) == 1


def test_a_reset_begins_to_count_anew():
    class Resettable(Counter):
        def reset_config(self, new_config):
            self.count = new_config["start"]
            return True

    trainable = Resettable({"start": 1})
    trainable.train()
    assert trainable.reset({"start": 10})
    assert trainable.train()["count"] == 11
    assert trainable.iteration == 1
    assert not Counter().reset({})


def test_prints_go_to_files_too(capsys):
    class Loud(Counter):
        def step(self):
            print("hear me")
            return super().step()

    loud = Loud({"__stdout_file__": "out.txt"})
    loud.train()
    loud.stop()
    assert "hear me" in capsys.readouterr().out
    assert Path(loud.logdir, "out.txt").read_text() == "hear me\n"


# --- functions --------------------------------------------------------------------------------------------------------


def steps_of(trainable):
    results = [trainable.train()]
    while "__duplicate__" not in results[-1]:
        results.append(trainable.train())
    trainable.stop()
    return results[:-1]


def test_functions_report_yield_or_return():
    def reports(config):
        for i in range(3):
            session.report(value=config["base"] + i)

    def yields(config):
        for i in range(3):
            yield {"value": config["base"] + i}

    def returns(config):
        return {"value": config["base"]}

    def number(config):
        return 4.0

    def old(config, reporter):
        reporter(value=config["base"], mean_loss=2)

    values = [[result["value"] for result in steps_of(wrap_function(f)({"base": 10}))] for f in (reports, yields)]
    assert values == [[10, 11, 12], [10, 11, 12]]
    assert steps_of(wrap_function(returns)({"base": 1}))[0]["value"] == 1
    assert steps_of(wrap_function(number)({}))[0]["_metric"] == 4.0
    assert steps_of(wrap_function(old)({"base": 3}))[0]["neg_mean_loss"] == -2


def test_what_a_function_raises_is_raised():
    def wrong(config):
        session.report(value=1)
        raise ZeroDivisionError("mine")

    trainable = wrap_function(wrong)({})
    trainable.train()
    with pytest.raises(ZeroDivisionError, match="mine"):
        trainable.train()


def test_a_function_goes_on_from_its_checkpoint():
    def count(config, checkpoint_dir=None):
        begin = int(Path(checkpoint_dir, "at").read_text()) if checkpoint_dir else 0
        for i in range(begin, 4):
            with session.checkpoint_dir(step=i) as folder:
                Path(folder, "at").write_text(str(i + 1))
            session.report(at=i)

    first = wrap_function(count)({})
    assert first.train()["should_checkpoint"]
    first.train()
    kept, path = first.save_to_object(), first.save()
    first.stop()
    for restore in (lambda other: other.restore(path), lambda other: other.restore_from_object(kept)):
        other = wrap_function(count)({})
        restore(other)
        assert [result["at"] for result in steps_of(other)] == [2, 3]


def test_a_function_that_is_left_runs_its_last_lines():
    ended = []

    def lasting(config):
        try:
            while True:
                session.report(value=1)
        finally:
            ended.append(True)

    trainable = wrap_function(lasting)({})
    trainable.train()
    trainable.stop()
    assert ended == [True]


def test_parameters_reach_functions_and_classes():
    def function(config, data=None):
        session.report(total=sum(data) + config["x"])

    class Summing(Counter):
        def setup(self, config, data=None):
            super().setup(config)
            self.count = sum(data)

    assert steps_of(wrap_function(with_parameters(function, data=[1, 2]))({"x": 3}))[0]["total"] == 6
    assert with_parameters(Summing, data=[1, 2])({}).train()["count"] == 4


def test_reporting_where_nobody_listens_is_an_error():
    with pytest.raises(RookeryError, match="no trial runs here"):
        session.report(value=1)
    assert session.get_trial_id() is None


def test_results_print_as_yaml_without_the_config():
    shown = pretty_print({"b": np.float32(0.5), "a": {"c": [1, 2]}, "config": {"x": 1}, "none": None, "f": np.sum})
    assert shown.startswith("a:\n  c:\n  - 1\n  - 2\nb: 0.5\nf: ")
    assert "config" not in shown and "none" not in shown
    assert flatten_dict({"a": {"b": 1, "c": {}}}) == {"a/b": 1, "a/c": {}}


def saving(answer):
    """Saves a trainable whose `save_checkpoint` returns this."""
    return type("Odd", (Counter,), {"save_checkpoint": lambda self, folder: answer})().save()


MISTAKES = [
    (lambda: saving({"itself": Counter}), "ConfigError: return its path"),
    (lambda: saving("/elsewhere"), "ConfigError: must lie in the directory"),
    (lambda: Counter().restore("nowhere/checkpoint_000001/checkpoint-1"), "FileError: is not there"),
    (lambda: type("Old", (Trainable,), {"_train": dict})().train(), "ConfigError: rename it to Old.step"),
    (lambda: wrap_function(lambda config: None)({}).train(), "TuneError: has ended without a report"),
    (lambda: wrap_function(lambda a, b, c: None), "ConfigError: must take config"),
]


@pytest.mark.parametrize(("make", "expected"), MISTAKES)
def test_mistakes_in_trainables_are_named(make, expected):
    check_error(expected, make)
