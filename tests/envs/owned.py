"""Environments of a program whose ids only that program registers; helper processes load no more than this."""

import os
import time

import gymnasium
from taking import Taking

ID = "Owned-v0"

HERE = ""
"""How environments behave elsewhere: a test sets it to ``here``, which other processes do not see."""


class Owned(Taking):
    """Environment of the id; observations show the numbers it was registered with."""

    def __init__(self, shown=0.0, render_mode=None):
        super().__init__()
        self.shown = shown

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return obs + self.shown, info


def by_id():
    return gymnasium.make("Owned-v0")


def by_constant():
    return made(ID)


def made(name):
    return gymnasium.make(name)


def of_cart_pole():
    return gymnasium.make("CartPole-v1")


def by_text_that_is_computed():
    return gymnasium.make(f"Owned-v{0}")


class Wrapped(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make(ID))


class AtHome(Taking):
    """Can be built and played in one process only."""

    def __init__(self, elsewhere="raise"):
        super().__init__()
        self.elsewhere = elsewhere
        if elsewhere != "reset":
            self.fail()

    def fail(self):
        if HERE or os.environ.get("OWNED_EVERYWHERE"):
            return
        if self.elsewhere == "die":
            os._exit(3)
        if self.elsewhere == "hang":
            time.sleep(60)
        raise OSError("somebody else has opened it")

    def reset(self, *, seed=None, options=None):
        self.fail()
        return super().reset(seed=seed)
