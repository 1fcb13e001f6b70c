"""``rookery mlagents learn`` and ``alias``: flags, folders, resuming, weights to begin with, playing, and mistakes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import rookery as package
from recorded import poles
from rookery.core.settings.layers import yaml_layer
from rookery.policies.export import read_policy
from rookery.replay.recording import recording_of
from rookery.replay.segments import find_replay
from rookery.run import run
from rookery_mlagents.files.demo_replay import write_unity
from rookery_mlagents.files.run_options import FLAGS
from rookery_mlagents.verbs.mlagents import GONE
from selection import slow, slow_except

FILE = """\
behaviors:
  Cart:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1, learning_rate: 0.001}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 500
    time_horizon: 16
    summary_freq: 100
    keep_checkpoints: 2
    checkpoint_interval: 200
"""
TWO = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}
  network_settings: {hidden_units: 16, num_layers: 1}
  max_steps: 300
  summary_freq: 100
behaviors:
  agent1: {}
  agent2: {max_steps: 500}
"""


@pytest.fixture
def learn(rookery, tmp_path):
    """Runs the command on the file above, with the environment unless something is said of one; gives what it said."""
    (tmp_path / "cart.yaml").write_text(FILE)
    (tmp_path / "two.yaml").write_text(TWO)

    def run(*words, file="cart.yaml", env="CartPole-v1"):
        given = [*([file] if file else []), *(["--env", env] if env else []), *words]
        return rookery("mlagents", "learn", *given)

    return run


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory):
    """A folder with the run cart, made once."""
    from commands import command

    folder = tmp_path_factory.mktemp("finished")
    (folder / "cart.yaml").write_text(FILE)
    words = ["cart.yaml", "--env", "CartPole-v1", "--run-id", "cart", "--seed", "3"]
    out, _ = done(command(folder, "mlagents", "learn", *words))
    return folder, out


@pytest.fixture
def cart(finished_runs, tmp_path, learn):
    """The run, copied to where commands run."""
    shutil.copytree(finished_runs[0] / "results", tmp_path / "results")
    return Path("results/cart")


def done(outcome):
    """Returns the output of a successful command, of stdout and of stderr."""
    code, out, error = outcome
    assert code == 0, error
    return out, error


def refused(outcome):
    """The message of a command that was refused, without a traceback."""
    code, _, error = outcome
    assert code == 2, error
    assert "Traceback" not in error
    return error


def steps_of(folder, tag="Environment/Cumulative Reward", name="Cart"):
    found = EventAccumulator(str(folder / name), size_guidance={"scalars": 0})
    found.Reload()
    return [event.step for event in found.Scalars(tag)]


# --- a training -------------------------------------------------------------------------------------------------------


def test_a_training_leaves_the_folder_of_ml_agents_and_of_rookery(finished_runs, cart):
    _, out = finished_runs
    lines = out.splitlines()
    assert [line.split(".")[:2] for line in lines[:5]] == [["Cart", f" Step: {step}"] for step in range(100, 501, 100)]
    assert lines[4].endswith("Not Training.")
    assert lines[5].startswith("Cart: 512 steps, reward ")
    assert lines[5].endswith("results/cart/Cart.onnx")
    names = {path.name for path in cart.iterdir()}
    assert {"configuration.yaml", "Cart.onnx", "Cart", "run_logs", "checkpoints", "metrics.jsonl"} <= names
    kept = yaml_layer(cart / "configuration.yaml").values
    assert kept["behaviors"]["Cart"]["hyperparameters"]["beta"] == 0.005  # defaults are resolved
    assert kept["env_settings"]["seed"] == 3
    assert steps_of(cart) == [100, 200, 300, 400, 500]


@pytest.mark.slow
def test_verbs_of_rookery_take_the_folder(cart, rookery):
    out, _ = done(rookery("evaluate", cart, "--episodes", 2, "--json"))
    assert json.loads(out)["episodes"] == 2
    code, out, _ = rookery("explain", cart, "policies.Cart.max_decisions")
    assert "cart.yaml:6 max_steps" in out
    done(rookery("resume", cart, "policies.Cart.max_decisions=700", "--evaluate", 0, "--quiet"))
    assert steps_of(cart) == [100, 200, 300, 400, 500, 600, 700]  # their files continue too
    assert "final_checkpoint" in json.loads((cart / "run_logs" / "training_status.json").read_text())["Cart"]


def test_flags_beat_the_file(learn, tmp_path):
    (tmp_path / "cart.yaml").write_text(FILE + "env_settings: {seed: 1}\ncheckpoint_settings: {run_id: other}\n")
    done(learn("--run-id", "mine", "--seed", 7, "--num-envs", 2, "--num-areas", 3, "--results-dir", "out"))
    assert not (tmp_path / "results").exists()
    kept = yaml_layer(tmp_path / "out" / "mine" / "config.yaml").values
    assert kept["seed"] == 7
    assert kept["sampling"]["num_envs"] == 6


def test_an_environment_in_python_has_as_many_copies_as_usual_here(cart):
    assert yaml_layer(cart / "config.yaml").values["sampling"]["num_envs"] == 8
    assert yaml_layer(cart / "configuration.yaml").values["env_settings"]["num_envs"] == 8


def test_all_words_behind_env_args_are_the_environments(learn):
    done(learn("--run-id", "a", "--env-args", "sutton_barto_reward=true"))
    kept = yaml_layer("results/a/config.yaml").values["env"]
    assert kept["config"] == {"sutton_barto_reward": True}


def test_every_flag_of_theirs_is_there(rookery):
    _, out, _ = rookery("mlagents", "learn", "--help")
    for name in (*FLAGS, "deterministic", "torch", "tensorflow"):
        flag = f"--{name.replace('_', '-')}"
        assert flag in out or flag[:20] in out, flag


def test_dead_flags_are_taken_and_said_to_be_dead(learn):
    _, error = done(learn("--run-id", "a", "--train", "--load", "--torch", "--tensorflow"))
    for flag in ("train", "load", "torch", "tensorflow"):
        assert flag in error


@pytest.mark.parametrize("flag", GONE)
def test_flags_that_are_gone_say_what_took_their_place(learn, flag):
    error = refused(learn(f"{flag}=x"))
    assert flag in error
    assert "rookery mlagents convert" in error


def test_summaries_come_within_a_buffer_too(learn, tmp_path):
    (tmp_path / "cart.yaml").write_text(FILE.replace("buffer_size: 128", "buffer_size: 512"))
    out, _ = done(learn("--run-id", "a"))
    steps = [line.split("Step: ")[1].split(".")[0] for line in out.splitlines() if "Step: " in line]
    assert steps == ["100", "200", "300", "400", "500"]
    assert steps_of(Path("results/a"), "Losses/Policy Loss") == [500]  # there was one update


def test_another_style_of_console(learn):
    out, _ = done(learn("--run-id", "a", "--console", "json"))
    assert [json.loads(line)["iteration"] for line in out.splitlines()] == [1, 2, 3, 4, 5]


def test_two_behaviours_end_by_their_own_steps(learn):
    out, _ = done(learn("--run-id", "two", "--seed", 1, file="two.yaml", env="MultiAgentArena"))
    steps = {line.split(":")[0]: int(line.split()[1]) for line in out.splitlines() if " steps, " in line}
    assert 300 <= steps["agent1"] < 300 + 128
    assert 500 <= steps["agent2"] < 500 + 128
    assert {"agent1.onnx", "agent2.onnx"} <= {path.name for path in Path("results/two").iterdir()}


# --- resuming, replacing, beginning with weights ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        (FILE, "--run-id cart", ["results/cart", "--resume", "--force"]),
        (FILE, "--run-id card --resume", ["did you mean 'cart'"]),
        (FILE.replace("hidden_units: 16", "hidden_units: 32"), "--run-id cart --resume",
         ["cart.yaml:5", "keeps its value in the middle of a run"]),
        (FILE, "--run-id next --initialize-from card", ["there is no run in results/card; did you mean 'cart'"]),
        (FILE.replace("Cart:", "Card:"), "--run-id next --initialize-from cart",
         ["behaviour 'Card' is not in results/cart", "did you mean 'Cart'"]),
    ],
)  # fmt: skip
def test_mistakes_beside_a_run_are_told_and_leave_it_alone(cart, learn, tmp_path, text, words, told):
    (tmp_path / "cart.yaml").write_text(text)
    error = refused(learn(*words.split()))
    assert [one for one in told if one not in error] == []
    assert [path.name for path in cart.parent.iterdir()] == ["cart"]


def test_force_replaces(cart, learn):
    done(learn("--run-id", "cart", "--force", "--seed", 9))
    assert yaml_layer(cart / "config.yaml").values["seed"] == 9
    assert len(list((cart / "Cart").glob("events*"))) == 1


def test_a_run_that_cannot_be_replaced_comes_back(cart, learn, tmp_path):
    def content():
        return {path: path.read_bytes() for path in cart.rglob("*") if path.is_file() and path.name != "run.lock"}

    before = content()
    (tmp_path / "cart.yaml").write_text(FILE.replace("trainer_type: ppo", "trainer_type: no.such:Config"))
    refused(learn("--run-id", "cart", "--force"))
    refused(learn("--run-id", "cart", "--force", "--initialize-from", "cart"))
    assert content() == before
    assert [path.name for path in cart.parent.iterdir()] == ["cart"]


@pytest.mark.regression("data lost", "Replacing a run removes what Rookery wrote and keeps what its user put there")
def test_force_replaces_a_run_and_keeps_what_its_user_put_there(cart, learn):
    (cart / "notes.md").write_text("mine")
    (cart / "Cart" / "notes.md").write_text("mine")
    (cart / "Cart" / "Cart-7").mkdir()
    _, error = done(learn("--run-id", "cart", "--force", "--seed", 3))
    assert "results/cart: kept what Rookery did not write: Cart/notes.md, notes.md" in error
    assert (cart / "notes.md").read_text() == (cart / "Cart" / "notes.md").read_text() == "mine"
    assert not (cart / "Cart" / "Cart-7").exists()
    assert steps_of(cart) == [100, 200, 300, 400, 500]
    assert [path.name for path in cart.parent.iterdir()] == ["cart"]


@pytest.mark.regression(
    "data lost", "A start that was killed before its first row can be repeated with the same command"
)
def test_a_run_that_was_killed_at_its_start_is_moved_aside_by_the_same_command(cart, learn):
    without_checkpoints(cart)
    assert "there is data of that run already" in refused(learn("--run-id", "cart"))  # of which rows are left
    (cart / "metrics.jsonl").unlink()
    _, error = done(learn("--run-id", "cart", "--seed", 3))
    killed = "results/cart.killed-at-start"
    assert f"was killed before its first iteration was over; its files are in {killed} now" in error
    assert {"cart", "cart.killed-at-start"} == {path.name for path in cart.parent.iterdir()}
    assert steps_of(cart) == [100, 200, 300, 400, 500]


@pytest.mark.regression("data lost", "A run comes back if the start that was to replace it is killed")
@pytest.mark.parametrize(
    "half", slow_except(["config.yaml", "run.lock"], of=[[], ["checkpoints"], ["config.yaml", "run.lock"]])
)
def test_a_run_whose_replacement_was_killed_comes_back(cart, learn, half):
    cart.rename(cart.with_name(".replaced-cart"))
    for name in half:
        cart.mkdir(exist_ok=True)
        (cart / name).touch() if "." in name else (cart / name).mkdir()
    done(learn("--run-id", "cart", "--resume"))
    assert steps_of(cart)[-1] == 500
    assert [path.name for path in cart.parent.iterdir() if path.name.startswith(".")] == []


def test_force_replaces_nothing_that_is_no_run_of_ours(learn, tmp_path):
    (tmp_path / "results" / "x" / "Cart").mkdir(parents=True)
    (tmp_path / "results" / "x" / "Cart" / "checkpoint.pt").write_bytes(b"years of work")
    assert "holds no run of Rookery" in refused(learn("--run-id", "x", "--force"))
    assert (tmp_path / "results" / "x" / "Cart" / "checkpoint.pt").read_bytes() == b"years of work"
    assert "--initialize-from x" in refused(learn("--run-id", "x", "--resume"))


def test_resume_goes_on_where_it_stopped(cart, learn, tmp_path):
    longer = FILE.replace("max_steps: 500", "max_steps: 800")
    (tmp_path / "cart.yaml").write_text(longer)
    out, _ = done(learn("--run-id", "cart", "--resume"))
    assert out.startswith("Cart. Step: 600. ")
    assert steps_of(cart) == [100, 200, 300, 400, 500, 600, 700, 800]
    assert yaml_layer(cart / "config.yaml").values["policies"]["Cart"]["lr"]["steps"] == 800
    before = (cart / "metrics.jsonl").read_text()
    _, error = done(learn("--run-id", "cart", "--resume", file=None, env=None))  # what it has kept is enough
    assert (cart / "metrics.jsonl").read_text() == before
    assert "configuration.yaml:" not in error


def ends(folder):
    """Returns the ends of the schedules of a run, and of its training."""
    kept = yaml_layer(folder / "config.yaml").values["policies"]["Cart"]
    return kept["lr"]["steps"], kept["clip"]["steps"], kept["max_decisions"]


@pytest.mark.regression("wrong result", "A run resumed with a larger stop.env_steps learns on, and says at what rate")
def test_only_a_larger_max_steps_moves_the_end_of_schedules(cart, learn, tmp_path):
    (tmp_path / "cart.yaml").write_text(FILE.replace("max_steps: 500", "max_steps: 300"))
    assert learn("--run-id", "cart", "--resume")[0] == 0
    assert ends(cart) == (500, 500, 300)
    (tmp_path / "cart.yaml").write_text(FILE.replace("max_steps: 500", "max_steps: 700"))
    _, error = done(learn("--run-id", "cart", "--resume"))
    assert "schedules end at 700 decisions instead of 500: policies.Cart.lr now 1e-10, becomes 0.0002686; " in error
    assert ends(cart) == (700, 700, 700)


def test_keep_schedules_leaves_their_end_where_it_is(cart, learn, tmp_path):
    (tmp_path / "cart.yaml").write_text(FILE.replace("max_steps: 500", "max_steps: 700"))
    _, error = done(learn("--run-id", "cart", "--resume", "--keep-schedules"))
    assert "schedules" not in error and ends(cart) == (500, 500, 700)
    assert learn("--run-id", "cart", "--resume")[0] == 0
    assert ends(cart) == (500, 500, 700)


@pytest.mark.regression(
    "setting dropped", "A larger max_steps moves lessons by progress with it instead of being refused"
)
def test_lessons_by_progress_follow_a_larger_max_steps(learn, tmp_path):
    lessons = """\
environment_parameters:
  mass:
    curriculum:
      - {name: a, value: 1.0, completion_criteria: {behavior: Ball, measure: progress, threshold: 0.9}}
      - {name: b, value: 2.0}
"""
    file = FILE.replace("Cart:", "Ball:").replace("max_steps: 500", "max_steps: 200") + lessons
    words = ("--run-id", "ball")
    (tmp_path / "ball.yaml").write_text(file)
    assert learn(*words, file="ball.yaml", env="rookery.tasks:BallPlate")[0] == 0
    (tmp_path / "ball.yaml").write_text(file.replace("max_steps: 200", "max_steps: 400"))
    done(learn(*words, "--resume", file="ball.yaml", env="rookery.tasks:BallPlate"))
    kept = yaml_layer("results/ball/config.yaml").values["curriculum"]["mass"]["lessons"]
    assert kept[0]["threshold"] == 360
    (tmp_path / "ball.yaml").write_text(file.replace("threshold: 0.9", "threshold: 0.5"))
    edited = refused(learn(*words, "--resume", file="ball.yaml", env="rookery.tasks:BallPlate"))
    assert "keeps its value in the middle of a run" in edited


def test_what_nobody_gives_any_more_keeps_its_value(learn, tmp_path):
    assert learn("--run-id", "a", "--num-envs", 2, "--seed", 3)[0] == 0
    shorter = FILE.replace("max_steps: 500", "max_steps: 600").replace(", num_epoch: 1, learning_rate: 0.001", "")
    (tmp_path / "cart.yaml").write_text(shorter)
    done(learn("--run-id", "a", "--resume"))
    kept = yaml_layer("results/a/config.yaml").values
    assert (kept["sampling"]["num_envs"], kept["policies"]["Cart"]["epochs"], kept["seed"]) == (2, 1, 3)
    assert kept["policies"]["Cart"]["max_decisions"] == 600
    rate = kept["policies"]["Cart"]["lr"]
    assert (rate["start"], rate["steps"]) == (0.001, 600)  # it ends where the run does now
    assert yaml_layer("results/a/configuration.yaml").values["env_settings"]["num_envs"] == 2
    _, error = done(learn("--run-id", "a", "--resume", "--num-envs", 4))
    assert "sampling.num_envs = 4 from here on" in error and "(exact: false)" in error


CROWD = """\
import numpy as np
from gymnasium import spaces


class Crowd:
    def __init__(self, count=2, length=8):
        self.length, self.possible_agents = length, [f"walker_{number}" for number in range(count)]
        self.observation_spaces = {agent: spaces.Box(0, 1, (2,), np.float32) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(2) for agent in self.possible_agents}

    def show(self):
        return {agent: np.array([self.steps / self.length, 1], np.float32) for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.steps = 0
        return self.show(), {}

    def step(self, actions):
        self.steps += 1
        every, ended = (*actions, "__all__"), self.steps >= self.length
        over, never = dict.fromkeys(every, ended), dict.fromkeys(every, False)
        return self.show(), {agent: float(one) for agent, one in actions.items()}, over, never, {}
"""


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_a_run_goes_on_in_other_environments_and_says_so(learn, tmp_path, trainer):
    (tmp_path / "crowd.py").write_text(CROWD)
    file = FILE.replace("Cart", "Walker")
    if trainer == "sac":
        file = file.replace("num_epoch: 1, ", "").replace("ppo", "sac").replace("time_horizon: 16", "threaded: false")
    (tmp_path / "c.yaml").write_text(file)
    words = {"file": "c.yaml", "env": "crowd:Crowd"}
    done(learn("--run-id", "a", "--num-envs", 2, "--seed", 3, **words))
    (tmp_path / "c.yaml").write_text(file.replace("max_steps: 500", "max_steps: 900"))
    more = ["--run-id", "a", "--resume", "--num-envs", 3, "--env-args", "count=4", "length=5"]
    out, error = done(learn(*more, **words))
    assert out.startswith("Walker. Step: 600")
    for line in ("sampling.num_envs = 3", "env.config.count = 4", "env.config.length = 5"):
        assert f"{line} from here on" in error
    assert error.count("(exact: false)") == 1
    rows = [json.loads(line) for line in Path("results/a/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["policies/Walker/decisions"] >= 900 and not rows[-1]["exact"] and rows[0]["exact"]
    assert rows[-1]["length_mean"] < 8 and len([key for key in rows[-1] if key.startswith("agents/")]) == 4
    assert [row["env_steps"] for row in rows] == sorted(row["env_steps"] for row in rows)
    kept = yaml_layer("results/a/config.yaml").values
    assert kept["sampling"]["num_envs"] == 3 and kept["env"]["config"] == {"count": 4, "length": 5}
    _, error = done(learn("--run-id", "a", "--resume", file=None, env=None))  # in these from now on
    assert "from here on" not in error
    (tmp_path / "c.yaml").write_text(file.replace("max_steps: 500", "max_steps: 1100"))
    done(learn("--run-id", "a", "--resume", "--env-args", "count=1", **words))
    assert yaml_layer("results/a/config.yaml").values["env"]["config"]["count"] == 1


def test_a_run_does_not_go_on_in_an_environment_of_other_spaces(cart, learn, tmp_path):
    (tmp_path / "cart.yaml").write_text(FILE.replace("max_steps: 500", "max_steps: 800"))
    before = (cart / "metrics.jsonl").read_text()
    assert "this run has learned from agents that see" in refused(
        learn("--run-id", "cart", "--resume", env="MountainCar-v0")
    )
    assert (cart / "metrics.jsonl").read_text() == before


def test_what_a_run_of_somebody_else_names_is_not_imported(cart, learn, tmp_path):
    (tmp_path / "harm.py").write_text("open('harm', 'w')\n")
    for file, before, after in (
        ("configuration.yaml", "env_path: CartPole-v1", "env_path: harm:Harm"),
        ("configuration.yaml", "trainer_type: ppo", "trainer_type: harm:Harm"),
    ):
        text = (cart / file).read_text()
        assert before in text
        (cart / file).write_text(text.replace(before, after))
        assert "harm:Harm" in refused(learn("--run-id", "cart", "--resume", file=None, env=None))
        (cart / file).write_text(text)
    assert not Path("harm").exists()


def without_checkpoints(folder):
    """Leaves of a run what a kill before its first checkpoint leaves."""
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").mkdir()


def test_a_run_without_a_checkpoint_begins_anew_with_their_files_and_its_demonstrations(cart, rookery):
    without_checkpoints(cart)
    kept = cart / "demonstrations" / "Cart-pole"
    kept.mkdir(parents=True)
    (cart / "Cart" / "Cart-7.onnx").touch()
    (cart / "Cart" / "mine").touch()
    _, error = done(rookery("resume", cart, "--evaluate", 0, "--quiet"))
    assert {"configuration.yaml", "Cart.onnx", "run_logs"} <= {path.name for path in cart.iterdir()}
    assert steps_of(cart) == [100, 200, 300, 400, 500]
    assert kept.is_dir()
    assert not (cart / "Cart" / "Cart-7.onnx").exists()
    assert (cart / "Cart" / "mine").exists()
    assert "kept what Rookery did not write: Cart/mine, demonstrations/Cart-pole\n" in error


def test_initialize_from_takes_weights_and_counts_from_zero(cart, learn):
    out, _ = done(learn("--run-id", "next", "--initialize-from", "cart", "--seed", 4))
    assert out.startswith("Cart. Step: 100. ")
    assert yaml_layer("results/next/config.yaml").values["policies"]["Cart"]["init_from"] == "results/cart:Cart"


def test_a_run_that_begins_anew_begins_with_its_weights_again(cart, learn, rookery):
    assert learn("--run-id", "next", "--initialize-from", "cart", "--seed", 4)[0] == 0
    without_checkpoints(Path("results/next"))
    out, _ = done(learn("--run-id", "next", "--resume", file=None, env=None))
    assert out.startswith("Cart. Step: 100. ")
    assert yaml_layer("results/next/config.yaml").values["policies"]["Cart"]["init_from"] == "results/cart:Cart"
    shutil.rmtree(cart / "checkpoints")
    without_checkpoints(Path("results/next"))
    assert "begins with weights of ML-Agents" in refused(rookery("resume", "results/next"))


@pytest.mark.slow
def test_init_path_is_a_kept_checkpoint_or_its_name_in_another_run(cart, learn, tmp_path):
    kept = next(path for path in (cart / "Cart").iterdir() if path.is_dir())
    for run_id, path, words in (("a", kept, ()), ("b", kept.name, ("--initialize-from", "cart"))):
        (tmp_path / "cart.yaml").write_text(FILE + f"    init_path: {path}\n")
        done(learn("--run-id", run_id, *words))
        began = yaml_layer(f"results/{run_id}/config.yaml").values["policies"]["Cart"]["init_from"]
        assert began == str(kept)


def their_checkpoint(path, policy):
    """A checkpoint.pt as ML-Agents writes it, with the weights of a policy of ours."""
    own = policy.state_dict()
    body = "network_body._body_endoder.seq_layers"
    branch = "action_model._discrete_distribution.branches.0"
    state = {
        **{f"{body}.0.{what}": own[f"trunk.first.{what}"] for what in ("weight", "bias")},
        **{f"{branch}.{what}": own[f"head.linear.{what}"] for what in ("weight", "bias")},
        "version_number": torch.tensor([3.0]),
    }
    path.parent.mkdir(parents=True)
    torch.save({"Policy": state, "global_step": {"_GlobalSteps__global_step": torch.tensor([4000])}}, path)


def test_weights_of_ml_agents_itself(cart, learn):
    policy = read_policy(cart)
    theirs = Path("results/theirs/Cart/checkpoint.pt")
    their_checkpoint(theirs, policy)
    assert "--trust-pickle" in refused(learn("--run-id", "next", "--initialize-from", "theirs"))
    words = ("--initialize-from", "theirs", "--trust-pickle", "--seed", 1)
    out, _ = done(learn("--run-id", "next", *words))
    assert out.startswith("Cart. Step: 100. ")
    code, out, _ = learn(*words, "--run-id", "play", "--inference", "--deterministic", "--episodes", 3)
    same = learn("--run-id", "cart", "--resume", "--inference", "--deterministic", "--episodes", 3)
    assert code == same[0] == 0
    assert not Path("results/play").exists()  # playing writes nothing
    code, _, error = learn("--run-id", "other", "--initialize-from", "theirs", file=None)
    assert code == 2


@pytest.mark.parametrize(("name", "why"), [("old.nn", "exported for Unity"), ("lost.pt", "no such file")])
def test_files_that_hold_no_weights(learn, tmp_path, name, why):
    if name == "old.nn":
        (tmp_path / name).write_bytes(b"barracuda")
    (tmp_path / "cart.yaml").write_text(FILE + f"    init_path: {name}\n")
    error = refused(learn("--run-id", "next", "--trust-pickle"))
    assert name in error
    assert why in error


@pytest.mark.slow
def test_demonstrations_are_kept_with_the_run(rookery, learn, tmp_path):
    (tmp_path / "leaning.py").write_text("def lean(obs):\n    return int(obs[2] + obs[3] > 0)\n")
    rookery("replay", "record", "CartPole-v1", "--from", "leaning:lean", "--episodes", 1, "-o", "pole")
    rookery("replay", "export", "pole", "-o", "Pole.demo", "--name", "Cart")
    shown = "    reward_signals:\n      gail: {demo_path: Pole.demo}\n    behavioral_cloning: {demo_path: Pole.demo}\n"
    (tmp_path / "cart.yaml").write_text(FILE + shown)
    assert learn("--run-id", "a", "--seed", 1)[0] == 0
    (kept,) = Path("results/a/demonstrations").iterdir()
    (tmp_path / "cart.yaml").write_text((FILE + shown).replace("max_steps: 500", "max_steps: 700"))
    out, _ = done(learn("--run-id", "a", "--resume"))
    assert "Step: 700." in out
    done(learn("--run-id", "a", "--force"))
    assert kept.is_dir()
    assert learn("--inference", "--episodes", 1, "--run-id", "b")[0] == 0


@pytest.mark.parametrize("has_checkpoint", [True, slow(False)])
def test_a_run_goes_on_without_the_demonstrations_it_has_read(learn, tmp_path, has_checkpoint):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    write_unity(recording_of(find_replay(poles(tmp_path / "poles", 2))), theirs / "Pole.demo", "Cart")
    (theirs / "cart.yaml").write_text(FILE + "    behavioral_cloning: {demo_path: Pole.demo}\n")
    assert learn("--run-id", "a", "--seed", 1, file="theirs/cart.yaml")[0] == 0
    kept = yaml_layer("results/a/configuration.yaml").values["behaviors"]["Cart"]["behavioral_cloning"]["demo_path"]
    assert kept == str((theirs / "Pole.demo").resolve())
    shutil.rmtree(theirs)
    if not has_checkpoint:
        without_checkpoints(Path("results/a"))
    done(learn("--run-id", "a", "--resume", file=None, env=None))
    (replay,) = Path("results/a/demonstrations").iterdir()
    config = yaml_layer("results/a/config.yaml").values
    assert config["policies"]["Cart"]["imitation"]["replay"] == [str(replay)]


# --- playing ----------------------------------------------------------------------------------------------------------


def test_inference_plays_and_says_what_was_earned(cart, learn):
    before = {path: path.stat().st_mtime_ns for path in cart.rglob("*")}
    out, _ = done(learn("--run-id", "cart", "--resume", "--inference", "--episodes", 10, file=None, env=None))
    assert "Not Training." in out
    assert out.splitlines()[-1].startswith("Cart: mean reward ")
    assert ", 10 episodes, " in out
    assert {path: path.stat().st_mtime_ns for path in cart.rglob("*")} == before
    error = refused(learn("--run-id", "cart", "--inference"))
    assert "there is data of that run already" in error
    assert "--force" not in error


def test_inference_plays_what_is_given_now_or_refuses_it_by_name(cart, learn, monkeypatch):
    counts = []
    made = run.make_copies
    monkeypatch.setattr(run, "make_copies", lambda config, count, **how: counts.append(count) or made(config, count))
    words = ("--run-id", "cart", "--resume", "--inference", "--episodes", 4)
    plain = learn(*words, file=None, env=None)[1].splitlines()[-1]
    assert learn(*words)[1].splitlines()[-1] == plain  # the file and the environment that it was trained with
    assert learn(*words, "--seed", 9, file=None, env=None)[1].splitlines()[-1] != plain
    assert learn(*words, "--num-envs", 3)[0] == 0
    assert counts == [8, 8, 8, 3]
    out, _ = done(learn(*words, "--env-args", "sutton_barto_reward=true", file=None, env=None))
    assert "mean reward -1.000" in out
    assert "--env: env.name = Acrobot-v1" in refused(learn(*words, file=None, env="Acrobot-v1"))
    Path("cart.yaml").write_text(FILE + "environment_parameters: {no_such: 3}\n")
    assert "no_such: CartPole-v1 has no such parameter" in refused(learn(*words))


@pytest.mark.slow
def test_a_file_may_ask_for_inference_too(cart, learn, tmp_path):
    (tmp_path / "cart.yaml").write_text(FILE + "checkpoint_settings: {run_id: cart, resume: true, inference: true}\n")
    out, _ = done(learn("--episodes", 2))
    assert ", 2 episodes, " in out


def test_inference_without_a_run_plays_first_weights(learn):
    out, _ = done(learn("--run-id", "new", "--inference", "--episodes", 4, "--console", "quiet"))
    assert ", 4 episodes, " in out
    assert not Path("results").exists()


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_a_program_is_a_unity_player_and_nothing_the_editor(learn, tmp_path):
    pytest.importorskip("grpc")
    player = tmp_path / "Game.x86_64"
    player.write_text("#!/bin/sh\necho no game\nexit 3\n")
    player.chmod(0o755)
    for name in ("Game.x86_64", "Game"):
        code, _, error = learn(env=str(tmp_path / name))
        assert code == 1
        assert "ended by itself with exit code 3" in error
        assert "no game" in error
    (tmp_path / "notes.txt").write_text("x")
    assert "no program" in refused(learn(env="notes.txt"))
    code, _, error = learn("--timeout-wait", 1, "--base-port", 25004, env=None)
    assert code == 1
    assert "press Play" in error
    assert not Path("results").exists()


def test_an_unknown_behaviour(learn, tmp_path):
    (tmp_path / "other.yaml").write_text(FILE.replace("Cart:", "agent1:") + "  agent3: {max_steps: 100}\n")
    error = refused(learn(file="other.yaml", env="MultiAgentArena"))
    assert "agent2" in error
    assert "agent1" in error


NOT_RUN = [
    ("default: {trainer: ppo}\nCart: {max_steps: 5.0e4}\n", "cart.yaml", "", "rookery mlagents convert"),
    (FILE.replace("max_steps", "max_step"), "cart.yaml", "", "max_steps"),
    (FILE.replace("    max_steps: 500", "\tmax_steps: 500"), "cart.yaml", "", "cart.yaml:6"),
    ("behaviors: [", "cart.yaml", "", "cart.yaml"),
    (FILE.replace("Cart:", "checkpoints:"), "cart.yaml", "", "behaviors.checkpoints"),
    (FILE, "nowhere.yaml", "", "nowhere.yaml: there is no such file"),
    (FILE, "cart.yaml", "--run-id ../x", "--run-id"),
    (FILE, "cart.yaml", "--env-args nonsense", "--env-args"),
    (FILE, "cart.yaml", "--env-args x", "--env-args: 'x' must be name=value"),
    (FILE, "cart.yaml", "--env-args x=1 --num-envs 4", "--env-args: takes all words after it, --num-envs too"),
    (FILE, "cart.yaml", "--run-id b --console mlagent", "did you mean 'mlagents'"),
    (FILE, "cart.yaml", "--run-id new --episodes 3", "--inference"),
]
"""The file, the file that is named, words of the command, and a part of the message."""


@pytest.mark.parametrize(("text", "file", "words", "told"), NOT_RUN)
def test_mistakes_are_told_without_a_traceback(learn, tmp_path, text, file, words, told):
    (tmp_path / "cart.yaml").write_text(text)
    assert told in refused(learn(*words.split(), file=file))
    assert not Path("results").exists()


# --- the alias --------------------------------------------------------------------------------------------------------


def test_alias_writes_two_lines(rookery, tmp_path):
    out, _ = done(rookery("mlagents", "alias", "bin"))
    assert "PATH" in out
    for name in ("learn", "run-experiment", "push-to-hf", "load-from-hf"):
        written = tmp_path / "bin" / f"mlagents-{name}"
        assert len(written.read_text().splitlines()) == 2
        assert os.access(written, os.X_OK)
    assert "--force" in refused(rookery("mlagents", "alias", "bin"))


class Hub(ModuleType):
    """Stands for huggingface_hub."""

    def __init__(self):
        super().__init__("huggingface_hub")
        self.files = {}

    def HfApi(self):
        return self

    def create_repo(self, repo_id, exist_ok):
        return f"https://hub/{repo_id}"

    def upload_folder(self, repo_id, folder_path, commit_message, ignore_patterns):
        assert "run.lock" in ignore_patterns
        self.files[repo_id] = {path.name for path in Path(folder_path).iterdir()}

    def upload_file(self, repo_id, path_or_fileobj, path_in_repo, commit_message):
        self.files[path_in_repo] = path_or_fileobj.decode()

    def snapshot_download(self, repo_id, local_dir):
        self.files["taken"] = (repo_id, str(local_dir))


def test_runs_go_to_the_hub_and_come_from_it(cart, rookery, monkeypatch):
    hub = Hub()
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    out, _ = done(rookery("mlagents", "push-to-hf", "--repo-id", "me/cart", "--local-dir", cart, "--run-id", "cart"))
    assert "https://hub/me/cart" in out
    assert {"Cart.onnx", "configuration.yaml", "checkpoints"} <= hub.files["me/cart"]
    assert json.loads(hub.files["config.json"])["behaviors"]["Cart"]["max_steps"] == 500
    assert "library_name: ml-agents" in hub.files["README.md"] and "- ML-Agents-Cart" in hub.files["README.md"]
    done(rookery("mlagents", "load-from-hf", "--repo-id", "me/cart", "--local-dir", "results"))
    assert hub.files["taken"] == ("me/cart", "results/cart")
    assert "must be OWNER/NAME" in refused(rookery("mlagents", "load-from-hf", "--repo-id", "me/.."))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "rookery-rl[hub]" in refused(rookery("mlagents", "load-from-hf", "--repo-id", "me/cart"))


# --- tuning -----------------------------------------------------------------------------------------------------------


def test_hyperparameters_of_a_file_are_tuned_by_their_keys(learn, rookery, tmp_path):
    domain = "behaviors.Cart.hyperparameters.learning_rate={grid_search: [1.0e-3, 1.0e-12]}"
    words = [domain, "behaviors.Cart.max_steps=300", "tune.place=here", "--seed", 1, "--name", "lr", "--quiet"]
    done(rookery("tune", "cart.yaml", "CartPole-v1", *words))
    rates = set()
    for trial in sorted(Path("runs/lr/trials").iterdir()):
        kept = yaml_layer(trial / "run" / "configuration.yaml").values["behaviors"]["Cart"]
        rates.add(kept["hyperparameters"]["learning_rate"])
        assert kept["max_steps"] == 300
        assert (trial / "run" / "Cart.onnx").is_file()
        last = json.loads((trial / "metrics.jsonl").read_text().splitlines()[-1])
        assert last["finished"] == 1 and last["policies/Cart/decisions"] >= 300 and last["return_mean"] > 5
    assert rates == {1e-3, 1e-12}
    out, _ = done(rookery("tune", "show", "runs/lr"))
    assert "return_mean" in out and "learning_rate" in out
    done(rookery("evaluate", trial / "run", "--episodes", 1))
    assert "names the algorithm" in refused(rookery("tune", "cart.yaml", "--algo", "ppo", domain))


# --- settings of Rookery ----------------------------------------------------------------------------------------------


def test_settings_of_rookery_stand_behind_the_file(learn, rookery):
    done(learn("stop.env_steps=256", "policies.Cart.gae_lambda=0.5", "--run-id", "a", "--seed", 1))
    kept = yaml_layer("results/a/config.yaml").values
    assert kept["stop"]["env_steps"] == 256
    assert kept["policies"]["Cart"]["gae_lambda"] == 0.5
    out, _ = done(rookery("explain", "results/a", "policies.Cart.gae_lambda"))
    assert "command line" in out
    _, out, _ = learn("stop.env_steps=300", "--run-id", "a", "--resume", file=None)
    assert yaml_layer("results/a/config.yaml").values["stop"]["env_steps"] == 300
    assert json.loads(Path("results/a/metrics.jsonl").read_text().splitlines()[-1])["env_steps"] >= 300
    assert "give --num-envs instead" in refused(learn("sampling.num_envs=3", "--run-id", "b"))
    assert "did you mean 'env_steps'" in refused(learn("stop.env_stepss=3", "--run-id", "b"))
    assert "is neither a flag nor PATH=VALUE" in refused(learn("more.yaml", "--run-id", "b"))


@pytest.mark.slow
def test_the_alias_is_the_command(rookery, tmp_path):
    rookery("mlagents", "alias", "bin")
    written = tmp_path / "bin" / "mlagents-learn"
    there = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    words = [written, "--run-id", "x", "--resume"]
    run = subprocess.run(words, capture_output=True, text=True, check=False, env=there)
    assert run.returncode == 2
    assert "there is no run 'x'" in run.stderr


def test_a_run_that_is_finished_says_who_and_where_to_change_it(cart, learn):
    _, _, error = learn("--run-id", "cart", "--resume")
    assert "Cart has learned from 512 decisions, and has a limit of 500" in error
    assert "policies.Cart.max_decisions, given by cart.yaml:6 max_steps" in error


def test_another_trainer_is_refused_in_one_line(cart, learn, tmp_path):
    (tmp_path / "sac.yaml").write_text("behaviors: {Cart: {trainer_type: sac}}")
    (tmp_path / "card.yaml").write_text(FILE.replace("Cart:", "Card:"))
    said = refused(learn("--run-id", "cart", "--resume", file="sac.yaml")).strip()
    assert "learned by ppo in results/cart" in said and "\n" not in said
    said = refused(learn("--run-id", "cart", "--resume", file="card.yaml")).strip()
    assert "has no behaviour 'Card'; did you mean 'Cart'?" in said and "\n" not in said


def test_environments_and_their_arguments_have_hints(learn):
    assert "did you mean 'Basic'?" in learn(env="rookery.tasks:Bsic")[2]
    assert "did you mean 'rookery.tasks.basic:Basic'?" in learn(env="rookery.task:Basic")[2]
    assert "--env-args has 'x', unknown" in learn("--env-args", "x=1", env="rookery.tasks:Basic")[2]


def test_a_seed_that_was_drawn_says_so(rookery, learn):
    assert learn("--run-id", "drawn")[0] == 0
    out = rookery("explain", "results/drawn", "seed")[1]
    assert out.startswith("seed = ") and "null" not in out and "drawn when the run began" in out
