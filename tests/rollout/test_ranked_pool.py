"""Rounds of playing that several learners agree on; the other rank is scripted."""

from counting import Counting
from playing import Dice

from rookery.cluster.ranks import Ranks
from rookery.core.batch import Demand
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.make import make_env
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.remote.ranked_pool import RankedPool
from rookery.rollout.remote.shares import LaneShare
from rookery.rollout.worker import RolloutWorker


class Two(Ranks):
    """Two ranks: what the other one says follows from what this one does."""

    size = 2

    def __init__(self, other=lambda mine: mine):
        self.other, self.heard_of = other, []

    def numbers(self, *mine):
        self.heard_of.append(mine)
        return [list(mine), list(self.other(mine))]

    def gather(self, value):
        return [value, {}]


def pool_of(ranks, demand, player="main"):
    """Rank 1 of two, with lanes 2 and 3 of a run, whose episodes last three steps."""
    env = make_env(Counting, {"terminate_at": 3}, (), 2, "serial")
    streams = Streams(0)
    worker = RolloutWorker(
        env,
        PolicyMapping(lambda agent, episode: player, ["main", "frozen"]),
        streams,
        streams.episodes(Role.ENV),
        Timers(),
    )
    pool = RankedPool(worker, LaneShare(1, 2, 2, (0, 0)), ranks, staleness=0)
    (kind,) = env.kinds
    pool.add_policy("main", Dice(kind.obs, kind.action), demand)
    return pool


def test_a_demand_is_met_by_what_all_ranks_have_played_together():
    pool = pool_of(Two(), Demand(4, 14))
    sample = pool.sample(1000)
    # a step for two lanes here and two there; then three more, the least for the ten decisions that are missing
    assert [steps for steps, *_ in pool.ranks.heard_of] == [1, 4]
    rollout = sample.rollouts["main"]
    assert rollout.num_decisions == 8 and pool.delivered("main", rollout) == 16
    assert rollout.slot.tolist() == [2, 3], "slots are numbered as in the whole run"
    assert (sample.env_steps, pool.passed, pool.undelivered("main")) == (16, 16, 0)
    assert [(one.lane, one.index, one.total) for one in sample.finished] == [(2, 0, 6.0), (3, 0, 6.0)]


def test_a_demand_without_a_number_is_a_fragment_for_each_slot_of_all_ranks():
    pool = pool_of(Two(), Demand(4, None))
    sample = pool.sample(1000)
    assert pool.delivered("main", sample.rollouts["main"]) == 4 * 4 and pool.worker.vector_steps == 4


def test_a_limit_counts_the_steps_of_all_ranks():
    pool = pool_of(Two(), Demand(4, 1000))
    sample = pool.sample(10)
    assert sample.rollouts == {} and pool.worker.vector_steps == 3 and sample.env_steps == 12
    assert pool.undelivered("main") == 12


def test_a_rank_without_agents_of_a_policy_hands_over_a_rollout_without_fragments():
    def other(mine):  # its lanes play the policy too, and have made what is wanted
        return (*mine[:7], 20, 2)

    pool = pool_of(Two(other), Demand(4, 20), player="frozen")
    (kind,) = pool.worker.env.kinds
    pool.add_policy("frozen", Dice(kind.obs, kind.action), None)
    sample = pool.sample(1000)
    rollout = sample.rollouts["main"]
    assert rollout.num_decisions == 0 and len(rollout.slot) == 0 and pool.delivered("main", rollout) == 20


def test_no_rank_plays_ahead_of_one_that_is_behind():
    behind = iter([True, False])

    def other(mine):
        return (mine[0] - 1, *mine[1:]) if next(behind, False) else mine

    pool = pool_of(Two(other), Demand(4, 1000))
    pool.sample(4)
    assert pool.standing.behind and pool.standing.until == pool.worker.vector_steps == 1
    pool.sample(4)
    assert not pool.standing.behind and [steps for steps, *_ in pool.ranks.heard_of] == [1, 1, 2]
