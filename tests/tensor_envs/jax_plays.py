"""Environments written in JAX with the interfaces of gymnax and Brax, played; run where JAX can be imported."""

import os
import tempfile
from dataclasses import dataclass, replace
from types import SimpleNamespace

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import torch

from rookery import BraxEnv, EnvError, GymnaxEnv, PPOConfig, Trainer

PPO = PPOConfig(fragment_length=8, epochs=1, minibatch_size=32, model={"hidden": (8,)})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LineState:
    place: jax.Array
    time: jax.Array


@dataclass(frozen=True)
class LineParams:
    max_steps_in_episode: int = 6
    end: float = 3.0

    def replace(self, **changes):
        return replace(self, **changes)


jax.tree_util.register_static(LineParams)


class Line:
    """With gymnax's interface: walks a line from a place that is drawn; the end terminates, time cuts off."""

    default_params = LineParams()

    def observation_space(self, params):
        return SimpleNamespace(low=-np.inf, high=np.inf, shape=(2,), dtype=jnp.float32)

    def action_space(self, params):
        return SimpleNamespace(n=2)

    def look(self, state):
        return jnp.stack((state.place, state.time.astype(jnp.float32)))

    def reset_env(self, key, params):
        state = LineState(jax.random.uniform(key), jnp.int32(0))
        return self.look(state), state

    def step_env(self, key, state, action, params):
        state = LineState(state.place + action, state.time + 1)
        return self.look(state), state, state.place, state.place >= params.end, {}

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode


class OldLine(Line):
    """The same as older versions have it: one flag for both ends."""

    def step_env(self, key, state, action, params):
        obs, state, reward, ended, info = super().step_env(key, state, action, params)
        return obs, state, reward, ended | (state.time >= params.max_steps_in_episode), info

    def __getattribute__(self, name):
        if name == "is_truncated":
            raise AttributeError(name)
        return super().__getattribute__(name)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SlideState:
    pipeline_state: jax.Array
    obs: jax.Array
    reward: jax.Array
    done: jax.Array


class Slide:
    """With Brax's interface: slides until it is 2 m away."""

    observation_size, action_size = 1, 1

    def reset(self, rng):
        place = jax.random.uniform(rng)
        return SlideState(place, place[None], jnp.float32(0), jnp.float32(0))

    def step(self, state, action):
        place = state.pipeline_state + action[0]
        return SlideState(place, place[None], -jnp.abs(place), (jnp.abs(place) > 2).astype(jnp.float32))


def gymnaxs():
    for make in (Line, OldLine):
        env = GymnaxEnv(3, make(), end=2.0)
        start = env.reset(5)
        assert torch.equal(start, GymnaxEnv(3, make(), end=2.0).reset(5))
        assert len({float(place) for place in start[:, 0]}) == 3  # each copy has a start of its own
        actions = torch.tensor([0, 1, 1])
        seen = start.clone()
        for t in range(1, 7):
            step = env.step(actions)
            expected = seen + torch.stack((actions.float(), torch.ones(3)), 1)
            assert torch.allclose(step.final_obs, expected)
            over = step.terminated | step.truncated
            assert torch.equal(step.terminated, expected[:, 0] >= 2.0)
            assert torch.equal(step.truncated, expected[:, 1] >= 6)
            assert torch.equal(step.reward, step.final_obs[:, 0])
            assert torch.equal(step.obs[~over], step.final_obs[~over])
            assert bool((step.obs[over][:, 1] == 0).all())
            seen = step.obs.clone()
        assert t == 6
        assert bool(step.truncated[0])


def braxs():
    env = BraxEnv(4, Slide(), episode_length=5)
    start = env.reset(5).clone()
    for t in range(1, 11):
        step = env.step(torch.tensor([[0.0], [1.0], [-1.0], [0.1]]))
        assert torch.equal(step.terminated, step.final_obs[:, 0].abs() > 2)
        over = step.terminated | step.truncated
        assert torch.equal(step.obs[over], start[over])  # back to where the first episode began
        assert bool(step.truncated[0]) == (t % 5 == 0)
        assert torch.equal(step.reward, -step.final_obs[:, 0].abs())
    with Trainer(BraxEnv, PPO, num_envs=4, seed=0, env_config={"env": Slide()}) as trainer:
        assert trainer._pool.obstacle == ""
        trainer.train_iteration()


def make_line(num_envs, device="cpu"):
    return GymnaxEnv(num_envs, Line(), device)


def resumed():
    with tempfile.TemporaryDirectory() as folder:
        with Trainer(make_line, PPO, num_envs=4, seed=0) as trainer:
            trainer.train_iteration()
            trainer.save(f"{folder}/half")
            result = trainer.train_iteration()
            weights = [weight.clone() for weight in trainer.policies["main"].parameters()]
        with Trainer.load(f"{folder}/half", env=make_line) as trainer:
            again = trainer.train_iteration()
            assert again.return_mean == result.return_mean
            assert all(map(torch.equal, trainer.policies["main"].parameters(), weights))
            assert trainer.env.exact


def main():
    gymnaxs()
    print("gymnax")
    braxs()
    print("brax")
    resumed()
    print("resume")
    said = ""
    try:
        GymnaxEnv(2, Line(), "cpu:7")
    except EnvError as error:
        said = str(error)
    assert "JAX finds no such device" in said
    print("device")


if __name__ == "__main__":
    main()
