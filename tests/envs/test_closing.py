"""Environments whose `close` raises, and those that raise without a text."""

from __future__ import annotations

import pytest

from rookery import PPOConfig, Trainer
from rookery.core.errors import EnvError
from rookery.core.process.tracebacks import described, own_traceback
from rookery.envs.make import make_env
from small_envs import Bad

KEPT = pytest.mark.regression(
    "data lost", "An environment whose close() raises is a warning, and the run's results stay"
)
NO_TEXT = pytest.mark.regression("unclear error", "An error of an environment without a text shows its type and line")

HOW = [("serial", 0), ("threads", 1), ("processes", 1)]


@KEPT
@pytest.mark.parametrize(("how", "helpers"), HOW)
def test_a_close_that_raises_is_a_warning_with_and_without_helpers(how, helpers):
    env = make_env("small_envs:Bad", {"what": "close"}, (), 4, how, helpers=helpers)
    with pytest.warns(RuntimeWarning, match=r"Bad: close\(\) raised RuntimeError: it does not close") as found:
        env.close()
    assert len(found) == 4 and found[0].filename.endswith("small_envs.py")


@KEPT
def test_a_training_ends_as_ever_and_copies_of_evaluations_are_closed(tmp_path):
    settings = {
        "env.config.what": "close",
        "evaluation.every": 1,
        "evaluation.episodes": 1,
        "env.implementation": "serial",
    }
    with pytest.warns(RuntimeWarning, match=r"it does not close"):
        with Trainer(
            Bad, PPOConfig(fragment_length=8), num_envs=2, config=settings, run_dir=tmp_path / "run"
        ) as trainer:
            result = trainer.train({"iterations": 1})
    assert result.evaluation is not None and list((tmp_path / "run" / "checkpoints").iterdir())


@NO_TEXT
@pytest.mark.parametrize(
    ("what", "told"), [("step", "ValueError at "), ("assert", "AssertionError at "), ("reset", "ValueError at ")]
)
def test_an_error_without_a_text_is_told_with_its_line(what, told):
    with pytest.raises(EnvError, match=rf"raised {told}.*small_envs.py:\d+ \(\w+ ") as caught:
        with Trainer(
            Bad, "ppo", num_envs=1, config={"env.config.what": what, "env.implementation": "serial"}
        ) as trainer:
            trainer.train({"iterations": 1})
    assert "small_envs.py" in own_traceback(caught.value.__cause__)


def test_errors_in_one_line():
    assert described(ValueError("too much")) == "ValueError: too much"
    assert described(ValueError()) == "ValueError: "  # one that was never raised has no line
