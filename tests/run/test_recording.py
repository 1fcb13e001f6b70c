"""Recording: frames of a trainer's video, and the returned result."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from PIL import Image

from rookery import PPOConfig, Trainer
from rookery.core.io.files import FileError
from rookery.report.videos import Video

OTHERS = [mode for mode in AutoresetMode if mode is not AutoresetMode.SAME_STEP]
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


class Numbered(gymnasium.Env):
    """Draws its episode and step as a shade of grey: 40 for each episode that began, and 5 for each step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}
    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, render_mode=None, length=3):
        self.render_mode, self.length, self.episode = render_mode, length, -1

    def reset(self, *, seed=None, options=None):
        self.episode, self.time = self.episode + 1, 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(2, np.float32), 1.0, self.time == self.length, False, {}

    def render(self):
        return np.full((16, 16, 3), 40 * self.episode + 5 * self.time, np.uint8)


def one_by_one(render_mode=None):
    return Numbered(render_mode)


def many_at_once(mode):
    def make(num_envs, render_mode=None):
        return SyncVectorEnv([lambda: Numbered(render_mode)] * num_envs, autoreset_mode=mode)

    return make


SAME_STEP = many_at_once(AutoresetMode.SAME_STEP)


def shown(path):
    """Shade and milliseconds of every picture of a film."""
    with Image.open(path) as film:
        for number in range(film.n_frames):
            film.seek(number)
            yield film.convert("RGB").getpixel((1, 1))[0], film.info["duration"]


@pytest.mark.parametrize("env", [one_by_one, SAME_STEP, *map(many_at_once, OTHERS)])
def test_a_film_holds_every_state_of_its_episodes_and_no_picture_of_another(env, tmp_path):
    with Trainer(env, PPOConfig(), num_envs=1, seed=1) as made:
        made.record(tmp_path / "film.webp", episodes=2)
    pictures = [shade for shade, milliseconds in shown(tmp_path / "film.webp") if milliseconds < 100]
    first = pictures[0] // 40 * 40
    # a third-party environment that resets in the same step cannot render the last state
    states = [0, 5, 10] if env is SAME_STEP else [0, 5, 10, 15]
    assert pictures == [first + state for state in states] + [first + 40 + state for state in states]


def test_the_last_picture_says_what_each_has_earned_in_the_whole_episode(tmp_path, monkeypatch):
    told, add = [], Video.add

    def noted(film, pixels, episode, captions, last_return):
        told.append(captions)
        add(film, pixels, episode, captions, last_return)

    monkeypatch.setattr(Video, "add", noted)
    with Trainer(one_by_one, PPOConfig(), num_envs=1, seed=1) as made:
        made.record(tmp_path / "film.webp", episodes=2, labels=True)
    for episode in ("episode 1 of 2", "episode 2 of 2"):
        lines = [captions for captions in told if captions[0].startswith(episode)]
        assert [captions[0] for captions in lines] == [f"{episode}, step {step}" for step in range(4)]
        assert lines[-1][1:] == ["agent (main) +3.00"]


@pytest.mark.parametrize(("said", "milliseconds"), [(25, 40), (None, 83), (400, 20)])
def test_a_film_goes_at_the_pace_of_its_environment(said, milliseconds, tmp_path, monkeypatch):
    monkeypatch.setitem(Numbered.metadata, "render_fps", said)
    with Trainer(Numbered, PPOConfig(), num_envs=1, seed=1) as made:
        made.record(tmp_path / "film.webp")
        assert {duration for _, duration in shown(tmp_path / "film.webp")} == {milliseconds}
        made.record(tmp_path / "film.webp", frames_per_second=10)
        assert {duration for _, duration in shown(tmp_path / "film.webp")} == {100}


def test_the_batched_twin_has_the_pace_of_what_it_stands_for(trainer):
    assert trainer.env.render_fps == gymnasium.make("CartPole-v1").metadata["render_fps"]


def test_recording_tells_of_every_picture_that_is_encoded(trainer, tmp_path):
    told = []
    trainer.record(tmp_path / "film.webp", **OPTIONS, progress=lambda encoded, total: told.append((encoded, total)))
    assert told == [(number, 6) for number in range(1, 7)]


def test_an_episode_that_never_ends_is_cut_in_a_film_too(tmp_path):
    limit = {"evaluation.max_episode_steps": 4}
    with Trainer(Numbered, PPOConfig(), num_envs=1, seed=1, env_config={"length": -1}, config=limit) as made:
        result = made.record(tmp_path / "film.webp", episodes=2)
    assert (result.returns, result.episodes_cut) == ((4.0, 4.0), 2)
    shades = [shade % 40 for shade, milliseconds in shown(tmp_path / "film.webp") if milliseconds < 100]
    assert shades == [0, 5, 10, 15, 20] * 2


def test_a_film_has_a_longest_duration_and_says_what_it_leaves_out(tmp_path, capsys):
    with Trainer(Numbered, PPOConfig(), num_envs=1, seed=1, env_config={"length": 20}) as made:
        made.record(tmp_path / "film.webp", episodes=2, seconds=1.4)
    assert sum(milliseconds for _, milliseconds in shown(tmp_path / "film.webp")) == 1400  # a title of 0.8 s, 15 images
    left = f"{2 * 21 - 15} later frames, from episode 1 of 2 on, are left out"
    assert f"shows the first 1.4 s; {left}" in capsys.readouterr().err
