"""Recorded demonstrations: of functions and runs, one after the other, whole episodes only."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import MultiAgentArena, PPOConfig, Trainer, export_replay, import_replay, record_replay
from rookery.core.errors import ConfigError, SpaceError
from rookery.envs.make import make_env
from rookery.replay.recording import recording_of
from rookery.replay.segments import find_replay, stored_replays
from rookery.run.evaluate import recording
from rookery.run.evaluate.recording import (
    EpisodeDiscarded,
    EpisodeRecorder,
    RecordedReplay,
    RecordingEnded,
    function_policies,
    record_episodes,
)


class Steps(gymnasium.Env):
    """Shows the seed of the episode and the step it is in; ends after `length` steps, and earns the action."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(0.0, 4.0, (1,), np.float32)

    def __init__(self, length=5, terminates=True):
        self.length, self.terminates = length, terminates

    def seen(self):
        return np.array([self.first, self.t], np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.first, self.t = seed % 1000, 0
        return self.seen(), {"at": 0}

    def step(self, action):
        self.t += 1
        over = self.t == self.length
        ends = over and self.terminates, over and not self.terminates
        return self.seen(), float(action[0]), *ends, {"at": self.t}


def half(obs):
    return np.array([obs[1] % 4], np.float32)


def test_episodes_of_a_function_are_what_the_environment_showed(tmp_path):
    returns = record_replay(Steps, half, 3, tmp_path / "a", env_config={"terminates": False}, seed=7)
    assert returns == [0 + 1 + 2 + 3 + 0] * 3
    stored = find_replay(tmp_path / "a")
    assert (stored.policy, stored.missing, len(stored)) == ("main", ("logp",), 15)
    found = recording_of(stored)
    assert len({float(episode.obs["obs"][0, 0]) for episode in found.episodes}) == 3
    for episode in found.episodes:
        assert episode.obs["obs"][:, 1].tolist() == [0, 1, 2, 3, 4]
        assert found.spaces.action.to_env(episode.action)[:, 0].tolist() == [0, 1, 2, 3, 0]
        assert episode.reward.tolist() == [0, 1, 2, 3, 0]
        assert (episode.terminated, episode.truncated) == (False, True)
        assert episode.last_obs["obs"].tolist() == [[episode.obs["obs"][0, 0], 5]]
    record_replay(Steps, half, 1, tmp_path / "b", seed=7)
    first = recording_of(find_replay(tmp_path / "b")).episodes[0]
    assert first.terminated
    np.testing.assert_array_equal(first.obs["obs"], found.episodes[0].obs["obs"])


def test_a_function_may_ask_what_the_environment_said_beside(tmp_path):
    heard = []

    def decide(obs, info):
        heard.append(info.get("at"))
        return np.zeros(1, np.float32)

    record_replay(Steps, decide, 2, tmp_path / "a", env_config={"length": 3})
    assert heard == [None, 1, 2, None, 1, 2]


@pytest.mark.parametrize("fragment", [2, 3, 7, 256])
def test_long_episodes_and_limits_are_whole_whatever_the_fragments(tmp_path, monkeypatch, fragment):
    monkeypatch.setattr(recording, "FRAGMENT", fragment)
    record_replay(Steps, half, 3, tmp_path / "a", env_config={"length": 20}, max_episode_steps=11)
    found = recording_of(find_replay(tmp_path / "a"))
    assert [len(episode) for episode in found.episodes] == [11, 11, 11]
    for episode in found.episodes:
        assert (episode.terminated, episode.truncated) == (False, True)
        assert episode.obs["obs"][:, 1].tolist() == list(range(11))
        assert episode.last_obs["obs"].tolist() == [[episode.obs["obs"][0, 0], 11]]
    assert len({float(episode.obs["obs"][0, 0]) for episode in found.episodes}) == 3


def test_several_agents_are_recorded_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "FRAGMENT", 7)

    def decide(obs):
        return int(np.sum(obs)) % 4

    record_replay(MultiAgentArena, decide, 2, tmp_path / "a")
    (stored,) = stored_replays(tmp_path / "a").values()
    found = recording_of(stored)
    assert len(found.episodes) == 2 * 2  # two agents in each of two episodes
    assert len({len(episode) for episode in found.episodes}) == 1


def test_who_decides_may_discard_an_episode_or_end(tmp_path):
    env = make_env(Steps, {}, (), 1, "serial")
    asked = []

    def decide(obs):
        asked.append(obs.tolist())
        if len(asked) == 3:
            raise EpisodeDiscarded
        if len(asked) == 3 + 5 + 5 + 2:
            raise RecordingEnded
        return np.zeros(1, np.float32)

    policies, mapping = function_policies(env, decide)
    kept = RecordedReplay(policies, ("logp",))
    notes = []
    record_episodes(EpisodeRecorder(env, policies, mapping, seed=0, deterministic=True), kept, 9, note=notes.append)
    assert [result.length for result in kept.results] == [5, 5]
    assert notes == ["episode 1: discarded", "episode 1: return 0, 5 steps, kept", "episode 2: return 0, 5 steps, kept"]
    kept.write(tmp_path / "a", replace=False)
    starts = [float(episode.obs["obs"][0, 0]) for episode in recording_of(find_replay(tmp_path / "a")).episodes]
    assert starts == [asked[3][0], asked[8][0]]
    assert len({row[0] for row in asked}) == 4  # no episode is played a second time


def test_episodes_that_are_not_good_enough_are_left_out():
    env = make_env(Steps, {}, (), 1, "serial")
    policies, mapping = function_policies(env, half)
    kept = RecordedReplay(policies, ("logp",))
    recorder = EpisodeRecorder(env, policies, mapping, seed=0, deterministic=True)
    with pytest.raises(ConfigError, match="of 4 episodes 0 were good enough to be kept, and 2 are needed"):
        record_episodes(recorder, kept, 2, wanted=lambda result: result.total > 100, most=4)
    with pytest.raises(ConfigError, match="no episode was kept"):
        kept.write("nowhere", replace=False)


def test_what_is_no_action_is_refused_with_the_function(tmp_path):
    with pytest.raises(
        SpaceError, match=r"test_record_replay:.*lambda.* returned 'left', which is not an action of Box"
    ):
        record_replay(Steps, lambda obs: "left", 1, tmp_path / "a")
    with pytest.raises(ConfigError, match="the environment is missing"):
        record_replay(None, half, 1, tmp_path / "a")
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="exists; give force=True"):
        record_replay(Steps, half, 1, tmp_path / "there")


def test_a_run_plays_in_its_own_environment_or_in_another(tmp_path):
    ppo = PPOConfig(fragment_length=8, epochs=1, model={"memory": {"kind": "gru", "size": 4}})
    with Trainer("CartPole-v1", ppo, num_envs=2, seed=1, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"env_steps": 16})
        expected = trainer.evaluate(3).returns
    returns = record_replay(None, tmp_path / "run", 3, tmp_path / "a")
    assert len(returns) == len(expected) == 3
    stored = find_replay(tmp_path / "a")
    assert stored.missing == ()
    assert stored.spaces.memory_size > 0  # what the policy remembered is kept too
    found = recording_of(stored)
    assert [len(episode) for episode in found.episodes] == returns
    assert all((episode.logp <= 0).all() and (episode.logp < 0).any() for episode in found.episodes)
    again = record_replay("CartPole-v1", tmp_path / "run", 3, tmp_path / "b", deterministic=False)
    assert again != returns
    with pytest.raises(ConfigError, match="policy_mapping: agent .* observes"):
        record_replay("Acrobot-v1", tmp_path / "run", 1, tmp_path / "c")


def test_what_has_no_rewards_is_not_learned_from(tmp_path):
    np.savez(tmp_path / "a.npz", obs=np.zeros((4, 4), np.float32), actions=np.array([0, 1, 0, 1]),
             dones=np.array([0, 0, 0, 1]))  # fmt: skip
    pole = gymnasium.make("CartPole-v1")
    made_of = {"observation_space": pole.observation_space, "action_space": pole.action_space}
    import_replay(tmp_path / "a.npz", tmp_path / "a", **made_of)
    with pytest.raises(ConfigError, match="has no rewards to learn from; it can be imitated"):
        Trainer("CartPole-v1", "dqn", num_envs=1, replay=str(tmp_path / "a"))
    assert export_replay(tmp_path / "a", tmp_path / "again.npz") == 4
    with pytest.raises(ConfigError, match="exists; give force=True"):
        export_replay(tmp_path / "a", tmp_path / "again.npz")
    with pytest.raises(ConfigError, match="given together"):
        import_replay(tmp_path / "a.npz", tmp_path / "b", action_space=pole.action_space)
