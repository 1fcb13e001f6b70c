"""rllib train, rollout and evaluate with their flags of 2021."""

import json
import pickle
import shelve
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from typer.testing import CliRunner

from rookery.cli.main import app
from rookery.core.errors import ConfigError
from rookery_rllib.base import registrations
from rookery_rllib.script import command_line, rollouts
from rookery_rllib.trainer.trial.trainable import Trainable
from rookery_rllib.tune import trainables as registry
from rookery_rllib.tune.reporters import set_verbosity


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    registry.register_trainable("climb", Climb)
    yield tmp_path / "results"
    set_verbosity(3)


class Climb(Trainable):
    def setup(self, config):
        self.height, self.lr = 0.0, config.get("lr", 1.0)

    def step(self):
        self.height += self.lr
        return {"score": self.height}

    def save_checkpoint(self, folder):
        return {"height": self.height}

    def load_checkpoint(self, checkpoint):
        self.height = checkpoint["height"]


def trials(results, name):
    return sorted(path.parent for path in (results / name).rglob("result.json"))


def rows(folder):
    return [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]


# --- train ------------------------------------------------------------------------------------------------------------


def test_flags_say_what_is_trained(results, capsys):
    command_line.train(
        ["--run", "climb", "--env", "CartPole-v0", "--stop", '{"training_iteration": 3}', "--config", '{"lr": 2}',
         "--checkpoint-freq", "2", "--checkpoint-at-end", "--experiment-name", "mine", "--framework", "torch",
         "--no-ray-ui", "--local-mode", "--scheduler", "AsyncHyperBand", "--scheduler-config", '{"max_t": 9}']
    )  # fmt: skip
    (folder,) = trials(results, "mine")
    assert [row["score"] for row in rows(folder)] == [2, 4, 6]
    assert json.loads((folder / "params.json").read_text()) == {"env": "CartPole-v0", "framework": "torch", "lr": 2}
    assert sorted(path.name for path in folder.glob("checkpoint_*")) == ["checkpoint_000002", "checkpoint_000003"]
    assert "Number of trials: 1/1 (1 TERMINATED)" in capsys.readouterr().out
    command_line.train(
        ["--run", "climb", "--env", "X", "--stop", '{"training_iteration": 4}', "--local-mode", "-v",
         "--restore", str(folder / "checkpoint_000003")]
    )  # fmt: skip
    (folder,) = trials(results, "default")
    assert [row["score"] for row in rows(folder)] == [7]
    assert "Result for climb_X_" in capsys.readouterr().out


def test_a_file_of_tuned_examples_is_run(results, tmp_path):
    file = tmp_path / "tuned.yaml"
    file.write_text(
        "first:\n  env: CartPole-v0\n  run: climb\n  stop: {training_iteration: 2}\n"
        "  config:\n    lr: {grid_search: [1e-1, 3]}\n  checkpoint-freq: 1\n"
        "second:\n  run: climb\n  num_samples: 2\n  stop:\n    score: 2\n  config:\n    env: X\n"
    )
    command_line.train(["-f", str(file), "--local-mode"])
    assert [rows(folder)[-1]["score"] for folder in trials(results, "first")] == [0.2, 6]
    assert len(trials(results, "second")) == 2
    assert list(trials(results, "first")[0].glob("checkpoint_000001"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--env", "X"], "--run is missing"),
        (["--run", "climb"], "--env is missing"),
        (["--run", "climb", "--env", "X", "--upload-dir", "s3://x"], "cloud storage"),
        (["--run", "climb", "--env", "X", "--ray-address", "127.0.0.1:1"], "a cluster needs Ray|no cluster was joined"),
        (["--run", "climb", "--env", "no_such_module.Env"], "no module"),
        (["--run", "climb", "--env", "ray.rllib.examples.env.mbmpo_env.HopperWrapper"], "env = .*mbmpo_env"),
        (["--run", "MBMPO", "--env", "no_such_module.Env"], "MB-MPO is not implemented"),
        (["-f", "none.yaml"], "cannot be read"),
        (["--run", "climb", "--env", "X", "--scheduler", "hyperbandd"], "did you mean"),
    ],
)
def test_what_is_missing_or_not_here_is_said(arguments, said):
    with pytest.raises(ConfigError, match=said):
        command_line.train(arguments)


def test_files_that_hold_something_else_are_refused(tmp_path):
    file = tmp_path / "tuned.yaml"
    for text, said in (("- 1", "experiments by name"), ("a: [", "not YAML"), ("a: {env: X}", "run is missing")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=said):
            command_line.train(["-f", str(file)])


def test_json_is_read_or_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        command_line.train(["--run", "climb", "--config", "lr=3"])
    assert ended.value.code == 2
    assert "is not JSON" in capsys.readouterr().err


def test_classes_are_found_by_their_path():
    assert command_line.found_env("gymnasium.envs.classic_control.CartPoleEnv").__name__ == "CartPoleEnv"
    assert command_line.found_env("CartPole-v0") == "CartPole-v0"
    registrations.register_env("my.env", lambda config: None)
    assert command_line.found_env("my.env") == "my.env"
    assert command_line.found_env({"grid_search": ["A", "B"]}) == {"grid_search": ["A", "B"]}


def test_an_env_by_its_path_gets_the_value_of_its_argument():
    class Delayed(gymnasium.Env):
        def __init__(self, config=None):
            pass

    assert command_line.own_config(Delayed, {"config": {"repeat_delay": 2}}) == {"repeat_delay": 2}
    for other in ({"repeat_delay": 2}, {"config": {}, "more": 1}, {}):
        assert command_line.own_config(Delayed, other) == other


def test_env_config_of_a_file_reaches_an_env_by_its_path(results, tmp_path):
    file = tmp_path / "tuned.yaml"
    file.write_text(
        "delayed:\n  env: ray.rllib.examples.env.repeat_after_me_env.RepeatAfterMeEnv\n  run: climb\n"
        "  stop: {training_iteration: 1}\n  config:\n    env_config: {config: {repeat_delay: 2}}\n"
    )
    command_line.train(["-f", str(file), "--local-mode"])
    (folder,) = trials(results, "delayed")
    assert json.loads((folder / "params.json").read_text())["env_config"] == {"repeat_delay": 2}


def test_the_commands_show_their_flags():
    for verb, flag in (("train", "--scheduler-config"), ("rollout", "--use-shelve"), ("evaluate", "--save-info")):
        shown = CliRunner().invoke(app, ["rllib", verb, "--help"])
        assert shown.exit_code == 0 and flag in shown.output


# --- rollout ----------------------------------------------------------------------------------------------------------


class Count(gymnasium.Env):
    """An episode of three steps; the action is the reward."""

    observation_space = gymnasium.spaces.Box(0, 3, (1,))
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.zeros(1), {}

    def step(self, action):
        self.at += 1
        return np.full(1, self.at), float(action), self.at == 3, False, {"at": self.at}


class Two:
    """Two agents who leave after two steps."""

    possible_agents = ["a", "b"]

    def reset(self, seed=None, options=None):
        self.at = 0
        return {"a": 0, "b": 1}, {}

    def step(self, actions):
        self.at += 1
        return {"a": 0, "b": 1}, dict(actions), {"__all__": self.at == 2}, {"__all__": False}, {}


class Acts:
    """Acts as a trainer does: with the number of its policy, and with a state that counts."""

    def __init__(self, remembers=False, many=False):
        mapping = {"policies": {"p1": 1, "p2": 2}, "policy_mapping_fn": lambda agent: agent} if many else {}
        self.config = {"multiagent": mapping, "env": "X"}
        self.remembers = remembers
        self.translation = SimpleNamespace(policy_mapping=lambda agent, episode: "p1" if agent == "a" else "p2")
        self.seen = []

    def get_policy(self, name="default_policy"):
        return SimpleNamespace(
            observation_space=Count.observation_space,
            get_initial_state=lambda: [np.zeros(1)] if self.remembers else [],
        )

    def compute_single_action(self, obs, state=None, policy_id="", prev_action=None, prev_reward=None, explore=None):
        self.seen.append((policy_id, prev_action, prev_reward, explore))
        if self.remembers:
            return int(state[0][0]), [state[0] + 1], {}
        return {"default_policy": 2, "p1": 1, "p2": 2}[policy_id]


def test_episodes_are_played_and_kept(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(rollouts, "environment_of", lambda trainer: Count())
    saver = rollouts.Saver(str(tmp_path / "out.pkl"), has_progress=True, with_info=True, episodes=2)
    assert rollouts.play(Acts(), saver, 0, 2, explore=False) == [6, 6]
    assert "2 / 2 episodes" in saver.progress_file.read_text()
    saver.close()
    kept = pickle.loads((tmp_path / "out.pkl").read_bytes())
    assert len(kept) == 2 and len(kept[0]) == 3
    obs, action, next_obs, reward, done, info = kept[0][-1]
    assert (obs[0], action, next_obs[0], reward, done, info) == (2, 2, 3, 2, True, {"at": 3})
    assert not saver.progress_file.exists()
    assert "Episode #2: reward: 6" in capsys.readouterr().out


def test_steps_end_it_too_and_states_are_passed_on(monkeypatch, tmp_path):
    monkeypatch.setattr(rollouts, "environment_of", lambda trainer: Count())
    saver = rollouts.Saver(str(tmp_path / "shelf"), as_shelf=True)
    trainer = Acts(remembers=True)
    assert rollouts.play(trainer, saver, 4, 0) == [3]  # 0 + 1 + 2
    assert trainer.seen[2] == ("default_policy", 1, np.float32(1), None)
    saver.close()
    with shelve.open(str(tmp_path / "shelf")) as kept:
        assert kept["num_episodes"] == 2 and len(kept["0"]) == 3 and len(kept["1"]) == 1
    with pytest.raises(ConfigError, match="never end"):
        rollouts.play(trainer, saver, 0, 0)


def test_each_agent_acts_by_its_policy(monkeypatch):
    monkeypatch.setattr(rollouts, "environment_of", lambda trainer: Two())
    trainer = Acts(many=True)
    assert rollouts.play(trainer, rollouts.Saver(), 0, 1) == [6]
    assert [name for name, *_ in trainer.seen] == ["p1", "p2"] * 2


def test_the_configuration_comes_from_beside_the_checkpoint(tmp_path):
    made = Climb({"lr": 3, "env": "X"}, lambda config: rollouts.NoopLogger(config, str(tmp_path)))
    (tmp_path / "params.json").write_text(json.dumps(made.config))
    path = made.save()
    assert rollouts.saved_config(path) == {"lr": 3, "env": "X"}
    assert rollouts.saved_config(str(Path(path).parent)) == {"lr": 3, "env": "X"}
    assert rollouts.saved_config(None) == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "climb", "--use-shelve"], "--out FILE"),
        (["--run", "climb", "--track-progress"], "--out FILE"),
        (["--run", "climb"], "--env is missing"),
        (["--run", "climb", "--config", '{"env": "<class X>"}'], "give its path"),
    ],
)
def test_what_a_rollout_lacks_is_said(arguments, said):
    with pytest.raises(ConfigError, match=said):
        rollouts.rollout(arguments)
