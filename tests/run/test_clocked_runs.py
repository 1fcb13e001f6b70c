"""Runs in asynchronous environments: evaluation, notes, and algorithms with replay."""

import time

import numpy as np
import pytest

from rookery import Callback, Trainer
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.rollout.slots import SlotMemory, WorkerPolicy
from walkers import Walkers, WalkersEnv

SMALL = {"algorithm.model.hidden": [8], "sampling.iteration_steps": 120}
PPO = {"algorithm.fragment_length": 8, "algorithm.minibatch_size": 32, "algorithm.epochs": 1}
OFF_POLICY = {"algorithm.learning_starts": 50, "algorithm.batch_size": 16, "algorithm.n_step": 3}


def trainer(algorithm="ppo", env=WalkersEnv, callbacks=(), num_envs=2, **settings):
    return Trainer(env, algorithm, config={**SMALL, **settings}, callbacks=list(callbacks), seed=0, num_envs=num_envs,
                   console="quiet")  # fmt: skip


class Told(Callback):
    def __init__(self):
        self.starts, self.steps, self.ends = 0, 0, []

    def on_episode_start(self, episode):
        self.starts += 1

    def on_episode_step(self, episode):
        self.steps += 1

    def on_episode_end(self, episode):
        (agent,) = episode.returns
        assert set(episode.policies) == {agent} and set(episode.reward) <= {agent} and set(episode.obs) <= {agent}
        self.ends.append((episode.length, episode.returns[agent]))
        episode.metrics["decisions"] = episode.length


def test_results_and_callbacks_are_of_agents_episodes():
    told = Told()
    with trainer(callbacks=[told], **PPO) as one:
        for _ in range(3):
            row = one.train_iteration()
        ends = [(cut, rewards) for rewards, cut in one.env._copies.truth.values() if cut is not None]
        assert len(told.ends) == len(ends) == row.episodes > 60
        wanted = sorted((len(rewards), round(sum(rewards), 3)) for _, rewards in ends)
        assert sorted((length, round(total, 3)) for length, total in told.ends) == wanted
        latest = told.ends[-100:]
        assert row.return_mean == pytest.approx(np.mean([total for _, total in latest]), abs=1e-6)
        assert row.length_mean == pytest.approx(np.mean([length for length, _ in latest]))
        assert row.metrics["decisions"][1] == pytest.approx(row.length_mean)
        assert row.running_length <= 5, "nobody lives for longer, though lanes never end"
        assert told.steps == row.env_steps and told.starts > len(told.ends)


def test_an_evaluation_counts_agents_episodes_and_cuts_none_of_lanes_that_never_end():
    with trainer(**PPO, **{"evaluation.max_episode_steps": 60}) as one:
        result = one.evaluate(episodes=120)
        assert result.episodes >= 120 and not result.episodes_cut and result.length_mean <= 5


class Slow(Walkers):
    WAIT = 0.004  # s

    def step_messages(self, seconds):
        time.sleep(self.WAIT)
        return super().step_messages(seconds)


class SlowEnv(AsyncCopiesEnv):
    def __init__(self, num_lanes):
        super().__init__(Slow(num_lanes), num_lanes)


def test_timers_show_what_was_waited_for_below_the_step():
    with trainer(env=SlowEnv, **PPO) as one:
        one.train_iteration()
        rows = one.timers.rows()
        (place,) = [number for number, row in enumerate(rows) if row.label == "wait"]
        step = max(number for number in range(place) if rows[number].depth < rows[place].depth)
        # what stands below the step is at least the sleep and at most the step, however slow the processor is
        assert rows[step].label == "env.step" and rows[place].count >= 60
        assert Slow.WAIT * rows[place].count <= rows[place].seconds <= rows[step].seconds
        shares = [row.share for row in rows if row.depth == 1]
        assert sum(shares) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("algorithm", ["dqn"])
def test_replay_adds_up_the_steps_of_each_agent_with_its_own_clock(algorithm):
    with trainer(algorithm, num_envs=1, **OFF_POLICY) as one:
        for _ in range(5):
            one.train_iteration()
        truth = {agent: known for (_, agent), known in one.env._copies.truth.items()}
        gamma, drawn = 0.9, one.replays["main"].sample(300, n_step=3, gamma=0.9, beta=0.0)
        assert one.replays["main"].gradient_steps > 0
        ends = 0
        for row in range(len(drawn)):
            agent, number = map(int, drawn.obs["obs"][row])
            rewards, cut = truth[agent]
            window = rewards[number : number + 3]
            over = cut is not None and number + 3 >= len(rewards)
            steps = len(window) if over else 3
            terminated = over and not cut
            if not over and len(window) < 3:
                continue  # nothing came of it yet when it was drawn
            ends += over
            assert float(drawn.discount[row]) == pytest.approx(0.0 if terminated else gamma**steps)
            assert float(drawn.reward[row]) == pytest.approx(
                sum(gamma**k * one for k, one in enumerate(window)), rel=1e-4
            )
            if not terminated:
                assert [int(number) for number in drawn.next_obs["obs"][row]] == [agent, number + steps]
        assert ends > 50


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["sac"])
def test_soft_actor_critic_learns_from_agents_with_clocks_of_their_own(algorithm):
    with trainer(algorithm, **OFF_POLICY) as one:
        row = one.train_iteration()
        assert row.episodes and one.replays["main"].gradient_steps > 0


def test_a_memory_is_forgotten_when_another_agent_takes_the_seat(monkeypatch):
    found, before, decide = [], SlotMemory.before, WorkerPolicy.decide

    def watched(memory, slots):
        kept = before(memory, slots)
        numbers, deciding = found[-1]
        deciding += [bool(row.any()) == (number > 0) for row, number in zip(kept, numbers, strict=True)]
        return kept

    def deciding(self, slots, obs, rows, step):
        found.append((obs["obs"][rows][:, 1].tolist(), []))
        return decide(self, slots, obs, rows, step)

    monkeypatch.setattr(SlotMemory, "before", watched)
    monkeypatch.setattr(WorkerPolicy, "decide", deciding)
    with trainer(**PPO, **{"algorithm.model.memory.kind": "lstm"}) as one:
        one.train_iteration()
    checked = [right for _, each in found for right in each]
    assert len(checked) > 200 and all(checked)
