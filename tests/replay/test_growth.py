"""Files whose few bytes stand for many: refused by what they would unpack to, with the option that allows more."""

from __future__ import annotations

import io
import json
import resource
import time
import zipfile

import numpy as np
import pytest
from recordings import POINT, THROTTLE, recording

from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError
from rookery.replay.formats import growth
from rookery.replay.formats.columns import Wanted
from rookery.replay.formats.names import import_replay, read_recordings
from rookery.replay.formats.packed import MARK, pack
from rookery_mlagents.files.demo_file import START
from rookery_mlagents.link.image_messages import decoded, encoded
from rookery_mlagents.link.messages import ObservationProto
from rookery_mlagents.link.protobuf_wire import WireError


def small(monkeypatch):
    """Limits unpacked files to a megabyte, or twice their size, so that tests are quick."""
    monkeypatch.setattr(growth, "ALWAYS", 1 << 20)
    monkeypatch.setattr(growth, "TIMES", 2)


def data_sets(file, rows, **more):
    for name, shape in {
        "observations": (rows, 4),
        "actions": (rows, 1),
        "rewards": (rows,),
        "terminals": (rows,),
    }.items():
        file.create_dataset(name, shape, bool if name == "terminals" else np.float32, **more)


@pytest.mark.regression(
    "exhausted memory or time", "Reading a data file takes memory and time in proportion to its bytes"
)
def test_a_sparse_hdf5_file_is_refused_before_it_is_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "sparse.hdf5", "w") as file:
        data_sets(file, 100_000_000, chunks=True)
    began = time.process_time()
    with pytest.raises(
        FileError, match=r"sparse.hdf5: its \d,\d+ bytes unpack to 2,5[\d,]+ or .* --max-unpacked-gb 2.8"
    ):
        read_recordings([tmp_path / "sparse.hdf5"], Wanted())
    assert time.process_time() - began < 1


@pytest.mark.regression(
    "exhausted memory or time", "Reading a data file takes memory and time in proportion to its bytes"
)
def test_the_option_that_an_error_names_lets_the_file_in(tmp_path, monkeypatch):
    small(monkeypatch)
    columns = {"obs": np.zeros((80_000, 4), np.float32), "action": np.zeros((80_000, 1)), "done": np.zeros(80_000)}
    np.savez_compressed(tmp_path / "walk.npz", **columns)
    with pytest.raises(FileError, match=r"walk.npz: its [\d,]+ bytes unpack to 2,560,[\d,]+ or more.*max_unpacked_gb"):
        import_replay(tmp_path / "walk.npz", tmp_path / "out")
    found = import_replay(tmp_path / "walk.npz", tmp_path / "out", max_unpacked_gb=0.0028)
    assert len(found["main"]) == 80_000
    with pytest.raises(ConfigError, match="max_unpacked_gb -1: must be a positive number"):
        import_replay(tmp_path / "walk.npz", tmp_path / "again", max_unpacked_gb=-1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npz", "hdf5", "parquet"])
def test_a_compressed_file_of_a_million_constant_rows_loads(tmp_path, kind):
    rows = 1_000_000
    columns = {"obs": np.zeros((rows, 8), np.float32), "action": np.zeros((rows, 2), np.float32),
               "reward": np.ones(rows, np.float32), "terminated": np.zeros(rows, bool)}  # fmt: skip
    path = tmp_path / f"constant.{kind}"
    if kind == "npz":
        np.savez_compressed(path, **columns)
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            for name, array in columns.items():
                file.create_dataset(name, data=array, compression="gzip", compression_opts=9)
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        obs, action = columns.pop("obs"), columns.pop("action")
        flat = {f"obs_{place}": obs[:, place] for place in range(8)} | {
            f"action_{at}": action[:, at] for at in range(2)
        }
        parquet.write_table(pyarrow.table(flat | columns), path)
    assert path.stat().st_size < 1 << 19
    assert len(read_recordings([path], Wanted())["main"]) == rows


@pytest.mark.regression(
    "exhausted memory or time", "Reading a data file takes memory and time in proportion to its bytes"
)
def test_a_header_that_claims_more_than_there_is_takes_no_memory(tmp_path):
    head = np.lib.format.header_data_from_array_1_0(np.zeros((1, 4), np.float32)) | {"shape": (1 << 40, 4)}
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, head)
    with zipfile.ZipFile(tmp_path / "claims.npz", "w") as archive:
        for name in ("obs", "action", "done"):
            archive.writestr(f"{name}.npy", file.getvalue())
    with pytest.raises(
        FileError, match="claims.npz: is not a complete .npz file: obs has .* bytes, and its header says"
    ):
        read_recordings([tmp_path / "claims.npz"], Wanted())


@pytest.mark.regression(
    "exhausted memory or time", "Reading a data file takes memory and time in proportion to its bytes"
)
def test_a_packed_column_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    small(monkeypatch)
    batch = {"type": "SampleBatch", "obs": pack(np.zeros((1 << 20, 1))), "actions": [0], "dones": [True]}
    (tmp_path / "out.json").write_text(json.dumps(batch))
    with pytest.raises(FileError, match=r"out.json: its [\d,]+ bytes unpack to .* --max-unpacked-gb"):
        read_recordings([tmp_path / "out.json"], Wanted())
    (tmp_path / "out.json").write_text(json.dumps(batch | {"obs": MARK + "eJwDAAAAAAE="}))
    with pytest.raises(FileError, match=r"out.json:1: a packed column is damaged"):
        read_recordings([tmp_path / "out.json"], Wanted())


@pytest.mark.regression(
    "exhausted memory or time", "Reading a data file takes memory and time in proportion to its bytes"
)
def test_a_demonstration_of_zeros_is_refused_at_its_first_row(tmp_path):
    (tmp_path / "zeros.demo").write_bytes(bytes(30_000_000))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(FileError, match="zeros.demo: holds no rows"):
        read_recordings([tmp_path / "zeros.demo"], Wanted())
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    (tmp_path / "empty.demo").write_bytes(bytes(START + 1) + b"\x42\x0a\x40" + b"\x6a\x00" * 32)
    with pytest.raises(FileError, match="empty.demo"):
        read_recordings([tmp_path / "empty.demo"], Wanted())


@pytest.mark.regression(
    "exhausted memory or time", "Reading a data file takes memory and time in proportion to its bytes"
)
def test_a_picture_that_is_larger_than_was_said_is_not_unpacked():
    huge = encoded(np.zeros((3000, 3000, 3), np.uint8), "camera")
    small_one = ObservationProto((4, 4, 3), huge.compression_type, huge.compressed_data, None, (0, 1, 2))
    began = time.process_time()
    with pytest.raises(WireError, match=r"an image of shape \(3000, 3000\) where \(4, 4\) was announced"):
        decoded(small_one)
    assert time.process_time() - began < 0.1


@pytest.mark.regression("foreign code", "An HDF5 file shows nothing of other files of this machine")
@pytest.mark.parametrize("way", ["external storage", "external link", "virtual data set"])
def test_hdf5_files_that_point_to_other_files_are_refused(tmp_path, way):
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(160)))
    with h5py.File(tmp_path / "other.hdf5", "w") as other:
        other["rewards"] = np.ones(10, np.float32)
    with h5py.File(tmp_path / "linked.hdf5", "w") as file:
        data_sets(file, 10)
        del file["rewards"]
        if way == "external storage":
            del file["observations"]
            file.create_dataset("observations", (10, 4), np.float32, external=[(str(secret), 0, 160)])
            file["rewards"] = np.ones(10, np.float32)
        elif way == "external link":
            file["rewards"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/rewards")
        else:
            layout = h5py.VirtualLayout((10,), np.float32)
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "rewards", (10,))
            file.create_virtual_dataset("rewards", layout)
    with pytest.raises(FileError, match="linked.hdf5: .* not read"):
        read_recordings([tmp_path / "linked.hdf5"], Wanted())


@pytest.mark.regression(
    "exhausted memory or time", "Reading a data file takes memory and time in proportion to its bytes"
)
def test_a_data_set_that_is_packed_twice_is_refused_and_a_large_chunk_is_unpacked_once(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "twice.hdf5", "w") as file:
        data_sets(file, 10, chunks=True)
        del file["rewards"]
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_chunk((10,))
        layout.set_deflate(9)
        layout.set_deflate(9)
        h5py.h5d.create(file.id, b"rewards", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((10,)), layout)
    with pytest.raises(FileError, match="twice.hdf5: rewards is compressed more than once"):
        read_recordings([tmp_path / "twice.hdf5"], Wanted())
    rows = 1_200_000
    with h5py.File(tmp_path / "large.hdf5", "w") as file:
        data_sets(file, rows, chunks=None)
        del file["observations"]
        file.create_dataset("observations", (rows, 4), np.float32, chunks=(rows, 4), compression="gzip")
    assert len(read_recordings([tmp_path / "large.hdf5"], Wanted())["main"]) == rows


@pytest.mark.regression("wrong result", "A column that was given a role has no other")
def test_a_column_done_that_was_given_another_role_is_read_once(tmp_path):
    rows = "".join(f"{row},0,1,{int(row % 5 == 4)}\n" for row in range(10))
    (tmp_path / "walk.csv").write_text(f"obs,action,reward,done\n{rows}")
    found = read_recordings([tmp_path / "walk.csv"], Wanted(columns={"truncated": ["done"]}))["main"]
    assert [(len(one), one.terminated, one.truncated) for one in found.episodes] == [(5, False, True)] * 2
    assert found.taken == ("truncated: done", "observation: obs", "action: action", "reward: reward")
    assert found.notes == ()


def test_a_whole_recording_is_not_counted_twice(tmp_path, monkeypatch):
    small(monkeypatch)
    from rookery_mlagents.files.demo_replay import write_unity

    write_unity(recording(POINT, THROTTLE, lengths=(3000,)), tmp_path / "long.demo", "main")
    assert len(read_recordings([tmp_path / "long.demo"], Wanted())["main"]) >= 2999
