"""Orders of a pool to its remote workers, and its use of their answers; the workers are scripted."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rookery.core.batch import Demand, Rollout
from rookery.core.errors import WorkerLostError
from rookery.core.process.interrupt import Interrupt
from rookery.core.timers import Timers
from rookery.models.heads import DistributionHead
from rookery.rollout.remote.remote_pool import RemotePool
from rookery.rollout.remote.shares import PlayReport, shares_of

LANES = 5


def rollout_of(decisions, version):
    """One fragment of slot 0, a row for each decision."""
    rows, one = torch.zeros(decisions, 1), torch.zeros(1, dtype=torch.int64)
    flags = torch.zeros(decisions, 1, dtype=torch.bool)
    return Rollout(
        obs={"obs": rows}, action=rows, logp=rows, reward=rows, terminated=flags, truncated=flags,
        last_obs={"obs": rows[0]}, final_obs={"obs": rows[:0, 0]}, boot_index=torch.zeros(0, 2, dtype=torch.int64),
        slot=one, clock=one, length=one + decisions, first=flags[0], version=one + version,
    )  # fmt: skip


class Scripted:
    """Hosts whose workers make every step that they are asked for, one decision a lane in each.

    Attributes:
        asked: ``(share, until, expected)`` of each call to play.
        lost: Shares whose next call fails.
        played_by: Number of the weights that rollouts say.
    """

    def __init__(self, shares):
        self.lanes = {share.number: share.lanes for share in shares}
        self.steps, self.kept = dict.fromkeys(self.lanes, 0), dict.fromkeys(self.lanes, 0)
        self.asked, self.lost, self.begun, self.played_by = [], set(), [], 0

    def begin(self, share, make):
        self.begun.append(share)

    def call(self, share, method, *arguments):
        return share, method, arguments

    def ready(self, tickets, seconds):
        return list(tickets)

    def publish(self, value):
        return value

    def vacancies(self):
        return []

    def result(self, ticket):
        share, method, arguments = ticket
        if method == "take":
            return {"main": self.handed(share)}
        if method != "play":
            return None
        if share in self.lost:
            self.lost.remove(share)
            raise WorkerLostError(f"worker {share} is gone")
        until, expected, *_ = arguments
        self.asked.append((share, until, expected))
        made, lanes = max(until - self.steps[share], 0), self.lanes[share]
        self.steps[share] += made
        self.kept[share] += made * lanes
        ready = expected is None or 0 < self.kept[share] == expected.get("main")
        rollouts = {"main": self.handed(share)} if ready else {}
        return PlayReport(
            vector_steps=self.steps[share], env_steps=made * lanes, lane_steps=made * lanes,
            complete={"main": self.kept[share]}, pending=1, slots={"main": lanes}, kinds={"main": 0},
            rollouts=rollouts, finished=[], newcomers={}, episode=np.zeros(lanes, np.int64), resting=False,
            running=(made, lanes), counters={}, reported={}, all_joined=True, acted=made * lanes, seconds=0.0,
            timers=Timers().state_dict(),
        )  # fmt: skip

    def handed(self, share):
        number, self.kept[share] = self.kept[share], 0
        return rollout_of(number, self.played_by)


def pool_of(decisions, **more):
    """Two workers, of two lanes and of three, for one policy."""
    shares = shares_of(LANES, 2)
    assert [share.lanes for share in shares] == [2, 3]
    env = SimpleNamespace(num_lanes=LANES, kinds=[SimpleNamespace(agents=("agent",))], exact=True)
    settings = {
        "inference_batch_envs": 1,
        "asynchronous": False,
        "max_requests_in_flight": 1,
        "max_policy_lag": None,
        "max_losses": 1,
    } | more
    notes = []
    pool = RemotePool(
        Scripted(shares), shares, SimpleNamespace, env, Timers(), Interrupt(), note=notes.append, **settings
    )
    policy = torch.nn.Linear(1, 1)
    policy.head_spec = DistributionHead()
    pool.add_policy("main", policy, Demand(4, decisions))
    return pool, pool.hosts, notes


def test_workers_are_asked_for_as_many_steps_as_cannot_overshoot_a_demand():
    pool, hosts, _ = pool_of(decisions=42)
    sample = pool.sample(10_000)
    # one step, after which it is known that five slots decide; then the 37 that are missing take eight
    assert hosts.asked == [(0, 1, {}), (1, 1, {}), (0, 9, {"main": 18}), (1, 9, {"main": 27})]
    assert sample.rollouts["main"].num_decisions == 45 and sample.env_steps == 45
    assert pool.undelivered("main") == 0 and pool.acted() == 8 * LANES


def test_a_limit_ends_a_sample_before_a_demand_is_met():
    pool, hosts, _ = pool_of(decisions=1000)
    sample = pool.sample(12)
    assert sample.rollouts == {} and sample.env_steps == 15, "rounded up to whole vector steps"
    assert [until for _, until, _ in hosts.asked] == [1, 1, 3, 3]
    assert pool.undelivered("main") == 15


def test_weights_are_sent_once_to_each_worker():
    pool, hosts, _ = pool_of(decisions=5)
    sent = []
    call = hosts.call
    hosts.call = lambda share, method, *given: sent.append((share, method, given[3:5])) or call(share, method, *given)
    pool.set_weights({"main": pool.policies["main"]})
    for _ in range(2):
        pool.sample(1000)
    assert [one for one in sent if one[1] == "play"] == [
        (0, "play", (1, ["main"])), (1, "play", (1, ["main"])), (0, "play", (1, [])), (1, "play", (1, [])),
    ]  # fmt: skip


def test_a_worker_that_is_lost_is_replaced_and_what_it_had_is_counted():
    pool, hosts, notes = pool_of(decisions=1000)
    pool.sample(5)
    hosts.lost = {1}
    pool.sample(5)
    # three decisions were complete there and one was pending; three steps of three lanes at most were under way
    assert pool.counters() == {"workers_lost": 1, "decisions_lost": 4, "decisions_lost_at_most": 7}
    assert hosts.begun == [0, 1, 1] and pool.standing[1].share.skipped == (1, 1, 1) and not pool.env.exact
    assert notes == ["worker 1 is gone; its environments begin their next episodes with another worker"]
    hosts.lost = {0}
    with pytest.raises(WorkerLostError, match=r"2 workers were lost, and sampling\.max_restarts = 1"):
        pool.sample(5)


def test_experience_of_weights_that_are_too_old_is_left_out_where_playing_is_asynchronous():
    pool, hosts, _ = pool_of(decisions=4, asynchronous=True, max_policy_lag=2)
    for _ in range(3):
        pool.set_weights({"main": pool.policies["main"]})
    hosts.played_by = 1
    found = pool.sample(1000).rollouts["main"]
    assert found.version.tolist() == [1] * len(found.version)
    assert pool.lag("main", found) == {"stale_fraction": 1.0, "lag_mean": 2.0, "lag_max": 2.0}
    hosts.played_by = 0
    assert pool.sample(20).rollouts == {}
    assert pool.counters()["decisions_too_old"] >= 20
