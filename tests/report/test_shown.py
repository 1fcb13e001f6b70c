"""`repr` and tables of trainers, results and experiments; progress in a notebook."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from rookery import ConfigError, PPOConfig, Trainer
from rookery.core.process.notebook import in_notebook
from rookery.report.console import LiveReporter, NotebookReporter, PlainReporter, Reporter, reporter
from rookery.report.results import EvaluationResult, IterationResult, PolicyResult, PolicyReturn
from rookery.report.shown import MOST_ROWS, ShownAsRows, html_table

HOSTILE = "<script>alert('x')</script>&\"<b>"


class HTML:
    def __init__(self, data):
        self.data = data


@pytest.fixture
def notebook(monkeypatch):
    """Tables that the kernel of a notebook has shown; IPython and ipykernel are stand-ins."""
    shown = []

    def display(html, display_id):
        shown.append(html.data)
        return SimpleNamespace(update=lambda html: shown.append(html.data))

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display, HTML=HTML))
    return shown


def tiny(**changes):
    return Trainer("CartPole-v1", PPOConfig(fragment_length=8, epochs=1), num_envs=2, seed=1, **changes)


def evaluation(**policies):
    return EvaluationResult(9.5, (8.0, 11.0), 1.0, 20.0, 9.5, 20, {}, policies, 640, True, tuple(map(float, range(20))))


def iteration(**policies):
    return IterationResult(
        iteration=3, env_steps=1500, episodes=30, return_mean=None, return_min=None, return_max=None, length_mean=None,
        running_length=5.0, agents={}, policies=policies, evaluation=evaluation(), seconds=2.0, steps_per_second=750.0,
        exact=True,
    )  # fmt: skip


def test_a_trainer_and_its_results_have_a_line_each():
    with tiny() as trainer:
        assert repr(trainer).startswith("<Trainer: env CartPole-v1")
        assert "policy main PPO, seed 1, iteration 0, env steps 0" in repr(trainer)
        result = trainer.train_iteration()
        assert f"iteration 1, env steps {result.env_steps}" in repr(trainer)
        assert "<td" in trainer._repr_html_() and "CartPole-v1" in trainer._repr_html_()
    one = iteration(main=PolicyResult(None, 30, 1500, 64, 0, {"kl": 0.0123456}))
    assert repr(one) == "<IterationResult: iteration 3, env steps 1,500, episodes 30, evaluation 9.50, seconds 2.00>"
    assert '<td style="text-align:right">0.01235</td>' in one._repr_html_()
    assert repr(evaluation()) == (
        "<EvaluationResult: return 9.50, 95 % interval 8.00 to 11.00, episodes 20, length 9.50, env steps 640>"
    )


def test_names_of_others_are_text_and_no_markup():
    result = iteration(**{HOSTILE: PolicyResult(None, 1, 1, 1, 0, {HOSTILE: 1.0}), "b": PolicyResult(None, 1, 1, 1, 0)})
    measured = evaluation(**{HOSTILE: PolicyReturn(1.0, 1), "b": PolicyReturn(1.0, 1)})
    for html in (result._repr_html_(), measured._repr_html_(), html_table(HOSTILE, [[HOSTILE]], [HOSTILE])):
        assert "&lt;script&gt;" in html
        assert "<script" not in html and "<b>" not in html and "alert('" not in html


class Trials(ShownAsRows):
    def __init__(self, rows):
        self._rows = rows

    def __repr__(self):
        return f"<experiment {HOSTILE}>"

    def rows(self):
        return self._rows


def test_an_experiment_is_a_table_of_its_trials():
    html = Trials(
        [{"trial": "00000", "score": 1.5, "config/algorithm.lr": 1e-3, "policies/main/kl": 1.0},
         {"trial": "00001", "score": None, "config/algorithm.lr": HOSTILE, "error": HOSTILE}]
    )._repr_html_()  # fmt: skip
    assert "<thead><tr><th>trial</th><th>score</th><th>algorithm.lr</th><th>error</th></tr></thead>" in html
    assert "<script" not in html and ">-</td>" in html
    assert f"and {7} more" in Trials([{"trial": str(n)} for n in range(MOST_ROWS + 7)])._repr_html_()


def test_a_notebook_shows_progress_by_default_and_a_program_does_not(notebook, capsys):
    assert in_notebook()
    with tiny() as trainer:
        assert type(trainer._reporter) is NotebookReporter
        last = trainer.train({"env_steps": 100})
    assert "CartPole-v1" in capsys.readouterr().out
    assert "the first one" in notebook[0] and f"{last.env_steps} of 100 (100 %)" in notebook[-1]
    with tiny(console="quiet") as trainer:
        assert type(trainer._reporter) is Reporter
    with tiny(verbose=False) as trainer:
        assert type(trainer._reporter) is Reporter


def test_verbose_shows_progress_in_a_program():
    assert not in_notebook()
    with tiny() as trainer:
        assert type(trainer._reporter) is Reporter
    with tiny(verbose=True) as trainer:
        assert type(trainer._reporter) is PlainReporter
    with pytest.raises(ConfigError, match="verbose = True: console is given too"):
        tiny(verbose=True, console="live")


def test_ipython_at_a_terminal_is_no_notebook(notebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: object()))
    assert not in_notebook()
    assert type(reporter("live")) is LiveReporter
