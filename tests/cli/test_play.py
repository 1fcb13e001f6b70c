"""A person plays at the terminal: typed moves and keys, moves that are refused, who won, leaving."""

import io
import os
import pty
import re
import shutil
import signal
import sys
import threading
import time
import traceback

import gymnasium
import numpy as np
import pytest
from commands import TINY, train_into
from gymnasium import spaces

from rookery import Trainer
from rookery.cli.games.person import PersonGames, TypedMoves, arrow_keys, env_to_show, innermost, state_of
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import action_spec

LAKE = "FrozenLake-v1 --run-id lake env.config.is_slippery=false"
BOARD = "rookery.tasks:TicTacToe --run-id board"
CARRY = "rookery.tasks:CarryTogether --run-id carry"


class Blind(gymnasium.Env):
    """Cannot be shown."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {}


@pytest.fixture(scope="session")
def playable_folder(tmp_path_factory):
    """Runs of a board game, a grid and a game of a team, none of which has learned anything."""
    end = ["--seed", "3", "--stop", "env_steps=8", "--evaluate", "0"]
    folder = tmp_path_factory.mktemp("playable")
    return train_into(folder, *([*words.split(), *end, *TINY] for words in (LAKE, BOARD, CARRY)))


@pytest.fixture
def playable(playable_folder, tmp_path, rookery):
    """These runs, copied into the folder that commands run in."""
    shutil.copytree(playable_folder, tmp_path / "runs")
    return tmp_path / "runs"


class Terminal:
    """A terminal with scripted answers: the next answer goes out when what is shown ends in a question."""

    def __init__(self, monkeypatch, answers, question):
        self.ours, self.theirs = pty.openpty()
        self.answers, self.question, self.text = list(answers), question, ""
        monkeypatch.setattr(sys, "stdin", os.fdopen(self.theirs, "r", closefd=False))
        self.out = os.fdopen(os.dup(self.theirs), "w")
        monkeypatch.setattr(sys, "stdout", self.out)
        self.thread = threading.Thread(target=self._answer, daemon=True)
        self.thread.start()

    def _answer(self):
        since = 0
        while True:
            try:
                self.text += os.read(self.ours, 4096).decode(errors="replace")
            except OSError:
                return
            if self.answers and re.search(self.question, self.text[since:]):
                since = len(self.text)
                answer = self.answers.pop(0)
                if answer == "^C":
                    self._interrupt()
                else:
                    os.write(self.ours, answer.encode())

    def _interrupt(self):
        """Sends SIGINT once the main thread is at the line that reads: before, a callback of the garbage collection
        may run, in which Python prints KeyboardInterrupt and passes over it.
        """
        main = threading.main_thread().ident
        while ".readline(" not in traceback.extract_stack(sys._current_frames()[main], 1)[0].line:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        os.write(self.ours, b"\n")  # ends a read that has begun just after the signal, which then takes effect

    def close(self):
        self.out.close()
        os.close(self.theirs)
        self.thread.join(10)
        os.close(self.ours)
        return self.text.replace("\r\n", "\n")


def at_terminal(rookery, monkeypatch, answers, *words, question=r"q quits\): $|n = no\] $"):
    with monkeypatch.context() as patch:
        terminal = Terminal(patch, answers, question)
        try:
            code, _, err = rookery("play", *words)
        finally:
            text = terminal.close()
    assert not terminal.answers, text
    return code, text, err


def test_moves_are_typed_and_those_that_are_not_allowed_are_named(rookery, monkeypatch, playable):
    answers = ["4\n", "4\n", "what\n", "12\n", "q\n"]
    code, text, _ = at_terminal(rookery, monkeypatch, answers, "board", "--side", "x", "--seed", 1)
    assert code == 0
    assert "you are x" in text
    assert "0 1 2\n3 4 5\n6 7 8\nx is on turn\nx, your move (0, 1, 2, 3, 4, 5, 6, 7, 8; q quits): " in text
    assert re.search(r"4 is not allowed; allowed are ([0-8], ){6}[0-8]\n", text)
    assert "that is not a move: what is not a number; there are" in text
    assert "that is not a move: action 0 is 12, which is not in Discrete(9)" in text


def test_games_are_played_to_their_end_and_counted(playable):
    class Answers(TypedMoves):
        def _line(self, prompt):
            self._out.write(prompt)
            if "another" in prompt:
                self.over += 1
                return "" if self.over < 4 else "n"
            return re.search(r"\((\d)", prompt)[1]  # the first that is allowed

        over = 0

    with Trainer.load(playable / "board", console="quiet") as trainer:
        shown = io.StringIO()
        env = env_to_show(trainer)
        games = PersonGames(trainer, env, Answers(shown, shown), None, None, False, False, 5)
        games.play()
    text = shown.getvalue()
    assert re.findall("you are ([xo])", text) == ["x", "o", "x", "o"]  # the sides in turn
    ends = re.findall(r"(you won|a draw|you lost) after \d steps: x ([+-]?\d), o ([+-]?\d)", text)
    assert len(ends) == 4
    for number, (word, x, o) in enumerate(ends):
        mine, theirs = ((int(x), int(o)), (int(o), int(x)))[number % 2]
        assert word == {True: "you won", False: "you lost"}[mine > theirs] if mine != theirs else "a draw"
    won = sum(word == "you won" for word, _, _ in ends)
    assert games.tally().startswith(f"4 games: you {won} won, ")
    final = text.partition(f"{ends[0][0]} after")[0].split("q quits): ")[-1]
    assert "on turn" not in final and sum(mark in final for mark in "xo") == 2  # the board as it ended


def test_ctrl_c_leaves_and_says_what_was_played(rookery, monkeypatch, playable):
    answers = [*(f"{place}\n" for place in (0, 1)), "^C"]
    code, text, err = at_terminal(rookery, monkeypatch, answers, "board", "--seed", 1)
    assert (code, err) == (130, "")
    assert "Traceback" not in text


def test_grids_are_played_by_keys(rookery, monkeypatch, playable):
    answers = ["x", "\x1b[B", "\x1b[B", "\x1b[C", "\x1b[C", "\x1b[B", "\x1b[C", "\r", "\x1b"]  # around the holes
    question = r"escape quits\n$|escape = no\]\n$"
    code, text, _ = at_terminal(rookery, monkeypatch, answers, "lake", question=question.replace(r"\n", r"\r?\n"))
    assert code == 0
    assert "0 or left = 0, 1 or down = 1, 2 or right = 2, 3 or up = 3; escape quits" in text
    assert "that is not a move: the key x has no move" in text
    assert "over after 6 steps: return 1" in text
    assert text.rstrip().endswith("1 game")


def test_one_looks_on_step_by_step(rookery, monkeypatch, playable):
    code, text, _ = at_terminal(rookery, monkeypatch, ["\n", "\n", "n\n"], "board", "--watch", "--seed", 3)
    assert code == 0
    assert re.findall(r"step (\d), next", text) == ["0", "1", "2"]
    assert "you" not in text


def test_a_member_of_a_team_plays_with_the_others(rookery, monkeypatch, playable):
    code, text, _ = at_terminal(
        rookery, monkeypatch, ["\x1b[A", "\x1b"], "carry", "--side", "b", question=r"escape quits\r?\n$"
    )
    assert code == 0
    assert "you are b" in text and "b: 0 or up = 0" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["board", "--side", "z"], "--side z: there is no such side; there are x, o"),
        (["board", "--policy", "mian"], "there is no policy 'mian'; there are main; did you mean 'main'"),
        (["nowhere"], "there is no such run"),
    ],
)
def test_mistakes_of_a_player_at_a_terminal_are_told(words, said, rookery, monkeypatch, playable):
    code, _, err = at_terminal(rookery, monkeypatch, [], *words)
    assert code == 2
    assert said in err


def test_without_a_terminal_nobody_plays(rookery, monkeypatch, playable):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, _, err = rookery("play", "board")
    assert code == 2
    assert "standard input is not a terminal" in err


def test_what_can_neither_be_drawn_nor_told_is_refused():
    with Trainer(Blind, "ppo", seed=0, console="quiet") as trainer:
        with pytest.raises(ConfigError, match="cannot be shown at a terminal: it has neither images"):
            state_of(innermost(env_to_show(trainer)))


def test_arrows_are_what_they_are_in_known_grids():
    spec = action_spec(spaces.Discrete(4))
    assert arrow_keys("CliffWalking-v1", spec) == {
        "0": 0,
        "1": 1,
        "2": 2,
        "3": 3,
        "up": 0,
        "right": 1,
        "down": 2,
        "left": 3,
    }
    assert arrow_keys("Unknown-v0", spec) == {"0": 0, "1": 1, "2": 2, "3": 3}
