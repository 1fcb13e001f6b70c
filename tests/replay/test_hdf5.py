"""HDF5 files as D4RL has them: read in blocks to the same numbers as whole, and refused with the row where they are
wrong.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from d4rl_files import described, rows_of, write
from gymnasium import spaces
from recordings import assert_same

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.io.files import FileError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay import segments
from rookery.replay.formats import blocks
from rookery.replay.formats.columns import Wanted
from rookery.replay.formats.names import export_replay, import_replay, read_recordings
from rookery.replay.recording import recording_of
from rookery.replay.segments import Spaces, find_replay


def read(path, **wanted):
    return read_recordings([path], Wanted(**wanted))["main"]


def wanting(obs, action):
    return Spaces(obs_spec(obs, action), action_spec(action), 0)


def test_d4rl_becomes_episodes_with_the_ends_that_it_says(tmp_path):
    columns = rows_of(ends="tco")
    found = read(described(tmp_path / "hopper.hdf5", columns))
    assert found.spaces.action.space == spaces.Box(-1, 1, (2,), np.float32)
    assert found.spaces.obs.space == spaces.Box(-np.inf, np.inf, (3,), np.float32)
    assert [(len(one), one.terminated, one.truncated) for one in found.episodes] == [
        (5, True, False), (4, False, True), (6, False, False)
    ]  # fmt: skip
    assert found.dropped == ("infos/action_log_probs", "infos/qpos", "metadata/algorithm", "metadata/policy/fc0/weight")
    assert found.missing == ("logp",)
    start = 0
    for one in found.episodes:
        rows = slice(start, start + len(one))
        np.testing.assert_array_equal(one.obs["obs"], columns["observations"][rows])
        np.testing.assert_array_equal(one.action, columns["actions"][rows])
        np.testing.assert_array_equal(one.reward, columns["rewards"][rows])
        start += len(one)
        if not one.terminated:
            np.testing.assert_array_equal(one.last_obs["obs"], columns["next_observations"][start - 1 : start])
    assert found.episodes[0].last_obs is None
    sums = [columns["rewards"][:5].sum(dtype=float), columns["rewards"][5:9].sum(dtype=float)]
    np.testing.assert_allclose(found.returns(), [*sums, np.nan])  # nothing has ended the last one


@pytest.mark.parametrize("block", [1, 40, 100, 1 << 20])
def test_blocks_of_any_size_give_the_same_episodes_and_the_same_files(tmp_path, monkeypatch, block):
    columns = rows_of((5, 4, 6, 1, 14), ends="tctco", next_obs=True)
    path = described(tmp_path / "a.hdf5", columns)
    whole = read(path)
    import_replay(path, tmp_path / "whole")
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    assert_same(read(path), whole)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 400)
    import_replay(path, tmp_path / "parts")
    assert len(find_replay(tmp_path / "parts").segments) > 2
    one, other = (recording_of(find_replay(tmp_path / name)) for name in ("whole", "parts"))
    assert_same(one, whole)
    assert_same(other, whole)


def test_the_same_arrays_as_npz_become_the_same_episodes(tmp_path):
    columns = rows_of((5, 4, 6), ends="tco")
    np.savez(tmp_path / "a.npz", **columns)
    path = write(tmp_path / "a.hdf5", columns)
    made_of = wanting(spaces.Box(-10, 10, (3,), np.float32), spaces.Box(-2, 2, (2,), np.float32))
    assert_same(read(tmp_path / "a.npz", spaces=made_of), read(path, spaces=made_of))


def test_choices_and_pictures_are_known_by_their_types(tmp_path):
    columns = rows_of(next_obs=False) | {"actions": np.arange(15) % 4}
    columns["observations"] = np.random.default_rng(0).integers(0, 256, (15, 6, 7, 3)).astype(np.uint8)
    found = read(write(tmp_path / "a.h5", columns))
    assert found.spaces.action.space == spaces.Discrete(4)
    assert found.spaces.obs.space == spaces.Box(0, 255, (6, 7, 3), np.uint8)
    assert found.missing == ("logp", "last_obs")
    np.testing.assert_array_equal(found.episodes[1].obs["obs"], columns["observations"][5:9])


def test_parts_of_observations_and_columns_by_name_are_read(tmp_path):
    columns = rows_of(next_obs=False)
    columns["observations/near"] = columns.pop("observations")
    columns["observations/far"] = columns["observations/near"] * 10
    path = described(tmp_path / "a.hdf5", columns)
    found = read(path, columns={"logp": ["infos/action_log_probs"]})
    assert [leaf.path for leaf in found.spaces.obs.leaves] == ["far", "near"]
    assert found.episodes[0].logp.tolist() == [-0.5] * 5
    assert "infos/action_log_probs" not in found.dropped


def test_a_folder_of_files_is_read_one_after_the_other(tmp_path):
    for number in (1, 0):
        write(tmp_path / f"part{number}.hdf5", rows_of((2, 3), ends="tc", seed=number))
    found = read(tmp_path)
    parts = [read(tmp_path / f"part{number}.hdf5") for number in (0, 1)]
    for one, other in zip(found.episodes, (*parts[0].episodes, *parts[1].episodes), strict=True):
        np.testing.assert_array_equal(one.obs["obs"], other.obs["obs"])
    assert len(found) == 10 and found.lengths.tolist() == [2, 3, 2, 3]
    write(tmp_path / "part2.hdf5", rows_of((2, 3), ends="tc", size=4))
    with pytest.raises(SpaceError, match=r"part2.hdf5: holds observations .*\(4,\).* and .*part0.hdf5 .*--like"):
        read(tmp_path)


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_time_limit_that_is_named_cuts_episodes_off(tmp_path):
    columns = rows_of((6, 6, 4), ends="ttt")
    found = read(write(tmp_path / "a.hdf5", columns), time_limit=6)
    assert [(one.terminated, one.truncated) for one in found.episodes] == [(False, True), (False, True), (True, False)]
    np.testing.assert_array_equal(found.episodes[0].last_obs["obs"], columns["next_observations"][5:6])
    columns = rows_of((6, 6, 4), ends="oot")  # nothing says that the first two are over
    found = read(write(tmp_path / "b.hdf5", columns), time_limit=6)
    assert [(len(one), one.truncated) for one in found.episodes] == [(6, True), (6, True), (4, False)]
    with pytest.raises(ConfigError, match=r"b.hdf5: row 7: obs differs from next_obs of the previous row"):
        read(tmp_path / "b.hdf5")


def test_time_that_jumps_is_refused_with_its_row_or_cut(tmp_path):
    columns = rows_of((5, 4, 6), ends="oco")
    path = write(tmp_path / "a.hdf5", columns)
    with pytest.raises(ConfigError, match=r"a.hdf5: row 6: obs differs .*--column episode=NAME.*--time-limit N.*--cut"):
        read(path)
    found = read(path, cut_at_jumps=True)
    assert [(len(one), one.terminated, one.truncated) for one in found.episodes] == [
        (5, False, True), (4, False, True), (6, False, False)
    ]  # fmt: skip
    np.testing.assert_array_equal(found.episodes[0].last_obs["obs"], columns["next_observations"][4:5])


@pytest.mark.parametrize(
    ("steps", "row", "said"),
    [
        ([0, 1, 2, 3, 4, 0, 1, 2, 3], 6, "step is 0, and 4 in the previous row"),
        ([0, 1, 2, 5, 6, 7, 8, 9, 10], 4, "step is 5, and 2"),
        ([0.0, 0.1, 0.2, 0.29, 0.41, 0.5, 0.5, 0.6, 0.7], 7, "step is 0.5, and 0.5"),
    ],
)
def test_a_column_of_steps_that_jumps_is_refused_with_its_row(tmp_path, steps, row, said):
    columns = rows_of((9,), ends="t", next_obs=False) | {"step": np.array(steps)}
    path = write(tmp_path / "a.hdf5", columns)
    with pytest.raises(ConfigError, match=rf"a.hdf5: row {row}: {said}.*time jumps within an episode"):
        read(path)
    assert len(read(path, cut_at_jumps=True).lengths) == 2
    np.savez(tmp_path / "a.npz", **columns)
    with pytest.raises(ConfigError, match=rf"a.npz: row {row}: {said}"):
        read(tmp_path / "a.npz")


def test_rows_of_an_episode_may_have_others_between_them(tmp_path):
    columns = rows_of((4, 4), ends="oo", next_obs=False) | {"episode": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    found = read(write(tmp_path / "a.hdf5", columns))
    assert found.lengths.tolist() == [4, 4] and found.spaces.action.space == spaces.Box(-1, 1, (2,), np.float32)
    np.testing.assert_array_equal(found.episodes[1].reward, columns["rewards"][[2, 3, 6, 7]])
    columns["episode"] = np.array([7, 7, 7, 2, 2, 9, 9, 9])
    assert read(write(tmp_path / "a.hdf5", columns)).lengths.tolist() == [3, 2, 3]


def test_a_flag_that_does_not_say_why_is_noted(tmp_path):
    columns = rows_of((4, 4), ends="tt", next_obs=False)
    columns["dones"] = columns.pop("terminals")
    del columns["timeouts"]
    path = write(tmp_path / "a.hdf5", columns)
    assert "dones does not distinguish termination from truncation" in read(path).notes[0]
    assert "--time-limit N" in read(path).notes[0]
    assert read(path, time_limit=4).notes == ()
    both = write(tmp_path / "b.hdf5", columns | {"timeouts": np.array([0, 0, 0, 1, 0, 0, 0, 0], bool)})
    assert [(one.terminated, one.truncated) for one in read(both).episodes] == [(False, True), (True, False)]
    import_replay(path, tmp_path / "kept")
    assert "dones does not distinguish" in find_replay(tmp_path / "kept").notes[0]


def test_the_limit_of_an_environment_is_not_that_of_longer_episodes(tmp_path):
    columns = rows_of((4, 2, 5), ends="tto", next_obs=False)
    columns["dones"] = columns.pop("terminals")
    del columns["timeouts"]
    path = write(tmp_path / "a.hdf5", columns)
    taken, refused, named = read(path, env_limit=5), read(path, env_limit=3), read(path, env_limit=3, time_limit=4)
    assert [(one.terminated, one.truncated) for one in taken.episodes][2] == (False, True)
    assert "5 decisions, the time limit of the environment, count as truncated" in taken.notes[0]
    assert refused.lengths.tolist() == [4, 2, 5] and not any(one.truncated for one in refused.episodes)
    assert "is not that of these data, which have 2 of 3 episodes that are longer, up to 5" in refused.notes[0]
    assert named.lengths.tolist() == [4, 2, 4, 1] and named.notes == ()


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("observations", np.nan, r"row 8: obs: non-finite observation nan .*mend the row, or leave its episode out"),
        ("observations", np.inf, r"row 8: obs: non-finite observation inf"),
        ("actions", np.nan, r"row 8: action is \[nan, .*\], which is not a finite number; mend"),
        ("rewards", -np.inf, r"row 8: reward is -inf, which is not a finite number; mend"),
    ],
)
def test_numbers_that_are_none_are_named_with_their_row(tmp_path, monkeypatch, block, name, value, problem):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    columns = rows_of()
    columns[name].reshape(15, -1)[7, 0] = value
    path = write(tmp_path / "a.hdf5", columns)
    made_of = wanting(spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32))
    with pytest.raises(ConfigError, match=f"a.hdf5: {problem}"):
        read(path, spaces=made_of)


def test_texts_where_numbers_are_expected_are_named_with_their_row(tmp_path):
    columns = rows_of() | {"rewards": np.array([b"1"] * 15)}
    with pytest.raises(ConfigError, match=r"a.hdf5: row 1: reward is '1', which is not a number; name other columns"):
        read(write(tmp_path / "a.hdf5", columns))
    np.savez(tmp_path / "a.npz", **(rows_of() | {"rewards": np.array(["good"] * 15)}))
    with pytest.raises(ConfigError, match=r"a.npz: row 1: reward is 'good', which is not a number"):
        read(tmp_path / "a.npz")


def test_actions_outside_the_bounds_are_named_with_their_row(tmp_path):
    columns = rows_of()
    columns["actions"][9, 1] = 1.5
    path = write(tmp_path / "a.hdf5", columns)
    made_of = wanting(spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32))
    with pytest.raises(ConfigError, match=r"row 10: action is \[.*1.5\], which is outside the bounds of Box.*--clip"):
        read(path, spaces=made_of)
    assert read(path, spaces=made_of, clip_actions=True).episodes[2].action[0, 1] == 1.0
    assert not np.isfinite(read(path).spaces.action.space.high).any()  # no bounds are guessed
    columns["actions"][9, 1] = 1.0 + 1e-7  # what rounding does
    assert len(read(write(tmp_path / "b.hdf5", columns), spaces=made_of)) == 15
    choices = rows_of() | {"actions": np.array([0, 1, 2] * 5)}
    made_of = wanting(spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(2))
    with pytest.raises(ConfigError, match=r"row 3: action is 2, which is not in Discrete\(2\)"):
        read(write(tmp_path / "c.hdf5", choices), spaces=made_of)


def test_columns_that_are_missing_or_too_short_are_named(tmp_path):
    columns = rows_of()
    columns["observatons"] = columns.pop("observations")
    del columns["next_observations"]
    with pytest.raises(ConfigError, match="the columns of obs are unknown.*there are .*; did you mean 'observatons'"):
        read(write(tmp_path / "a.hdf5", columns))
    with pytest.raises(ConfigError, match="has no column 'rewrds' for reward; there are .* did you mean 'rewards'"):
        read(write(tmp_path / "a.hdf5", rows_of()), columns={"reward": ["rewrds"]})
    short = rows_of()
    short["rewards"] = short["rewards"][:-1]
    with pytest.raises(ConfigError, match="rewards has 14 rows, and actions 15: .*cut them to the same rows"):
        read(write(tmp_path / "a.hdf5", short))
    endless = rows_of()
    del endless["terminals"], endless["timeouts"]
    with pytest.raises(ConfigError, match="no column has the ends of episodes; .*--column terminated=NAME"):
        read(write(tmp_path / "a.hdf5", endless))
    with pytest.raises(ConfigError, match="has no rows"):
        read(write(tmp_path / "a.hdf5", {name: array[:0] for name, array in rows_of().items()}))
    with pytest.raises(ConfigError, match="has no data sets with rows"):
        read(write(tmp_path / "a.hdf5", {"metadata/name": "x"}))


def test_files_that_are_none_and_other_spaces_are_refused(tmp_path):
    with pytest.raises(FileError, match="there is no such file"):
        read(tmp_path / "nowhere.hdf5")
    (tmp_path / "a.hdf5").write_bytes(b"no such format")
    with pytest.raises(FileError, match=r"a.hdf5: is not a complete HDF5 file"):
        read(tmp_path / "a.hdf5")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"there are no files .hdf5 in it"):
        read_recordings([tmp_path / "empty"], Wanted(), "hdf5")
    made_of = wanting(spaces.Box(-1, 1, (5,), np.float32), spaces.Box(-1, 1, (2,), np.float32))
    with pytest.raises(SpaceError, match="obs has 3 numbers in a row .* the wanted space has 5"):
        read(write(tmp_path / "b.hdf5", rows_of()), spaces=made_of)
    import_replay(tmp_path / "b.hdf5", tmp_path / "b")
    with pytest.raises(ConfigError, match=r"HDF5 can only be imported; export to .npz"):
        export_replay(tmp_path / "b", tmp_path / "c.hdf5")


def test_a_package_that_is_not_installed_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.hdf5", rows_of())
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ConfigError, match=r"HDF5 files need h5py: pip install 'rookery-rl\[hdf5\]'"):
        read(path)


def test_what_cannot_be_written_whole_leaves_nothing(tmp_path, monkeypatch):
    columns = rows_of((5, 4, 6), ends="tco")
    columns["next_observations"][14] = np.nan  # after the last row, which only shows when it is written
    with pytest.raises(ConfigError, match="a.hdf5: row 15: next_obs: .*non-finite"):
        import_replay(write(tmp_path / "a.hdf5", columns), tmp_path / "out")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.hdf5"]
