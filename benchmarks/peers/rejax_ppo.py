"""rejax trains PPO on CartPole-v1 of gymnax: ``rejax_ppo.py WORKLOAD --seconds N``; prints a line of JSON.

Each iteration is one call of a compiled function. An episode of gymnax that reaches its time limit counts as a fall,
and networks for policy and values are separate, as here.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version

import jax
from measure import Meter, seconds_since_start
from rejax import PPO
from workloads import MATCHED

IMPORTED = seconds_since_start()


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("cartpole-matched", "cartpole-64"))
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    settings = MATCHED[args.workload]
    steps = settings.num_envs * settings.fragment_length
    learner = PPO.create(
        env=settings.env,
        num_envs=settings.num_envs,
        num_steps=settings.fragment_length,
        num_epochs=settings.epochs,
        num_minibatches=steps // settings.minibatch_size,
        learning_rate=settings.lr,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_eps=settings.clip,
        ent_coef=settings.entropy_coef,
        agent_kwargs={"activation": settings.activation, "hidden_layer_sizes": settings.hidden},
    )
    meter = Meter(IMPORTED, args.seconds, None)
    state = learner.init_state(jax.random.PRNGKey(args.seed))
    iteration = jax.jit(learner.train_iteration)
    enough, env_steps = False, 0
    while not enough:
        state = jax.block_until_ready(iteration(state))
        env_steps += steps
        enough = meter.iteration(env_steps, None)
    meter.report(threads=1, versions={name: version(name) for name in ("rejax", "jax", "gymnax")})


if __name__ == "__main__":
    main()
