"""``rookery envs``: the list, and the check of one's own environment as it is printed."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from rookery.cli.environments.listing import names_by_suite
from rookery.envs.make import make_env

ENVS = """
import gymnasium
import numpy as np

class Fine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=7):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.random(2, dtype=np.float32), {}

    def step(self, action):
        self.t += 1
        return self.np_random.random(2, dtype=np.float32), 1.0, False, self.t == self.length, {}

class Broken(Fine):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs * 9, float("nan"), *rest
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "checked_env", raising=False)
    importlib.invalidate_caches()
    (tmp_path / "checked_env.py").write_text(ENVS)


LISTED = []
"""Output of ``rookery envs``, once it has run: it makes each environment."""


def listed_by(rookery):
    if not LISTED:
        code, out, _ = rookery("envs")
        assert code == 0
        LISTED.append(out)
    return LISTED[0]


def test_envs_without_a_verb_lists(rookery):
    out = listed_by(rookery)
    assert out.startswith("Rookery\n")
    assert "\n  CartPole-v1               Balance a pole on a cart.\n" in out
    assert "\n      1 agent; observes Box(4); acts in Discrete(2); presets: ppo, a2c, impala," in out
    assert rookery("envs", "list")[:2] == (0, out)


def test_every_name_of_the_list_has_a_description_and_can_be_trained(rookery):
    names = [name for found in names_by_suite().values() for name in found]
    out = listed_by(rookery)
    rows = [line.split(maxsplit=1) for line in out.partition("\n\n")[0].splitlines() if re.match(r"  \S+ +\D", line)]
    listed = [(name, text) for name, text in rows if name in names]
    assert len(listed) > 25
    assert all(len(text) > 5 for _, text in listed)
    for name, _ in listed:
        make_env(name, {}, (), 1, "auto").close()  # as a training makes it


def test_a_part_of_a_name_or_suite_lists_all_of_it(rookery):
    code, out, _ = rookery("envs", "list", "cartpole")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert {"StatelessCartPole", "TensorCartPole", "CartPole-v1"} <= set(names)
    assert "Pendulum-v1" not in names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dm_control/cheetah-run-v0", "shimmy:dm_control/cheetah-run-v0"),
        ("procgen:coinrun", "envpool:CoinrunEasy-v0"),
        ("minihack", "minihack:MiniHack-Room-5x5-v0"),
        ("highway-v0", "highway_env:highway-v0"),
        ("metaworld", "metaworld:Meta-World/MT1 env.config.env_name=reach-v3"),
        ("mo-hopper-v5", "mo_gymnasium:mo-hopper-v5"),
    ],
)
def test_environments_of_other_suites_are_answered_with_their_package_and_name(rookery, name, hint):
    code, _, err = rookery("train", name)
    assert code in (1, 2)
    assert "needs pip install '" in err and hint in err


def test_a_sound_environment_passes(rookery, own):
    code, out, err = rookery("envs", "check", "checked_env:Fine", "--episodes", 2)
    assert (code, err) == (0, "")
    first, *_, last = out.splitlines()
    assert (first, last) == ("checked_env:Fine", "no errors, no warnings")
    assert "Gymnasium style, 1 agent, episodes of 7 steps" in out


def test_a_broken_environment_exits_1_with_every_breach(rookery, own):
    code, out, _ = rookery("envs", "check", "checked_env:Broken", "--episodes", 2)
    assert code == 1
    assert (
        "error    episode 0, step 1, agent 'agent': reward is nan, expected a finite number (and 13 more like it)"
        in out
    )
    assert "is outside the bounds -1 to 1 that the space gives" in out
    assert out.endswith("1 error, 1 warning\n")


def test_settings_reach_the_environment(rookery, own):
    _, out, _ = rookery("envs", "check", "checked_env:Fine", "config.length=3", "env.wrappers=[]")
    assert "episodes of 3 steps" in out


def test_an_unknown_environment_is_one_error(rookery):
    code, out, _ = rookery("envs", "check", "CartPole-v9")
    assert code == 1
    assert "error    env 'CartPole-v9' is not a Gymnasium id; did you mean" in out


def test_what_is_not_installed_is_listed_with_the_extra_that_adds_it(rookery, monkeypatch):
    import rookery.envs.catalog as catalog

    optional = {family.module for family in catalog.FAMILIES}
    monkeypatch.setattr(catalog, "find_spec", lambda name: None if name in optional else True)
    for name in optional:
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises, as where it is not installed
    for name in [name for name in sys.modules if name == "rookery.envs.adapters.atari"]:
        monkeypatch.delitem(sys.modules, name)
    code, out, err = rookery("envs")
    assert (code, err) == (0, "")
    here, _, rest = out.partition("\n\n")
    assert "CartPole-v1 " in here and "MultiAgentArena " in here
    for absent in ("Atari", "ALE/", "MiniGrid", "HalfCheetah", "LunarLander", "simple_spread", "MinAtar"):
        assert absent not in here
    lines = {" ".join(line.split()) for line in rest.splitlines()}
    assert "ALE/*, Atari pip install 'rookery-rl[atari]' Atari's games" in lines
    for extra in ("envs", "mujoco", "minatar", "envpool"):
        assert f"pip install 'rookery-rl[{extra}]'" in rest
    assert "pip install 'pettingzoo[classic]'" in rest


def test_presets_by_name_are_no_environments(rookery):
    _, out, _ = rookery("envs")
    here, by_name, *_ = out.split("\n\n")
    assert "rainbow" not in here
    assert by_name.startswith("preset by name")
    for name in ("simpleq", "rainbow", "apex"):
        assert f"\n{name} " not in here and f"\n{name} " in by_name
