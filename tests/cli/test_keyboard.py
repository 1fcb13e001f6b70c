"""A person plays: keys of a terminal and of a window, what they stand for, and episodes that are kept or not."""

from __future__ import annotations

import os
import pty
import sys
import threading

import numpy as np
import pytest
from gymnasium import spaces

from rookery.cli.games.keyboard import Keyboard, TerminalKeys, WindowKeys, blocks, default_keys, keys_to_actions
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import action_spec
from rookery.envs.make import make_env
from rookery.replay.recording import recording_of
from rookery.replay.segments import find_replay
from rookery.run.evaluate.recording import EpisodeRecorder, RecordedReplay, function_policies, record_episodes


class GivenKeys:
    """Keys that were pressed beforehand."""

    def __init__(self, keys):
        self.keys, self.shown = iter(keys), []

    def show(self, text, picture):
        self.shown.append((text, picture))

    def read(self, seconds):
        return next(self.keys)

    def close(self):
        pass


def played(keys, episodes, env="CartPole-v1", idle=None, given=(), render=False):
    copy = make_env(env, {}, (), 1, "serial", render=render)
    source = GivenKeys(keys)
    keyboard = Keyboard(source, keys_to_actions(copy.kinds[0].action, given), idle, 0.1)
    policies, mapping = function_policies(copy, keyboard)
    keyboard.recorder = EpisodeRecorder(copy, policies, mapping, seed=3, deterministic=True)
    kept = RecordedReplay(policies, ("logp",))
    record_episodes(keyboard.recorder, kept, episodes, wanted=keyboard.wanted)
    copy.close()
    return kept, source


def test_a_key_that_is_no_action_is_said_and_asked_for_again():
    kept, source = played(["x!", *["left", "0"] * 2, "escape"], 1)
    assert not kept.results
    assert source.shown[1][0] == "x!: this key has no action; 0 or left = 0, 1 or right = 1"
    assert "episode 1, step 3, return 3" in source.shown[-2][0]
    assert source.shown[-2][0].endswith("0 or left = 0, 1 or right = 1; backspace discards, escape ends")


def test_a_running_episode_can_be_discarded():
    kept, source = played(["left", "left", "backspace", "left", "escape"], 1)
    steps = [text.splitlines()[1] for text, _ in source.shown]
    assert [line.partition(", return")[0] for line in steps] == [
        f"episode 1, step {step}" for step in (0, 1, 2, 0, 1)
    ]  # fmt: skip
    assert source.shown[0][0] != source.shown[3][0]  # another episode


def test_pictures_are_shown_where_the_environment_draws_them():
    pytest.importorskip("pygame")
    _, source = played(["escape"], 1, render=True)
    text, picture = source.shown[0]
    assert picture.shape == (400, 600, 3)
    assert text.splitlines()[0] == "episode 1, step 0, return 0"


def test_keys_are_asked_for_until_enough_episodes_are_kept(tmp_path):
    class Watched(GivenKeys):
        def read(self, seconds):
            return verdicts.pop(0) if "is over" in self.shown[-1][0] else "left"

    verdicts = ["enter", "backspace", "what", "enter"]
    copy = make_env("CartPole-v1", {}, (), 1, "serial")
    source = Watched([])
    keyboard = Keyboard(source, default_keys(copy.kinds[0].action), None, 0.1)
    policies, mapping = function_policies(copy, keyboard)
    keyboard.recorder = EpisodeRecorder(copy, policies, mapping, seed=3, deterministic=True)
    kept = RecordedReplay(policies, ("logp",))
    record_episodes(keyboard.recorder, kept, 2, wanted=keyboard.wanted)
    assert not verdicts
    kept.write(tmp_path / "a", replace=False)
    found = recording_of(find_replay(tmp_path / "a"))
    assert [len(episode) for episode in found.episodes] == [result.length for result in kept.results]
    assert all((episode.action == 0).all() and episode.terminated for episode in found.episodes)


def test_nobody_is_waited_for_where_there_is_an_idle_action():
    class Asleep(GivenKeys):
        def read(self, seconds):
            assert seconds == (None if "is over" in self.shown[-1][0] else 0.1)
            return "enter" if "is over" in self.shown[-1][0] else None

    copy = make_env("CartPole-v1", {}, (), 1, "serial")
    source = Asleep([])
    keyboard = Keyboard(source, default_keys(copy.kinds[0].action), 1, 0.1)
    policies, mapping = function_policies(copy, keyboard)
    keyboard.recorder = EpisodeRecorder(copy, policies, mapping, seed=3, deterministic=True)
    kept = RecordedReplay(policies, ("logp",))
    record_episodes(keyboard.recorder, kept, 1, wanted=keyboard.wanted)
    assert kept.results[0].length > 5


def test_usual_keys_are_digits_arrows_and_pairs():
    assert default_keys(action_spec(spaces.Discrete(2, start=5))) == {"0": 5, "1": 6, "left": 5, "right": 6}
    assert list(default_keys(action_spec(spaces.Discrete(12)))) == [*"0123456789ab"]
    box = spaces.Box(np.float32([-2, -np.inf]), np.float32([4, np.inf]), dtype=np.float32)
    keys = {key: action.tolist() for key, action in default_keys(action_spec(box)).items()}
    assert keys == {"space": [1, 0], "left": [-2, 0], "right": [4, 0], "down": [1, -1], "up": [1, 1]}
    for space in (spaces.MultiBinary(3), spaces.Dict(a=spaces.Discrete(2))):
        with pytest.raises(ConfigError, match="there are no default keys for actions of .* --key left=ACTION"):
            default_keys(action_spec(space))


def test_keys_are_what_the_user_says():
    found = keys_to_actions(action_spec(spaces.MultiBinary(3)), ["a=[1, 0, 0]", "==[0,0,0]"])
    assert {key: action.tolist() for key, action in found.items()} == {"a": [1, 0, 0], "=": [0, 0, 0]}
    both = spaces.Dict(go=spaces.Discrete(3), turn=spaces.Box(-1, 1, (1,), np.float32))
    assert keys_to_actions(action_spec(both), ['w={"go": 2, "turn": [0.5]}']) == {"w": {"go": 2, "turn": [0.5]}}
    with pytest.raises(ConfigError) as error:
        keys_to_actions(action_spec(spaces.Discrete(3)), ["a=7", "b=left", "escape=1", "=1", "c"])
    assert len(error.value.problems) == 5


def test_a_terminal_sends_keys_without_the_end_of_a_line():
    ours, theirs = pty.openpty()
    with open(os.devnull, "w") as out:
        keys = TerminalKeys(theirs, out)
        os.write(ours, b"a\x1b[A\x1b[B\x1bOC\x1b[D \r\x7f\xc3\xa4\x1b[3~")
        found = [keys.read(1.0) for _ in range(10)]
        assert found == ["a", "up", "down", "right", "left", "space", "enter", "backspace", "ä", "unknown"]
        assert keys.read(0.01) is None
        os.write(ours, b"\x1b")
        assert keys.read(1.0) == "escape"
        keys.close()
    os.close(ours)
    os.close(theirs)
    with pytest.raises(ConfigError, match="standard input is not a terminal"):
        TerminalKeys(os.open(os.devnull, os.O_RDONLY), sys.stdout)


def test_a_person_plays_at_a_terminal(rookery, monkeypatch):
    ours, theirs = pty.openpty()
    written = []

    def person():
        """Pushes to the left at every question, keeps the first episode and ends the second."""
        over = 0
        text = ""
        while True:
            try:
                text += os.read(ours, 4096).decode(errors="replace")
            except OSError:
                return
            written.append(text)
            while "\n" in text:
                line, _, text = text.partition("\n")
                if "enter keeps it" in line:
                    over += 1
                    os.write(ours, b"\r" if over == 1 else b"\x1b")
                elif "backspace discards" in line and "keys:" not in line:
                    os.write(ours, b"\x1b[D")

    thread = threading.Thread(target=person, daemon=True)
    thread.start()
    terminal, back = os.fdopen(theirs, "r", closefd=False), os.fdopen(os.dup(theirs), "w")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", terminal)
        patch.setattr(sys, "stdout", back)
        patch.delenv("DISPLAY", raising=False)
        patch.delenv("WAYLAND_DISPLAY", raising=False)
        code, _, err = rookery(
            "replay", "record", "CartPole-v1", "--from", "keyboard", "--episodes", 2, "-o", "mine", "--view", "terminal"
        )
        back.close()
    os.close(theirs)
    thread.join(10)  # it reads until no process writes; closed before, its number might be another file's
    os.close(ours)
    assert code == 0, err
    (episode,) = recording_of(find_replay("mine")).episodes
    assert episode.terminated and (episode.action == 0).all() and 6 < len(episode) < 14


def test_a_window_shows_the_picture_and_gives_keys(monkeypatch):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    keys = WindowKeys()
    picture = np.zeros((40, 60, 3), np.uint8)
    picture[:, :30] = (200, 0, 0)
    keys.show("first\nsecond\nlegend", picture)
    screen = pygame.display.get_surface()
    assert screen.get_at((10, 10))[:3] == (200, 0, 0)
    assert screen.get_at((400, 10))[:3] == (0, 0, 0)
    for key in (pygame.K_LEFT, pygame.K_a, pygame.K_SPACE, pygame.K_RETURN, pygame.K_BACKSPACE, pygame.K_ESCAPE):
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))
    assert [keys.read(1.0) for _ in range(6)] == ["left", "a", "space", "enter", "backspace", "escape"]
    assert keys.read(0.02) is None
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert keys.read(1.0) == "escape"
    keys.show("nothing to see", None)
    keys.close()


def test_pictures_are_blocks_of_two_points():
    picture = np.zeros((4, 6, 3), np.uint8)
    picture[0, 0] = (1, 2, 3)
    lines = blocks(picture).splitlines()
    assert len(lines) == 2 and all(line.count("\u2580") == 6 for line in lines)
    assert lines[0].startswith("\x1b[38;2;1;2;3;48;2;0;0;0m")
    wide = blocks(np.zeros((300, 900, 3), np.uint8)).splitlines()
    assert len(wide) <= 24 and all(line.count("\u2580") <= 64 for line in wide)
