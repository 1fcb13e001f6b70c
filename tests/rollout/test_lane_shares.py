"""Shares of a run's lanes: which lanes, under which numbers, and what a worker of a share reports."""

import numpy as np
import torch
from counting import Counting
from playing import Dice

from rookery.core.batch import Demand
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.make import make_env
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.rollout.remote.shares import LaneShare, ShareMapping, ShareWorker, packed_weights, shares_of
from rookery.rollout.worker import RolloutWorker


def test_lanes_are_divided_almost_evenly_and_groups_stay_together():
    def bounds(*given):
        return [(share.number, share.first, share.lanes) for share in shares_of(*given)]

    assert bounds(7, 3) == [(0, 0, 2), (1, 2, 2), (2, 4, 3)]
    assert bounds(7, 2, 3) == [(0, 0, 3), (1, 3, 4)]  # groups 0-2, 3-5 and 6
    assert shares_of(4, 2)[1].skipped == (0, 0)


def test_lanes_and_episodes_of_a_share_have_their_numbers_in_the_whole_run():
    share = LaneShare(number=1, first=4, lanes=2, skipped=(0, 3))
    assert share.place(1, 2) == (5, 5)
    placed = share.placed(EpisodeResult(1, 0, 9, 2.5, {"a": 2.5}, {"a": "main"}))
    assert (placed.lane, placed.index, placed.length, placed.total) == (5, 3, 9, 2.5)


def test_a_mapping_is_asked_by_the_numbers_of_the_whole_run():
    asked = []

    def rule(agent, episode):
        asked.append((agent, episode.lane, episode.index))
        return "main"

    mapping = ShareMapping(PolicyMapping(rule, ["main"]), LaneShare(1, 4, 2, (0, 3)))
    assert mapping("a", EpisodeInfo(1, 2, Streams(0))) == "main"
    assert asked == [("a", 5, 5)]


def share_worker(skipped=(0, 0), terminate_at=3):
    """Lanes 2 and 3 of a run, whose episodes last three steps."""

    def make(share):
        env = make_env(Counting, {"terminate_at": terminate_at}, (), share.lanes, "serial")
        streams = Streams(0)
        mapping = PolicyMapping(None, ["main"])
        return RolloutWorker(env, mapping, streams, streams.episodes(Role.ENV), Timers())

    worker = ShareWorker(LaneShare(1, 2, 2, skipped), make)
    (kind,) = worker.worker.env.kinds
    worker.add_policy("main", Dice(kind.obs, kind.action), Demand(4, 1), None)
    return worker


def test_a_share_plays_as_many_steps_as_asked_for_and_hands_over_what_was_expected():
    worker = share_worker(skipped=(0, 5))
    first = worker.play(2, {"main": 5}, 1, 1, [])  # 4 decisions are complete, and not 5
    assert (first.vector_steps, first.env_steps, first.complete, first.rollouts) == (2, 4, {"main": 4}, {})
    assert first.episode.tolist() == [0, 5] and first.running == (4, 2) and first.all_joined
    second = worker.play(5, {"main": 10}, 1, 1, [])
    assert (second.vector_steps, second.env_steps, second.complete) == (5, 6, {"main": 0})
    assert [(one.lane, one.index, one.length, one.total) for one in second.finished] == [(2, 0, 3, 6.0), (3, 5, 3, 6.0)]
    rollout = second.rollouts["main"]
    assert (
        rollout.num_decisions == 10 and rollout.slot.tolist() == [2, 3, 2, 3] and rollout.clock.tolist() == [0, 0, 4, 4]
    )
    assert rollout.reward[:, 0].tolist() == [1, 2, 3, 1]
    assert worker.play(6, None, 1, 1, []).rollouts["main"].num_decisions == 2


def test_weights_reach_a_share_with_a_call_and_bfloat16_travels_as_float32():
    worker = share_worker()
    (kind,) = worker.worker.env.kinds
    sent = Dice(kind.obs, kind.action)
    torch.nn.init.constant_(sent.weight, 1.5)
    worker.play(1, {}, 1, 7, ["main"], packed_weights(sent))
    mine = worker.worker.policies["main"]
    assert mine.policy.weight.item() == 1.5 and worker.worker.version == 7 == mine.store.version
    (array,) = packed_weights(sent.to(torch.bfloat16))
    assert array.dtype == np.float32 and array.tolist() == [1.5]
