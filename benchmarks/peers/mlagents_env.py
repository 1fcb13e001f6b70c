"""ML-Agents' own UnityEnvironment with random actions: ``mlagents_env.py PORT STEPS [--warm 20] [--set NAME=VALUE]``.

It waits for a player on a port, plays, says goodbye, and prints as JSON what has come: counts and sums of what agents
saw and earned by behaviour, and how long the steps took. `benchmarks/studies/unity.py` starts this in the environment
that ``benchmarks/peers/install.sh mlagents`` makes.
"""

# ruff: noqa: D102, D103, E402

from __future__ import annotations

import argparse
import json
import os
import time
import traceback

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

import numpy as np

np.float = float  # mlagents_envs 1.1.0 asks numpy for names that it has no longer
np.bool = bool

from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.side_channel.engine_configuration_channel import EngineConfigurationChannel
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel


class Sums:
    """Counts and sums of what came."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, object]] = {}

    def add(self, name: str, asking: object, ended: object) -> None:
        mine = self.of.setdefault(name, {"asking": 0, "ended": 0, "interrupted": 0, "reward": 0.0, "group_reward": 0.0,
                                         "groups": 0, "forbidden": 0, "obs": [0.0] * len(asking.obs)})  # fmt: skip
        mine["asking"] += len(asking)
        mine["ended"] += len(ended)
        mine["interrupted"] += int(ended.interrupted.sum())
        for step in (asking, ended):
            mine["reward"] += float(np.asarray(step.reward, np.float64).sum())
            mine["group_reward"] += float(np.asarray(step.group_reward, np.float64).sum())
            mine["groups"] = max(mine["groups"], len({*np.asarray(step.group_id).tolist()} - {0}))
            for number, one in enumerate(step.obs):
                mine["obs"][number] += float(one.astype(np.float64).sum())
        for one in asking.action_mask or ():
            mine["forbidden"] += int(one.sum())


def random_actions(spec: object, asking: object, rng: np.random.Generator) -> object:
    """Actions of which the mask forbids none."""
    actions = spec.random_action(len(asking))
    for branch, forbidden in enumerate(asking.action_mask or ()):
        actions.discrete[:, branch] = (rng.random(forbidden.shape) * ~forbidden).argmax(axis=1)
    return actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--bare", action="store_true", help="add nothing up")
    parser.add_argument("--timeout", type=int, default=30)
    args = parser.parse_args()
    stats, parameters, engine = StatsSideChannel(), EnvironmentParametersChannel(), EngineConfigurationChannel()
    channels = [stats, parameters, engine]
    env = UnityEnvironment(None, base_port=args.port, timeout_wait=args.timeout, side_channels=channels, seed=1)
    for one in args.set:
        name, _, value = one.partition("=")
        parameters.set_float_parameter(name, float(value))
    engine.set_configuration_parameters(time_scale=20.0)
    env.reset()
    rng, sums, reported, decisions = np.random.default_rng(0), Sums(), {}, 0
    for number in range(args.steps + args.warm):
        if number == args.warm:
            began, processor, decisions = time.perf_counter(), time.process_time(), 0
        for name in list(env.behavior_specs):
            asking, ended = env.get_steps(name)
            if not args.bare:
                sums.add(name, asking, ended)
            decisions += len(asking)
            env.set_actions(name, random_actions(env.behavior_specs[name].action_spec, asking, rng))
        env.step()
        for key, values in stats.get_and_reset_stats().items():
            reported[key] = reported.get(key, 0) + len(values)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    for name in () if args.bare else list(env.behavior_specs):
        sums.add(name, *env.get_steps(name))  # of the last step, which gets no actions
    specs = {
        name: {
            "observations": [[*one.shape] for one in spec.observation_specs],
            "names": [one.name for one in spec.observation_specs],
            "types": [int(one.observation_type.value) for one in spec.observation_specs],
            "continuous": spec.action_spec.continuous_size,
            "branches": list(spec.action_spec.discrete_branches),
        }
        for name, spec in env.behavior_specs.items()
    }
    env.close()
    rate = {"steps": args.steps / seconds, "decisions": decisions / seconds, "processor": processor / args.steps}
    print(json.dumps({"specs": specs, "sums": sums.of, "statistics": reported, **rate}))


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        os._exit(1)  # its server would keep the process alive
