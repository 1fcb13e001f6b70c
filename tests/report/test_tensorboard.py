"""TensorBoard reads back the events that we write."""

from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from rookery.report import tensorboard
from rookery.report.tensorboard import TensorBoard


def read(folder):
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    found.Reload()
    return found


def points(folder, tag):
    return [(event.step, event.value) for event in read(folder).Scalars(tag)]


def row(steps, mean):
    return {"iteration": steps // 64, "env_steps": steps, "return_mean": mean, "exact": True, "note": "a text"}


def test_the_checksum_is_that_of_the_record_format():
    for content in (b"", b"123456789", bytes(range(256)) * 3):
        assert tensorboard._masked(content) == masked_crc32c(content)


def test_a_row_becomes_scalars_over_environment_steps(tmp_path):
    board = TensorBoard(tmp_path)
    board.add_row(row(64, None), 64)
    board.add_row(row(128, 1.5), 128)
    board.close()
    assert set(read(tmp_path).Tags()["scalars"]) == {"iteration", "return_mean", "exact"}
    assert points(tmp_path, "return_mean") == [(128, 1.5)]  # None is no number
    assert points(tmp_path, "iteration") == [(64, 1.0), (128, 2.0)]


def test_what_a_resumed_run_replays_is_forgotten(tmp_path):
    first = TensorBoard(tmp_path)
    for steps in (64, 128, 192, 256):
        first.add_row(row(steps, float(steps)), steps)
    first.close()
    second = TensorBoard(tmp_path)
    second.resume(128)
    second.add_row(row(192, -1.0), 192)
    second.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.path.name, second.path.name]  # read in this order
    assert points(tmp_path, "return_mean") == [(64, 64.0), (128, 128.0), (192, -1.0)]


def test_a_histogram_keeps_count_sum_and_ends(tmp_path):
    board = TensorBoard(tmp_path)
    board.add_histogram({"lengths": [1.0, 2.0, 2.0, 7.0, float("nan")], "nothing": [], "same": [3.0, 3.0]}, 640)
    board.close()
    found = read(tmp_path)
    assert set(found.Tags()["histograms"]) == {"lengths", "same"}
    (event,) = found.Histograms("lengths")
    seen = event.histogram_value
    assert (event.step, seen.min, seen.max, seen.num, seen.sum) == (640, 1.0, 7.0, 4, 12.0)
    assert seen.sum_squares == 58.0  # 1 + 4 + 4 + 49
    assert sum(seen.bucket) == 4
    assert len(seen.bucket) == len(seen.bucket_limit) == tensorboard.BINS + 1


def test_rows_reach_the_file_after_ten_seconds_or_on_request(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(tensorboard.time, "monotonic", lambda: clock[0])
    board = TensorBoard(tmp_path)
    empty = board.path.stat().st_size
    board.add_row(row(64, 1.0), 64)
    assert board.path.stat().st_size == empty
    clock[0] = 10.0
    board.add_row(row(128, 1.0), 128)
    after_ten = board.path.stat().st_size
    assert after_ten > empty
    board.add_row(row(192, 1.0), 192)
    board.flush()
    assert board.path.stat().st_size > after_ten
    board.close()
    board.close()


def test_a_file_cut_short_by_a_kill_is_read_up_to_there(tmp_path):
    board = TensorBoard(tmp_path)
    board.add_row(row(64, 1.0), 64)
    board.add_row(row(128, 2.0), 128)
    board.close()
    board.path.write_bytes(board.path.read_bytes()[:-5])
    assert points(tmp_path, "return_mean") == [(64, 1.0)]


@pytest.mark.parametrize("kind", ["torch", "tensorflow", "tensorboard.summary"])
def test_nothing_heavy_is_loaded_for_it(kind, tmp_path):
    import subprocess
    import sys

    script = (
        "import sys; from pathlib import Path; from rookery.report.tensorboard import TensorBoard\n"
        f"TensorBoard(Path({str(tmp_path)!r})).close(); print({kind!r} in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == "False\n"
