"""rookery replay record, import, export and show: demonstrations at the command line."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rookery.replay.recording import recording_of
from rookery.replay.segments import find_replay

LEAN = "def lean(obs):\n    return int(obs[2] + obs[3] > 0)\n\n\nclass Lean:\n    def __call__(self, obs, info):\n"
LEAN += "        return lean(obs)\n\n\nnumber = 3\n"


@pytest.fixture
def scripts(tmp_path, rookery):
    """A module of functions in the folder that commands run in."""
    (tmp_path / "leaning_scripts.py").write_text(LEAN)
    return "leaning_scripts"


def recorded(rookery, scripts, *words, out="demos"):
    return rookery("replay", "record", "CartPole-v1", "--from", f"{scripts}:lean", "-o", out, *words)


def lines_of(text):
    return {line[2:16].strip(): line[16:] for line in text.splitlines() if line.startswith("  ")}


def test_a_function_is_recorded_shown_and_started_from(rookery, scripts):
    code, out, err = recorded(rookery, scripts, "--episodes", 2, "--max-episode-steps", 60, "--seed", 4)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "episode 1: return 60, 60 steps, kept",
        "episode 2: return 60, 60 steps, kept",
        "demos: 120 decisions in 2 recorded episodes",
    ]
    code, out, _ = rookery("replay", "show", "demos")
    found = lines_of(out)
    assert found["episodes"] == "2 ended: 0 terminated, 2 truncated"
    assert found["returns"] == "min 60, mean 60, max 60, standard deviation 0, undiscounted"
    assert found["missing"] == "log-probabilities are unknown and stored as 0"
    words = ["--algo", "dqn", "--preset", "none", "--evaluate", 0, "--stop", "env_steps=20", "sampling.num_envs=2"]
    code, out, err = rookery("train", "CartPole-v1", *words, "--plain", "--seed", 1, "--replay", "demos")
    assert code == 0, err
    assert "policies.main.replay.start_from: 120 decisions of demos:main" in out + err


def test_a_class_with_a_call_and_settings_of_the_environment_are_taken(rookery, scripts):
    words = ["--from", f"{scripts}:Lean", "--episodes", 1, "-o", "demos", "config.max_episode_steps=30"]
    code, out, err = rookery("replay", "record", "CartPole-v1", *words)
    assert code == 0, err
    assert out.splitlines()[0] == "episode 1: return 30, 30 steps, kept"


def test_a_run_is_recorded_in_its_own_environment_and_only_what_is_good_is_kept(rookery, runs):
    code, out, err = rookery("replay", "record", "--from", "cart", "--episodes", 2, "-o", "demos", "--min-return", 9)
    assert code == 0, err
    assert "missing" not in rookery("replay", "show", "demos")[1]
    code, _, err = rookery("replay", "record", "--from", "cart", "-o", "d2", "--episodes", 1, "--min-return", 1e6)
    assert code == 2
    assert "of 100 episodes 0 were good enough to be kept, and 1 are needed" in err
    code, out, err = rookery("replay", "record", "--from", "arena", "--episodes", 1, "-o", "both")
    assert code == 0, err
    code, out, _ = rookery("replay", "show", "both")
    assert [line for line in out.splitlines() if not line.startswith(" ")] == ["both:pol1", "both:pol2"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--from", "{0}:laen"], "has no 'laen'; did you mean 'lean'?"),
        (["--from", "{0}:number"], "this is int, not a function of an observation"),
        (["--from", "nowhere"], "there is no such run"),
        (["--from", "keyboard", "--view", "tv"], "--view tv: must be auto, terminal or window"),
        (["--from", "keyboard", "--key", "a=7"], "--key a=7: 7 is not an action of Discrete(2)"),
        (["--from", "keyboard", "--idle", "9"], "--idle 9: this is not an action of Discrete(2)"),
        (["--from", "keyboard", "--view", "terminal"], "standard input is not a terminal"),
    ],
)
def test_what_cannot_be_recorded_is_refused(rookery, scripts, words, problem, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin", (tmp_path / f"{scripts}.py").open())
    words = [word.format(scripts) for word in words]
    code, _, err = rookery("replay", "record", "CartPole-v1", *words, "-o", "demos")
    assert code == 2
    assert problem in err
    assert not (tmp_path / "demos").exists()


def test_what_is_kept_is_written_after_ctrl_c(rookery, scripts, tmp_path):
    text = "\n\nsteps = []\n\n\ndef tired(obs):\n    steps.append(obs)\n    if len(steps) == 50:\n"
    text += "        raise KeyboardInterrupt\n    return lean(obs)\n"
    (tmp_path / "tired_scripts.py").write_text(LEAN + text)
    words = ["--from", "tired_scripts:tired", "--max-episode-steps", 20, "-o", "demos"]
    code, out, _ = rookery("replay", "record", "CartPole-v1", *words)
    assert code == 130
    assert out.splitlines()[-1] == "demos: 40 decisions in 2 recorded episodes"
    assert [len(episode) for episode in recording_of(find_replay("demos")).episodes] == [20, 20]


def test_an_environment_is_needed_and_one_is_enough(rookery, scripts):
    code, _, err = rookery("replay", "record", "--from", f"{scripts}:lean", "-o", "demos")
    assert (code, err.startswith("error: command line: the environment is missing")) == (2, True)
    code, _, err = rookery("replay", "record", "A-v0", "B-v0", "--from", f"{scripts}:lean", "-o", "demos")
    assert (code, "'A-v0' is the environment, and 'B-v0' is not a setting" in err) == (2, True)
    recorded(rookery, scripts, "--episodes", 1, "--max-episode-steps", 5)
    code, _, err = recorded(rookery, scripts, "--episodes", 1)
    assert (code, "--output demos: the directory exists; add --force" in err) == (2, True)


@pytest.mark.parametrize("suffix", ["npz", "csv", "json", "demo"])
def test_what_was_recorded_goes_to_others_and_comes_back(rookery, scripts, suffix):
    recorded(rookery, scripts, "--episodes", 2, "--max-episode-steps", 40)
    code, out, err = rookery("replay", "export", "demos", "-o", f"out/pole.{suffix}")
    assert code == 0, err
    assert out.splitlines()[-1] == f"out/pole.{suffix}: 80 decisions of demos:main"
    code, out, err = rookery("replay", "import", f"out/pole.{suffix}", "-o", "back", "--env", "CartPole-v1")
    assert code == 0, err
    assert out.splitlines()[0] == "back:main: 80 decisions in 2 episodes"
    one, other = (recording_of(find_replay(place)) for place in ("demos", "back"))
    assert one.spaces == other.spaces
    for a, b in zip(one.episodes, other.episodes, strict=True):
        np.testing.assert_array_equal(a.obs["obs"], b.obs["obs"])
        np.testing.assert_array_equal(a.last_obs["obs"], b.last_obs["obs"])
        np.testing.assert_array_equal(a.action, b.action)
        np.testing.assert_array_equal(a.reward, b.reward)
    code, _, err = rookery("replay", "import", f"out/pole.{suffix}", "-o", "car", "--env", "MountainCar-v0")
    assert code == 2, err
    assert f"out/pole.{suffix}: " in err
    code, out, err = rookery("replay", "import", f"out/pole.{suffix}", "-o", "again", "--like", "demos")
    assert code == 0, err


def test_columns_are_named_and_bad_ones_are_refused(rookery, tmp_path):
    (tmp_path / "log.csv").write_text("x,v,push,gain,over\n0,1,0,1,0\n1,1,1,1,1\n2,,0,1,0\n")
    words = ["--column", "obs=x,v", "--column", "action=push", "--column", "reward=gain", "--column", "terminated=over"]
    code, _, err = rookery("replay", "import", "log.csv", "-o", "log", *words)
    assert (code, err) == (
        2, "error: log.csv: row 3 (line 4): obs: non-finite observation nan (expected finite numbers); mend the row, "
        "or leave its episode out of the file\n"
    )  # fmt: skip
    (tmp_path / "log.csv").write_text("x,v,push,gain,over\n0,1,0,1,0\n1,1,1,1,1\n2,5,0,1,0\n")
    code, out, err = rookery("replay", "import", "log.csv", "-o", "log", *words, "--policy", "driver")
    assert code == 0, err
    assert out.splitlines()[:2] == ["log:driver: 3 decisions in 2 episodes", "log:driver"]
    told = lines_of(out)
    assert told["observations"] == "Box(-inf, inf, (2,), float32)" and told["actions"] == "Discrete(2)"
    assert "log-probabilities are unknown and stored as 0; the final observations" in told["missing"]
    assert told["obs range"] == "0 to 2, 1 to 5" and told["imported"] == "log.csv"
    assert told["returns"] == "min 2, mean 2, max 2, standard deviation 0, undiscounted"
    code, out, _ = rookery("replay", "show", "log")
    assert lines_of(out)["episodes"] == "1 ended: 1 terminated, 0 truncated; 1 under way"
    for wrong, problem in (
        (["--column", "obs=y"], "has no column 'y' for obs; there are x, v, push, gain, over"),
        (["--column", "obs"], "--column obs: must be ROLE=NAMES"),
        (["--env", "CartPole-v1", "--like", "log"], "leave one of them out"),
        (["--format", "cvs"], "did you mean 'csv'"),
    ):
        code, _, err = rookery("replay", "import", "log.csv", "-o", "other", *words, *wrong)
        assert (code, problem in err) == (2, True), err
    code, _, err = rookery("replay", "import", "lgo.csv", "-o", "other")
    assert (code, err) == (2, "error: lgo.csv: there is no such file; did you mean log.csv?\n")


def test_a_time_limit_of_the_environment_holds_where_only_done_ends_episodes(rookery, tmp_path):
    rng = np.random.default_rng(0)
    rows = [[*rng.normal(size=3).round(3), rng.uniform(-2, 2), -1.0, int(n % 200 == 0), 7] for n in range(1, 401)]
    names = ["obs_0", "obs_1", "obs_2", "torque", "reward", "done", "day"]
    (tmp_path / "swing.csv").write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]))
    words = ("replay", "import", "swing.csv", "--column", "action=torque", "--env", "Pendulum-v1", "-o")
    code, out, err = rookery(*words, "known")
    told = lines_of(out)
    assert code == 0 and told["episodes"] == "2 ended: 0 terminated, 2 truncated", err
    assert "200 decisions, the time limit of the environment, count as truncated; --time-limit N" in out
    assert told["columns"] == ("action: torque; observation: obs_0, obs_1, obs_2; reward: reward; terminated: done")
    assert told["dropped"] == "day"
    code, out, _ = rookery(*words, "given", "--time-limit", 100)
    assert code == 0 and lines_of(out)["episodes"] == "4 ended: 0 terminated, 4 truncated"
    assert "time limit of the environment" not in out
    assert lines_of(rookery("replay", "show", "known")[1])["columns"] == told["columns"]


def test_bounds_of_actions_can_be_said_where_nothing_else_says_them(rookery, tmp_path):
    rows = [[day, 0.1 * step, step % 3, 1.0] for day in range(3) for step in range(4)]
    text = "\n".join(",".join(map(str, row)) for row in [("day", "obs", "action", "reward"), *rows])
    (tmp_path / "log.csv").write_text(text)
    words = ("replay", "import", "log.csv", "--column", "episode=day", "--time-limit", 4, "-o")
    code, _, err = rookery(*words, "power", "--action-bounds=0,2")
    assert code == 0, err
    made = find_replay("power")
    assert made.spaces.action.space == spaces.Box(0, 2, (1,), np.float32)
    np.testing.assert_allclose(recording_of(made).episodes[0].action[:, 0], [-1, 0, 1, -1])  # in half the range
    for wrong, problem in (
        ("--action-bounds=0,1", "row 3 (line 4): action is [2], which is outside the bounds"),
        ("--action-bounds=2,0", "the least comes first"),
        ("--action-bounds=2", "must be the least and the largest"),
    ):
        code, _, err = rookery(*words, "other", wrong)
        assert (code, problem in err) == (2, True), err
    code, _, err = rookery(*words, "other", "--action-bounds=0,2", "--like", "power")
    assert (code, "leave one of them out" in err) == (2, True)
    assert rookery("replay", "export", "power", "-o", "own.npz")[0] == 0
    code, _, err = rookery("replay", "import", "own.npz", "-o", "other", "--action-bounds=0,1")
    assert (code, "the actions of main are Box(0.0, 2.0, (1,), float32) according to own.npz" in err) == (2, True)


def test_show_warns_where_nothing_says_how_episodes_ended(rookery, tmp_path):
    rows = [[day, step, step % 2, 1.0] for day in range(3) for step in range(4)]
    (tmp_path / "log.csv").write_text(
        "\n".join(",".join(map(str, row)) for row in [("day", "obs", "action", "reward"), *rows])
    )
    words = ("replay", "import", "log.csv", "--column", "episode=day", "-o")
    code, out, err = rookery(*words, "open")
    told = lines_of(out)
    assert code == 0 and told["warning"].startswith("no column has the ends of episodes, so none counts as whole"), err
    assert told["on disk"].endswith("MB in 1 file") and told["written"].count("ago") == 1
    code, out, _ = rookery(*words, "cut", "--time-limit", 4)
    assert code == 0 and "warning" not in lines_of(out)


def test_show_says_that_rewards_are_not_known(rookery, tmp_path):
    np.savez(tmp_path / "a.npz", obs=np.zeros((4, 3)), actions=np.zeros(4, int), dones=np.array([0, 0, 0, 1]))
    assert rookery("replay", "import", "a.npz", "-o", "a")[0] == 0
    found = lines_of(rookery("replay", "show", "a")[1])
    assert (found["rewards"], found["returns"], found["lengths"]) == ("not known", "not known", "min 4, mean 4, max 4")
    assert found["missing"].startswith("rewards are unknown and stored as 0: for imitation only; ")


# --- data of others ---------------------------------------------------------------------------------------------------


@pytest.fixture
def walk(tmp_path):
    """A file as D4RL has them: ten episodes of 12 decisions that end, the k-th of which earns k in each."""
    import h5py

    ends = np.arange(1, 121) % 12 == 0
    with h5py.File(tmp_path / "walk.hdf5", "w") as file:
        file["observations"] = np.linspace(-1, 1, 240).reshape(120, 2).astype(np.float32)
        file["actions"] = np.linspace(-0.5, 0.75, 120).reshape(120, 1).astype(np.float32)
        file["rewards"] = np.repeat(np.arange(10), 12).astype(np.float32)
        file["terminals"] = ends
        file["infos/qpos"] = np.zeros((120, 1))
    return "walk.hdf5"


def test_an_import_of_d4rl_is_reported(rookery, walk):
    code, out, err = rookery("replay", "import", walk, "-o", "data")
    assert (code, err) == (0, "")
    told = lines_of(out)
    assert out.splitlines()[0] == "data:main: 120 decisions in 10 episodes"
    assert told["episodes"] == "10 ended: 10 terminated, 0 truncated"
    assert told["returns"] == "min 0, mean 54, max 108, standard deviation 34.4674, undiscounted"
    assert told["lengths"] == "min 12, mean 12, max 12"
    assert told["rewards"] == "min 0, mean 4.5, max 9"
    assert told["obs range"] == "-1 to 0.9916, -0.9916 to 1" and told["actions range"] == "-0.5 to 0.75"
    assert told["dropped"] == "infos/qpos" and told["imported"] == walk
    assert told["warning"].startswith(
        "10 of 10 episodes that terminated did so after 12 decisions, and none was longer"
    )
    assert told["warning"].endswith("import again with --time-limit 12")
    shown = lines_of(rookery("replay", "show", "data")[1])
    assert shown | {"written": ""} == told | {"written": ""}
    assert lines_of(rookery("replay", "export", "data", "-o", "again")[1]) == {}
    assert lines_of(rookery("replay", "show", "again")[1])["dropped"] == "infos/qpos"
    code, out, err = rookery("replay", "import", walk, "-o", "data", "--force", "--time-limit", 12)
    assert code == 0, err
    assert lines_of(out)["episodes"] == "10 ended: 0 terminated, 10 truncated" and "warning" not in lines_of(out)


def test_the_best_episodes_are_imported_with_other_rewards(rookery, walk, tmp_path):
    words = ["replay", "import", walk, "-o", "data", "--force"]
    code, out, err = rookery(
        *words, "--best", "20%", "--reward-scale", 0.5, "--reward-shift", -1, "--reward-clip=-1,3.25"
    )
    assert code == 0, err
    told = lines_of(out)
    assert told["decisions"] == "24" and told["rewards"] == "min 3, mean 3.125, max 3.25"
    assert told["notes"] == (
        "2 of 10 episodes were selected: the best 20 %; rewards were relabelled: times 0.5, plus -1, from -1 to 3.25"
    )
    for chosen, count in ((["--min-return", 60], 60), (["--last-episodes", 3], 36), (["--last-decisions", 13], 24)):
        assert lines_of(rookery(*words, *chosen)[1])["decisions"] == str(count)
    (tmp_path / "goals.py").write_text(
        "def still(obs, action, reward, next_obs, terminated):\n    return -abs(action)[:, 0]\n"
    )
    code, out, err = rookery(*words, "--reward-function", "goals:still")
    assert code == 0, err
    assert lines_of(out)["rewards"].startswith("min -0.75, ")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--best", "0%"], "--best 0%: the fraction must be above 0 and at most 1, as in 0.1 or 10%"),
        (["--best", "many"], "--best many: the fraction must be"),
        (["--reward-clip", "3"], "--reward-clip 3: must be the least and the largest, as in -1,1"),
        (["--reward-clip=1,-1"], "the smallest reward comes first"),
        (["--min-return", "1000"], "walk.hdf5: no episode has a return of 1000 or more, the best one has 108"),
        (["--reward-function", "nowhere:rewards"], "nowhere"),
        (["--column", "step=rewards"], "walk.hdf5: row 2: step is 0.0, and 0.0 in the previous row: time jumps"),
        (["--env", "Pendulum-v1"], "walk.hdf5: obs has 2 numbers in a row"),
    ],
)
def test_what_cannot_be_imported_is_refused(rookery, walk, words, problem):
    code, _, err = rookery("replay", "import", walk, "-o", "data", *words)
    assert code in (1, 2) and problem in err and "Traceback" not in err, err
    assert rookery("replay", "show", "data")[0] != 0


def test_the_environment_of_the_command_line_is_played_and_not_that_of_the_run(rookery, runs, tmp_path):
    (tmp_path / "short_poles.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\nfrom gymnasium.wrappers import TimeLimit\n\n\n"
        "def make():\n    return TimeLimit(CartPoleEnv(), 5)\n"
    )
    code, out, err = rookery("replay", "record", "short_poles:make", "--from", "cart", "--episodes", 1, "-o", "short")
    assert code == 0, err
    assert out.splitlines()[0] == "episode 1: return 5, 5 steps, kept"
    code, _, err = rookery("replay", "record", "Acrobot-v1", "--from", "cart", "--episodes", 1, "-o", "other")
    assert code == 2
    assert "its policy 'main' was made for" in err
