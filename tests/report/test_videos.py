"""Videos have every frame in order, and take little memory while they are made."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from rookery.core.errors import ConfigError
from rookery.report.videos import LARGEST, TITLE_SECONDS, Frame, Video, are_flat, check_suffix, write_animation


def test_a_frame_comes_back_as_it_was_and_is_packed():
    rng = np.random.default_rng(0)
    image = Image.fromarray(np.repeat(rng.integers(0, 255, (40, 1, 3), dtype=np.uint8), 60, axis=1))
    frame = Frame.of(image)
    assert np.array_equal(np.asarray(frame.image()), np.asarray(image))
    assert len(frame.packed) < 40 * 60 * 3 / 10


@pytest.mark.parametrize("suffix", [".webp", ".gif", ".png"])
def test_a_film_has_every_frame_in_order(tmp_path, suffix):
    shades = [0, 40, 80, 120, 160, 200, 240]
    frames = [Frame.of(Image.new("RGB", (16, 16), (shade, 0, 0))) for shade in shades]
    write_animation(tmp_path / f"video{suffix}", frames, [0.1] * len(frames), lambda encoded, total: None)
    video = Image.open(tmp_path / f"video{suffix}")
    assert video.n_frames == len(shades)
    seen = []
    for number in range(video.n_frames):
        video.seek(number)
        seen.append(video.convert("RGB").getpixel((8, 8))[0])
    assert seen == pytest.approx(shades, abs=8)


def test_large_pictures_are_scaled_down_and_the_others_made_as_large_as_the_first():
    video = Video(episodes=1, max_frames=2)
    video.add(np.zeros((900, 1800, 3), np.uint8), 0, (), None)
    video.add(np.zeros((40, 20, 3), np.uint8), 0, (), None)
    assert [frame.size for frame in video.frames] == [(LARGEST, LARGEST // 2)] * 2
    assert not video.takes_next(0)
    assert (video.is_full, video.left_out) == (True, [0])


def test_a_film_ends_before_a_title_or_a_picture_for_which_no_time_is_left():
    video = Video(episodes=3, max_frames=1000, frames_per_second=10, max_seconds=3.0)
    for episode in (0, 1, 2):
        for _ in range(6):
            if video.takes_next(episode):
                video.add(np.zeros((32, 64, 3), np.uint8), episode, (), None)
    assert video.seconds == pytest.approx(2 * (TITLE_SECONDS + 0.6))  # a third title has no room
    assert video.left_out == [2] * 6


def test_a_title_stands_before_each_of_several_episodes():
    video = Video(episodes=2, max_frames=10)
    for episode in (0, 0, 1):
        video.add(np.zeros((32, 64, 3), np.uint8), episode, ("step 1",), None if episode == 0 else 3.5)
    assert [frame.is_title for frame in video.frames] == [True, False, False, True, False]
    assert video.frames[0].size == video.frames[1].size
    assert video.frames[0].size[1] > 32  # there is room for the caption
    assert video.frames[0].packed != video.frames[3].packed  # another number, and the return of the episode before


def test_a_film_is_refused_early_if_its_form_is_unknown(tmp_path):
    with pytest.raises(ConfigError, match="a video is one of .webp, .gif, .png, .mp4"):
        check_suffix(tmp_path / "video.avi")


def drawn_back(frames, path):
    write_animation(path, frames, [0.1] * len(frames), lambda encoded, total: None)
    video = Image.open(path)
    for number in range(video.n_frames):
        video.seek(number)
        yield np.asarray(video.convert("RGB"))


def test_drawings_of_few_colours_are_kept_without_loss_and_others_are_made_small(tmp_path):
    rng = np.random.default_rng(0)
    flat = [
        Image.fromarray(np.kron(rng.integers(0, 255, (8, 8, 3)), np.ones((8, 8, 1))).astype(np.uint8)) for _ in "abc"
    ]
    for image, seen in zip(flat, drawn_back(list(map(Frame.of, flat)), tmp_path / "flat.webp"), strict=True):
        assert np.array_equal(np.asarray(image), seen)
    shaded = [Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)) for _ in "abc"]
    assert not are_flat(list(map(Frame.of, shaded)))
    list(drawn_back(list(map(Frame.of, shaded)), tmp_path / "shaded.webp"))
    assert (tmp_path / "shaded.webp").stat().st_size < 3 * 64 * 64 * 3 * 0.9
