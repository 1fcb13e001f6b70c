"""``rookery train --algo bc --replay DATA``: spaces come from the data; with an environment there is an evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from recorded import poles
from rookery import load_policy
from rookery.algorithms.names import ALGORITHMS
from rookery.core.settings.fields import fields_of
from rookery.core.settings.layers import import_object, yaml_layer
from rookery.models.team_heads import TeamActors, TeamQValues
from rookery.report.curves import curve_of, shared_title

SMALL = ("algorithm.model.hidden=[8]", "algorithm.batch_size=32", "algorithm.gradient_steps=40")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A few good episodes of CartPole."""
    return poles(tmp_path_factory.mktemp("data") / "poles", 4)


def clone(rookery, shown, *more, algo="bc"):
    return rookery("train", *more, "--algo", algo, "--replay", shown, "--seed", 3, "--plain", *SMALL)


@pytest.mark.parametrize("algo", ["bc", "marwil"])
def test_nothing_but_data_is_needed(rookery, shown, tmp_path, algo):
    code, out, err = clone(rookery, shown, algo=algo)
    assert code == 0, err
    assert "policy main learns by data of 2,000 decisions, not online" in out
    assert "learning from replay alone, nothing is played; seed 3\n" in out and "copies" not in out
    line = next(line for line in out.splitlines() if line.startswith("gradient steps "))
    assert line.startswith("gradient steps 40/40 (100 %) | bc loss ") and " gradient steps/s" in line
    assert "main        40 gradient steps on 2,000 decisions, loss " in out
    assert " on 500 decisions held out" in out and "evaluation" not in out
    run = tmp_path / "runs" / f"data-{algo}-s3"
    outcome = json.loads((run / "result.json").read_text())
    assert (outcome["evaluation"], outcome["stop_reason"]) == (None, "40 gradient steps are made")
    row = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["policies/main/validation_loss"] >= row["policies/main/best_validation_loss"] > 0
    assert row["env_steps"] == 0


def test_with_an_environment_it_is_evaluated(rookery, shown, tmp_path):
    code, out, err = clone(rookery, shown, "CartPole-v1", "--evaluate", 2)
    assert code == 0, err
    assert ", 2 episodes\n" in out and (tmp_path / "runs" / "CartPole-v1-bc-s3").is_dir()


def test_it_can_be_measured_and_go_on_afterwards(rookery, shown, tmp_path):
    assert clone(rookery, shown)[0] == 0
    run = "data-bc-s3"
    code, out, _ = rookery("evaluate", run, "--env", "CartPole-v1", "--episodes", 2)
    assert code == 0 and "2 episodes, most likely actions" in out
    code, _, err = rookery("evaluate", run)
    assert code == 2 and "has no environment to evaluate in: name one, as in rookery evaluate RUN --env" in err
    code, _, err = rookery("resume", run)
    assert code == 2 and "all gradient steps of the run are made; make N more with rookery resume" in err
    code, out, err = rookery("resume", run, "algorithm.gradient_steps=60", "--quiet")
    assert code == 0 and "main        60 gradient steps on 2,000 decisions" in out, err
    code, out, _ = rookery("learn", run, "--gradient-steps", 5)
    assert code == 0 and "65 gradient steps so far, 2,000 decisions in replay" in out


@pytest.mark.parametrize("algo", ["bc", "awac"])
def test_more_gradient_steps_are_those_of_one_long_run(rookery, shown, tmp_path, algo):
    small = ("algorithm.model.hidden=[8]", "algorithm.batch_size=32")
    words = ("train", "--algo", algo, "--replay", shown, "--seed", 3, "--quiet", *small)
    assert rookery(*words, "--gradient-steps", 50, "--run-id", "long")[0] == 0
    assert rookery(*words, "--gradient-steps", 30, "--run-id", "short")[0] == 0
    code, out, err = rookery("resume", "short", "--gradient-steps", 20, "--quiet")
    assert code == 0 and "main        50 gradient steps on 2,000 decisions" in out, err
    weights = [load_policy(tmp_path / "runs" / name).state_dict() for name in ("long", "short")]
    assert all(torch.equal(one, other) for one, other in zip(*map(dict.values, weights), strict=True))
    told = rookery("explain", "short", "algorithm.gradient_steps")[1]
    assert "command line, --gradient-steps 20" in told


def test_more_gradient_steps_are_for_runs_on_data(rookery):
    assert rookery("train", "CartPole-v1", "--run-id", "player", "--stop", "iterations=1", "--evaluate", 0)[0] == 0
    code, _, err = rookery("resume", "player", "--gradient-steps", 5)
    assert code == 2 and "--gradient-steps is for runs that learn from data alone, but" in err
    assert "continue with --stop env_steps=N" in err


def test_what_is_missing_is_told(rookery, shown, tmp_path):
    code, _, err = rookery("train", "--algo", "bc")
    assert code == 2 and "policies.main learns from data, but none is given: set --replay PATH" in err
    code, _, err = rookery("train", "--algo", "bc", "--replay", tmp_path / "nowhere")
    assert code == 2 and "nowhere" in err
    folder = Path(shown).parent
    near, far = folder / "poels", folder.parent / "nowhere" / "poles"
    code, _, err = rookery("train", "--algo", "bc", "--replay", near)
    assert code == 2 and f"{near}: there is no such run or checkpoint; did you mean {shown}?" in err
    code, _, err = rookery("train", "--algo", "bc", "--replay", far)
    assert code == 2 and "did you mean" not in err
    code, _, err = rookery("train", "--algo", "bc", "--replay", folder)
    assert code == 2 and f"is no run and no replay directory; there are {shown} in it" in err
    code, _, err = rookery("replay", "show", near)
    assert code == 2 and f"there is no such run or replay directory; did you mean {shown}?" in err
    code, _, err = rookery("train", "--algo", "ppo")
    assert code == 2 and "the environment is missing" in err
    code, _, err = clone(rookery, shown, "Pendulum-v1")
    assert code == 2 and "this replay buffer does not fit: it holds observations" in err
    assert not (tmp_path / "runs").exists(), "what could not be made leaves no folder"


def test_tensorboard_draws_over_gradient_steps_until_something_is_played(rookery, shown, tmp_path):
    code, out, err = clone(rookery, shown, algo="iql")
    assert code == 0 and "policy main learns by data, and online after that: 1 gradient step a decision" in out, err
    run = tmp_path / "runs" / "data-iql-s3"
    for words in (
        ["--gradient-steps", 10],
        ["--env", "CartPole-v1", "--stop", "env_steps=20"],
        ["--stop", "env_steps=40"],
    ):
        code, _, err = rookery("resume", run, *words, "--plain", "--evaluate", 0)
        assert code == 0, err
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("policies/main/gradient_steps")]
    assert found == [(40, 40), (50, 50), (74, 74), (90, 90)]  # copies of 8, and a gradient step for each decision


def test_a_curve_of_data_alone_says_so(rookery, shown, tmp_path):
    clone(rookery, shown)
    rows, config = ([{"policies/main/bc_loss": 1.0, "policies/main/gradient_steps": 40}], yaml_layer(
        tmp_path / "runs" / "data-bc-s3" / "config.yaml").values)  # fmt: skip
    curve = curve_of(tmp_path, rows, config, "policies/main/bc_loss", "gradient_steps")
    assert (curve.x, shared_title([curve])) == ([40.0], "data, bc")


def test_what_has_no_use_for_data_names_what_has(rookery, shown):
    code, _, err = rookery("train", "CartPole-v1", "--algo", "ppo", "--replay", shown)
    assert code == 2 and "--replay: ppo is on-policy and takes no data; " in err
    assert "bc, marwil, iql, " in err and "dqn, sac, td3 and ddpg start from data and continue by playing" in err
    code, _, err = rookery("train", "CartPole-v1", "--algo", "dqn", "--replay", shown, "--gradient-steps", 5)
    assert code == 2 and "--gradient-steps: dqn learns while it plays; bc, " in err
    code, _, err = clone(rookery, shown, "algorithm.model.memory.kind=gru", algo="iql")
    assert code == 2 and "does not support memory; use dt on data, which attends to its last decisions" in err


def test_what_algorithms_declare_is_what_their_settings_hold():
    for name, path in ALGORITHMS.items():
        cls = import_object(path)
        known = cls.capabilities
        assert known.uses_replay == ("replay" in fields_of(cls)), name
        assert known.needs_team == isinstance(cls().head, TeamActors | TeamQValues), name


def test_a_decision_transformer_is_measured_for_another_return_and_plays_no_further(rookery, shown, tmp_path):
    small = ("algorithm.context=3", "algorithm.layers=1", "algorithm.width=8", "algorithm.batch_size=16")
    code, out, err = rookery("train", "--algo", "dt", "--replay", shown, "--gradient-steps", 8, "--seed", 3, *small)
    assert code == 0, err
    assert "main        8 gradient steps on 2,000 decisions" in out
    run, here = "data-dt-s3", ("--env", "CartPole-v1", "--episodes", 2)
    code, out, err = rookery("evaluate", run, "algorithm.target_return=100", *here)
    assert code == 0 and "2 episodes, most likely actions" in out, err
    code, _, err = rookery("evaluate", run, "algorithm.target_retrun=100", *here)
    assert code == 2 and "did you mean 'algorithm.target_return'?" in err
    code, _, err = rookery("evaluate", run, "algorithm.context=5", *here)
    assert code == 2 and "algorithm.context = 5: keeps its value in the middle of a run" in err
    code, _, err = rookery("evaluate", run, "target_return", *here)
    assert code == 2 and "path=value" in err.lower()
    code, _, err = rookery("resume", run, "--env", "CartPole-v1", "--stop", "env_steps=100")
    assert code == 2 and "all gradient steps of the run are made; make N more with rookery resume" in err
    assert "cannot continue by playing: iql, cql, discrete_cql, td3bc and awac can" in err


# --- playing on -------------------------------------------------------------------------------------------------------


def test_a_run_on_data_plays_on_in_an_environment_that_is_named_later(rookery, shown, tmp_path):
    small = ("algorithm.model.hidden=[8]", "algorithm.batch_size=32")
    code, out, err = rookery("train", "--algo", "iql", "--replay", shown, "--gradient-steps", 30, "--seed", 3, *small)
    assert code == 0, err
    assert "main        30 gradient steps on 2,000 decisions" in out and "evaluation" not in out
    run = "data-iql-s3"
    code, _, err = rookery("resume", run)
    assert code == 2 and "--gradient-steps N, or continue by playing with rookery resume" in err and "--env ENV" in err
    code, _, err = rookery("resume", run, "--env", "Pendulum-v1")
    assert code == 2 and "this run has learned from agents that see Box([-4.8" in err and "Pendulum-v1" in err
    play = ("--env", "CartPole-v1", "sampling.num_envs=2", "sampling.iteration_steps=50")
    code, out, err = rookery("resume", run, *play, "--stop", "env_steps=100", "--plain", "--evaluate", 2)
    assert code == 0, err
    assert "130 gradient steps (1 an env step)" in out and "2 episodes" in out
    code, out, err = rookery("resume", run, "--stop", "env_steps=150", "--plain", "--evaluate", 0)
    assert code == 0 and "180 gradient steps" in out, "it goes on playing, with the copies it had"
    code, _, err = rookery("resume", run, "--env", "Pendulum-v1")
    assert code == 2 and "env.name = Pendulum-v1: keeps its value in the middle of a run (CartPole-v1)" in err


def test_with_an_environment_from_the_start_data_come_first(rookery, shown, tmp_path):
    case = ("--algo", "discrete_cql", "--replay", shown, "--gradient-steps", 20, "--run-id", "a", "--evaluate", 2)
    code, out, err = rookery("train", "CartPole-v1", *case, "--plain", "algorithm.model.hidden=[8]")
    assert code == 0, err
    assert "until gradient_steps 20" in out and ", 2 episodes" in out and "nothing is played" in out
    code, out, err = rookery("resume", "a", "--stop", "env_steps=40", "sampling.iteration_steps=40", "--plain")
    assert code == 0 and "steps 40/40" in out, err
