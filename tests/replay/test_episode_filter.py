"""Which episodes of data are taken, what becomes of their rewards, and that a run begins with just these."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import CHOICE, PARTS, POINT, THROTTLE, UNIT, assert_same, recording
from stories import Film, Story

from rookery.core.errors import ConfigError
from rookery.core.io.files import write_directory
from rookery.replay import segments, sieve
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.episode_filter import SelectionConfig, filter_episodes
from rookery.replay.episodes import FilteredEpisodes
from rookery.replay.formats.names import export_stored, import_replay
from rookery.replay.recording import recording_of, write_recordings
from rookery.replay.relabel import RelabelConfig
from rookery.replay.segments import copy_rows, facts_of, find_replay, new_segments
from rookery.replay.transfer import merged

LENGTHS = np.array([10, 20, 30, 40, 50])
RETURNS = np.array([1.0, 5.0, np.nan, 3.0, 4.0])


@pytest.mark.parametrize(
    ("cfg", "taken"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"best": 0.5}, [1, 4]),
        ({"best": 0.01}, [1]),
        ({"best": "50%"}, [1, 4]),
        ({"min_return": 3.0}, [1, 3, 4]),
        ({"last_episodes": 2}, [3, 4]),
        ({"last_decisions": 50}, [4]),
        ({"last_decisions": 51}, [3, 4]),
        ({"last_decisions": 10_000}, [0, 1, 2, 3, 4]),
        ({"min_return": 3.0, "last_episodes": 2, "best": 0.5}, [4]),
    ],
)
def test_episodes_are_chosen_by_returns_and_age(cfg, taken):
    assert filter_episodes(LENGTHS, RETURNS, SelectionConfig(**cfg), "x").tolist() == taken


def test_what_leaves_no_episode_is_refused_with_the_best_there_is():
    with pytest.raises(
        ConfigError, match=r"x: no episode has a return of 9 or more, the best one has 5; use a smaller min_return"
    ):
        filter_episodes(LENGTHS, RETURNS, SelectionConfig(min_return=9.0), "x")
    with pytest.raises(ConfigError, match="none of its 5 episodes is complete, from its first decision to its end"):
        filter_episodes(LENGTHS, RETURNS * np.nan, SelectionConfig(best=0.1), "x")
    for wrong in (0.0, "0%", "101%", "ten%", "0.1", True):
        with pytest.raises(
            ConfigError, match=r"best = .*: must be a number above 0 and at most 1, or in percent, as in 10%"
        ):
            SelectionConfig(best=wrong)


def buffer_for(stored, **cfg):
    made_of, rng = stored.spaces, np.random.default_rng(0)
    settings = ReplayConfig(capacity=1000, **cfg)
    return ReplayBuffer(made_of.obs, made_of.action, settings, rng, memory_size=0, memory_every=1)


def stored_in(path, buffer):
    """A buffer as a run saves it."""
    files = new_segments(buffer, "main", buffer.first, buffer.total)
    write_directory(path, files, {"memories": {"main": facts_of(buffer)}})
    return find_replay(path)


@pytest.mark.parametrize(
    ("kind", "segment"), [("whole", 2_000), ("whole", 1 << 26), ("frames", 150_000), ("frames", 1 << 26)]
)
def test_a_run_begins_with_the_chosen_episodes_of_slots_that_played_side_by_side(tmp_path, monkeypatch, kind, segment):
    rng = np.random.default_rng(3)
    story = Story(rng) if kind == "whole" else Film(rng)
    memory = story.memory(capacity=400)
    for _ in range(6):
        memory.add(story.play(8, [(slot, rng.choice([0, 0, 0, 1, 2], 8).tolist()) for slot in range(4)]))
    monkeypatch.setattr(segments, "SEGMENT_BYTES", segment)
    stored = stored_in(tmp_path / "kept", memory)
    whole = recording_of(stored)
    select = SelectionConfig(last_decisions=60)
    found = buffer_for(stored, select=select, relabel={"scale": 2.0, "shift": 1.0, "bounds": (-1.0, 1.5)})
    count = sieve.copy_filtered(stored, found)
    assert 60 <= count == len(found) == sieve.count_filtered(stored, select) < len(stored)
    got = recording_of(stored_in(tmp_path / "got", found))
    picked = whole.episodes[-len(got.episodes) :]
    for one, other in zip(sorted(got.episodes, key=by_content), sorted(picked, key=by_content), strict=True):
        for path, leaf in other.obs.items():
            np.testing.assert_array_equal(one.obs[path], leaf)
            if other.last_obs is not None:
                np.testing.assert_array_equal(one.last_obs[path], other.last_obs[path])
        np.testing.assert_allclose(one.reward, np.clip(other.reward * 2.0 + 1.0, -1.0, 1.5), rtol=1e-6)
        assert (one.terminated, one.truncated) == (other.terminated, other.truncated)


def by_content(episode):
    return len(episode), *(float(leaf.astype(float).sum()) for leaf in episode.obs.values())


@pytest.mark.parametrize("select", [{"best": 0.5}, {"min_return": 0.0}, {"last_episodes": 2}])
def test_choosing_at_import_and_at_the_start_of_a_run_is_the_same(tmp_path, select):
    one = recording(POINT, THROTTLE, lengths=(3, 1, 4, 6, 2), seed=5, logp=True)
    write_recordings(tmp_path / "all", {"main": one})
    export_stored(find_replay(tmp_path / "all"), str(tmp_path / "a.npz"), "npz", advance=lambda count: None)
    import_replay(tmp_path / "a.npz", tmp_path / "chosen", select=select)
    chosen = find_replay(tmp_path / "chosen")
    assert "of 5 episodes were selected" in chosen.notes[0]
    stored = find_replay(tmp_path / "all")
    memory = buffer_for(stored, select=select)
    sieve.copy_filtered(stored, memory)
    assert_same(recording_of(stored_in(tmp_path / "run", memory)), recording_of(chosen))


def test_without_settings_rows_are_copied_as_they_are(tmp_path):
    write_recordings(tmp_path / "all", {"main": recording(PARTS, CHOICE)})
    stored = find_replay(tmp_path / "all")
    one, other = buffer_for(stored), buffer_for(stored)
    assert sieve.copy_filtered(stored, one) == copy_rows(stored, other) == 8
    pieces = [memory.rows_between(0, 8) for memory in (one, other)]
    assert all((pieces[0][name] == pieces[1][name]).all() for name in pieces[0])


def test_slots_of_merged_buffers_stay_apart(tmp_path):
    parts = []
    for number in range(2):
        story = Story(np.random.default_rng(number))
        memory = story.memory(capacity=400)
        memory.add(story.play(6, [(0, [0, 0, 1, 0, 0, 0])]))
        parts.append(stored_in(tmp_path / f"part{number}", memory))
    write_directory(tmp_path / "both", *merged(parts, "main", lambda count: None))
    both = find_replay(tmp_path / "both")
    assert sieve.EpisodeRows(both).lengths.tolist() == [3, 3, 3, 3]
    found = buffer_for(both, select={"last_episodes": 3})
    sieve.copy_filtered(both, found)
    got = recording_of(stored_in(tmp_path / "got", found)).episodes
    whole = [*recording_of(parts[0]).episodes[1:], *recording_of(parts[1]).episodes]
    for one, other in zip(got, whole, strict=True):
        np.testing.assert_array_equal(one.obs["obs"], other.obs["obs"])
        if not other.terminated:
            np.testing.assert_array_equal(one.last_obs["obs"], other.last_obs["obs"])


# --- rewards ----------------------------------------------------------------------------------------------------------


def distance(obs, action, reward, next_obs, terminated):
    """Returns the length of each step, ten less where the episode ended; checks its arguments."""
    assert obs.shape == next_obs.shape and action.shape == (len(obs), 2)
    LARGEST.append(np.abs(action).max())
    assert (next_obs[terminated] == 0).all() and terminated.dtype == bool
    return np.where(terminated, -10.0, np.abs(next_obs - obs).sum(axis=1)) + 0 * reward


def none_of_them(*arrays):
    return np.zeros(3)


def silent(*arrays):
    pass


def infinite(obs, action, reward, next_obs, terminated):
    return np.where(np.arange(len(obs)) == 4, np.inf, 0.0)


def failing(obs, action):
    return obs


HERE = __name__
LARGEST = []


def test_a_function_gives_rewards_of_what_was_seen_and_done(tmp_path, monkeypatch):
    one = recording(POINT, THROTTLE, lengths=(5, 7, 6), seed=1, reward=False)
    relabel = RelabelConfig(function=f"{HERE}:distance", scale=0.5)
    chosen = FilteredEpisodes(one, SelectionConfig(), relabel, "x")
    assert chosen.missing == ("logp",)
    write_recordings(tmp_path / "all", {"main": one})
    stored = find_replay(tmp_path / "all")
    monkeypatch.setattr(sieve, "PART", 4)
    memory = buffer_for(stored, relabel=relabel)
    sieve.copy_filtered(stored, memory)
    told = [episode.reward for episode in recording_of(stored_in(tmp_path / "run", memory)).episodes]
    for episode, new, copied in zip(one.episodes, chosen.episodes, told, strict=True):
        seen = episode.obs["obs"]
        then = np.concatenate((seen[1:], seen[-1:] if episode.last_obs is None else episode.last_obs["obs"]))
        wanted = np.abs(then - seen).sum(axis=1) * 0.5
        if episode.terminated:
            wanted[-1] = -5.0
        np.testing.assert_allclose(new.reward, wanted, rtol=1e-5)
        np.testing.assert_allclose(copied, wanted, rtol=1e-5)
    assert max(LARGEST) > 1.0  # in the environment's own numbers, which go to 2


def test_functions_that_give_no_rewards_are_refused():
    one = recording(POINT, UNIT, lengths=(5,))
    for name, problem in (
        ("none_of_them", r"gives shape \(3,\) for 5 rows; it must give shape \(5,\)"),
        ("silent", r"gives nothing for 5 rows; it must give shape \(5,\)"),
        ("infinite", "gives inf for row 5; it must be a finite number"),
        ("failing", r"raises TypeError: .*it is given arrays of 5 rows \(obs, action, reward, next_obs, terminated\)"),
    ):
        relabel = RelabelConfig(function=f"{HERE}:{name}")
        with pytest.raises(ConfigError, match=f"x: relabel.function = {HERE}:{name}: {problem}"):
            list(FilteredEpisodes(one, SelectionConfig(), relabel, "x").episodes)
    for wrong, problem in (
        ({"function": f"{HERE}:distanse"}, "distanse"),
        ({"function": f"{HERE}:LENGTHS"}, "is not a function"),
        ({"bounds": (1.0, -1.0)}, "the smallest reward comes first"),
    ):
        with pytest.raises(ConfigError, match=problem):
            FilteredEpisodes(one, SelectionConfig(), RelabelConfig(**wrong), "x")


def test_what_has_no_rewards_cannot_be_chosen_or_scaled(tmp_path):
    one = recording(POINT, UNIT, reward=False)
    with pytest.raises(ConfigError, match="has no rewards, so that no episode can be selected by return"):
        FilteredEpisodes(one, SelectionConfig(best=0.5), RelabelConfig(), "x")
    with pytest.raises(ConfigError, match="has no rewards to scale, shift or clip; name a function"):
        FilteredEpisodes(one, SelectionConfig(), RelabelConfig(scale=2.0), "x")
    write_recordings(tmp_path / "all", {"main": one})
    with pytest.raises(ConfigError, match="has no rewards, so that no episode can be selected"):
        sieve.count_filtered(find_replay(tmp_path / "all"), SelectionConfig(min_return=1.0))


def test_episodes_of_which_a_part_is_gone_have_no_return(tmp_path):
    rng = np.random.default_rng(0)
    story = Story(rng)
    memory = story.memory(capacity=20)
    for _ in range(4):
        memory.add(story.play(9, [(0, [0] * 9)]))
    found = sieve.EpisodeRows(stored_in(tmp_path / "kept", memory))
    assert np.isnan(found.returns).all()
