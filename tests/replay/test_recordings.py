"""Recordings as replay directories: contents are restored, and unknown columns are reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from recordings import CHOICE, HYBRID, PARTS, POINT, THROTTLE, assert_same, recording

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.io.files import write_directory
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay import segments
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.recording import recording_of, write_recordings
from rookery.replay.segments import copy_rows, find_replay
from rookery.replay.summary import summarize
from rookery.replay.transfer import linked, merged


def written(path, one):
    write_recordings(path, {"main": one})
    return find_replay(path)


@pytest.mark.parametrize("action", [CHOICE, THROTTLE, HYBRID], ids=["choice", "throttle", "hybrid"])
@pytest.mark.parametrize("obs", [POINT, PARTS], ids=["point", "parts"])
def test_a_recording_comes_back_from_a_directory(tmp_path, obs, action):
    one = recording(obs, action, logp=True, mask=action is CHOICE)
    assert_same(recording_of(written(tmp_path / "a", one)), one)


def test_a_recording_is_written_in_several_segments_and_read_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 600)
    one = recording(lengths=(5, 9, 2, 7, 1, 30), logp=True)
    stored = written(tmp_path / "a", one)
    assert len(stored.segments) > 2
    assert_same(recording_of(stored), one)
    found = summarize(stored).episodes
    assert found.lengths == [5, 9, 7, 30]
    assert (found.terminated, found.truncated, found.broken) == (1, 3, 2)
    np.testing.assert_allclose(found.returns[0], one.episodes[0].reward.sum(), rtol=1e-6)


def test_what_is_drawn_from_it_is_what_was_recorded(tmp_path):
    one = recording(lengths=(3, 4), logp=True)
    buffer = ReplayBuffer(
        one.spaces.obs, one.spaces.action, ReplayConfig(capacity=7), np.random.default_rng(0), memory_size=0,
        memory_every=1,
    )  # fmt: skip
    copy_rows(written(tmp_path / "a", one), buffer)
    batch = buffer.sample(200, n_step=1, gamma=0.9, beta=1.0)
    flat = np.concatenate([episode.obs["obs"] for episode in one.episodes])
    following = np.concatenate((flat[1:], one.episodes[1].last_obs["obs"]))
    rows = [int(np.flatnonzero((flat == row).all(axis=1))[0]) for row in batch.obs["obs"].numpy()]
    assert set(rows) == set(range(7))
    continues = np.array(rows) != 2  # the first episode terminated there
    np.testing.assert_array_equal(batch.next_obs["obs"].numpy()[continues], following[rows][continues])
    np.testing.assert_array_equal(batch.discount.numpy(), np.where(continues, np.float32(0.9), 0))


def test_what_is_missing_is_noted_and_stays_noted(tmp_path):
    one = recording(reward=False)
    one = replace(one, episodes=(*one.episodes[:2], replace(one.episodes[2], last_obs=None)))
    assert one.missing == ("reward", "logp", "last_obs")
    stored = written(tmp_path / "a", one)
    assert stored.missing == ("reward", "logp", "last_obs")
    again = recording_of(stored)
    assert_same(again, one)
    whole = written(tmp_path / "b", recording(logp=True, seed=1))
    assert whole.missing == ()
    write_directory(tmp_path / "c", *linked([stored]))
    assert find_replay(tmp_path / "c").missing == stored.missing
    write_directory(tmp_path / "d", *merged([whole, stored], "main", lambda rows: None))
    assert set(find_replay(tmp_path / "d").missing) == set(stored.missing)


def test_nothing_is_no_recording(tmp_path):
    one = recording()
    with pytest.raises(ConfigError, match="there are no decisions to write"):
        write_recordings(tmp_path / "a", {"main": replace(one, episodes=())})
    assert not (tmp_path / "a").exists()


def test_actions_of_the_environment_are_stored_so_that_they_come_back():
    for action in (CHOICE, THROTTLE, HYBRID):
        action.seed(3)
        spec = recording(action=action).spaces.action
        given = [action.sample() for _ in range(200)]
        back = spec.to_env(spec.from_env(given if spec.kind == "composite" else np.array(given)))
        if spec.kind == "composite":
            for one, other in zip(given, back, strict=True):
                np.testing.assert_array_equal(one["continuous"], other["continuous"])
                np.testing.assert_array_equal(one["discrete"], other["discrete"])
        else:
            np.testing.assert_array_equal(back, np.array(given))


def test_numbers_of_a_box_are_stored_as_closely_as_float32_can():
    uneven = spaces.Box(np.float32([-3, 10, -np.inf]), np.float32([3, 11, 4]), dtype=np.float32)
    spec = action_spec(uneven)
    given = np.random.default_rng(0).uniform([-3, 10, -9], [3, 11, 4], (500, 3)).astype(np.float32)
    back = spec.to_env(spec.from_env(given))
    np.testing.assert_allclose(back[:, 0], given[:, 0], rtol=0, atol=3 * 2**-23)
    np.testing.assert_array_equal(back[:, 1:], given[:, 1:])
    beyond = np.float32([[5, 9, -100]])
    np.testing.assert_array_equal(spec.to_env(spec.from_env(beyond)), np.float32([[3, 10, -100]]))


def test_what_is_no_action_of_a_space_is_refused():
    for space, wrong, problem in (
        (CHOICE, [2, 9], r"action 1 is 9, which is not in Discrete\(4, start=2\)"),
        (CHOICE, [2.5], "action 0 is 2.5"),
        (THROTTLE, [[0, np.nan]], "action 0 is"),
        (THROTTLE, [[0, 0, 0]], r"actions have shape \(3,\)"),
        (CHOICE, ["left"], "actions have the type"),
        (spaces.MultiBinary(2), [[0, 2]], "action 0 is"),
    ):
        with pytest.raises(SpaceError, match=problem):
            action_spec(space).from_env(np.array(wrong))


def test_observations_are_given_in_the_structure_of_their_space():
    space = spaces.Dict(a=spaces.Discrete(3, start=5), b=spaces.Tuple((POINT, spaces.MultiBinary((2, 2)))))
    spec = obs_spec(space, CHOICE)
    space.seed(0)
    one = space.sample()
    tree, _ = spec.read(one)
    back = spec.to_env(tree)
    assert back["a"][0] == one["a"]
    np.testing.assert_array_equal(back["b"][0][0], one["b"][0])
    np.testing.assert_array_equal(back["b"][1][0], one["b"][1])
