"""Off-policy runs with replay: their pace beside other learners, environment processes, and resting environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from lived_in import Forks, Walk, Weary
from lives import FAST, LIVELY, PRIORITIZED, REPLAYING, digest, make, rows, weights

from rookery import Linear, MultiAgentArena, Trainer
from rookery.algorithms.algorithm import Algorithm
from selection import slow

APART = {"agent1": "a", "agent2": "b"}


def mixed(b=REPLAYING, **arguments):
    """PPO for one, something else for the other."""
    cfg = {"policies": {"a": FAST, "b": b}, "policy_mapping": APART}
    return make(MultiAgentArena, **{"env_config": {"max_timesteps": 23}, **cfg, **arguments})


# --- pace -------------------------------------------------------------------------------------------------------------


def test_each_policy_learns_at_its_own_pace():
    b = REPLAYING.replace(learning_starts=0, train_every=6, updates_per_step=0.5)
    with mixed(b) as trainer:
        result = trainer.train_iteration()
        ppo, dqn = trainer.learners["a"], trainer.learners["b"]
        assert result.env_steps == 24 * 3  # the iteration ends with PPO's update
        assert ppo.updates == 1
        assert dqn.updates == 24 * 3 // 6
        assert dqn.replay.gradient_steps == 24 * 3 * 0.5
        assert result.policies["b"].updates_per_env_step == 0.5
        assert "updates_per_env_step" not in result.policies["a"].learning


def test_a_ratio_holds_for_any_number_of_copies():
    for copies in (1, 3, 8):
        cfg = REPLAYING.replace(learning_starts=0, updates_per_step=0.3, train_every=4)
        with make("CartPole-v1", cfg=cfg, num_envs=copies, config={"sampling.iteration_steps": 240}) as trainer:
            result = trainer.train_iteration()
            assert result.env_steps == 240
            learner = trainer.learners["main"]
            assert 0 <= learner.replay.owed < 1
            assert learner.replay.gradient_steps + learner.replay.owed == pytest.approx(72), copies
            assert result.policies["main"].updates_per_env_step == learner.replay.gradient_steps / 240


def test_policies_beside_each_other_learn_what_they_learn_alone():
    with mixed() as together, mixed(b={"frozen": True}) as alone:
        for trainer in (together, alone):
            for _ in range(2):
                trainer.train_iteration()
        assert together.env_steps == alone.env_steps
    # the same plays against another from the first learned weights on: what must not differ is the first update
    with mixed(b=REPLAYING.replace(learning_starts=10_000)) as waiting, mixed() as together:
        waiting.train_iteration()
        together.train_iteration()
        assert waiting.learners["a"].updates == together.learners["a"].updates == 1


def test_the_pace_is_told_at_the_start(capsys):
    with mixed(console="plain", checkpoint_every=0) as trainer:
        trainer.train({"iterations": 1})
    told = capsys.readouterr().out
    assert "policy a learns by an update for every 24 decisions of an agent" in told
    assert "policy b learns by one gradient step for 4 decisions from decision 60 on, replay 300 decisions (" in told
    assert "gradient steps (0." in told
    with make("CartPole-v1", console="plain") as trainer:
        trainer.train({"iterations": 1})
    assert "learns by" not in capsys.readouterr().out


def test_rows_say_how_many_updates_there_are_for_an_env_step(tmp_path):
    with mixed(run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 3})
    for row in rows(tmp_path)[1:]:
        assert row["policies/b/updates_per_env_step"] == pytest.approx(0.25, abs=0.02)
        assert "policies/a/updates_per_env_step" not in row
        assert row["sampling"] is True


def test_schedules_go_by_env_steps_of_the_run():
    cfg = REPLAYING.replace(exploration={"epsilon": Linear(1.0, 0.2)}, lr=Linear(1e-3, 0.0))
    with make("CartPole-v1", cfg=cfg, config={"sampling.iteration_steps": 60}) as trainer:
        trainer.train({"env_steps": 240})
        learner = trainer.learners["main"]
        assert (learner.env_steps, learner.horizon) == (240, 240)
        assert float(learner.policy.head.epsilon) == pytest.approx(0.2)
        played = trainer._pool.worker.policies["main"].policy
        assert float(played.head.epsilon) == pytest.approx(0.2)


def test_who_plays_is_the_algorithms_behaviour(monkeypatch):
    shifted = {}

    def behaviour(self):
        if self.name not in shifted:
            torch.manual_seed(0)
            shifted[self.name] = type(self.policy).__new__(type(self.policy))
            shifted[self.name].__dict__.update(self.policy.__dict__)
        return shifted[self.name]

    monkeypatch.setattr(Algorithm, "behaviour", property(behaviour))
    with make("CartPole-v1") as trainer:
        handed = []
        monkeypatch.setattr(trainer._pool, "set_weights", handed.append)
        trainer.train_iteration()
        assert trainer._pool.policies["main"] is handed[0]["main"] is shifted["main"]
        assert shifted["main"] is not trainer.policies["main"]


# --- who steps the environment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "count"), [("processes", 1), slow("processes", 2), ("threads", 2)])
def test_helpers_change_nothing(how, count):
    found = []
    for implementation, helpers in (("serial", None), (how, count)):
        config = {
            "env.implementation": implementation,
            "sampling.env_processes": helpers,
            "sampling.iteration_steps": 100,
        }
        with make(Forks, cfg=PRIORITIZED, config=config) as trainer:
            trainer.train({"iterations": 2})
            found.append(weights(trainer))
    assert found[0] == found[1]


def test_playing_ahead_repeats_and_stays_within_one_round():
    found = []
    for _ in range(2):
        config = {"sampling.staleness": 1, "sampling.iteration_steps": 90}
        with make("CartPole-v1", cfg=REPLAYING, config=config) as trainer:
            trainer.train({"iterations": 3})
            found.append((weights(trainer), trainer.env_steps))
    assert found[0] == found[1]
    assert found[0][1] == 270


# --- rests ------------------------------------------------------------------------------------------------------------


class Shift(gymnasium.Env):
    """Works for ten steps, then rests for twenty; pays 1 for a working step and 0.1 for a resting one."""

    observation_space = spaces.Box(-100, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.seen(), {}

    def seen(self):
        return np.array([self.t], np.float32)

    def step(self, action):
        rested = self.t % 30 >= 10
        assert not rested or action == 0, "nobody decides in a rest"
        self.t += 1
        return self.seen(), 0.1 if rested else 1.0, False, False, {"resting": self.t % 30 >= 10}


class Closed(Shift):
    """Works for ten steps and never again."""

    def step(self, action):
        obs, *rest, _ = super().step(action if self.t < 10 else 0)
        return obs, *rest, {"resting": self.t >= 10}


EAGER = REPLAYING.replace(learning_starts=0, train_every=4, updates_per_step=0.25, n_step=1)


def test_nothing_is_stored_of_a_rest_and_its_rewards_belong_to_the_decision_before_it():
    with make(Shift, cfg=EAGER, num_envs=1) as trainer:
        trainer.collect(25)
        memory = trainer.learners["main"].replay.buffer
        piece = memory.rows_between(0, memory.total)
        assert piece["action"].shape[0] == 24  # the round of the 25th decision is not whole
        expected = np.ones(24, np.float32)
        expected[[9, 19]] = 1.0 + 20 * 0.1
        np.testing.assert_allclose(piece["reward"], expected, rtol=1e-6)
        assert (trainer.env_steps, trainer._lane_steps) == (25, 65)
        assert trainer._counters["resting_steps"] == 40
        batch = memory.sample(64, n_step=1, gamma=0.9, beta=1.0)
        seen, then = (tree[""].ravel() if "" in tree else next(iter(tree.values())).ravel()
                      for tree in (batch.obs, batch.next_obs))  # fmt: skip
        last = seen % 30 == 9
        assert last.any() and (then[last] - seen[last] == 21).all() and (then[~last] - seen[~last] == 1).all()


def test_learning_goes_on_while_all_copies_rest():
    with make(Closed, cfg=EAGER, num_envs=2, config={"sampling.iteration_steps": 60}) as trainer:
        result = trainer.train_iteration()
        learner = trainer.learners["main"]
        assert (result.env_steps, result.counters["resting_steps"]) == (20, 40)
        # one for every four of the 16 decisions in whole rounds, one for each vector step that ends with both at rest
        assert (len(learner.replay.buffer), learner.replay.gradient_steps) == (16, 16 // 4 + (60 - 20) // 2 + 1)
        made = learner.replay.gradient_steps
        result = trainer.train_iteration()
        assert (result.env_steps, learner.replay.gradient_steps) == (20, made + 30)
        assert result.policies["main"].updates_per_env_step is None
        assert learner.env_steps == 16, "no schedule moves in a rest"


def test_one_copy_at_rest_does_not_hold_up_the_others():
    class Half(Shift):
        def reset(self, *, seed=None, options=None):
            self.off = 5 * (seed % 2)
            return super().reset(seed=seed)

        def step(self, action):
            obs, *rest, _ = gymnasium_step(self, action)
            return obs, *rest, {"resting": bool(self.off) and self.t >= self.off}

    def gymnasium_step(env, action):
        env.t += 1
        return env.seen(), 1.0, False, False, {}

    with make(Half, cfg=EAGER, num_envs=6, config={"sampling.iteration_steps": 300}) as trainer:
        result = trainer.train_iteration()
        at_rest = int(trainer._pool.worker.now.at_rest().sum())
        assert 0 < at_rest < 6
        assert result.counters["resting_steps"] == at_rest * 45
        assert result.env_steps == 300 - at_rest * 45
        assert trainer.learners["main"].replay.gradient_steps <= result.env_steps / 4


def test_on_policy_learners_wait_for_the_end_of_a_rest():
    with make(Shift, num_envs=2, cfg=FAST.replace(fragment_length=12)) as trainer:
        result = trainer.train_iteration()
        # all twelve decisions of both copies, and the vector step in which the last of them was answered
        assert trainer.learners["main"].updates == 1
        assert (result.env_steps, result.counters["resting_steps"]) == (24, 40)


def test_an_evaluation_goes_through_rests():
    with make(Weary, cfg=REPLAYING, num_envs=2) as trainer:
        result = trainer.evaluate(4)
        assert result.episodes == 4
        assert 11 <= result.length_mean <= 40, "resting steps are none of an episode's"


@pytest.mark.parametrize(
    ("how", "staleness"), [slow("processes", 1), slow("processes", 0), ("threads", 0), ("threads", 1)]
)
def test_helpers_change_nothing_where_copies_rest(how, staleness):
    found = []
    for implementation, helpers in (("serial", None), (how, 1)):
        config = {
            "env.implementation": implementation,
            "sampling.env_processes": helpers,
            "sampling.iteration_steps": 100,
            "sampling.staleness": staleness,
        }
        with make(Weary, cfg=REPLAYING, config=config) as trainer:
            trainer.train({"iterations": 2})
            assert trainer._counters["resting_steps"] > 10
            found.append((weights(trainer), trainer.env_steps))
    assert found[0] == found[1]


def test_a_rest_of_all_copies_ends_as_it_would_have_without_being_stopped(tmp_path):
    found = []
    for stops in ((3,), (1, 2, 3)):
        folder = tmp_path / str(len(stops))
        for number in stops:
            if number == stops[0]:
                trainer = make(Shift, folder, EAGER, num_envs=2, config={"sampling.iteration_steps": 34})
            else:
                trainer = Trainer.load(folder, resume=True)
            with trainer:
                trainer.train({"iterations": number})
                if number == 1:
                    assert trainer._resting
                found.append((digest(trainer), weights(trainer), rows(folder)))
    assert found[0] == found[-1]


def test_walks_do_not_rest():
    with make(Walk, cfg=LIVELY, config={"sampling.iteration_steps": 30}) as trainer:
        result = trainer.train_iteration()
        assert "resting_steps" not in result.counters
        assert not trainer._resting
