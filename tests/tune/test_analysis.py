"""Tests of Analysis, which reads the folder of an experiment."""

import json
import sys

import pytest
from experiments import Experiment

from rookery import PPOConfig, Trainer
from rookery.core.errors import ConfigError
from rookery.tune.analysis import Analysis, fill_template
from rookery.tune.trial import Status


@pytest.fixture
def hill(tmp_path):
    """Three trials: one that fell again, one that rose late, one that failed."""
    space = {"lr": {"loguniform": [0.001, 1.0]}}
    made = Experiment(tmp_path / "hill", space, {"config": {**space, "n": 4}})
    made.whole("00000", {"lr": 0.1}, [1.0, 9.0, 2.0])
    made.whole("00001", {"lr": 0.2}, [None, 3.0, 4.0])
    made.trial("00002", {"lr": 0.9})
    made.begin("00002")
    made.row("00002", 1, 0.5, loss=9.5)
    made.fail("00002", "ValueError: too steep")
    made.end("00002", "ERROR", "ValueError: too steep")
    made.record("exhausted")
    made.journal.close()
    return made


def test_the_scope_decides_which_trial_is_the_best(hill):
    analysis = Analysis(hill.folder)
    assert (analysis.best().name, analysis.best().score) == ("00001", 4.0)  # the last rows: 2, 4, 0.5
    assert (analysis.best(scope="best").name, analysis.best(scope="best").row["iteration"]) == ("00000", 2)
    assert analysis.best(scope="mean").score == 4.0  # (1 + 9 + 2) / 3, and (3 + 4) / 2 = 3.5
    assert analysis.best(mode="min").name == "00002"
    assert Analysis(hill.folder, scope="best").best().name == "00000"


def test_any_column_of_the_rows_can_judge_if_it_is_said_whether_more_is_better(hill):
    analysis = Analysis(hill.folder)
    assert analysis.best("loss", "min").score == 7.0  # 10 - 3, which the journal does not hold
    assert analysis.best("loss", "max").name == "00002"
    assert Analysis(hill.folder, "loss", "min").metrics == ("loss",)
    with pytest.raises(ConfigError, match="state whether more is better"):
        analysis.best("loss")
    with pytest.raises(ConfigError, match="did you mean 'loss'"):
        analysis.best("lose", "min")
    with pytest.raises(ConfigError, match="scope = 'lost': must be one of last, best"):
        analysis.best(scope="lost")


def test_a_trial_tells_its_life(hill):
    analysis = Analysis(hill.folder)
    failed = analysis["00002"]
    assert (failed.status, failed.error, failed.iteration) == (Status.ERROR, "ValueError: too steep", 1)
    assert failed.row == {"iteration": 1, "seconds": 2.0, "env_steps": 100, "score": 0.5, "loss": 9.5}
    assert failed.config == {"lr": 0.9, "n": 4}  # what trials have in common, with the domain replaced
    assert analysis["00001"].row["loss"] == 7.0
    assert analysis.is_finished and not analysis.is_running
    with pytest.raises(ConfigError, match="there is no trial '00009'"):
        analysis["00009"]


def test_the_checkpoint_is_the_last_or_the_one_nearest_to_the_best_row(hill):
    for iteration in (1, 3):
        hill.checkpoint("00000", iteration)
    analysis = Analysis(hill.folder)
    assert analysis["00000"].checkpoint.name == "000003"
    assert analysis.best(scope="best").checkpoint.name == "000003"  # iteration 2 is as near to both
    hill.checkpoint("00000", 2)
    assert Analysis(hill.folder).best(scope="best").checkpoint.name == "000002"
    assert analysis["00001"].checkpoint is None
    with pytest.raises(ConfigError, match="has no checkpoint yet"):
        analysis["00001"].load()
    with pytest.raises(ConfigError, match="is not a checkpoint of a Trainer"):
        analysis["00000"].load()


def test_suggestions_are_ordered_by_their_mean_over_seeds(tmp_path):
    made = Experiment(tmp_path / "seeds", repeats=2)
    for name, lr, score in (("00000-0", 1, 10.0), ("00000-1", 1, 0.0), ("00001-0", 2, 6.0), ("00001-1", 2, 8.0)):
        made.whole(name, {"lr": lr}, [score], seed=int(name[-1]))
    made.whole("00002-0", {"lr": 3}, [99.0])
    made.trial("00002-1", {"lr": 3})
    analysis = Analysis(made.folder)
    assert [(one.number, one.score) for one in analysis.suggestions()] == [(1, 7.0), (0, 5.0), (2, 99.0)]
    low, high = analysis.suggestions()[0].intervals[0]
    assert (low, high) == pytest.approx((7 - 12.706204736, 7 + 12.706204736))  # deviation sqrt(2), over sqrt(2)
    assert analysis.best().name == "00001-1"  # and not the lucky 10 of 00000, nor 99 of a suggestion not yet finished


def test_of_many_aims_the_pareto_front_is_told(tmp_path):
    made = Experiment(tmp_path / "aims", metric=["score", "loss"], mode=["max", "min"])
    for number, (score, loss) in enumerate([(1.0, 1.0), (2.0, 2.0), (1.5, 3.0), (2.0, 2.5), (3.0, 9.0)]):
        name = f"{number:05d}"
        made.trial(name, {"x": number})
        made.begin(name)
        made.record("result", trial=name, iteration=1, row={"iteration": 1, "score": score, "loss": loss}, actions={},
                    reason="")  # fmt: skip
    front = Analysis(made.folder).pareto()
    assert sorted(one.number for one in front) == [0, 1, 4]
    assert next(one for one in front if one.number == 1).values == (2.0, 2.0)


def test_an_experiment_without_a_number_says_so(tmp_path):
    made = Experiment(tmp_path / "young")
    assert len(Analysis(made.folder)) == 0
    made.trial("00000", {"lr": 1})
    made.begin("00000")
    analysis = Analysis(made.folder)
    assert analysis.is_running and not analysis.is_finished  # its journal is open here
    with pytest.raises(ConfigError, match="no trial has a number of score yet"):
        analysis.best()
    with pytest.raises(ConfigError, match="no iteration is over yet"):
        analysis.best("los", "min")
    assert analysis.rows()[0]["status"] == "RUNNING"
    with pytest.raises(ConfigError, match="is not the folder of an experiment"):
        Analysis(tmp_path)


def test_an_experiment_that_was_killed_in_a_line_is_read_up_to_there(hill):
    journal = hill.folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"kind":"trial","tri')
    with (hill.folder / "trials/00000/metrics.jsonl").open("a") as file:
        file.write('{"iteration": 4, "sco')
    analysis = Analysis(hill.folder)
    assert len(analysis) == 3
    assert len(analysis["00000"].rows) == 3


def test_a_clone_has_the_parameters_it_goes_on_with_and_knows_its_donors(tmp_path):
    made = Experiment(tmp_path / "pbt", scheduler={"name": "pbt", "time": "iteration"})
    for name in ("00000", "00001"):
        made.trial(name, {"lr": float(name)})
    made.begin("00000", "00001")
    made.row("00000", 1, 5.0)
    made.row("00001", 1, 7.0, actions={"00000": {"donor": "00001", "params": {"lr": 1.2}}})
    made.record("adopted", trial="00000", iteration=1)
    clone = Analysis(made.folder)["00000"]
    assert (clone.params, clone.parents, clone.status) == ({"lr": 1.2}, [(1, "00001")], Status.PENDING)


def test_rows_become_a_table_of_pandas(hill):
    pytest.importorskip("pandas")
    analysis = Analysis(hill.folder)
    table = analysis.dataframe()
    assert list(table["score"]) == [2.0, 4.0, 0.5]
    assert list(table["config/lr"]) == [0.1, 0.2, 0.9]
    assert table.loc["00002", "status"] == "ERROR"
    assert list(analysis.dataframe(scope="best")["loss"]) == [8.0, 7.0, 9.5]  # of the best rows
    assert list(analysis.trial_dataframes["00001"]["iteration"]) == [1, 2, 3]


def test_without_pandas_the_error_says_what_to_install(hill, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"pip install 'rookery-rl\[tune\]'"):
        Analysis(hill.folder).dataframe()


def test_parameters_are_put_in_place_at_any_depth():
    template = {"a": {"b": {"uniform": [0, 1]}, "c": 2}, "hidden": [{"choice": [8, 16]}, 64]}
    assert fill_template(template, {"a.b": 0.5, "hidden.0": 8, "new.x": 1}) == {
        "a": {"b": 0.5, "c": 2},
        "hidden": [8, 64],
        "new": {"x": 1},
    }
    assert template["hidden"][0] == {"choice": [8, 16]}


def test_the_best_training_is_loaded_with_its_settings_and_weights(tmp_path):
    made = Experiment(tmp_path / "pole", metric="return_mean")
    folder = made.trial("00000", {"algorithm.lr": 0.01})
    cfg = PPOConfig(fragment_length=8, epochs=1, lr=0.01)
    with Trainer("CartPole-v1", cfg, num_envs=2, seed=0, run_dir=folder) as trainer:
        trainer.train(stop={"iterations": 2})
        weights = {name: tensor.clone() for name, tensor in trainer.policies["main"].state_dict().items()}
    made.begin("00000")
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        kept = {"iteration": row["iteration"], "return_mean": row["return_mean"]}
        made.record("result", trial="00000", iteration=row["iteration"], row=kept, actions={}, reason="")
    analysis = Analysis(made.folder)
    best = analysis.best(mode="max")
    assert best.config["algorithm"]["lr"] == 0.01
    assert best.config["sampling"]["num_envs"] == 2
    assert best.checkpoint == folder / "checkpoints" / "000002"
    with best.load() as loaded:
        assert all((tensor == weights[name]).all() for name, tensor in loaded.policies["main"].state_dict().items())
    assert best.policy().state_dict().keys() == weights.keys()
