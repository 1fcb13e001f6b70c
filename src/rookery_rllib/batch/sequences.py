"""Sequences for recurrent models: rows cut into pieces, padded with zeros to one length, and a time axis.

In a batch the rows of a sequence are consecutive; models get them padded, ``[N * T, ...]``, and the lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rookery_rllib.batch.sample_batch import SampleBatch


def add_time_dimension(padded_inputs: Any, *, max_seq_len: int, framework: str = "tf", time_major: bool = False) -> Any:
    """Gives padded rows ``[B * T, ...]`` a time axis: ``[B, T, ...]``."""
    steps = int(max_seq_len)
    count = len(padded_inputs) // steps
    lead = (steps, count) if time_major else (count, steps)
    return padded_inputs.reshape(*lead, *padded_inputs.shape[1:])


def sequence_lengths(episode_ids: Any, unroll_ids: Any, agent_indices: Any, max_seq_len: int) -> np.ndarray:
    """Cuts rows into sequences: where episode, fragment or agent changes, and after `max_seq_len` rows.

    Args:
        episode_ids: ``[B]`` episode of each row.
        unroll_ids: ``[B]`` fragment of each row; None = one fragment.
        agent_indices: ``[B]`` agent of each row; None = one agent.
        max_seq_len: Largest length.

    Returns:
        Lengths ``[N]``, int32.
    """
    marks = [np.asarray(column) for column in (episode_ids, unroll_ids, agent_indices) if column is not None]
    count = len(marks[0]) if marks else 0
    changes = np.zeros(count + 1, bool)
    changes[[0, -1]] = True
    for mark in marks:
        changes[1:-1] |= mark[1:] != mark[:-1]
    pieces = np.diff(np.flatnonzero(changes))
    lengths = [[max_seq_len] * (piece // max_seq_len) + [piece % max_seq_len] for piece in pieces.tolist()]
    return np.array([length for piece in lengths for length in piece if length], np.int32)


def chop_into_sequences(
    *,
    feature_columns: Sequence[Any],
    state_columns: Sequence[Any],
    max_seq_len: int,
    episode_ids: Any = None,
    unroll_ids: Any = None,
    agent_indices: Any = None,
    dynamic_max: bool = True,
    shuffle: bool = False,
    seq_lens: Any = None,
    states_already_reduced_to_init: bool = False,
    _extra_padding: int = 0,
) -> tuple[list[Any], list[Any], np.ndarray]:
    """Cuts columns into sequences and pads these with zeros.

    Returns padded columns ``[N * T, ...]`` (lists with None where values are no numbers), states before each sequence
    ``[N, ...]``, and lengths ``[N]``. Raises a ValueError if the lengths do not sum up to the number of rows.
    """
    if seq_lens is None or len(seq_lens) == 0:
        seq_lens = sequence_lengths(episode_ids, unroll_ids, agent_indices, max_seq_len)
    lengths = np.asarray(seq_lens).astype(np.int32)
    rows = len(feature_columns[0])
    if lengths.sum() != rows:
        raise ValueError(f"seq_lens {lengths.tolist()} sum up to {lengths.sum()}, and there are {rows} rows")
    steps = int(lengths.max()) + _extra_padding if dynamic_max else int(max_seq_len)
    begins = np.cumsum(lengths) - lengths
    order = np.random.permutation(len(lengths)) if shuffle else np.arange(len(lengths))  # as scripts seed it
    place = np.empty(len(lengths), np.int64)
    place[order] = np.arange(len(lengths))
    targets = np.repeat(place * steps - begins, lengths) + np.arange(rows)
    features = [_padded(column, targets, len(lengths) * steps) for column in feature_columns]
    states = [np.asarray(column) for column in state_columns]
    initial = states if states_already_reduced_to_init else [column[begins] for column in states]
    return features, [column[order] for column in initial], lengths[order]


def _padded(column: Any, targets: np.ndarray, length: int) -> Any:
    """Writes rows to their places in a padded array of zeros."""
    array = np.asarray(column)
    if array.dtype.kind in "OUS":
        filled: list[Any] = [None] * length
        for target, value in zip(targets.tolist(), array, strict=True):
            filled[target] = value
        return filled
    out = np.zeros((length, *array.shape[1:]), array.dtype)
    out[targets] = array
    return out


def pad_batch_to_sequences_of_same_size(
    batch: SampleBatch,
    max_seq_len: int,
    shuffle: bool = False,
    batch_divisibility_req: int = 1,
    feature_keys: Iterable[str] | None = None,
    view_requirements: Any = None,
) -> None:
    """Cuts a batch into sequences and pads them with zeros, in place; a batch without states is unchanged."""
    if batch.zero_padded:
        return
    remembers = "state_in_0" in batch or "state_out_0" in batch
    first = next(iter(batch.values()))
    agents = batch.get(SampleBatch.AGENT_INDEX)
    fits = batch_divisibility_req <= 1 or (
        len(first) % batch_divisibility_req == 0 and (agents is None or max(agents) == 0)
    )
    batch.zero_padded = True
    if not remembers and fits:
        if shuffle:
            batch.shuffle()
        return
    shrink = False
    if remembers:
        seen = (view_requirements or {}).get("state_in_0")
        shrink = getattr(seen, "shift_from", None) is None
    else:
        max_seq_len = batch_divisibility_req
    states = [key for key in batch if key.startswith("state_in_")]
    fixed = {*states, "infos", SampleBatch.SEQ_LENS}
    others = [key for key in batch if key not in fixed and not key.startswith("state_out_")]
    keys = list(feature_keys) if feature_keys else [key for key in others if isinstance(batch[key], np.ndarray)]
    given = batch.get(SampleBatch.SEQ_LENS)
    features, initial, lengths = chop_into_sequences(
        feature_columns=[batch[key] for key in keys],
        state_columns=[batch[key] for key in states],
        episode_ids=batch.get(SampleBatch.EPS_ID),
        unroll_ids=batch.get(SampleBatch.UNROLL_ID),
        agent_indices=agents,
        seq_lens=given,
        max_seq_len=max_seq_len,
        dynamic_max=shrink,
        states_already_reduced_to_init=bool(states) and given is not None and len(batch[states[0]]) == len(given),
        shuffle=shuffle,
    )
    for key, column in zip([*keys, *states], [*features, *initial], strict=True):
        batch[key] = column
    batch[SampleBatch.SEQ_LENS] = lengths
    batch.max_seq_len = len(features[0]) // len(lengths)


def timeslice_along_seq_lens_with_overlap(
    sample_batch: SampleBatch,
    seq_lens: Any = None,
    zero_pad_max_seq_len: int = 0,
    pre_overlap: int = 0,
    zero_init_states: bool = True,
) -> list[SampleBatch]:
    """Makes a batch of each sequence, with some rows before it of the same episode, for a burn-in."""
    lengths = sample_batch.get(SampleBatch.SEQ_LENS) if seq_lens is None else seq_lens
    if lengths is None or len(lengths) == 0:
        raise ValueError("timeslice_along_seq_lens_with_overlap: the batch has no seq_lens, and none are given")
    slices, start = [], 0
    for length in np.asarray(lengths).tolist():
        slices.append(_with_overlap(sample_batch, start, start + length, pre_overlap, zero_init_states))
        start += length
    if zero_pad_max_seq_len > 0:
        for one in slices:
            one.right_zero_pad(zero_pad_max_seq_len, exclude_states=True)
    return slices


def _with_overlap(batch: SampleBatch, start: int, end: int, overlap: int, zero_states: bool) -> SampleBatch:
    """Returns the rows from start to end, with an overlap before them."""
    columns = {key: np.asarray(column) for key, column in batch.items() if key != SampleBatch.SEQ_LENS}
    begin = max(start - overlap, 0)
    episodes = columns.get(SampleBatch.EPS_ID, np.zeros(end))
    others = np.flatnonzero(episodes[begin:start] != episodes[start])  # of rows before, those do not count
    begin += int(others[-1]) + 1 if len(others) else 0
    missing = overlap - (start - begin)
    states = {key for key in columns if key.startswith(("state_in_", "state_out_"))}
    taken = {}
    for key, column in columns.items():
        if key not in states:
            taken[key] = np.concatenate((np.zeros((missing, *column.shape[1:]), column.dtype), column[begin:end]))
    for key in sorted(states):
        number = key.removeprefix("state_in_")
        if key.startswith("state_in_"):
            before = columns.get(f"state_out_{number}")
            goes_on = not zero_states and begin > 0 and episodes[begin - 1] == episodes[begin]
            taken[key] = (
                before[begin - 1 : begin] if goes_on and before is not None else np.zeros_like(columns[key][:1])
            )
    return SampleBatch({**taken, SampleBatch.SEQ_LENS: [end - start + overlap]})
