"""The column `action_raw`, what tanh was taken of: in directories and in files of others, and where it is not there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recordings import CHOICE, THROTTLE, assert_same, recording

from rookery.core.io.files import FileError
from rookery.replay.formats.columns import Wanted
from rookery.replay.formats.names import export_stored, read_recordings
from rookery.replay.recording import recording_of, write_recordings
from rookery.replay.segments import RAW, find_replay, raw_actions
from rookery.replay.transfer import merged


def squashed(lengths=(3, 1, 4), unknown=()):
    """Episodes whose actions are tanh of numbers, most of them at a bound; of some episodes these are not known."""
    made = recording(action=THROTTLE, lengths=lengths, logp=True)
    rng = np.random.default_rng(5)
    episodes = []
    for number, one in enumerate(made.episodes):
        raw = rng.normal(0, 9, (len(one), 2)).astype(np.float32)
        known = None if number in unknown else raw
        episodes.append(replace(one, action=np.tanh(raw), action_raw=known))
    return replace(made, episodes=tuple(episodes))


def kept(place, made):
    write_recordings(place, {"main": made})
    return find_replay(place)


def numbers(source):
    return [one.action_raw for one in source.episodes]


@pytest.mark.regression(
    "wrong result",
    "`action_raw` stays with the actions of a recording that is copied, merged, exported or imported",
)
def test_it_comes_back_from_a_directory(tmp_path):
    made = squashed(unknown=(1,))
    found = recording_of(kept(tmp_path / "a", made))
    assert_same(made, found)
    for before, after in zip(numbers(made), numbers(found), strict=True):
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_array_equal(before, after)
    every = raw_actions(find_replay(tmp_path / "a"))
    assert every.shape == (8, 2) and np.isnan(every).all(axis=1).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.regression(
    "wrong result",
    "`action_raw` stays with the actions of a recording that is copied, merged, exported or imported",
)
@pytest.mark.parametrize("kind", ["npz", "csv", "parquet", "json"])
def test_it_goes_to_other_formats_and_back(tmp_path, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    made = squashed(unknown=(1,))
    path = tmp_path / f"file.{kind}"
    export_stored(kept(tmp_path / "a", made), str(path), "rllib" if kind == "json" else kind, advance=lambda rows: None)
    found = read_recordings([path], Wanted(spaces=made.spaces))["main"]
    for before, after in zip(numbers(made), numbers(found), strict=True):
        if before is None:
            assert after is None
        else:
            np.testing.assert_array_equal(before, after)


@pytest.mark.regression(
    "wrong result",
    "`action_raw` stays with the actions of a recording that is copied, merged, exported or imported",
)
def test_recordings_with_and_without_it_are_merged(tmp_path):
    with_it, without = kept(tmp_path / "a", squashed()), kept(tmp_path / "b", squashed(unknown=(0, 1, 2)))
    assert raw_actions(without) is None
    files, facts = merged([without, with_it], "main", lambda rows: None)
    from rookery.core.io.files import write_directory

    write_directory(tmp_path / "both", files, facts)
    both = raw_actions(find_replay(tmp_path / "both"))
    assert np.isnan(both[:8]).all() and np.isfinite(both[8:]).all()


def test_files_without_it_load_as_before(tmp_path):
    made = recording(action=THROTTLE, logp=True)
    assert numbers(recording_of(kept(tmp_path / "a", made))) == [None] * 3
    export_stored(find_replay(tmp_path / "a"), str(tmp_path / "file.csv"), "csv", advance=lambda rows: None)
    assert RAW not in (tmp_path / "file.csv").read_text()


def test_a_column_of_that_name_that_means_something_else_is_left_out(tmp_path):
    made = squashed()
    odd = replace(made, episodes=tuple(replace(one, action_raw=-one.action) for one in made.episodes))
    export_stored(kept(tmp_path / "a", odd), str(tmp_path / "file.csv"), "csv", advance=lambda rows: None)
    found = read_recordings([tmp_path / "file.csv"], Wanted(spaces=made.spaces))["main"]
    assert numbers(found) == [None] * 3
    choices = recording(action=CHOICE, logp=True)
    export_stored(kept(tmp_path / "b", choices), str(tmp_path / "choices.csv"), "csv", advance=lambda rows: None)
    text = (tmp_path / "choices.csv").read_text().splitlines()
    named = [f"{text[0]},action_raw", *(f"{line},0.5" for line in text[1:])]
    (tmp_path / "choices.csv").write_text("\n".join(named))
    read = read_recordings([tmp_path / "choices.csv"], Wanted(spaces=choices.spaces))["main"]
    assert numbers(read) == [None] * 3 and len(read) == len(choices)


def test_a_segment_whose_column_has_another_shape_is_refused(tmp_path):
    made = squashed()
    odd = replace(
        made, episodes=tuple(replace(one, action_raw=np.zeros((len(one), 3), np.float32)) for one in made.episodes)
    )
    with pytest.raises(FileError, match=r"its action_raw are float32 of shape \(8, 3\)"):
        raw_actions(kept(tmp_path / "a", odd))
