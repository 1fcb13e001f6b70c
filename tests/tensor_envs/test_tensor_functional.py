"""Environments of pure functions, whose arrays become tensors by DLPack."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import EnvError, FunctionalEnv, PPOConfig, Trainer
from rookery.rollout.device_pool import DevicePool
from rookery.tensor_envs.functional import put_together, taken_apart

PPO = PPOConfig(fragment_length=8, epochs=1, minibatch_size=32, model={"hidden": (8,)})


class Array:
    """An array of a library of its own: nothing but DLPack leads to its numbers."""

    def __init__(self, numbers):
        self.numbers = np.asarray(numbers)
        self.shape = self.numbers.shape

    def __dlpack__(self, **options):
        return self.numbers.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.numbers.__dlpack_device__()


class State(NamedTuple):
    where: Array
    more: dict


def walk(num_envs, device="cpu", length=5, **changes):
    """Copies that walk a line of some length, in float64 and by functions without memory."""

    def shown(place):
        return Array(np.stack((place, -place), 1))

    def reset(seed):
        start = np.random.default_rng(seed).uniform(0.0, 1.0, num_envs)
        state = State(Array(start), {"steps": [Array(np.zeros(num_envs, np.int64)), 3], "seed": seed})
        return state, shown(start)

    def step(state, actions):
        place = state.where.numbers + 2.0 * actions.numbers - 1.0
        steps = state.more["steps"][0].numbers + 1
        terminated, truncated = place >= length, steps >= 20
        ended = terminated | truncated
        begun = np.where(ended, 0.5, place)
        after = State(Array(begun), {**state.more, "steps": [Array(np.where(ended, 0, steps)), 3]})
        reward = Array(terminated.astype(np.float64))
        return after, shown(begun), reward, Array(terminated), Array(truncated.astype(np.float32)), shown(place)

    space, actions = spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(2)
    given = {"reset": reset, "step": step, "from_dlpack": lambda one: Array(np.from_dlpack(one)), "device": device}
    made = {**given, "action_type": torch.int32, **changes}
    return FunctionalEnv(made.pop("reset"), made.pop("step"), space, actions, num_envs, **made)


def test_functions_are_played_and_their_numbers_are_those_of_the_spaces():
    env = walk(4)
    obs = env.reset(3)
    start = np.random.default_rng(3).uniform(0.0, 1.0, 4).astype(np.float32)
    assert torch.equal(obs, torch.from_numpy(np.stack((start, -start), 1)))
    for t in range(1, 21):
        step = env.step(torch.full((4,), t % 2))
        assert [part.dtype for part in step] == [torch.float32, torch.float32, torch.bool, torch.bool, torch.float32]
        assert step.truncated.all() == (t == 20)
    assert torch.equal(step.obs[:, 0], torch.full((4,), 0.5))
    assert not torch.equal(step.obs, step.final_obs)


def test_nothing_is_copied_where_types_are_the_same():
    kept = Array(np.zeros((3, 2), np.float32))
    env = walk(3, reset=lambda seed: (None, kept))
    assert env.reset(0).data_ptr() == kept.numbers.ctypes.data


def test_actions_are_handed_over_in_the_type_that_was_asked_for():
    seen = []
    env = walk(3, from_dlpack=lambda one: seen.append(one) or Array(np.from_dlpack(one)))
    env.reset(0)
    given = torch.ones(3, dtype=torch.int64)
    env.step(given)
    assert seen[0].dtype == torch.int32
    assert seen[0].data_ptr() != given.data_ptr()


def test_a_run_learns_and_goes_on_to_the_same_weights(tmp_path):
    with Trainer(walk, PPO, seed=3, num_envs=6) as trainer:
        assert isinstance(trainer._pool, DevicePool)
        assert trainer._pool.obstacle == ""
        for _ in range(2):
            trainer.train_iteration()
        trainer.save(tmp_path / "half")
        for _ in range(2):
            result = trainer.train_iteration()
        weights = [weight.clone() for weight in trainer.policies["main"].parameters()]
    with Trainer.load(tmp_path / "half", env=walk) as trainer:
        assert trainer.env.exact
        for _ in range(2):
            again = trainer.train_iteration()
        assert again.return_mean == result.return_mean
        assert all(map(torch.equal, trainer.policies["main"].parameters(), weights))


def test_states_are_taken_apart_and_put_together():
    state = State(Array([1.0]), {"a": [Array([2]), (3, None)], "b": {"c": Array([True])}})
    leaves, form = taken_apart(state)
    assert [type(leaf).__name__ for leaf in leaves] == ["Array", "Array", "int", "NoneType", "Array"]
    again = put_together(form, [f"new {number}" for number in range(5)])
    assert again == State("new 0", {"a": ["new 1", ("new 2", "new 3")], "b": {"c": "new 4"}})
    with pytest.raises(EnvError, match="has an object of set in it, which is not an array; pass flatten and unflatten"):
        taken_apart({"a": set()})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"step": lambda state, actions: (state, 1, 2)},
            r"its function step returned 3 values, expected state, obs, reward, terminated, truncated, final_obs",
        ),
        ({"step": lambda state, actions: None}, "its function step returned NoneType"),
        (
            {"step": lambda state, actions: (state, Array(np.zeros((2, 2))), "no", *[Array(np.zeros(2))] * 3)},
            "reward is str, expected an array that DLPack can share",
        ),
    ],
)
def test_functions_that_give_something_else_are_refused(changes, message):
    env = walk(2, **changes)
    env.reset(0)
    with pytest.raises(EnvError, match=f"FunctionalEnv: {message}"):
        env.step(torch.zeros(2, dtype=torch.int64))


def test_a_state_of_something_else_is_refused():
    env, other = walk(2), walk(3)
    env.reset(0)
    other.reset(0)
    with pytest.raises(EnvError, match="FunctionalEnv: the saved state is of another environment"):
        other.load_state_dict(env.state_dict())


def test_final_observations_that_are_missing_are_told_of():
    def step(state, actions):
        rest = (Array(np.zeros((2, 2))), Array(np.zeros(2)), Array(np.zeros(2)), Array(np.zeros(2)))
        return state, *rest, None

    with Trainer(lambda num_envs: walk(num_envs, step=step), PPO, num_envs=2) as trainer:
        with pytest.raises(EnvError, match=r"final_obs of step\(\) is None, expected a tensor \(2, 2\) of float32"):
            trainer.train_iteration()


# --- JAX ------------------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
JAX = sorted(ROOT.glob("benchmarks/peers/.venv-jax/lib/python3*/site-packages"))


def test_without_jax_its_environments_say_what_is_missing(monkeypatch):
    from rookery import BraxEnv, GymnaxEnv

    monkeypatch.setitem(sys.modules, "jax", None)
    for make in (GymnaxEnv, BraxEnv):
        with pytest.raises(EnvError, match="environments written in JAX need it: pip install jax"):
            make(2, "any")


@pytest.mark.slow
@pytest.mark.skipif(not JAX, reason="make peers installs JAX in an environment of its own")
def test_environments_written_in_jax_are_played():
    """In another process, which has JAX behind its own packages; `jax_plays.py` says what is held."""
    script = Path(__file__).with_name("jax_plays.py")
    path = [str(ROOT / "src"), str(script.parent), *map(str, JAX)]
    code = f"import sys; sys.path[:0] = {path[:2]!r}; sys.path += {path[2:]!r}; import jax_plays; jax_plays.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["gymnax", "brax", "resume", "device"]
