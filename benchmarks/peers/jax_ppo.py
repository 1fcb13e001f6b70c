"""PPO on CartPole-v1 as one compiled program: ``jax_ppo.py WORKLOAD --seconds N``; prints a line of JSON.

Playing, advantages, epochs of minibatches and Adam are pure functions inside one `jax.jit`, in the manner that
PureJaxRL (Lu et al. 2022, "Discovered Policy Optimisation") made known: nothing returns to Python within an iteration.
Run it with the Python that `install.sh` made and with `benchmarks` on PYTHONPATH, as `benchmarks/run.py` does;
``--check`` compares its environment with Gymnasium's instead.

The environment is written here: gymnax 1.0.1 cannot be imported as it installs (it needs `six`, which it does not
declare), and it would draw a new episode in every step. Time limits are kept apart from falls: a lane that is cut off
bootstraps from the value of its final observation. There is no entropy bonus, whose weight is 0 in these workloads.

It is tuned for one core. Kept, for the CPU time they save: sorted keys for `jax.random.permutation` (a quarter),
rows last in the networks and parameters in one vector (a twentieth each), random numbers of a fragment at once. Of no
effect beyond noise: longer unrolling, values computed while playing, several iterations a call, fast math, vectors of
512 bits, XNNPACK, oneDNN, another generator of random numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array, lax
from jax import numpy as jnp
from jax.flatten_util import ravel_pytree
from measure import Meter, seconds_since_start
from workloads import MATCHED, PPO, TARGETS

IMPORTED = seconds_since_start()

WORKLOADS = [name for name, settings in MATCHED.items() if settings.env == "CartPole-v1"]

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

VALUE_COEF, MAX_GRAD_NORM, BETAS, ADAM_EPS = 0.5, 0.5, (0.9, 0.999), 1e-5
"""What `workloads.PPO` does not name, since it is the default of the other libraries."""

MAX_STEPS = 500
"""Limit of an episode."""


# --- the environment ------------------------------------------------------------------------------------------------


class Lanes(NamedTuple):
    """The copies: ``state [N, 4]`` (position, velocity, angle, its velocity) and ``steps [N]`` of their episodes."""

    state: Array
    steps: Array


class Played(NamedTuple):
    """A vector step, or with a leading axis a fragment: each ``[N]``, but for ``obs [N, 4]``.

    `length` is that of the episode that ended in this step, 0 if none did.
    """

    obs: Array
    action: Array
    preference: Array
    fell: Array
    cut: Array
    length: Array


def dynamics(state: Array, action: Array) -> Array:
    """The state after an explicit Euler step of 0.02 s; action 1 pushes right, 0 left.

    Args:
        state: ``[N, 4]``.
        action: ``[N]``, boolean.
    """
    _, velocity, angle, spin = state.T
    force = jnp.where(action, 10.0, -10.0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    thrust = (force + 0.05 * spin**2 * sine) / 1.1
    angle_acceleration = (9.8 * sine - cosine * thrust) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
    acceleration = thrust - 0.05 * angle_acceleration * cosine / 1.1
    slope = jnp.stack([velocity, acceleration, spin, angle_acceleration], axis=-1)
    return state + 0.02 * slope


def fallen(state: Array) -> Array:
    """Returns whether cart or pole is out of bounds, ``[N]``."""
    return (jnp.abs(state[:, 0]) > 2.4) | (jnp.abs(state[:, 2]) > 12 * 2 * math.pi / 360)


def drawn(key: Array, *shape: int) -> Array:
    """States in which episodes begin."""
    return jax.random.uniform(key, (*shape, 4), minval=-0.05, maxval=0.05)


def step(lanes: Lanes, action: Array, fresh: Array) -> tuple[Lanes, tuple[Array, Array, Array]]:
    """Steps every lane; one whose episode ends begins the next in the state `fresh` names for it.

    Returns:
        The lanes; and of the step: who fell, who was cut off by the time limit, lengths of the episodes that ended.
    """
    state, steps = dynamics(lanes.state, action), lanes.steps + 1
    fell = fallen(state)
    cut = (steps >= MAX_STEPS) & ~fell
    ended = fell | cut
    after = Lanes(jnp.where(ended[:, None], fresh, state), jnp.where(ended, 0, steps))
    return after, (fell, cut, jnp.where(ended, steps, 0))


def play(policy: Net, lanes: Lanes, key: Array, length: int) -> tuple[Lanes, Played]:
    """A fragment of `length` vector steps; all random numbers are drawn at once, which costs less than in each step."""

    def vector_step(lanes: Lanes, drawn_now: tuple[Array, Array]) -> tuple[Lanes, Played]:
        uniform, fresh = drawn_now
        left, right = forward(policy, lanes.state.T)
        action = uniform < jax.nn.sigmoid(right - left)
        after, outcome = step(lanes, action, fresh)
        return after, Played(lanes.state, action, right - left, *outcome)

    num_lanes = len(lanes.steps)
    uniform_key, fresh_key = jax.random.split(key)
    uniform = jax.random.uniform(uniform_key, (length, num_lanes))
    return lax.scan(vector_step, lanes, (uniform, drawn(fresh_key, length, num_lanes)))


# --- the learner ----------------------------------------------------------------------------------------------------

Net = list[tuple[Array, Array]]
"""Weights ``[outputs, inputs]`` and biases of each layer."""


class Learner(NamedTuple):
    """Parameters of both networks as one vector, Adam's averages of gradient and square, and its number of steps."""

    flat: Array
    mean: Array
    square: Array
    count: Array


def new_net(key: Array, sizes: list[int], gain: float) -> Net:
    """Orthogonal weights, of length `gain` in the last layer and sqrt(2) in the others; biases are 0."""
    gains = [math.sqrt(2.0)] * (len(sizes) - 2) + [gain]
    keys = jax.random.split(key, len(gains))
    orthogonal = [jax.nn.initializers.orthogonal(layer_gain) for layer_gain in gains]
    shapes = zip(sizes[1:], sizes[:-1], strict=True)
    return [(draw(k, shape), jnp.zeros(shape[0])) for draw, k, shape in zip(orthogonal, keys, shapes, strict=True)]


def forward(net: Net, x: Array) -> Array:
    """Outputs ``[outputs, rows]`` for ``[inputs, rows]``: with rows last, XLA's products of gradients are faster."""
    *hidden, (weight, bias) = net
    for inner, offset in hidden:
        x = jnp.tanh(inner @ x + offset[:, None])
    return weight @ x + bias[:, None]


def advantages(value_net: Net, played: Played, last: Array, settings: PPO) -> tuple[Array, Array]:
    """Generalised advantage estimation (Schulman et al. 2016) and the returns to learn values from, both ``[T, N]``.

    A fragment is shorter than an episode's time limit, so that a lane is cut off once in it at most: its final
    observation is played again from the step before, and one row a lane is enough.
    """
    length, num_lanes = played.action.shape
    lanes, when = jnp.arange(num_lanes), jnp.argmax(played.cut, axis=0)
    final = dynamics(played.obs[when, lanes], played.action[when, lanes])
    rows = jnp.concatenate([played.obs.reshape(-1, 4), last, final])
    value = forward(value_net, rows.T)[0].reshape(length + 2, num_lanes)
    value, next_value, final_value = value[:length], value[1 : length + 1], value[-1]

    next_value = jnp.where(played.cut, final_value, jnp.where(played.fell, 0.0, next_value))
    error = 1.0 + settings.gamma * next_value - value
    decay = jnp.where(played.fell | played.cut, 0.0, settings.gamma * settings.gae_lambda)

    def backward(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        error, decay = now
        advantage = error + decay * later
        return advantage, advantage

    _, advantage = lax.scan(backward, jnp.zeros(num_lanes), (error, decay), reverse=True, unroll=8)
    return advantage, advantage + value


def shuffles(key: Array, epochs: int, rows: int) -> Array:
    """A permutation of the rows for each epoch, ``[epochs, rows]``.

    Random numbers are sorted whose lower bits are the rows, which is much faster than `jax.random.permutation`. Two
    rows whose upper bits agree keep their order: of 8,192 rows, one pair in half a million.
    """
    low = (1 << (rows - 1).bit_length()) - 1
    bits = jax.random.bits(key, (epochs, rows), jnp.uint32)
    return (jnp.sort(bits & ~jnp.uint32(low) | jnp.arange(rows, dtype=jnp.uint32)) & low).astype(jnp.int32)


def ppo_loss(flat: Array, batch: Array, settings: PPO, unravel: Callable[[Array], tuple[Net, Net]]) -> Array:
    """Negated eq. 9 of Schulman et al. 2017, for a minibatch ``[rows, 8]`` of columns as `update` lays them."""
    policy, value_net = unravel(flat)
    obs, (sign, old_logp, advantage, returns) = batch[:, :4].T, batch[:, 4:].T
    left, right = forward(policy, obs)
    ratio = jnp.exp(jax.nn.log_sigmoid(sign * (right - left)) - old_logp)
    advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
    return policy_loss + VALUE_COEF * jnp.square(forward(value_net, obs)[0] - returns).mean()


def adam(learner: Learner, gradient: Array, lr: float) -> Learner:
    """A step of Adam along the gradient, whose norm is limited."""
    gradient *= jnp.minimum(1.0, MAX_GRAD_NORM / (jnp.linalg.norm(gradient) + 1e-6))
    count = learner.count + 1
    mean = BETAS[0] * learner.mean + (1 - BETAS[0]) * gradient
    square = BETAS[1] * learner.square + (1 - BETAS[1]) * gradient**2
    size = lr / (1 - BETAS[0] ** count)
    move = size * mean / (jnp.sqrt(square / (1 - BETAS[1] ** count)) + ADAM_EPS)
    return Learner(learner.flat - move, mean, square, count)


# --- the loop -------------------------------------------------------------------------------------------------------


class State(NamedTuple):
    """All that an iteration changes."""

    learner: Learner
    lanes: Lanes
    key: Array


def begin(settings: PPO, seed: int) -> tuple[State, Callable[[Array], tuple[Net, Net]]]:
    """The state at the start, and what makes two networks, policy and values, of the vector of their parameters."""
    key, policy_key, value_key, lanes_key = jax.random.split(jax.random.key(seed), 4)
    policy = new_net(policy_key, [4, *settings.hidden, 2], gain=0.01)
    value_net = new_net(value_key, [4, *settings.hidden, 1], gain=1.0)
    flat, unravel = ravel_pytree((policy, value_net))
    learner = Learner(flat, jnp.zeros_like(flat), jnp.zeros_like(flat), jnp.float32(0))
    lanes = Lanes(drawn(lanes_key, settings.num_envs), jnp.zeros(settings.num_envs, jnp.int32))
    return State(learner, lanes, key), unravel


def iterate(state: State, settings: PPO, unravel: Callable[[Array], tuple[Net, Net]]) -> tuple[State, Array]:
    """An iteration: plays a fragment, then learns from it in epochs of minibatches.

    Returns:
        The state, and lengths of the episodes that ended, ``[T, N]``, 0 where none did.
    """
    key, play_key, shuffle_key = jax.random.split(state.key, 3)
    policy, value_net = unravel(state.learner.flat)
    lanes, played = play(policy, state.lanes, play_key, settings.fragment_length)
    advantage, returns = advantages(value_net, played, lanes.state, settings)
    sign = jnp.where(played.action, 1.0, -1.0)
    logp = jax.nn.log_sigmoid(sign * played.preference)
    columns = jnp.stack([sign, logp, advantage, returns], axis=-1)
    rows = jnp.concatenate([played.obs, columns], axis=-1).reshape(-1, 8)

    def update(learner: Learner, chosen: Array) -> tuple[Learner, None]:
        gradient = jax.grad(ppo_loss)(learner.flat, rows[chosen], settings, unravel)
        return adam(learner, gradient, settings.lr), None

    chosen = shuffles(shuffle_key, settings.epochs, len(rows)).reshape(-1, settings.minibatch_size)
    learner, _ = lax.scan(update, state.learner, chosen, unroll=2)
    return State(learner, lanes, key), played.length


def train(settings: PPO, seed: int, meter: Meter) -> float:
    """Iterations until the meter has seen enough.

    Returns:
        Seconds that compilation took.
    """
    state, unravel = begin(settings, seed)
    began = time.perf_counter()
    # the old state is given up, so that the new one is written in its place
    compiled = jax.jit(partial(iterate, settings=settings, unravel=unravel), donate_argnums=0).lower(state).compile()
    compile_seconds = time.perf_counter() - began
    episodes: deque[int] = deque(maxlen=100)
    enough, steps = False, 0
    while not enough:
        state, lengths = compiled(state)
        ended = np.asarray(lengths)
        episodes.extend(ended[ended > 0].tolist())
        steps += ended.size
        enough = meter.iteration(steps, sum(episodes) / len(episodes) if episodes else None)
    return compile_seconds


def check(num_steps: int) -> dict[str, Any]:
    """Steps Gymnasium's CartPole-v1, and ours from the same states, under policies from balancing to random.

    Returns:
        The largest difference between two states, and how many episodes fell and were cut off.

    Raises:
        SystemExit: If states differ by more than float32 rounds, or the two disagree about the end of an episode.
    """
    import gymnasium  # training does not need it

    env = gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(0)
    compiled, fresh = jax.jit(step), jnp.full((1, 4), 0.01)
    largest, counts = 0.0, {"fell": 0, "cut": 0}
    obs, steps, carelessness = env.reset(seed=0)[0], 0, 0.0
    for _ in range(num_steps):
        balancing = obs[0] / 20 + obs[1] / 10 + obs[2] + obs[3] / 2 > 0
        right = bool(rng.integers(2) if rng.random() < carelessness else balancing)
        lanes = Lanes(jnp.asarray(obs)[None], jnp.full(1, steps, jnp.int32))
        moved = dynamics(lanes.state, jnp.array([right]))
        after, (fell, cut, length) = compiled(lanes, jnp.array([right]), fresh)
        obs, _, terminated, truncated, _ = env.step(int(right))
        steps += 1
        ended = terminated or truncated
        differences = [moved[0] - obs, after.state[0] - (fresh[0] if ended else obs)]
        largest = max(largest, float(jnp.abs(jnp.stack(differences)).max()))
        found = (bool(fell[0]), bool(cut[0]), int(length[0]), int(after.steps[0]))
        expected = (terminated, truncated and not terminated, steps if ended else 0, 0 if ended else steps)
        if found != expected or largest > 1e-6:
            raise SystemExit(f"step {steps} of an episode differs from Gymnasium's, states by {largest:.1e} at most")
        counts["fell"] += terminated
        counts["cut"] += truncated and not terminated
        if ended:
            obs, steps, carelessness = env.reset()[0], 0, float(rng.choice([0.0, 0.3, 1.0]))
    return {"largest_difference": largest, **counts}


def main() -> None:
    """Trains and reports, or compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", default="cartpole-64", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="compare the environment with Gymnasium's, do not train")
    args = parser.parse_args()
    os.environ["XLA_FLAGS"] = ONE_THREAD  # read when the first array is made
    if args.check:
        print(json.dumps(check(num_steps=5000)))
        return
    meter = Meter(IMPORTED, args.seconds, TARGETS.get(args.workload))
    compile_seconds = train(MATCHED[args.workload], args.seed, meter)
    versions = {name: version(name) for name in ("jax", "jaxlib")}
    meter.report(threads=1, compile_seconds=round(compile_seconds, 3), versions=versions)


if __name__ == "__main__":
    main()
