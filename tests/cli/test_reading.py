"""Commands that look at a run: timers, explain, evaluate, record, and how they find it."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys

import pytest
from PIL import Image

from rookery.cli import main as main_module
from rookery.core.errors import ConfigError
from rookery.core.native import best_build
from rookery.envs.native.c_playing import fragment_player

# --- finding a run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["timers", "explain", "evaluate", "record", "plot"])
def test_a_run_that_does_not_exist_lists_the_newest_and_the_nearest(rookery, runs, verb):
    code, out, err = rookery(verb, "runs/carr")
    assert code == 2
    assert err.startswith("error: runs/carr: there is no such run; did you mean 'cart'?; the newest are runs/")
    assert "runs/arena" in err and "runs/cart" in err
    assert "Traceback" not in out + err


def test_where_there_are_no_runs_the_way_to_make_one_is_said(rookery):
    assert rookery("timers", "cart")[2] == (
        "error: cart: there is no such run, and there is no run in runs; rookery train makes one\n"
    )


def test_a_run_is_found_by_path_or_name(rookery, runs):
    assert rookery("timers", "cart") == rookery("timers", "runs/cart") == rookery("timers", runs / "cart")


# --- timers -------------------------------------------------------------------------------------------------


def test_timers_show_seconds_share_calls_and_where_each_step_stands(rookery, runs):
    code, out, _ = rookery("timers", "cart")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["seconds", "share", "calls"]
    found = {line.split()[0]: line for line in lines}
    assert re.search(r"train_iteration +\d+\.\d\d +100\.0 % +40 +\S+run/trainer\.py:\d+$", found["train_iteration"])
    assert re.search(r"algorithms/on_policy/ppo\.py:\d+$", found["training_step"])  # the run's own algorithm
    at_once = best_build() is not None and fragment_player() is not None
    label, where, call = (
        ("fragments", "worker", "self.fast_loop.play(") if at_once else ("env.step", "loops/python", "env.step(")
    )
    place = re.search(rf"(\S+rollout/{where}\.py):(\d+)$", found[label])
    with open(place[1]) as file:
        assert call in file.read().splitlines()[int(place[2]) - 1]


def test_timers_that_are_missing_are_said_to_be(rookery, runs):
    (runs / "cart" / "timers.json").unlink()
    assert rookery("timers", "cart")[2].startswith("error: runs/cart/timers.json: there is no such file")


# --- explain ------------------------------------------------------------------------------------------------


def test_explain_shows_the_winner_and_what_it_beat(rookery, runs):
    assert rookery("explain", "cart", "algorithm.gamma") == (
        0, "algorithm.gamma = 0.9  (command line)\n    instead of 0.99  (default)\n", ""
    )  # fmt: skip
    assert rookery("explain", "cart", "policies.main.gamma")[1].startswith(
        "policies.main.gamma = 0.9  (command line as algorithm.gamma)\n"
    )


def test_explain_shows_a_whole_section(rookery, runs):
    _, out, _ = rookery("explain", "arena", "sampling")
    assert out.startswith("sampling.num_envs = 2  (command line)\n    instead of 8  (default)\n")
    assert "sampling.iteration_steps = null  (default)" in out


def test_explain_without_a_path_shows_what_somebody_set(rookery, runs):
    code, out, _ = rookery("explain", "arena")
    assert code == 0
    assert "policies.pol1.lr = 0.0003  (command line)" in out
    assert "env.name = MultiAgentArena  (command line)" in out
    assert "gae_lambda" not in out  # a default
    assert "policies.pol1.epochs" not in out  # inherited: it stands in the section algorithm
    assert re.search(r"\(\d+ more settings of policies are those of the section algorithm\)", out)


def test_explain_weights_shows_the_calls_of_this_run(rookery, runs):
    code, out, _ = rookery("explain", "cart", "weights")
    assert code == 0
    lines = out.splitlines()
    assert re.match(r"weights change in \S+core/optim\.py:\d+ gradient_step$", lines[0])
    assert lines[1] == "call path in this run, PPO:"
    functions = [line.split()[1] for line in lines[2:]]
    assert functions[0] == "Trainer.train_iteration"
    on_kernels = ["PPO.training_step", "gradient_steps", "Adam.kernel_step"]  # which move the weights in one call
    in_torch = ["<genexpr>", "gradient_step", "apply_gradients"]
    assert functions[-3:] == (on_kernels if best_build() else in_torch)
    for line in lines[2:]:
        place, _, text = line.split(maxsplit=2)
        file, number = place.rsplit(":", 1)
        with open(file) as source:
            assert source.read().splitlines()[int(number) - 1].strip() == text


OWN = """
import gymnasium
import numpy as np

class Wrapper(gymnasium.Wrapper):
    def step(self, action):
        return self.env.step(action)

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {}

class Drawn(Own):
    render_mode = "rgb_array"

    def reset(self, **kwargs):
        self.left = 3
        return super().reset(**kwargs)

    def step(self, action):
        self.left -= 1
        return np.full(2, self.left, np.float32), 1.0, self.left == 0, False, {}

    def render(self):
        return np.full((20, 30, 3), 80 * self.left, np.uint8)
"""


@pytest.fixture
def train_own(rookery, tmp_path, monkeypatch):
    """Makes the run ``own`` of an environment of one's own."""
    monkeypatch.delitem(sys.modules, "own_env", raising=False)
    importlib.invalidate_caches()
    (tmp_path / "own_env.py").write_text(OWN)

    def train(env, *words):
        ends = ["algorithm.fragment_length=8", "algorithm.epochs=1", "--stop", "iterations=1", "--evaluate", 0]
        code, _, err = rookery("train", f"own_env:{env}", *words, *ends, "--seed", 1, "--quiet", "--run-id", "own")
        assert code == 0, err
        return tmp_path / "runs" / "own"

    return train


@pytest.fixture
def own_run(train_own):
    """A run of an environment of one's own, in a wrapper of one's own."""
    return train_own("Own", "env.wrappers=['own_env:Wrapper']")


def test_explain_env_step_goes_on_to_the_users_environment(rookery, own_run):
    code, out, _ = rookery("explain", "own", "env.step")
    assert code == 0
    functions = [line.split()[1] for line in out.splitlines()[2:]]
    assert functions[:5] == [
        "Trainer.train_iteration",
        "LocalPool.sample",
        "LocalPool.play",
        "RolloutWorker.sample",
        "PythonLoop.play",
    ]
    assert functions[-2:] == ["Wrapper.step", "Own.step"]
    assert "own_env.py:7" in out and "own_env.py:16" in out


def test_explain_answers_from_the_source_where_the_environment_is_missing(rookery, own_run, tmp_path, monkeypatch):
    (tmp_path / "own_env.py").unlink()
    monkeypatch.delitem(sys.modules, "own_env")
    importlib.invalidate_caches()
    code, out, _ = rookery("explain", "own", "env.step")
    assert code == 0
    lines = out.splitlines()
    assert "from the source, because this run cannot be played here (env 'own_env:Own': there is no module" in lines[1]
    assert re.search(r"rollout/loops/python\.py:\d+  PythonLoop\.play$", lines[-1])
    _, out, _ = rookery("explain", "own", "weights")
    assert re.search(
        r"algorithms/on_policy/ppo\.py:\d+  PPO\.training_step\n  \S+core/optim\.py:\d+  gradient_step$", out.strip()
    )


# --- evaluate and record ------------------------------------------------------------------------------------


def test_evaluate_plays_the_last_checkpoint(rookery, runs):
    code, out, err = rookery("evaluate", "cart", "--episodes", 3)
    assert (code, err) == (0, "")
    assert re.match(r"return +\d+\.\d\d, 95 % interval \[.*\], 3 episodes, most likely actions\n", out)
    assert out.endswith("checkpoint  runs/cart/checkpoints/000040, after 640 env steps\n")


def test_evaluate_as_json_is_one_object(rookery, runs):
    _, out, _ = rookery("evaluate", "arena", "--episodes", 2, "--json", "--stochastic")
    result = json.loads(out)
    assert result["episodes"] == len(result["returns"]) == 2
    assert result["deterministic"] is False
    assert set(result["policies"]) == {"pol1", "pol2"}


def test_the_same_checkpoint_gives_the_same_measurement(rookery, runs):
    first = rookery("evaluate", "cart", "--episodes", 4, "--json")
    assert rookery("evaluate", "runs/cart/checkpoints/000040", "--episodes", 4, "--json") == first


def test_a_checkpoint_is_chosen_by_number_or_as_the_best(rookery, runs):
    assert "000030, after 480 env steps" in rookery("evaluate", "cart", "--episodes", 1, "--checkpoint", 30)[1]
    best = json.loads((runs / "cart" / "checkpoints" / "best.json").read_text())["name"]
    assert f"checkpoints/{best}, after" in rookery("evaluate", "cart", "--episodes", 1, "--checkpoint", "best")[1]
    code, _, err = rookery("evaluate", "cart", "--checkpoint", 7)
    assert code == 2
    assert "--checkpoint 7: there are " in err and "000040, best and last" in err


def test_a_run_without_checkpoints_says_so(rookery, runs):
    shutil.rmtree(runs / "cart" / "checkpoints")
    told = (
        "error: runs/cart: the run has no checkpoint yet; rookery resume runs/cart continues it until it writes one\n"
    )
    assert rookery("evaluate", "cart")[2] == told


def test_evaluating_changes_nothing_in_the_run(rookery, runs):
    before = {path: path.stat().st_mtime_ns for path in (runs / "cart").rglob("*")}
    rookery("evaluate", "cart", "--episodes", 1)
    assert {path: path.stat().st_mtime_ns for path in (runs / "cart").rglob("*")} == before


def test_record_writes_a_film_into_the_run(rookery, train_own):
    run = train_own("Drawn")
    code, out, err = rookery("record", "own", "--episodes", 2, "--fps", 20)
    assert (code, err) == (0, "")
    film = Image.open(run / "videos" / "000001.webp")
    assert film.size == (30, 20)
    assert film.n_frames == 2 * (1 + 4)  # a title, what was seen before each of the three steps, and after the last
    durations = []
    for number in range(film.n_frames):
        film.seek(number)
        film.load()
        durations.append(film.info["duration"])
    assert durations == [800, 50, 50, 50, 50] * 2
    assert "written     runs/own/videos/000001.webp" in out
    assert "length      3.0 env steps" in out


def test_labels_make_room_below_the_picture(rookery, runs):
    rookery("record", "arena", "--episodes", 1, "-o", "plain.gif", "--max-frames", 3)
    _, _, err = rookery("record", "arena", "--episodes", 1, "-o", "labelled.gif", "--labels", "--max-frames", 3)
    assert err.startswith(
        "note: labelled.gif shows the first 0.3 s; 98 later frames are left out: --seconds and --max-fr"
    )
    plain, labelled = Image.open("plain.gif"), Image.open("labelled.gif")
    assert labelled.width == plain.width
    assert labelled.height == plain.height + 3 * 20 + 8  # a line for the episode and one for each agent


def test_a_video_without_its_package_says_what_to_install(rookery, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    code, _, err = rookery("record", "cart", "-o", "film.mp4")
    assert code == 2
    assert err == "error: film.mp4: .mp4 needs the package av: pip install 'rookery-rl[video]'; .webp needs nothing\n"


def test_an_environment_without_pictures_cannot_be_filmed(rookery, own_run):
    code, _, err = rookery("record", "own")
    assert code == 1
    assert "renders no images" in err


# --- broken rows ------------------------------------------------------------------------------------------------------


def test_a_broken_row_is_named_and_a_last_one_cut_short_left_out(rookery, runs):
    path = runs / "cart" / "metrics.jsonl"
    rows = path.read_text()
    path.write_text(rows + '{"iteration": 41, "env')
    assert rookery("plot", "cart")[0] == 0
    path.write_text("{oops\n" + rows)
    assert rookery("plot", "cart")[2] == "error: runs/cart/metrics.jsonl:1: the line is not JSON\n"


@pytest.mark.regression("unclear error", "A replay that is too large for the memory ends in one line")
def test_a_command_that_finds_no_memory_ends_in_one_line(monkeypatch, capsys):
    def verb():
        raise MemoryError("Unable to allocate 3.00 TiB for an array")

    monkeypatch.setattr(main_module, "command_line", lambda: verb)
    with pytest.raises(SystemExit) as ended:
        main_module.main()
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: there is not enough memory") and "3.00 TiB" in line


@pytest.mark.regression("unclear error", "Of very many mistakes the first are printed and the rest counted")
def test_of_very_many_mistakes_the_first_are_printed(monkeypatch, capsys):
    def verb():
        raise ConfigError(*(f"run.yaml:{number}: wrong" for number in range(5000)))

    monkeypatch.setattr(main_module, "command_line", lambda: verb)
    with pytest.raises(SystemExit):
        main_module.main()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 101 and lines[-1] == "error: and 4,900 more"
