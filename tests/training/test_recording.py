"""Recording: what the film of a trainer holds, and what recording returns."""

from __future__ import annotations

import pytest
from PIL import Image

from rookery import PPOConfig, Trainer
from rookery.core.files import FileError

OPTIONS = {"episodes": 1, "deterministic": True, "labels": False, "max_frames": 6, "frames_per_second": 10.0}


@pytest.fixture
def trainer():
    with Trainer("CartPole-v1", PPOConfig(), num_envs=2, seed=1) as made:
        yield made


def test_recording_gives_the_result_of_the_whole_episode(trainer, tmp_path):
    result = trainer.record(tmp_path / "deep" / "film.webp", **OPTIONS)
    assert Image.open(tmp_path / "deep" / "film.webp").n_frames == 6
    assert result.return_mean == result.length_mean > 6
    again = trainer.record(tmp_path / "again.webp", **OPTIONS)
    assert again == result
    assert (tmp_path / "again.webp").read_bytes() == (tmp_path / "deep" / "film.webp").read_bytes()


def test_a_film_that_cannot_be_written_is_said_to_be(trainer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="film.webp: cannot be written"):
        trainer.record(tmp_path / "file" / "film.webp", **OPTIONS)


def test_a_video_is_written_where_its_package_is(trainer, tmp_path):
    av = pytest.importorskip("av")
    trainer.record(tmp_path / "film.mp4", **OPTIONS)
    with av.open(str(tmp_path / "film.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 6
