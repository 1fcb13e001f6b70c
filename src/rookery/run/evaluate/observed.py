"""Typical observations of the policies of a run, for tests of exported policies and other tools."""

from __future__ import annotations

from pathlib import Path

from rookery.core.batch import Demand, Rollout, flat
from rookery.core.process.torch_modes import own_modes
from rookery.core.seeding import Role, Streams
from rookery.core.settings.trust import TrustCode
from rookery.core.spaces.arrays import Tree
from rookery.core.timers import Timers
from rookery.rollout.worker import RolloutWorker
from rookery.run.evaluate.recording import prepared

MOST_STEPS = 256
"""Maximum number of env steps that are played."""

SEED = 0


@own_modes()
def played_observations(source: str | Path, rows: int, trust_code: TrustCode = False) -> dict[str, Tree]:
    """Plays a few steps in the environment of a run, with sampled actions; returns the observations of each policy.

    Args:
        source: A run or a checkpoint.
        rows: Approximate number of observations of a policy.
        trust_code: As in `Trainer.load`.

    Returns:
        By policy, ``[N, ...]`` by leaf path; without policies that did not act.

    Raises:
        RookeryError: If the run cannot be loaded, or its environment cannot be made or used.
    """
    with prepared(None, source, {}, trust_code) as (env, policies, mapping, _):
        streams = Streams(SEED)
        worker = RolloutWorker(env, mapping, streams, streams.episodes(Role.ENV), Timers(), False)
        for name, policy in policies.items():
            worker.add_policy(name, policy, Demand(rows))
        worker.reset()
        found = worker.sample(MOST_STEPS).rollouts
        assert worker.now is not None
        for name, player in worker.policies.items():
            if name not in found and player.store is not None and player.kind >= 0 and player.store.complete:
                found[name] = player.store.drain(worker.now.rows[player.kind].obs, player.row_of_slot)
        return {name: _observed(rollout) for name, rollout in found.items()}


def _observed(rollout: Rollout) -> Tree:
    """Returns the observations of all decisions, copied because the next decisions overwrite them."""
    valid = rollout.valid_rows()
    return {path: flat(leaf, valid).cpu().numpy().copy() for path, leaf in rollout.obs.items()}
