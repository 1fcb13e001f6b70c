"""Films: what is in them, and that they take little room while they are made."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from rookery import PPOConfig, Trainer
from rookery.core.errors import ConfigError
from rookery.core.files import FileError
from rookery.training.recording import LARGEST, Frame, check_suffix, record, write_animation

OPTIONS = {"episodes": 1, "deterministic": True, "labels": False, "max_frames": 6, "frames_per_second": 10.0}


@pytest.fixture
def trainer():
    with Trainer("CartPole-v1", PPOConfig(), num_envs=2, seed=1) as made:
        yield made


def test_a_frame_comes_back_as_it_was_and_is_packed():
    rng = np.random.default_rng(0)
    picture = Image.fromarray(np.repeat(rng.integers(0, 255, (40, 1, 3), dtype=np.uint8), 60, axis=1))
    frame = Frame.of(picture)
    assert np.array_equal(np.asarray(frame.picture()), np.asarray(picture))
    assert len(frame.packed) < 40 * 60 * 3 / 10


@pytest.mark.parametrize("suffix", [".webp", ".gif", ".png"])
def test_a_film_has_every_frame_in_order(tmp_path, suffix):
    shades = [0, 40, 80, 120, 160, 200, 240]
    frames = [Frame.of(Image.new("RGB", (16, 16), (shade, 0, 0))) for shade in shades]
    write_animation(tmp_path / f"film{suffix}", frames, [0.1] * len(frames))
    film = Image.open(tmp_path / f"film{suffix}")
    assert film.n_frames == len(shades)
    seen = []
    for number in range(film.n_frames):
        film.seek(number)
        seen.append(film.convert("RGB").getpixel((8, 8))[0])
    assert seen == pytest.approx(shades, abs=8)


def test_recording_gives_the_result_of_the_whole_episode(trainer, tmp_path):
    result = record(trainer, tmp_path / "deep" / "film.webp", **OPTIONS)
    assert Image.open(tmp_path / "deep" / "film.webp").n_frames == 6
    assert result.return_mean == result.length_mean > 6
    again = record(trainer, tmp_path / "again.webp", **OPTIONS)
    assert again == result
    assert (tmp_path / "again.webp").read_bytes() == (tmp_path / "deep" / "film.webp").read_bytes()


def test_large_pictures_are_scaled_down(trainer, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rookery.envs.classic.BatchedCartPole.render", lambda env, lane: np.zeros((900, 1800, 3), np.uint8)
    )
    record(trainer, tmp_path / "film.webp", **OPTIONS)
    assert Image.open(tmp_path / "film.webp").size == (LARGEST, LARGEST // 2)


def test_a_film_is_refused_early_if_its_form_is_unknown_and_said_if_it_cannot_be_written(trainer, tmp_path):
    with pytest.raises(ConfigError, match="a film is one of .webp, .gif, .png, .mp4"):
        check_suffix(tmp_path / "film.avi")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="film.webp: cannot be written"):
        record(trainer, tmp_path / "file" / "film.webp", **OPTIONS)


def test_a_video_is_written_where_its_package_is(trainer, tmp_path):
    av = pytest.importorskip("av")
    record(trainer, tmp_path / "film.mp4", **OPTIONS)
    with av.open(str(tmp_path / "film.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 6
