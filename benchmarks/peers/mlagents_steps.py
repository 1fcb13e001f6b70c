"""Records 60 steps of fixed actions in an environment of ML-Agents' low-level API, as arrays in a file.

The same script runs by ``mlagents_envs`` 1.1.0 in an environment of its own, and by Rookery:

    PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python PYTHON benchmarks/peers/mlagents_steps.py FILE.npz GAME PORT ...
    rookery mlagents run benchmarks/peers/mlagents_steps.py -- FILE.npz GAME PORT ...

GAME is a player, and what follows the port are arguments of it. `tests/rookery_mlagents/test_beside_mlagents_envs.py`
compares both files.
"""

import sys

import numpy as np
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel

STEPS = 60


def spec_as_text(spec):
    """Returns all that a behaviour says of itself."""
    sensors = [
        (tuple(one.shape), [int(flag) for flag in one.dimension_property], one.observation_type.value, one.name)
        for one in spec.observation_specs
    ]
    return repr((sensors, spec.action_spec.continuous_size, tuple(spec.action_spec.discrete_branches)))


def actions_for(spec, decisions, rng):
    """Draws allowed actions."""
    num = len(decisions)
    choices = np.zeros((num, len(spec.discrete_branches)), np.int32)
    for branch, size in enumerate(spec.discrete_branches):
        forbidden = decisions.action_mask[branch]
        drawn = rng.integers(0, size, num)
        bad = forbidden[np.arange(num), drawn]
        choices[:, branch] = np.where(bad, forbidden.argmin(axis=1), drawn)
    return ActionTuple(rng.uniform(-1.0, 1.0, (num, spec.continuous_size)), choices)


def main():
    """Plays, and writes the file."""
    file, game, port, *arguments = sys.argv[1:]
    stats = StatsSideChannel()
    env = UnityEnvironment(
        game, base_port=int(port), seed=3, additional_args=arguments, timeout_wait=60, side_channels=[stats]
    )
    env.reset()
    found, rng = {}, np.random.default_rng(0)
    for step in range(STEPS):
        for name in sorted(env.behavior_specs):
            spec, place = env.behavior_specs[name], f"{step}/{name}"
            found[f"{place}/spec"] = np.array(spec_as_text(spec))
            decisions, terminals = env.get_steps(name)
            for tag, steps in (("asking", decisions), ("ended", terminals)):
                for number, seen in enumerate(steps.obs):
                    found[f"{place}/{tag}/obs {number}"] = seen
                for what in ("reward", "agent_id", "group_id", "group_reward"):
                    found[f"{place}/{tag}/{what}"] = np.asarray(getattr(steps, what), dtype=np.float64)
            found[f"{place}/ended/interrupted"] = terminals.interrupted
            for number, mask in enumerate(decisions.action_mask or []):
                found[f"{place}/asking/mask {number}"] = mask
            if len(decisions):
                env.set_actions(name, actions_for(spec.action_spec, decisions, rng))
        env.step()
    told = {name: [(value, how.name) for value, how in values] for name, values in stats.get_and_reset_stats().items()}
    found["statistics"] = np.array(repr(told))
    env.close()
    np.savez(file, **found)


main()
