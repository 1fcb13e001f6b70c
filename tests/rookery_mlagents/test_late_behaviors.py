"""Behaviours of pretended Unity players that appear late, goals they say, and runs in them that are looked at after."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from late_kinds import ACTIONS, Kinds

pytest.importorskip("grpc")

from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.recording import RecordedEpisode, Recording
from rookery.replay.segments import Spaces
from rookery.run.trainer import Trainer
from rookery_mlagents.files.demo_replay import write_unity
from rookery_mlagents.learn.learn import Request, learning
from rookery_mlagents.link.grpc_server import PlayerLink
from selection import slow

TWO = """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 32, buffer_size: 64, num_epoch: 1}
  network_settings: {hidden_units: 8, num_layers: 1}
  max_steps: 128
behaviors:
  Runner: {}
  Chaser: {max_steps: 256}
"""
GOALS = """
behaviors:
  Walker:
    trainer_type: ppo
    network_settings: {hidden_units: 8, num_layers: 1, goal_conditioning_type: KIND}
"""


@pytest.mark.slow
def test_a_run_waits_for_a_late_behaviour_and_is_looked_at_after_or_says_why_not(rookery, game, tmp_path):
    (tmp_path / "two.yaml").write_text(TWO)
    path = game("--behavior", "*1=Runner", "--behavior", "*2=Chaser", "--late", "Chaser:60", env="MultiAgentArena")
    words = ["--env", path, "--run-id", "t", "--seed", 1, "--base-port", 25600]
    code, _, error = rookery("mlagents", "learn", tmp_path / "two.yaml", *words)
    assert code == 0, error
    rows = [json.loads(line) for line in Path("results/t/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["policies/Runner/decisions"] >= 128, "whose own max_steps it came to first"
    assert rows[-1]["policies/Chaser/decisions"] >= 256, "the run ends with the last of both"
    assert rows[-1]["env_steps"] >= 60 + 256, "which was not there in the first steps"
    code, _, error = rookery("match", "results/t", "results/t", "--games", 2)
    assert code == 2 and "matches cannot be counted; rookery evaluate measures returns" in error
    code, _, error = rookery("evaluate", "results/t", "--episodes", 1)
    assert code == 0, error
    code, out, error = rookery("explain", "results/t", "env.step")
    assert code == 0, error
    assert "AsyncCopiesEnv.step" in out


@pytest.mark.parametrize("kind", ["hyper", slow("none")])
def test_goals_that_a_player_says_are_goals_of_the_model(game, tmp_path, kind):
    (tmp_path / "goals.yaml").write_text(GOALS.replace("KIND", kind))
    flags = {
        "env": game("--goal", "obs", "--behavior", "*=Walker", env="CartPole-v1"),
        "run_id": "g", "seed": 1, "base_port": 25620, "results_dir": str(tmp_path / "results"),
    }  # fmt: skip
    request = Request(str(tmp_path / "goals.yaml"), flags, "quiet", None, False, False)
    with learning(request, lambda *_: pytest.fail("nothing goes on")) as session:
        model = session.trainer.config.policies["Walker"].algorithm.model
        (layout,) = session.trainer.env.players.layouts.values()
        assert layout.goals and tuple(model.goals) == tuple(layout.goals)
        assert model.goal_conditioning == kind


WAITING = """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 32, buffer_size: 64, num_epoch: 1}
  network_settings: {hidden_units: 8, num_layers: 1}
  max_steps: 128
  summary_freq: 64
environment_parameters:
  wall_height:
    curriculum:
      - {name: low, value: 1, completion_criteria: {behavior: Climbr, measure: MEASURE, threshold: 0.1}}
      - {name: high, value: 2}
"""


@pytest.mark.parametrize("measure", ["reward", slow("progress")])
def test_a_lesson_that_waits_for_a_behaviour_that_never_appears_says_so_with_every_summary(
    rookery, game, tmp_path, measure
):
    (tmp_path / "c.yaml").write_text(WAITING.replace("MEASURE", measure))
    path = game("--behavior", "*=Climber", env="WallCurriculum")
    words = ["--env", path, "--run-id", "w", "--seed", 1, "--base-port", 25660]
    code, out, error = rookery("mlagents", "learn", tmp_path / "c.yaml", *words)
    assert code == 0, error
    assert "behavior = 'Climbr': the game does not have this behaviour at the start; did you mean 'Climber'" in error
    waits = "wall_height: lesson low waits for behavior Climbr, which has not appeared; did you mean 'Climber'?"
    assert out.count(waits) == out.count("Climber. Step: ") == 2


SAC = """
default_settings:
  trainer_type: sac
  hyperparameters: {batch_size: 16, buffer_size: 1000}
  network_settings: {hidden_units: 8, num_layers: 1}
  reward_signals: {extrinsic: {}, curiosity: {strength: 0.01, network_settings: {hidden_units: 8}}}
  max_steps: 96
behaviors:
  Runner: {}
  Chaser: {max_steps: 128}
environment_parameters:
  size:
    curriculum:
      - {name: small, value: 5, completion_criteria: {behavior: Chaser, measure: progress, threshold: 0.1}}
      - {name: large, value: 6}
"""


@pytest.mark.parametrize("trainer", ["sac", slow("dqn")])
def test_late_behaviours_of_any_trainer_learn_with_signals_and_lessons(rookery, game, tmp_path, trainer):
    (tmp_path / "two.yaml").write_text(SAC.replace("sac", trainer))
    path = game("--behavior", "*1=Runner", "--behavior", "*2=Chaser", "--late", "Chaser:60", env="MultiAgentArena")
    words = ["--env", path, "--run-id", "t", "--seed", 1, "--base-port", 25720]
    code, _, error = rookery("mlagents", "learn", tmp_path / "two.yaml", *words)
    assert code == 0, error
    assert "behaviors.Chaser: the game does not have this behaviour at the start; it has Runner" in error
    rows = [json.loads(line) for line in Path("results/t/metrics.jsonl").read_text().splitlines()]
    assert rows[0].get("policies/Chaser/decisions", 0) == 0 or rows[0]["env_steps"] > 60
    assert rows[-1]["policies/Chaser/decisions"] >= 128 and rows[-1]["policies/Chaser/updates"] > 20
    assert rows[-1]["policies/Chaser/curiosity_reward"] > 0
    assert rows[-1]["curriculum/size/lesson"] == 2
    assert Path("results/t/Chaser.onnx").is_file()


ONE = """
behaviors:
  Basic:
    trainer_type: TRAINER
    hyperparameters: {batch_size: 32, HYPER}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: STEPS
    summary_freq: 64
"""


@pytest.mark.parametrize("trainer", ["ppo", slow("sac")])
def test_a_run_goes_on_with_another_build_and_more_players(rookery, game, tmp_path, trainer):
    text = ONE.replace("TRAINER", trainer).replace("HYPER", "buffer_size: 64" if trainer == "ppo" else "tau: 0.01")
    (tmp_path / "c.yaml").write_text(text.replace("STEPS", "128"))
    words = ["mlagents", "learn", tmp_path / "c.yaml", "--run-id", "o", "--seed", 1, "--base-port", 25680]
    code, _, error = rookery(*words, "--env", game())
    assert code == 0, error
    for steps, copies, build in ((256, 1, "Other"), (384, 2, "Game")):
        (tmp_path / "c.yaml").write_text(text.replace("STEPS", str(steps)))
        path = game()
        if build == "Other":
            Path(f"{path}.x86_64").rename(tmp_path / "build" / "Other.x86_64")
        more = ["--env", Path(path).with_name(build), "--num-envs", copies, "--resume"]
        code, out, error = rookery(*words, *more)
        assert code == 0, error
        assert f"/build/{build}" in error and "from here on" in error and error.count("(exact: false)") >= 1
        assert f"Step: {steps}. " in out and "Step: 64. " not in out
        rows = [json.loads(line) for line in Path("results/o/metrics.jsonl").read_text().splitlines()]
        assert rows[-1]["policies/Basic/decisions"] >= steps and not rows[-1]["exact"]


def test_weights_for_a_late_behaviour_that_a_run_does_not_have_are_asked_for_at_the_start(rookery, game, tmp_path):
    text = ONE.replace("TRAINER", "ppo").replace("HYPER", "buffer_size: 64").replace("STEPS", "64")
    (tmp_path / "one.yaml").write_text(text)
    words = ["--seed", 1, "--base-port", 25700, "--env"]
    code, _, error = rookery("mlagents", "learn", tmp_path / "one.yaml", "--run-id", "first", *words, game())
    assert code == 0, error
    late = text.partition("  Basic:")[2]
    (tmp_path / "two.yaml").write_text(f"{text}  Late:{late}")
    second = ["--run-id", "second", "--initialize-from", "first", *words, game()]
    code, _, error = rookery("mlagents", "learn", tmp_path / "two.yaml", *second)
    assert code == 2
    assert "behaviour 'Late', which has not appeared yet, is not in results/first" in error
    assert "behaviors.Basic.init_path: results/first:Basic" in error


def test_a_lesson_that_begins_in_a_run_is_told_to_its_players(rookery, game):
    path = game("--num-areas", 4, env="WallCurriculum")
    course = "curriculum.wall_height={lessons: [1.0, 2.0], threshold: -1000.0, min_episodes: 1}"
    words = ["--num-envs", 1, "--run-id", "c", "--seed", 1, "--stop", "env_steps=600", "--evaluate", 0, "--quiet"]
    small = ["algorithm.fragment_length=16", "sampling.iteration_steps=100", "env.config.base_port=25640"]
    code, _, error = rookery("train", path, *words, *small, course)
    assert code == 0, error
    rows = [json.loads(line) for line in Path("runs/c/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["curriculum/wall_height/lesson"] == 2
    log = Path("runs/c/run_logs/Player-0.log").read_text()
    assert log.index("parameter wall_height 1") < log.index("parameter wall_height 2"), "once each lesson begins"


KINDS = """
default_settings:
  trainer_type: TRAINER
  hyperparameters: {batch_size: 16, HYPER}
  network_settings: {hidden_units: 8, num_layers: 1}
  max_steps: 48
  summary_freq: 48
behaviors:
  Runner: {max_steps: 80}
  Mover: MOVER
  Picker: PICKER
  Mixer: {}
"""


@pytest.fixture
def kinds(game, tmp_path, monkeypatch):
    """Writes a player of `Kinds` whose first behaviour is there alone at first, and a configuration; gives the words of
    a training.
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))

    def written(trainer, hyper, mover="{}", picker="{}"):
        late = [word for name in ("Mover", "Picker", "Mixer") for word in ("--late", f"{name}:25")]
        text = KINDS.replace("TRAINER", trainer).replace("HYPER", hyper)
        (tmp_path / "kinds.yaml").write_text(text.replace("MOVER", mover).replace("PICKER", picker))
        words = ["--env", game(*late, env="late_kinds:Kinds"), "--seed", 1, "--base-port", 25740]
        return ["mlagents", "learn", tmp_path / "kinds.yaml", *words]

    return written


def last_row(run):
    return json.loads((Path("results") / run / "metrics.jsonl").read_text().splitlines()[-1])


def test_late_behaviours_of_sac_act_in_any_space(rookery, kinds):
    code, _, error = rookery(*kinds("sac", "buffer_size: 200, steps_per_update: 4"), "--run-id", "k")
    assert code == 0, error
    row, trainer = last_row("k"), Trainer.load("results/k", play=False)
    for name, space in ACTIONS.items():
        assert row[f"policies/{name}/decisions"] >= 48 and row[f"policies/{name}/updates"] >= 5
        assert trainer.policies[name].action_spec.num_numbers == action_spec(space).num_numbers
        assert Path(f"results/k/{name}.onnx").is_file()
    assert trainer.policies["Runner"].action_spec.sizes == (2,)


def demo(path, name):
    """Writes a demonstration of an agent of `Kinds`, whose actions are all the largest."""
    spec = action_spec(ACTIONS[name])
    obs = np.linspace(0, 0.9, 10, dtype=np.float32)[:, None].repeat(len(Kinds().reset()[0][name]), 1)
    action = np.array([1, 2]) if spec.sizes else np.ones(spec.num_numbers, np.float32)
    episode = RecordedEpisode({"obs": obs}, np.stack([action] * 10), np.ones(10, np.float32), None, True, False, None)
    spaces_of = Spaces(obs_spec(Kinds.observation_spaces[name], spec.space), spec, 0)
    write_unity(Recording(spaces_of, (episode,)), path, name)


@pytest.mark.parametrize("trainer", ["ppo", slow("sac")])
def test_late_behaviours_learn_from_demonstrations_of_their_own_spaces(rookery, kinds, tmp_path, trainer):
    for name in ("Mover", "Picker"):
        demo(tmp_path / f"{name}.demo", name)
    cloning = "{behavioral_cloning: {demo_path: Mover.demo, strength: 1.0}}"
    gail = "{reward_signals: {gail: {demo_path: Picker.demo, strength: 1.0, use_actions: true}}}"
    hyper = "buffer_size: 16, learning_rate: 0.01" if trainer == "ppo" else "buffer_size: 200, steps_per_update: 2"
    code, _, error = rookery(*kinds(trainer, hyper, cloning, gail), "--run-id", "d")
    assert code == 0, error
    assert "Mover: the game does not have this behaviour at the start; it has Runner; it is trained when it" in error
    rows = [json.loads(line) for line in Path("results/d/metrics.jsonl").read_text().splitlines()]
    losses = [
        row["policies/Mover/imitation_loss"] for row in rows if row.get("policies/Mover/imitation_loss") is not None
    ]
    assert losses and rows[-1]["policies/Picker/gail_reward"] > 0


def test_late_behaviours_begin_with_weights_of_another_run(rookery, kinds):
    words = kinds("ppo", "buffer_size: 16")
    code, _, error = rookery(*words, "--run-id", "first")
    assert code == 0, error
    frozen = [f"policies.{name}.lr=1e-20" for name in ACTIONS]
    code, _, error = rookery(*words, *frozen, "--run-id", "second", "--initialize-from", "first")
    assert code == 0, error
    first, second = (Trainer.load(f"results/{run}", play=False).policies for run in ("first", "second"))
    for name in ACTIONS:
        assert torch.equal(first[name].head.linear.weight, second[name].head.linear.weight), name


def test_what_a_late_behaviour_cannot_have_is_said_with_the_key_of_the_file(rookery, kinds, tmp_path):
    demo(tmp_path / "Picker.demo", "Picker")
    mover = "{behavioral_cloning: {demo_path: Picker.demo, strength: 1.0}}"
    code, _, error = rookery(*kinds("ppo", "buffer_size: 16", mover), "--run-id", "w")
    assert code == 2
    assert "kinds.yaml:10 behavioral_cloning.demo_path: Mover: " in error and "policy 'Mover' has" in error


DRAWN = """
behaviors:
  Walker:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 32, num_epoch: 1}
    network_settings: {hidden_units: 8, num_layers: 1}
    summary_freq: 32
environment_parameters:
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 2.0}}
  wind:
    curriculum:
      - {name: calm, value: 1, completion_criteria: {behavior: Walker, measure: progress, threshold: 0.5}}
      - {name: storm, value: 2}
"""


@pytest.mark.parametrize("seed", [{}, slow({"seed": 7})])
def test_a_player_is_reset_once_with_or_without_a_seed(game, tmp_path, monkeypatch, seed):
    resets = []
    answer = PlayerLink.answer

    def counted(link, answers, side=b"", reset=False):
        resets.append(reset)
        return answer(link, answers, side, reset=reset)

    monkeypatch.setattr(PlayerLink, "answer", counted)
    (tmp_path / "drawn.yaml").write_text(DRAWN)
    flags = {"env": game("--behavior", "*=Walker", env="CartPole-v1"), "run_id": "r", "base_port": 25780,
             "results_dir": str(tmp_path / "results"), **seed}  # fmt: skip
    request = Request(str(tmp_path / "drawn.yaml"), flags, "quiet", None, False, False)
    with learning(request, lambda *_: pytest.fail("nothing goes on")) as session:
        session.trainer.train({"env_steps": 5})
        used = session.trainer.seed
    assert sum(resets) == 1
    assert used == seed.get("seed", used) and 0 <= used < 10_000
    log = (tmp_path / "results" / "r" / "run_logs" / "Player-0.log").read_text()
    assert f"seed {used}," in log and log.count("parameter mass Uniform") == log.count("parameter wind 1\n") == 1


JUMPS = """
default_settings:
  trainer_type: TRAINER
  hyperparameters: {batch_size: 64, HYPER}
  network_settings: {hidden_units: 32, num_layers: 2}
  time_horizon: 64
  summary_freq: 5000
behaviors:
  BigWallJump: {max_steps: BIG}
  SmallWallJump: {max_steps: SMALL}
environment_parameters:
  big_wall_height:
    curriculum:
      - name: low
        completion_criteria: {measure: progress, behavior: BigWallJump, threshold: 0.5}
        value: {sampler_type: uniform, sampler_parameters: {min_value: 0.0, max_value: 2.0}}
      - {name: high, value: 4.0}
"""
JUMPERS = ("--behavior", "*=SmallWallJump", "--set-model", "BigWallJump:6:0.5", "--num-areas", 8)
WALLS = "rookery_mlagents.testing.wall_jump:WallJump"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "hyper"),
    [("ppo", "buffer_size: 1024"), ("sac", "buffer_size: 50000, steps_per_update: 4, init_entcoef: 0.01")],
)
def test_agents_that_switch_between_behaviours_learn_in_both(rookery, game, tmp_path, trainer, hyper):
    text = JUMPS.replace("TRAINER", trainer).replace("HYPER", hyper)
    (tmp_path / "jump.yaml").write_text(text.replace("BIG", "40000").replace("SMALL", "20000"))
    words = ["--env", game(*JUMPERS, env=WALLS), "--seed", 1, "--base-port", 25800, "--run-id", "j"]
    code, _, error = rookery("mlagents", "learn", tmp_path / "jump.yaml", *words)
    assert code == 0, error
    row = last_row("j")
    assert row["curriculum/big_wall_height/lesson"] == 2
    for name in ("SmallWallJump", "BigWallJump"):
        assert row[f"policies/{name}/return_mean"] > 0.9, "random actions: 0.84, as a jump clears all of these walls"


def test_a_run_whose_agents_switch_behaviours_resumes(rookery, game, tmp_path):
    """The first message of the player has SmallWallJump?team=0 alone; BigWallJump is late in both parts of the run."""
    text = JUMPS.replace("TRAINER", "ppo").replace("HYPER", "buffer_size: 64")
    words = ["--env", game(*JUMPERS, env=WALLS), "--seed", 1, "--base-port", 25820, "--run-id", "j"]
    for steps, more in ((200, []), (500, ["--resume", "--num-envs", 2])):
        (tmp_path / "jump.yaml").write_text(text.replace("BIG", str(steps)).replace("SMALL", str(steps)))
        code, _, error = rookery("mlagents", "learn", tmp_path / "jump.yaml", *words, *more)
        assert code == 0, error
        row = last_row("j")
        for name in ("SmallWallJump", "BigWallJump"):
            assert steps <= row[f"policies/{name}/decisions"] < steps + 200
    assert row["curriculum/big_wall_height/lesson"] == 2
