"""ML-Agents' files beside those of a run: what they hold, when they are written, and that resuming changes nothing."""

import json
import shutil

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rookery import PPOConfig, Trainer
from rookery.core.settings.layers import yaml_layer
from rookery.policies.export import read_policy
from rookery_mlagents.files.console_line import console_line
from rookery_mlagents.files.run_files import Pace, RunFiles, folder_name
from rookery_mlagents.files.sections import BehaviorOptions
from rookery_mlagents.files.timers_file import Gauges

FAST = PPOConfig(fragment_length=16, rollout_size=128, epochs=1, model={"hidden": (8,)})
OPTIONS = BehaviorOptions(summary_freq=200, checkpoint_interval=300, keep_checkpoints=2)
CONFIGURATION = {"behaviors": {"main": {"trainer_type": "ppo", "max_steps": 900}}}


def write_model(policy, path):
    """Stands for the ONNX file of a policy."""
    path.write_text(policy.name)


def make(folder, lines=None, export=write_model, **settings):
    """A CartPole training with ML-Agents' files, and what writes them."""
    files = RunFiles(CONFIGURATION, lambda name: OPTIONS, None if lines is None else lines.append, export)
    values = {"num_envs": 4, "seed": 1, "checkpoint_every": 1, "config": {"logging.tensorboard": False}, **settings}
    return Trainer(values.pop("env", "CartPole-v1"), FAST, run_dir=folder, callbacks=[files], **values), files


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run of 896 steps, and its lines."""
    folder, lines = tmp_path_factory.mktemp("finished") / "run", []
    trainer, _ = make(folder, lines)
    with trainer:
        trainer.train({"env_steps": 896})
    return folder, lines


def status(folder):
    return json.loads((folder / "run_logs" / "training_status.json").read_text())


def scalars(folder, tag, name="main"):
    found = EventAccumulator(str(folder / name), size_guidance={"scalars": 0})
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(tag)]


def test_the_folder_is_that_of_a_run_with_their_files_beside(finished):
    folder, _ = finished
    names = {path.name for path in folder.iterdir()}
    assert {"config.yaml", "metrics.jsonl", "checkpoints"} <= names
    assert {"configuration.yaml", "main.onnx", "main", "run_logs"} <= names
    assert not list(folder.glob("events.out*"))  # one set of event files
    assert len(list((folder / "main").glob("events.out.tfevents.*"))) == 1
    assert dict(yaml_layer(folder / "configuration.yaml").values) == CONFIGURATION


def test_a_line_and_a_summary_come_every_summary_freq_steps_of_the_behaviour(finished):
    folder, lines = finished
    steps = [int(line.split("Step: ")[1].split(".")[0]) for line in lines]
    assert steps == [200, 400, 600, 800]
    assert all(line.startswith("main. Step: ") and line.endswith("Training.") for line in lines)
    shown = scalars(folder, "Environment/Cumulative Reward")
    assert [step for step, _ in shown] == steps
    means = [line.split("Mean Reward: ")[1].split(". ")[0] for line in lines]
    assert [f"{value:.3f}" for _, value in shown] == means


def test_returns_are_those_of_the_episodes_since_the_summary_before(finished):
    folder, _ = finished
    shown = scalars(folder, "Environment/Cumulative Reward")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    ends = [next(row["iteration"] for row in rows if row["policies/main/decisions"] >= step) for step, _ in shown]
    counts = np.diff([0] + [rows[end - 1]["episodes"] for end in ends])
    total = sum(count * value for count, (_, value) in zip(counts, shown, strict=True))
    assert total / counts.sum() == pytest.approx(rows[ends[-1] - 1]["return_mean"], rel=1e-5)


def test_checkpoints_of_a_behaviour_are_kept_by_its_own_steps(finished):
    folder, _ = finished
    kept = sorted(path.name for path in (folder / "main").iterdir() if not path.name.startswith("events"))
    assert kept == ["main-640", "main-640.onnx", "main-896", "main-896.onnx"]  # 384 went; the last one counts
    entry = status(folder)["main"]
    assert [one["steps"] for one in entry["checkpoints"]] == [640, 896]
    assert entry["checkpoints"][0]["file_path"] == str(folder / "main" / "main-640.onnx")
    assert entry["checkpoints"][0]["auxillary_file_paths"] == [str(folder / "main" / "main-640")]
    assert entry["final_checkpoint"]["file_path"] == str(folder / "main.onnx")
    assert entry["final_checkpoint"]["reward"] > 0
    kept = folder / "main" / f"main-{entry['final_checkpoint']['steps']}"
    assert entry["final_checkpoint"]["auxillary_file_paths"] == [str(kept)]  # the weights, as of other checkpoints
    with Trainer.load(folder) as trainer:
        newest, oldest = read_policy(folder / "main" / "main-896"), read_policy(folder / "main" / "main-640")
        mine = trainer.policies["main"].state_dict()
        assert all((value == mine[name]).all() for name, value in newest.state_dict().items())
        assert any((value != mine[name]).any() for name, value in oldest.state_dict().items())


def test_even_checkpoints_divide_max_steps():
    options = BehaviorOptions(even_checkpoints=True, max_steps=1000, keep_checkpoints=4, checkpoint_interval=1)
    assert Pace.of(options).checkpoint_interval == 250
    assert Pace.of(BehaviorOptions(checkpoint_interval=7)).checkpoint_interval == 7


def test_timers_are_in_their_format(finished):
    folder, _ = finished
    content = json.loads((folder / "run_logs" / "timers.json").read_text())
    assert content["name"] == "root"
    assert content["total"] == pytest.approx(sum(child["total"] for child in content["children"].values()))
    iteration = content["children"]["train_iteration"]
    inside = sum(child["total"] for child in iteration["children"].values())
    assert iteration["self"] == pytest.approx(iteration["total"] - inside, abs=1e-5)
    gauge = content["gauges"]["main.Environment.CumulativeReward.mean"]
    values = [value for _, value in scalars(folder, "Environment/Cumulative Reward")]
    assert gauge["count"] == 4
    assert (gauge["min"], gauge["max"]) == pytest.approx((min(values), max(values)))
    assert gauge["value"] == pytest.approx(values[-1])
    assert content["gauges"]["main.Environment.CumulativeReward.sum"]["value"] > gauge["value"]
    assert content["metadata"]["timer_format_version"] == "0.1.0"


def test_gauges_remember_the_least_and_the_most():
    gauges = Gauges()
    for value in (3.0, 1.0, 2.0):
        gauges.note("Ball", "Policy/Learning Rate", value)
    assert gauges.as_dict()["Ball.Policy.LearningRate.mean"] == {"value": 2.0, "min": 1.0, "max": 3.0, "count": 3}


def test_a_run_that_goes_on_writes_what_one_that_was_not_stopped_does(finished, tmp_path):
    folder, _ = finished
    trainer, _ = make(tmp_path / "run")
    with trainer:
        for result in trainer.results({"env_steps": 896}):
            if result.env_steps == 512:
                trainer.save()
            if result.env_steps == 640:  # as if it were killed here: what came after the checkpoint is lost
                break
    shutil.copytree(tmp_path / "run" / "main" / "main-384", tmp_path / "run" / "main" / "main-704")  # of a lost future
    files = RunFiles(CONFIGURATION, lambda name: OPTIONS, None, write_model)
    with Trainer.load(tmp_path / "run", resume=True, callbacks=[files]) as trainer:
        trainer.train({"env_steps": 896})
    for tag in ("Environment/Cumulative Reward", "Policy/Extrinsic Value Estimate", "Losses/Policy Loss"):
        assert scalars(tmp_path / "run", tag) == scalars(folder, tag)
    there = {path.name for path in (tmp_path / "run" / "main").iterdir()}
    assert "main-704" not in there
    assert {"main-640", "main-896"} <= there
    one, other = (json.loads((at / "run_logs" / "timers.json").read_text()) for at in (folder, tmp_path / "run"))
    assert one["gauges"] == other["gauges"]


@pytest.mark.parametrize("ending", ["finished", "interrupted"])
def test_a_run_that_goes_on_keeps_the_checkpoint_that_its_end_has_written(tmp_path, ending):
    pace = BehaviorOptions(summary_freq=200, checkpoint_interval=300, keep_checkpoints=1)
    trainer, files = make(tmp_path)
    files.options = lambda name: pace
    with trainer:
        if ending == "finished":
            trainer.train({"env_steps": 512})
        else:
            for result in trainer.results({"env_steps": 10_000}):
                if result.env_steps == 512:
                    break
            trainer.save()
            files.end(trainer)
    written = status(tmp_path)["main"]["checkpoints"]
    assert [one["steps"] for one in written] == [512]
    (tmp_path / "main" / "main-600.onnx").touch()
    again = RunFiles(CONFIGURATION, lambda name: pace, None, write_model)
    with Trainer.load(tmp_path, resume=True, callbacks=[again]) as trainer:
        again.on_train_start(trainer)
        assert status(tmp_path)["main"]["final_checkpoint"]["steps"] == trainer._decisions["main"]
        (entry,) = again.ledgers["main"].checkpoints
        assert {"main-512", "main-512.onnx"} <= {path.name for path in (tmp_path / "main").iterdir()}
        assert not (tmp_path / "main" / "main-600.onnx").exists()
        (found,) = status(tmp_path)["main"]["checkpoints"]
        assert {**found, "creation_time": 0} == {**written[0], "creation_time": 0}
        assert abs(entry.creation_time - written[0]["creation_time"]) < 60
        trainer.train({"env_steps": 896})
    assert [one["steps"] for one in status(tmp_path)["main"]["checkpoints"]] == [896]
    assert not (tmp_path / "main" / "main-512").exists()


def test_a_parameter_without_lessons_is_in_its_first(tmp_path):
    files = RunFiles({"environment_parameters": {"wall_height": 1.0, "mass": 2.0}}, lambda name: OPTIONS)
    assert files.lessons({"mass": 3}) == {"wall_height": 0, "mass": 3}
    with Trainer("CartPole-v1", FAST, run_dir=tmp_path, callbacks=[files], num_envs=4, seed=1) as trainer:
        trainer.train({"env_steps": 256})
    assert status(tmp_path)["wall_height"] == {"lesson_num": 0}
    assert [value for _, value in scalars(tmp_path, "Environment/Lesson Number/wall_height")][-1:] == [0.0]


def test_files_are_there_before_the_run_ends(tmp_path):
    trainer, _ = make(tmp_path)
    with trainer:
        for number, _ in enumerate(trainer.results({"env_steps": 10_000})):
            if number == 3:
                break
        assert (tmp_path / "configuration.yaml").is_file()
        assert (tmp_path / "main.onnx").is_file()
        assert (tmp_path / "main" / "main-320.onnx").is_file() or (tmp_path / "main" / "main-384.onnx").is_file()
        assert status(tmp_path)["main"]["final_checkpoint"]["steps"] == trainer._decisions["main"]
        assert "main.Step.mean" in json.loads((tmp_path / "run_logs" / "timers.json").read_text())["gauges"]
        assert scalars(tmp_path, "Policy/Entropy")


def test_a_model_that_cannot_be_written_is_told_of_once_and_stops_nothing(tmp_path, capsys):
    def refuse(policy, path):
        path.write_text("half")
        raise ValueError("no such layer")

    trainer, _ = make(tmp_path, export=refuse)
    with trainer:
        trainer.train({"env_steps": 512})
    assert capsys.readouterr().err.count("no such layer") == 1
    assert not list(tmp_path.rglob("*.onnx"))
    assert status(tmp_path)["main"]["checkpoints"][-1]["file_path"] == str(tmp_path / "main" / "main-512")


def test_each_behaviour_has_its_own_steps_and_files(tmp_path):
    pace = {"fast": BehaviorOptions(summary_freq=100), "slow": BehaviorOptions(summary_freq=300)}
    lines = []
    files = RunFiles({}, pace.__getitem__, lines.append, write_model)
    with Trainer(
        "MultiAgentArena",
        policies={"fast": FAST, "slow": FAST},
        policy_mapping={"agent1": "fast", "agent2": "slow"},
        num_envs=4,
        seed=1,
        run_dir=tmp_path,
        callbacks=[files],
        config={"logging.tensorboard": False},
    ) as trainer:
        trainer.train({"env_steps": 640})
    assert sum(line.startswith("fast.") for line in lines) > 2 * sum(line.startswith("slow.") for line in lines) > 0
    assert {"fast.onnx", "slow.onnx", "fast", "slow"} <= {path.name for path in tmp_path.iterdir()}
    assert {"fast", "slow"} <= status(tmp_path).keys()


def test_a_behaviour_that_appears_while_running_gets_its_files(tmp_path):
    def late(agent, episode):
        return "late" if agent == "agent2" and episode.index > 0 else "early"

    files = RunFiles({}, lambda name: BehaviorOptions(summary_freq=100), None, write_model)
    cfg = PPOConfig(fragment_length=16, rollout_size=64, epochs=1, model={"hidden": (8,)})
    with Trainer(
        "MultiAgentArena",
        policies={"early": cfg, "late": cfg},
        policy_mapping=late,
        num_envs=2,
        seed=1,
        run_dir=tmp_path,
        callbacks=[files],
    ) as trainer:
        trainer.train({"env_steps": 1000})
        assert files.ledgers["late"].steps > 0
    assert (tmp_path / "late" / f"late-{files.ledgers['late'].steps}").is_dir()


def test_lines():
    line = console_line("Basic", 4000, 17.1264, [0.0, 0.326])
    assert line == "Basic. Step: 4000. Time Elapsed: 17.126 s. Mean Reward: 0.163. Std of Reward: 0.163. Training."
    line = console_line("Soccer", 10, 1.0, [1.0], group_returns=[2.0, 3.0], elo=1203.5, is_training=False)
    assert line == (
        "Soccer. Step: 10. Time Elapsed: 1.000 s. Mean Reward: 1.000. Mean Group Reward: 2.500. Not Training. "
        "ELO: 1203.500."
    )
    line = console_line("Basic", 2000, 3.0, [])
    assert line == "Basic. Step: 2000. Time Elapsed: 3.000 s. No episode was completed since last summary. Training."


def test_names_of_behaviours_are_names_of_folders():
    assert folder_name("My Behavior") == "My Behavior"
    assert folder_name("a/b\\c") == "a_b_c"
