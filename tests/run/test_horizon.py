"""Horizon of schedules: which one applies, what moves it, and the notes about it."""

from __future__ import annotations

from operator import attrgetter

import pytest
from lives import digest, rows, weights

from rookery import DQNConfig, MultiAgentArena, PPOConfig, Trainer
from rookery.core.schedules import Linear

FALLING = PPOConfig(lr=Linear(1e-3, 0.0), clip=Linear(0.3, 0.1), entropy_coef=Linear(0.01, 0.0, steps=100),
                    fragment_length=16, rollout_size=64, minibatch_size=32, epochs=1)  # fmt: skip


def pole(cfg=FALLING, **arguments):
    return Trainer("CartPole-v1", cfg, **{"seed": 1, "num_envs": 4, **arguments})


def lr_of(result):
    return result.policies["main"].lr


def outcome(trainer, folder):
    return digest(trainer), weights(trainer), rows(folder)


@pytest.mark.regression(
    "wrong result", "Schedules end at stop.env_steps of the settings, else at that of the first train(stop=)"
)
def test_settings_end_schedules_in_a_loop_of_ones_own():
    with pole(stop={"env_steps": 256}) as trainer:
        assert [lr_of(trainer.train_iteration()) for _ in range(5)] == pytest.approx([7.5e-4, 5e-4, 2.5e-4, 0, 0])


@pytest.mark.regression(
    "wrong result", "Schedules end at stop.env_steps of the settings, else at that of the first train(stop=)"
)
def test_a_stop_given_to_train_does_not_move_the_end_that_settings_give():
    with pole(stop={"env_steps": 256}) as trainer:
        assert lr_of(trainer.train({"env_steps": 128})) == pytest.approx(5e-4)
        assert trainer._horizon == 256


@pytest.mark.regression(
    "wrong result", "Schedules end at stop.env_steps of the settings, else at that of the first train(stop=)"
)
def test_the_same_run_whether_played_in_pieces_stopped_or_loaded(tmp_path):
    with pole(stop={"env_steps": 256}, run_dir=tmp_path / "whole") as trainer:
        trainer.train()
        expected = outcome(trainer, tmp_path / "whole")
    with pole(stop={"env_steps": 256}, run_dir=tmp_path / "pieces") as trainer:
        trainer.train_iteration()
        trainer.train({"env_steps": 128})
    for stop in (192, 256):
        with Trainer.load(tmp_path / "pieces", resume=True) as trainer:
            trainer.train({"env_steps": stop})
            pieces = outcome(trainer, tmp_path / "pieces")
    assert pieces == expected


@pytest.mark.regression("wrong result", "A run resumed with a larger stop.env_steps learns on, and says at what rate")
def test_a_larger_stop_on_load_moves_the_end_of_all_schedules_and_says_so(tmp_path, capsys):
    with pole(run_dir=tmp_path / "run") as trainer:
        assert lr_of(trainer.train({"env_steps": 128})) == 0
    capsys.readouterr()
    with Trainer.load(tmp_path / "run", resume=True, config={"stop.env_steps": 256}) as trainer:
        assert capsys.readouterr().err == (
            "note: schedules end at 256 environment steps instead of 128: policies.main.lr now 0, becomes 0.0005; "
            "policies.main.clip now 0.1, becomes 0.2\n"
        )
        assert lr_of(trainer.train_iteration()) == pytest.approx(2.5e-4)
        trainer.save()
    with Trainer.load(tmp_path / "run", resume=True) as trainer:  # which is stored
        assert trainer._horizon == 256
    with Trainer.load(tmp_path / "run", config={"stop.env_steps": 192}) as trainer:  # which is no larger one
        assert trainer._horizon == 256


def test_a_stop_that_the_run_has_passed_moves_no_end_of_schedules(tmp_path, capsys):
    with pole(run_dir=tmp_path / "run") as trainer:
        trainer.train({"env_steps": 128})
    with Trainer.load(tmp_path / "run", resume=True, keep_schedules=True, config={"stop.env_steps": 256}) as trainer:
        trainer.train()
    capsys.readouterr()
    with Trainer.load(tmp_path / "run", config={"stop.env_steps": 192}) as trainer:
        assert trainer._horizon == 128
    assert "schedules end at" not in capsys.readouterr().err


@pytest.mark.regression("wrong result", "A run resumed with a larger stop.env_steps learns on, and says at what rate")
def test_a_run_that_has_moved_its_end_is_the_same_when_stopped_and_resumed(tmp_path):
    found = []
    for stops in ((256,), (192, 256)):
        folder = tmp_path / str(len(stops))
        with pole(run_dir=folder, stop={"env_steps": 128}) as trainer:
            trainer.train()
        with Trainer.load(folder, resume=True, config={"stop.env_steps": 256}) as trainer:
            trainer.train({"env_steps": stops[0]})
            found.append(outcome(trainer, folder))
        for stop in stops[1:]:
            with Trainer.load(folder, resume=True) as trainer:
                trainer.train({"env_steps": stop})
                found[-1] = outcome(trainer, folder)
    assert found[0] == found[1]


def test_keep_schedules_leaves_their_end_where_it_is(tmp_path, capsys):
    with pole(run_dir=tmp_path / "run", stop={"env_steps": 128}) as trainer:
        trainer.train()
    capsys.readouterr()
    load = {"resume": True, "config": {"stop.env_steps": 256}, "keep_schedules": True}
    with Trainer.load(tmp_path / "run", **load) as trainer:
        assert lr_of(trainer.train()) == 0
    assert capsys.readouterr().err.count("schedules") == 1  # which have ended
    with Trainer.load(tmp_path / "run") as trainer:
        assert trainer._horizon == 128


def test_schedules_of_a_run_without_an_end_stay_constant_where_they_are_kept(tmp_path):
    with pole(run_dir=tmp_path / "run") as trainer:
        assert lr_of(trainer.train({"iterations": 1})) == 1e-3
    load = {"resume": True, "config": {"stop.env_steps": 192}}
    with Trainer.load(tmp_path / "run", **load, keep_schedules=True) as trainer:
        assert lr_of(trainer.train({"env_steps": 128})) == 1e-3
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        assert lr_of(trainer.train({"env_steps": 192})) == 1e-3
    with Trainer.load(tmp_path / "run", config={"stop.env_steps": 384}) as trainer:
        assert lr_of(trainer.train_iteration()) == pytest.approx(1e-3 / 3)


@pytest.mark.regression("wrong result", "A run resumed with a larger stop.env_steps learns on, and says at what rate")
@pytest.mark.parametrize("stop", [{"env_steps": 256}, {"iterations": 4}])
def test_a_later_stop_given_to_train_says_once_that_schedules_have_ended(stop, capsys):
    with pole() as trainer:
        trainer.train({"env_steps": 128})
        assert capsys.readouterr().err == ""
        trainer._stop_function, trainer._criteria = None, {}
        assert lr_of(trainer.train(stop)) == 0
        trainer.train_iteration()
    assert capsys.readouterr().err == (
        "note: schedules have ended at 128 environment steps: policies.main.lr stays 0, policies.main.clip stays 0.1; "
        "a larger stop.env_steps moves their end: rookery resume RUN --stop env_steps=N, or "
        'Trainer.load(RUN, config={"stop.env_steps": N})\n'
    )


@pytest.mark.regression("wrong result", "A run resumed with a larger stop.env_steps learns on, and says at what rate")
def test_nested_schedules_move_too(tmp_path, capsys):
    cfg = DQNConfig(learning_starts=8, batch_size=8, train_every=4, lr=1e-3, exploration={"epsilon": Linear(1.0, 0.0)},
                    replay={"kind": "prioritized", "beta": Linear(0.4, 1.0)})  # fmt: skip
    with pole(cfg, num_envs=2, run_dir=tmp_path / "run", stop={"env_steps": 32}) as trainer:
        trainer.train()
    capsys.readouterr()
    with Trainer.load(tmp_path / "run", config={"stop.env_steps": 64}) as trainer:
        said = capsys.readouterr().err
        assert "exploration.epsilon now 0, becomes 0.5" in said and "replay.beta now 1, becomes 0.7" in said
        assert attrgetter("exploration.epsilon", "replay.beta")(trainer.learners["main"].now()) == (0.5, 0.7)


def test_lessons_by_progress_go_by_the_end_of_schedules():
    lessons = {"lessons": [{"value": 1.0, "measure": "progress", "threshold": 0.5, "min_episodes": 0}, 2.0]}
    arguments = {"num_envs": 2, "seed": 0, "stop": {"env_steps": 128}, "curriculum": {"mass": lessons}}
    cfg = PPOConfig(fragment_length=16, rollout_size=32, minibatch_size=32, epochs=1)
    with Trainer("rookery.tasks:BallPlate", cfg, **arguments) as trainer:
        progress = [trainer.train_iteration().lessons["mass"] for _ in range(2)]
    assert [one.lesson for one in progress] == [1, 2]


def test_frozen_policies_have_no_schedules(tmp_path, capsys):
    frozen = {"b": {"frozen": True}, "a": {}}
    with Trainer(MultiAgentArena, FALLING, policies=frozen, policy_mapping={"agent1": "a", "agent2": "b"}, num_envs=2,
                 seed=0, run_dir=tmp_path / "run", stop={"env_steps": 64}) as trainer:  # fmt: skip
        trainer.train()
    capsys.readouterr()
    with Trainer.load(tmp_path / "run", config={"stop.env_steps": 128}):
        said = capsys.readouterr().err
    assert "policies.a.lr now 0, becomes 0.0005" in said and "policies.b" not in said
