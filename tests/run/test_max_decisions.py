"""Policies that stop learning after a number of decisions while others continue to learn."""

import pytest
import torch
from lives import BRIEF, digest, make

from rookery import PPOConfig, SACConfig, Trainer
from rookery.core.settings.fields import Settings
from selection import slow

SOCCER = {
    "env": "rookery.tasks:LineSoccer",
    "cfg": BRIEF,
    "env_config": {"strikers": 2, "goalies": 1, "max_steps": 19},
}


def two(red, blue, **settings):
    """A game in which both sides learn by themselves, each so many decisions."""
    policies = {"red": {"max_decisions": red}, "blue": {"max_decisions": blue}}
    mapping = {"red_0": "red", "blue_0": "blue", "blue_1": "blue"}
    return make(**SOCCER, policies=policies, policy_mapping=mapping, **settings)


def weights(trainer, name):
    return torch.cat([weight.detach().flatten() for weight in trainer.policies[name].parameters()])


def test_who_has_learned_all_it_is_to_plays_on_as_it_is_and_others_learn():
    with two(100, 1000) as trainer:
        while trainer._decisions.get("red", 0) < 100:
            trainer.train_iteration()
        trainer.train_iteration()
        at, learned = weights(trainer, "red"), trainer._decisions["red"]
        other, before = weights(trainer, "blue"), trainer._decisions["blue"]
        for _ in range(3):
            result = trainer.train_iteration()
        assert torch.equal(weights(trainer, "red"), at)
        assert trainer._decisions["red"] == learned < 200
        assert not torch.equal(weights(trainer, "blue"), other)
        assert trainer._decisions["blue"] > before
        assert result.finished_policies == 1
        assert result.finished_share == 0.5
        assert torch.equal(
            torch.cat([w.flatten() for w in trainer._pool.worker.policies["red"].policy.parameters()]), at
        )
        last = trainer.train(stop={"finished_policies": 2})
        assert last.stop_reason == "finished_policies 2 reached 2"
        assert 1000 <= last.policies["blue"].decisions < 1200


def test_a_run_goes_on_exactly_after_somebody_has_stopped_learning(tmp_path):
    with two(100, 1000, run_dir=tmp_path / "run") as trainer:
        for _ in range(6):
            trainer.train_iteration()
        assert trainer._retired == {"red"}
        path = trainer.save()
        for _ in range(3):
            trainer.train_iteration()
        wanted = digest(trainer)
    with Trainer.load(path) as again:
        assert again._retired == {"red"}
        for _ in range(3):
            again.train_iteration()
        assert digest(again) == wanted


def test_a_higher_limit_lets_it_learn_on(tmp_path):
    with two(100, 1000, run_dir=tmp_path / "run") as trainer:
        for _ in range(6):
            trainer.train_iteration()
        path, at = trainer.save(), trainer._decisions["red"]
    with Trainer.load(path, config={"policies.red.max_decisions": at + 100}) as again:
        before = weights(again, "red").clone()
        for _ in range(6):
            again.train_iteration()
        assert again._decisions["red"] >= at + 100
        assert "red" in again._retired
        assert not torch.equal(weights(again, "red"), before)


def test_where_two_learn_in_turn_the_other_has_all_turns_then():
    each = {"team_change_every": 150, "rating_games": 0}
    with two(150, 2000, self_play={"red": each, "blue": each}) as trainer:
        trainer.train(stop={"finished_policies": 1})
        assert trainer._retired == {"red"}
        for _ in range(12):
            trainer.train_iteration()
        assert trainer._self_play.turn == "blue"
        assert trainer._decisions["blue"] > 600


@pytest.mark.parametrize(
    ("limit", "changed", "learns"),
    [
        (150, {"red": 10_000}, "red"),
        slow(150, {"blue": 10_000}, "blue"),
        slow(10_000, {"red": 1}, "blue"),
        (10_000, {"blue": 1}, "red"),
    ],
    ids=["red raised", "blue raised", "red lowered", "blue lowered"],
)
def test_nobody_keeps_the_turn_who_has_learned_all_it_is_to_by_new_limits(tmp_path, limit, changed, learns):
    each = {"team_change_every": 60, "rating_games": 0}
    other = {"red": "blue", "blue": "red"}[learns]
    with two(limit, limit, self_play={"red": each, "blue": each}, run_dir=tmp_path / "run") as trainer:
        if limit < 10_000:
            trainer.train(stop={"finished_policies": 2})
        else:
            while trainer._self_play.turn != other or len(trainer._decisions) < 2:
                trainer.train_iteration()
        path = trainer.save()
    config = {f"policies.{name}.max_decisions": new for name, new in changed.items()}
    with Trainer.load(path, config=config) as again:
        assert again._retired == {other}
        before = dict(again._decisions)
        for _ in range(6):
            again.train_iteration()
        assert again._self_play.turn == learns
        assert again._decisions[learns] > before[learns]
        assert again._decisions[other] == before[other]


def test_where_nobody_learns_any_more_a_run_that_goes_on_changes_nothing(tmp_path):
    each = {"team_change_every": 60, "rating_games": 0}
    with two(150, 150, self_play={"red": each, "blue": each}, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"finished_policies": 2})
        path, turn, wanted = trainer.save(), trainer._self_play.turn, digest(trainer)
    with Trainer.load(path) as again:
        assert again._retired == {"red", "blue"}
        assert again._self_play.turn == turn
        assert digest(again) == wanted


SMALL: list[Settings] = [
    PPOConfig(fragment_length=16, minibatch_size=32, epochs=1, model={"hidden": (8,)}),
    SACConfig(batch_size=8, learning_starts=20, replay={"capacity": 100}, model={"hidden": (8,)}),
]


@pytest.mark.parametrize("cfg", SMALL, ids=["ppo", "sac"])
@pytest.mark.parametrize("staleness", [0, 1])
def test_a_run_ends_when_its_policy_has_learned(cfg, staleness):
    if staleness and isinstance(cfg, SACConfig):
        return  # SAC does not learn from older weights' play
    policies = {"main": {"max_decisions": 160}}
    with Trainer("CartPole-v1", cfg, policies=policies, num_envs=2, staleness=staleness, seed=1) as trainer:
        last = trainer.train(stop={"finished_policies": 1})
        assert 160 <= last.policies["main"].decisions <= 192
        learner = trainer.learners["main"]
        trainer.train_iteration()
        assert trainer._decisions["main"] == last.policies["main"].decisions
        assert learner is trainer.learners["main"]
