"""Training in Unity players by command: pretended ones, launched by their path."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

pytest.importorskip("grpc")

from rookery.run.trainer import Trainer
from rookery_mlagents.learn.learn import Request, learning, plan_of
from selection import slow

BASIC = """
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 256, learning_rate: 0.0003, beta: 0.005, lambd: 0.95}
    network_settings: {hidden_units: 20, num_layers: 1}
    reward_signals: {extrinsic: {gamma: 0.9, strength: 1.0}}
    max_steps: 500000
    time_horizon: 3
    summary_freq: 2000
"""
TWO = """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}
  network_settings: {normalize: true, hidden_units: 16, num_layers: 1}
  max_steps: 2500
  summary_freq: 500
behaviors:
  Runner: {}
  Chaser: {}
"""


def rows_of(folder):
    return [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0003, 1e-12])
def test_basic_from_its_file_over_the_socket_to_onnx(rookery, game, tmp_path, rate):
    (tmp_path / "basic.yaml").write_text(BASIC.replace("0.0003", str(rate)))
    flags = {"env": game("--stats"), "run_id": "b", "num_envs": 2, "seed": 1, "time_scale": 50.0, "base_port": 25500}
    request = Request(str(tmp_path / "basic.yaml"), flags, "quiet", None, False, False)
    with learning(request, lambda *_: pytest.fail("nothing goes on")) as session:
        last = session.trainer.train(stop={"policies/Basic/decisions": 20_000})
    if rate < 1e-6:
        assert last.return_mean < 0.5, "it is learned, and not in the game"
        return
    assert last.return_mean > 0.9
    shown = EventAccumulator("results/b/Basic").Reload()
    curve = [event.value for event in shown.Scalars("Environment/Cumulative Reward")]
    assert max(curve) == pytest.approx(0.93, abs=0.005)
    assert {"Player/Steps", "Player/Episodes", "Policy/Entropy"} <= set(shown.Tags()["scalars"])
    assert shown.Tags()["histograms"]
    exported = onnxruntime.InferenceSession("results/b/Basic.onnx")
    assert [one.name for one in exported.get_inputs()] == ["obs_0", "action_masks"]
    assert "engine time_scale 50" in Path("results/b/run_logs/Player-1.log").read_text()


def test_a_run_in_players_writes_their_logs_and_what_they_report(rookery, game):
    words = ["--num-envs", 2, "--run-id", "r", "--seed", 3, "--stop", "env_steps=600", "--evaluate", 0, "--plain"]
    code, out, error = rookery("train", game("--stats"), *words, "env.config.base_port=25510")
    assert code == 0, error
    last = rows_of("runs/r")[-1]
    assert last["exact"] is False
    assert last["metrics/Player/Episodes"] >= 1
    logs = Path("runs/r/run_logs")
    assert sorted(path.name for path in logs.iterdir()) == ["Player-0.log", "Player-1.log"]
    assert "engine time_scale 20" in (logs / "Player-0.log").read_text()
    code, out, _ = rookery("timers", "runs/r")
    assert code == 0
    assert "wait" in out.split("env.step")[1].splitlines()[1], "what was waited for stands below env.step"


def test_a_run_in_players_goes_on_with_all_that_is_ours(rookery, game):
    words = ["--run-id", "r", "--seed", 3, "--num-envs", 1, "--stop", "env_steps=300", "--evaluate", 0, "--quiet"]
    assert rookery("train", game(), *words, "env.config.base_port=25520", "algorithm.fragment_length=64")[0] == 0
    with Trainer.load("runs/r") as one, Trainer.load("runs/r", resume=True) as other:
        assert one.env_steps == other.env_steps >= 300
        assert not other.env.exact
        mine, theirs = (trainer.policies["main"].state_dict() for trainer in (one, other))
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
        assert one.learners["main"].state_dict().keys() == other.learners["main"].state_dict().keys()
        before = other._decisions["main"]
        result = other.train_iteration()
        assert result.policies["main"].decisions > before
        assert not result.exact


@pytest.mark.slow
def test_a_behaviour_that_appears_later_is_trained_by_its_entry(rookery, game, tmp_path):
    (tmp_path / "two.yaml").write_text(TWO)
    late = ["--behavior", "*1=Runner", "--behavior", "*2=Chaser", "--late", "Chaser:1000", "--count-file"]
    path = game(*late, tmp_path / "launches", env="MultiAgentArena")
    code, out, error = rookery(
        "mlagents", "learn", tmp_path / "two.yaml", "--env", path, "--run-id", "t", "--seed", 1, "--base-port", 25530
    )
    assert code == 0, error
    assert "behaviors.Chaser: the game does not have this behaviour at the start; it has Runner" in error
    assert Path("results/t/Runner.onnx").exists()
    assert Path("results/t/Chaser.onnx").exists()
    rows = rows_of("results/t")
    assert "policies/Chaser/decisions" not in rows[0]
    assert rows[-1]["policies/Chaser/decisions"] > 500
    assert len((tmp_path / "launches").read_text().split()) == 1, "the game is launched once"


@pytest.mark.parametrize(("early", "late"), [pytest.param(900, 200, marks=pytest.mark.slow), (100, 400)])
def test_the_run_ends_when_early_and_late_behaviours_have_come_to_their_last_step(game, tmp_path, early, late):
    text = TWO.replace("Runner: {}", f"Runner: {{max_steps: {early}}}").replace(
        "Chaser: {}", f"Chaser: {{max_steps: {late}}}"
    )
    (tmp_path / "two.yaml").write_text(text)
    path = game("--behavior", "*1=Runner", "--behavior", "*2=Chaser", "--late", "Chaser:20", env="MultiAgentArena")
    flags = {"env": path, "run_id": "w", "results_dir": str(tmp_path / "results"), "seed": 1, "base_port": 25570}
    request = Request(str(tmp_path / "two.yaml"), flags, "quiet", None, False, False)
    with learning(request, lambda *_: pytest.fail("nothing goes on")) as session:
        last = session.trainer.train()
    assert last.stop_reason == "finished_share 1 reached 1"
    assert last.finished_policies == 2
    assert last.policies["Runner"].decisions >= early
    assert last.policies["Chaser"].decisions >= late


def test_a_behaviour_without_an_entry_is_refused(rookery, game, tmp_path):
    (tmp_path / "other.yaml").write_text(BASIC.replace("Basic:", "Basics:"))
    words = ["mlagents", "learn", tmp_path / "other.yaml", "--env", game(), "--base-port", 25540]
    code, _, error = rookery(*words)
    assert code == 2
    assert "the environment has a behaviour 'Basic', and there is no such entry; did you mean 'Basics'?" in error
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("flags", "kind", "goals"),
    [
        (["--goal", "picture"], "hyper", ["CameraSensor"]),
        slow(["--goal", "picture"], "none", ["CameraSensor"]),
        ([], "hyper", None),
    ],
)
def test_goals_are_the_sensors_that_a_player_calls_so(game, tmp_path, flags, kind, goals):
    network = f"network_settings: {{goal_conditioning_type: {kind}}}"
    (tmp_path / "goals.yaml").write_text(f"behaviors: {{GoalGrid: {{trainer_type: ppo, {network}}}}}")
    given = {"env": game(*flags, env="rookery.tasks:GoalGrid"), "run_id": "g", "base_port": 25560}
    request = Request(str(tmp_path / "goals.yaml"), given, "quiet", None, False, False)
    plan = plan_of(request)
    try:
        found = {path: value for one in plan.layers(request, tmp_path / "demos") for path, value in one.values.items()}
    finally:
        plan.copies.close()
    assert found.get("policies.GoalGrid.model.goals") == (None if goals is None else tuple(goals))
    if goals is not None:
        assert found["policies.GoalGrid.model.goal_conditioning"] == kind


@pytest.mark.slow
@pytest.mark.regression("setting dropped", "A name with = is a whole name in settings, overrides, --stop and resume")
def test_a_run_of_a_player_goes_on_with_changes(rookery, game, tmp_path):
    """As every behaviour of Unity, that of this player is called Name?team=0."""
    text = BASIC.replace("500000", "300")
    (tmp_path / "basic.yaml").write_text(text)
    words = ["mlagents", "learn", tmp_path / "basic.yaml", "--env", game(), "--run-id", "b", "--base-port", 25660]
    assert rookery(*words)[0] == 0
    assert "Basic#0?team=0" in Path("results/b/config.yaml").read_text()
    (tmp_path / "basic.yaml").write_text(text.replace("max_steps: 300", "max_steps: 600").replace("0.005", "0.01"))
    code, _, error = rookery(*words, "--resume")
    assert code == 0, error
    code, _, error = rookery(
        "resume", "results/b", "policies.Basic.lr=1e-4", "--stop", "env_steps=900", "--evaluate", 0
    )
    assert code == 0, error
    assert rows_of("results/b")[-1]["env_steps"] >= 900


def test_a_resumed_run_keeps_its_number_of_players(rookery, game, tmp_path):
    (tmp_path / "basic.yaml").write_text(BASIC.replace("500000", "300"))
    words = ["mlagents", "learn", tmp_path / "basic.yaml", "--env", game(), "--run-id", "b", "--base-port", 25670]
    assert rookery(*words, "--num-envs", 2)[0] == 0
    (tmp_path / "basic.yaml").write_text(BASIC.replace("500000", "600"))
    code, _, error = rookery(*words, "--resume")
    assert code == 0, error
    assert "random warm-up" not in error
    assert rows_of("results/b")[-1]["policies/Basic/decisions"] >= 600
    code, _, error = rookery(*words, "--resume", "--num-envs", 1)
    assert code == 0 and "sampling.num_envs = 1 from here on" in error
