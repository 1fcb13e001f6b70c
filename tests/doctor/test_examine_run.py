"""The doctor of runs: each fault that play shows, one line for a run that works, limits of what it does."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from faulty_walks import Pair, Robot, Shared, Walk

from rookery import DQNConfig, PPOConfig, Trainer
from rookery.cli.main import main
from rookery.core.timers import TimerRow
from rookery.doctor import examine_run as examine_module
from rookery.doctor import file_rules, repeats
from rookery.doctor.examine_run import Diagnosis, examine, examine_run
from rookery.doctor.returns import plays
from rookery.doctor.returns.comparisons import compare_with_random
from rookery.doctor.returns.episode_returns import EpisodeReturns
from rookery.doctor.returns.plays import Plays
from rookery.doctor.stored_run import StoredRun
from rookery.doctor.text import diagnosis_lines, finding_lines
from rookery.models.build import ModelConfig
from rookery.report.finding import Finding
from rookery.run.findings.catalog import RULES, finding
from rookery.run.findings.history import History
from rookery.run.findings.window import windows_of

LONG = 60.0
"""Longest time of play in seconds, which ends earlier by its steps and episodes."""

QUICK = PPOConfig(fragment_length=32, epochs=1)


@pytest.fixture(autouse=True)
def short_play(monkeypatch):
    monkeypatch.setattr(plays, "EPISODES", 10)
    monkeypatch.setattr(examine_module, "STEPS", 220)
    monkeypatch.setattr(repeats, "EARLIER_STEPS", 100)


def stored(folder, env=Walk, algorithm=QUICK, iterations=3, **settings):
    settings = {"num_envs": 4, "seed": 0} | settings
    with Trainer(env, algorithm, run_dir=folder / "run", **settings) as trainer:
        trainer.train(stop={"iterations": iterations})
    return folder / "run"


ROW = {"iteration": 1, "env_steps": 10, "episodes": 1, "return_mean": 5.0, "return_min": 1.0, "return_max": 9.0,
       "length_mean": 5.0, "running_length": 0.0, "time/seconds": 4_000.0}  # fmt: skip


def names(diagnosis):
    return [one.rule for one in diagnosis.findings]


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("ignored", "actions-without-effect"),
        ("constant", "obs-constant"),
        ("late", "obs-late"),
        ("limit", "time-limit-as-termination"),
        ("fall", "termination-as-truncation"),
        ("space", "obs-out-of-space"),
        ("scale", "obs-unnormalized"),
        ("image", "images-are-categories"),
        ("twin", "obs-duplicated"),
    ],
)
def test_play_shows_a_fault(tmp_path, fault, rule):
    model = ModelConfig(normalize_obs=False, categorical_images=())
    run = stored(tmp_path, algorithm=PPOConfig(fragment_length=32, epochs=1, model=model), env_config={"fault": fault})
    faults = {"actions-without-effect", "obs-constant", "obs-late", "time-limit-as-termination", "obs-unnormalized",
              "termination-as-truncation", "obs-out-of-space", "images-are-categories", "obs-duplicated"}  # fmt: skip
    found = names(examine_run(run, time_limit=LONG))
    assert faults & set(found) == {rule}


def test_an_environment_that_breaks_its_contract_is_named(tmp_path):
    fault = {"fault": "finite"}
    run = stored(tmp_path, Walk, PPOConfig(fragment_length=8), iterations=1, env_config=fault, warmup_steps=0)
    found = examine_run(run, time_limit=LONG).findings
    assert (found[0].rule, found[0].severity) == ("obs-not-finite", "error")


def test_each_agent_is_tried_by_itself(tmp_path):
    run = stored(tmp_path, Pair)
    found = {(one.rule, one.subject) for one in examine_run(run, time_limit=LONG).findings}
    assert {("actions-without-effect", "two"), ("agent-idle", "three")} <= found
    assert ("actions-without-effect", "one") not in found


def test_a_run_that_works_has_one_line(tmp_path):
    run = stored(tmp_path, "CartPole-v1", PPOConfig(lr=1e-3), iterations=40, num_envs=8)
    diagnosis = examine_run(run, time_limit=LONG)
    assert names(diagnosis) == []
    (line,) = diagnosis_lines(diagnosis)
    assert line.startswith(f"{run}: 40 iterations, return ")
    assert "nothing found; evaluation " in line
    assert "; random play 2" in line


def test_a_collapsed_network_is_found_by_its_units_and_returns(tmp_path):
    broken = DQNConfig(lr=1.0, learning_starts=100, model=ModelConfig(activation="relu"))
    run = stored(tmp_path, "CartPole-v1", broken, iterations=12, iteration_steps=100)
    found = names(examine_run(run, time_limit=LONG))
    assert {"dead-units", "worse-than-random"} <= set(found)


def test_saturated_actions_are_found(tmp_path):
    run = stored(tmp_path, "Pendulum-v1", PPOConfig(lr=0.3, fragment_length=64), iterations=3)
    assert "actions-saturated" in names(examine_run(run, time_limit=LONG))


def test_examining_changes_nothing(tmp_path):
    run = stored(tmp_path)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    examine_run(run, time_limit=LONG)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_it_ends_in_time(tmp_path):
    run = stored(tmp_path, "Pendulum-v1", QUICK)
    began = time.monotonic()
    examine_run(run, time_limit=1)
    assert time.monotonic() - began < 4


def test_nothing_is_played_without_time_or_checkpoint(tmp_path, monkeypatch):
    run = stored(tmp_path)
    monkeypatch.setattr(Trainer, "load", None)
    diagnosis = examine_run(run, time_limit=0)
    assert diagnosis.notes == ["nothing was played: --seconds 0"]
    (line,) = diagnosis_lines(diagnosis)
    assert "only rows and files were examined, and nothing found; nothing was played" in line


def test_the_environment_of_a_run_without_a_checkpoint_is_played_at_random(tmp_path):
    run = stored(tmp_path, env_config={"fault": "ignored"})
    shutil.rmtree(run / "checkpoints")
    diagnosis = examine_run(run, time_limit=LONG)
    assert "actions-without-effect" in names(diagnosis)
    assert diagnosis.notes == ["the run has no checkpoint: its environment was played at random only"]


def test_state_that_survives_reset_is_found_and_no_other_environment_is_blamed(tmp_path):
    found = names(examine_run(stored(tmp_path, env_config={"fault": "left"}), time_limit=LONG))
    assert "state-survives-reset" in found and not {"state-shared", "not-deterministic"} & set(found)


def test_environments_that_change_each_other_are_found(tmp_path):
    assert "state-shared" in names(examine_run(stored(tmp_path, Shared), time_limit=LONG))


def test_a_robot_is_neither_made_nor_stepped_unasked(tmp_path):
    run = stored(tmp_path, Robot, iterations=1, warmup_steps=0)
    made = Robot.made
    (note,) = examine_run(run, time_limit=LONG).notes
    assert note.startswith("nothing was played: faulty_walks:Robot is a program outside")
    assert Robot.made == made
    assert examine_run(run, time_limit=LONG, play=True).facts
    assert Robot.made > made


@pytest.mark.parametrize("name", ["external:9999", "unity:games/Walk.x86_64"])
def test_players_and_clients_are_not_stepped_unasked(tmp_path, name):
    run = stored(tmp_path)
    config = (run / "config.yaml").read_text().replace("faulty_walks:Walk", name)
    (run / "config.yaml").write_text(config)
    assert f"{name} is a program outside" in examine_run(run, time_limit=LONG).notes[0]


def test_code_of_a_foreign_run_is_not_run(tmp_path, monkeypatch):
    run = stored(tmp_path)
    monkeypatch.setattr("rookery.run.checks.trusted_code.is_own", lambda facts: False)
    monkeypatch.setattr("rookery.doctor.examine_run.Trainer", None)
    notes = examine_run(run, time_limit=LONG).notes
    assert any("faulty_walks:Walk, which is no code of Rookery" in note for note in notes)


def test_the_rules_that_a_run_ignores_are_left_out(tmp_path):
    run = stored(tmp_path, env_config={"fault": "ignored"}, config={"doctor.ignore": ["actions-without-effect"]})
    assert "actions-without-effect" not in names(examine_run(run, time_limit=LONG))


def test_the_worst_trials_of_an_experiment_are_examined(tmp_path):
    for number, value in enumerate([5.0, 1.0, 9.0, 3.0]):
        folder = tmp_path / "trials" / f"0000{number}"
        folder.mkdir(parents=True)
        row = {"iteration": 1, "env_steps": 10, "episodes": 1, "return_mean": value, "return_min": value,
               "return_max": value, "length_mean": 5.0, "running_length": 0.0}  # fmt: skip
        (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "journal.jsonl").write_text("{}\n")
    assert [one.run.folder.name for one in examine(tmp_path)] == ["00001", "00003", "00000"]


def test_a_trial_of_tune_run_of_2021_is_examined_by_its_results(tmp_path):
    learned = {"policy_loss": 0.1, "entropy": 0.0, "kl": 0.5, "cur_lr": 0.5, "grad_gnorm": 40.0}
    info = {"learner": {"default_policy": {"learner_stats": learned}}}
    returns = {"episode_reward_mean": 9.4, "episode_reward_min": 8.0, "episode_reward_max": 11.0}
    for number in range(1, 15):
        counts = {"training_iteration": number, "timesteps_total": 400 * number, "episodes_total": 40 * number}
        result = {**counts, **returns, "episode_len_mean": 9.4, "info": info}
        with (tmp_path / "result.json").open("a") as file:
            file.write(json.dumps(result) + "\n")
    checkpoint = tmp_path / "checkpoint_000014"
    checkpoint.mkdir()
    values = {"env.name": "CartPole-v1", "algorithm.lr": 0.5, "policies.default_policy.name": "ppo"}
    (checkpoint / "config.json").write_text(json.dumps({"values": values}))
    (checkpoint / "manifest.json").write_text("{}")
    diagnosis = examine_run(tmp_path, time_limit=0)
    assert {"lr-out-of-range", "entropy-collapsed", "kl-out-of-range"} <= set(names(diagnosis))
    assert "policy-unmapped" not in names(diagnosis)


def test_seeds_that_disagree_are_named(tmp_path):
    settings = "env: {name: CartPole-v1}\nseed: "
    for seed, end in enumerate([100.0, 90.0, 20.0]):
        folder = tmp_path / f"pole-s{seed}"
        folder.mkdir()
        rows = [{"iteration": n, "env_steps": n, "episodes": 9, "return_mean": value, "return_min": value - 9,
                 "return_max": value + 9, "length_mean": 9.0, "running_length": 1.0}
                for n, value in [(1, 20.0), (2, end)]]  # fmt: skip
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "config.yaml").write_text(f"{settings}{seed}\n")
    (found,) = [one for one in examine_run(tmp_path / "pole-s1").findings if one.rule == "seeds-disagree"]
    assert found.evidence[0].startswith("best pole-s0, worst pole-s2")
    last = tmp_path / "pole-s2" / "metrics.jsonl"
    kept = last.read_text()
    last.write_text(kept.replace('"env_steps": 2', '"env_steps": 20'))  # a longer run
    assert "seeds-disagree" not in names(examine_run(tmp_path / "pole-s1"))
    last.write_text(kept)
    (tmp_path / "pole-s2" / "config.yaml").write_text(f"{settings}0\n")  # a seed that stands there already
    assert "seeds-disagree" not in names(examine_run(tmp_path / "pole-s1"))
    (tmp_path / "pole-s2" / "config.yaml").write_text("env: {name: Acrobot-v1}\nseed: 2\n")
    assert "seeds-disagree" not in names(examine_run(tmp_path / "pole-s1"))


def test_a_policy_that_is_worse_than_random_play_is_an_error_only_late_in_a_run_that_does_not_learn():
    own, chance = (EpisodeReturns(tuple(mean + 0.1 * n for n in range(9))) for mean in (1.0, 5.0))
    early, late = (History(windows_of([{**ROW, "iteration": n}]), {}) for n in (5, 50))
    for history, learns, severity in ((early, False, "warning"), (late, False, "error"), (late, True, "warning")):
        (one,) = compare_with_random(Plays(own, chance), history, learns)
        assert (one.rule, one.severity) == ("worse-than-random", severity)
    (equal,) = compare_with_random(Plays(own, own), late, False)
    assert equal.rule == "no-better-than-random"


@pytest.mark.parametrize(
    ("own", "chance", "is_found"),
    [
        ((10.0, 10.1), (9.4, 10.6), True),  # certain, and 0.5 % better
        ((12.0, 12.1), (9.4, 10.6), False),
        ((1010.0, 1010.1), (999.0, 1001.0), False),  # most of the return is the same for all
        ((0.3, 0.31), (-1.0, 1.0), False),  # a game
    ],
)
def test_a_gain_that_is_certain_and_negligible_is_no_better_than_random(own, chance, is_found):
    own, chance = (
        EpisodeReturns((low, *[(low + high) / 2] * number, high))
        for number, (low, high) in zip((9, 99), (own, chance), strict=True)
    )
    assert own.interval[0] > chance.interval[1]
    found = compare_with_random(Plays(own, chance), None, False)
    assert [one.message.split(":")[0] for one in found] == ["the policy is hardly better than random play"] * is_found


# --- files -------------------------------------------------------------------------------------------------


def files(folder, **settings):
    (folder / "metrics.jsonl").write_text(json.dumps(ROW) + "\n")
    return StoredRun(folder, [ROW], settings, None)


def test_a_disk_that_is_nearly_full_is_found(tmp_path, monkeypatch):
    for free, rule in ((2**20, "disk-full"), (2**40, None)):
        usage = type("Usage", (), {"total": 2**38, "free": free})
        monkeypatch.setattr(file_rules.shutil, "disk_usage", lambda folder, usage=usage: usage)
        one = file_rules.disk_full(files(tmp_path))
        assert (one and one.rule) == rule


@pytest.mark.parametrize(("age", "rule"), [(3_000, "checkpoint-old"), (60, None)])
def test_a_checkpoint_that_is_far_behind_the_rows_is_found(tmp_path, age, rule):
    run = files(tmp_path)
    last = tmp_path / "checkpoints" / "000001"
    last.mkdir(parents=True)
    (last / "manifest.json").write_text("{}")
    now = time.time()
    os.utime(last, (now - age, now - age))
    one = file_rules.checkpoint_old(run)
    assert (one and one.rule) == rule
    os.utime(tmp_path / "metrics.jsonl", (now - 9_000, now - 9_000))
    assert file_rules.checkpoint_old(run) is None  # the run is over


def test_a_run_that_waits_for_its_environment_beside_idle_cores_is_found(tmp_path, monkeypatch):
    timers = Mock(rows=lambda: [TimerRow(0, "train_iteration", 60.0, 1.0, 1), TimerRow(1, "env.step", 50.0, 0.8, 9)])
    for cores, settings, rule in ((8, {}, "env-slow"), (2, {}, None), (8, {"sampling.env_processes": 4}, None)):
        monkeypatch.setattr(file_rules, "shared_cores", lambda cores=cores: cores)
        one = file_rules.env_slow(replace(files(tmp_path), settings=settings, timers=timers))
        assert (one and one.rule) == rule


# --- the verb -----------------------------------------------------------------------------------------------


def doctor(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["rookery", "doctor", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_the_verb_explains_an_error_and_exits_with_1(tmp_path, monkeypatch, capsys):
    run = stored(tmp_path, env_config={"fault": "ignored"})
    assert doctor(monkeypatch, run, "--seconds", str(LONG)) == 1
    shown = capsys.readouterr().out
    assert "error     actions-without-effect (agent)" in shown
    assert "causes    1. the environment ignores its action" in shown
    assert "try       rookery doctor faulty_walks:Walk" in shown
    assert "page      docs/troubleshooting/actions-without-effect.md" in shown
    assert max(len(line) for line in shown.splitlines()[1:] if str(tmp_path) not in line) <= 120


def test_the_verb_prints_json(tmp_path, monkeypatch, capsys):
    run = stored(tmp_path, "CartPole-v1", DQNConfig(), iterations=2)
    assert doctor(monkeypatch, run, "--json", "--seconds", "0") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["run"] == str(run)
    assert found["notes"] == ["nothing was played: --seconds 0"]


def test_a_run_is_named_as_in_the_other_verbs(tmp_path, monkeypatch, capsys):
    stored(tmp_path / "runs", "CartPole-v1")
    (tmp_path / "runs" / "run").rename(tmp_path / "runs" / "pole")
    monkeypatch.chdir(tmp_path)
    assert doctor(monkeypatch, "pole", "--seconds", "0") == 0
    assert capsys.readouterr().out.startswith("runs/pole: 3 iterations")
    assert doctor(monkeypatch, "pole", "config.size=8") == 2
    assert "settings are for an environment" in capsys.readouterr().err


def test_remedies_are_commands_with_the_run_and_its_settings():
    from rookery.doctor.text import finding_lines

    started = "rookery train CartPole-v1 lr=1 algorithm.lr=1 --run-id pole --stop env_steps=9"
    run = StoredRun(None, [], {"algorithm.lr": 1.0, "algorithm.clip": 0.2}, None, started)
    tried = ("algorithm.lr=3e-4", "algorithm.clip=0.1", "algorithm.replay.capacity=9", "rookery resume RUN")
    text = "\n".join(finding_lines(Finding("kl-out-of-range", "warning", "main", "far", remedies=tried), run))
    assert "try       rookery train CartPole-v1 --stop env_steps=9 algorithm.lr=3e-4" in text
    assert "\n          rookery train CartPole-v1 lr=1 --stop env_steps=9 algorithm.clip=0.1" in text.replace(
        " algorithm.lr=1", ""
    )
    assert "capacity" not in text  # PPO has no replay
    assert "rookery resume None" in text


def test_remedies_of_a_trial_are_keys_of_its_config_or_named_as_settings_of_this_library():
    from rookery.doctor.text import command

    run = StoredRun(Path("trial"), [ROW], {}, None, is_trial=True)
    assert command("policies.main.gae_lambda=0.95", run) == "config: lambda = 0.95"
    assert command("algorithm.target.every=250", run) == "config: target_network_update_freq = 250"
    assert command("algorithm.normalize_values=true", run).endswith("a setting of Rookery that no key of RLlib has")
    assert command("rookery resume RUN --stop env_steps=N", run) == "rookery resume trial --stop env_steps=20"


def test_all_rules_have_causes_and_remedies():
    for name, rule in RULES.items():
        assert rule.causes and rule.remedies and rule.means.endswith("."), name


# --- text --------------------------------------------------------------------------------------------------


def rows_of(last, explained=0.0):
    row = {**ROW, "policies/main/explained_variance": explained}
    values = enumerate([1.0, 2.0, *[last] * 28], 1)
    return [{**row, "iteration": n, "episodes": 100 * n, "return_mean": value} for n, value in values]


@pytest.mark.parametrize(
    ("explained", "words"),
    [(0.0, "no fault found; the return has stood still since iteration 3"), (0.5, "nothing found")],
)
def test_a_run_without_findings_that_stands_still_is_called_so(tmp_path, explained, words):
    (line,) = diagnosis_lines(Diagnosis(StoredRun(tmp_path, rows_of(6.0, explained), {}, None), []))
    assert line.endswith(words)


@pytest.mark.parametrize(("env", "shown"), [("__main__:Walk", False), ("faulty_walks:Walk", True)])
def test_no_command_is_printed_that_cannot_find_the_environment_of_a_script(tmp_path, env, shown):
    run = StoredRun(tmp_path, rows_of(6.0), {"env.name": env}, None)
    lines = finding_lines(finding("obs-constant", "all the same"), run)
    assert any(f"rookery doctor {env}" in line for line in lines) == shown
    assert not any("rookery doctor ENV" in line for line in lines)
