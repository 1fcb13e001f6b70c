"""The order in which fragments are handed over."""

import torch

from rookery.core.batch import Rollout
from rookery.rollout.order import in_order


def rollout(slot, clock, boot):
    """Fragments of two rows; everything in one of slot s and clock c says ``10 * s + c``."""
    slot, clock, boot = torch.tensor(slot), torch.tensor(clock), torch.tensor(boot, dtype=torch.int64).reshape(-1, 2)
    mark = (10 * slot + clock).float()
    rows = mark.repeat(2, 1)
    flags = torch.zeros(2, len(slot), dtype=torch.bool)
    return Rollout(
        obs={"obs": rows}, action=rows.long(), logp=rows, reward=rows, terminated=flags, truncated=flags,
        last_obs={"obs": mark}, final_obs={"obs": mark[boot[:, 1]] + 0.1 * boot[:, 0]}, boot_index=boot,
        slot=slot, clock=clock, length=torch.full_like(slot, 2), first=flags[0], version=slot,
    )  # fmt: skip


def test_fragments_stand_by_clock_and_then_by_slot_with_all_that_belongs_to_them():
    found = in_order(rollout(slot=[2, 0, 0, 1], clock=[0, 0, 4, 0], boot=[(1, 2), (0, 3), (1, 1)]))
    assert found.slot.tolist() == [0, 1, 2, 0] and found.clock.tolist() == [0, 0, 0, 4]
    assert found.reward.tolist() == [[0.0, 10.0, 20.0, 4.0]] * 2 == found.obs["obs"].tolist()
    assert found.last_obs["obs"].tolist() == [0.0, 10.0, 20.0, 4.0] and found.version.tolist() == [0, 1, 2, 0]
    # by the clock of the decision, 0 + 0, 0 + 1 and 4 + 1
    assert found.boot_index.tolist() == [[0, 1], [1, 0], [1, 3]]
    assert torch.allclose(found.final_obs["obs"], torch.tensor([10.0, 0.1, 4.1]))


def test_final_observations_move_where_fragments_stay():
    found = in_order(rollout(slot=[0, 1], clock=[0, 0], boot=[(1, 0), (0, 1)]))
    assert found.slot.tolist() == [0, 1] and found.boot_index.tolist() == [[0, 1], [1, 0]]


def test_a_rollout_in_order_is_returned_as_it_is():
    given = rollout(slot=[0, 1, 0], clock=[0, 0, 2], boot=[(0, 0), (0, 1)])
    assert in_order(given) is given


def test_a_slot_whose_clock_began_anew_keeps_its_fragments_in_the_order_of_time():
    given = rollout(slot=[1, 0, 0], clock=[0, 6, 0], boot=[])
    assert in_order(given) is given
