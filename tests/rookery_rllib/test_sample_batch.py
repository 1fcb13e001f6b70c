"""Batches: columns, slices, sequences, padding, packing."""

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rookery.core.errors import ConfigError
from rookery_rllib.batch.compression import unpack
from rookery_rllib.batch.sample_batch import DEFAULT_POLICY_ID, MultiAgentBatch, SampleBatch, SampleBatchBuilder
from rookery_rllib.batch.view_requirement import ViewRequirement


def remembered():
    """Three sequences of 2, 3 and 1 rows."""
    return SampleBatch(
        {"obs": np.arange(6), "state_in_0": np.array([[10], [20], [30]])}, seq_lens=np.array([2, 3, 1], np.int32)
    )


def test_columns_rows_and_counts():
    batch = SampleBatch({"obs": [1, 2, 3], "rewards": np.ones(3)})
    assert len(batch) == batch.count == batch.env_steps() == batch.agent_steps() == 3
    assert list(batch.rows())[1] == {"obs": 2, "rewards": 1.0}
    assert batch.columns(["rewards"])[0] is batch["rewards"]
    assert batch[1:]["obs"].tolist() == [2, 3]
    assert batch.get("dones") is None
    batch["dones"] = np.zeros(3, bool)
    del batch["rewards"]
    assert batch.added_keys == {"dones"} and batch.deleted_keys == {"rewards"}
    assert batch.size_bytes() == 3 * 8 + 3
    nested = SampleBatch({"obs": {"a": np.arange(4), "b": (np.ones((4, 2)),)}})
    assert nested.count == 4 and nested[1:3]["obs"]["b"][0].shape == (2, 2)


def test_batches_are_joined_and_copied():
    first, second = SampleBatch({"a": [1, 2]}), SampleBatch({"a": [3]})
    assert first.concat(second)["a"].tolist() == [1, 2, 3]
    assert SampleBatch.concat_samples([first, SampleBatch({"a": []}), second]).count == 3
    tensors = SampleBatch.concat_samples([SampleBatch({"a": torch.ones(2)}), SampleBatch({"a": torch.zeros(1)})])
    assert tensors["a"].tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="different columns"):
        first.concat(SampleBatch({"b": [1]}))
    for twin in (first.copy(), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert type(twin) is SampleBatch and twin["a"].tolist() == [1, 2] and twin["a"] is not first["a"]
    assert first.copy(shallow=True)["a"] is first["a"]


def test_shuffling_keeps_rows_together():
    batch = SampleBatch({"a": np.arange(50), "b": np.arange(50) * 2})
    np.random.seed(0)
    batch.shuffle()
    assert batch["a"].tolist() != list(range(50)) and sorted(batch["a"]) == list(range(50))
    assert (batch["b"] == 2 * batch["a"]).all()
    with pytest.raises(ValueError, match="sequences"):
        remembered().shuffle()


def test_episodes_are_taken_apart():
    batch = SampleBatch({"eps_id": [4, 4, 7, 2, 2], "a": range(5)} | {"a": [0, 1, 2, 3, 4]})
    assert [part["a"].tolist() for part in batch.split_by_episode()] == [[0, 1], [2], [3, 4]]
    whole = SampleBatch({"a": [1, 2], "dones": [False, True]})
    assert whole.split_by_episode()[0]["eps_id"].tolist() == [0, 0]
    with pytest.raises(ValueError, match="eps_id"):
        SampleBatch({"dones": [True, False]}).split_by_episode()


def test_slices_of_sequences_have_their_states_and_lengths():
    batch = remembered()
    assert (batch.count, batch.max_seq_len) == (6, 3)
    part = batch.slice(1, 4)
    assert part["obs"].tolist() == [1, 2, 3]
    assert part["seq_lens"].tolist() == [1, 2]
    assert part["state_in_0"].tolist() == [[10], [20]]
    early = batch.slice(-2, 2)
    assert early["obs"].tolist() == [0, 0, 0, 1] and early["seq_lens"].tolist() == [4]
    joined = SampleBatch.concat_samples([batch, part])
    assert joined["seq_lens"].tolist() == [2, 3, 1, 1, 2] and joined.count == 9
    assert joined["state_in_0"].ravel().tolist() == [10, 20, 30, 10, 20]


def test_timeslices_lose_no_row():
    assert [one["a"].tolist() for one in SampleBatch({"a": [0, 1, 2, 3, 4]}).timeslices(2)] == [[0, 1], [2, 3], [4]]
    assert len(SampleBatch({"a": np.arange(9)}).timeslices(num_slices=3)) == 3
    parts = remembered().timeslices(size=4)
    assert [one["obs"].tolist() for one in parts] == [[0, 1, 2, 3], [4, 5]]
    assert [one["seq_lens"].tolist() for one in parts] == [[2, 2], [1, 1]]
    assert [one["state_in_0"].ravel().tolist() for one in parts] == [[10, 20], [20, 30]]


def test_padding_puts_zeros_after_each_sequence():
    batch = remembered().right_zero_pad(4)
    assert batch["obs"].tolist() == [0, 1, 0, 0, 2, 3, 4, 0, 5, 0, 0, 0]
    assert batch["state_in_0"].shape == (3, 1) and batch.zero_padded and batch.max_seq_len == 4
    parts = batch.timeslices(size=4)
    assert [one["obs"].tolist() for one in parts] == [[0, 1, 0, 0, 2, 3, 4, 0], [5, 0, 0, 0]]
    assert [one["seq_lens"].tolist() for one in parts] == [[2, 3], [1]]
    with pytest.raises(ValueError, match="max_seq_len=2"):
        remembered().right_zero_pad(2)


@pytest.mark.parametrize("bulk", [True, False])
def test_packed_columns_come_back_to_the_last_bit(bulk):
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    batch = SampleBatch({"obs": obs.copy(), "rewards": np.ones(5)})
    batch.compress(bulk=bulk)
    assert isinstance(batch["obs"] if bulk else batch["obs"][0], str)
    batch.decompress_if_needed()
    assert batch["obs"].dtype == np.float32 and (batch["obs"] == obs).all()
    with pytest.raises(ConfigError, match="can run code"):
        unpack("BCJNGGRA")


def test_what_is_read_goes_through_the_interceptor_once():
    calls = []
    batch = SampleBatch({"a": [1, 2]})
    batch.set_get_interceptor(lambda column: calls.append(1) or torch.as_tensor(column))
    assert isinstance(batch["a"], torch.Tensor) and batch["a"] is batch["a"]
    assert calls == [1] and batch.accessed_keys == {"a"}
    batch["a"] = np.array([5, 6])
    assert batch["a"].tolist() == [5, 6]
    assert SampleBatch({"a": [1]}, is_training=True).is_training is True
    assert SampleBatch({"a": [1]}, _is_training=True)["is_training"] is True


def test_a_model_sees_what_follows_the_last_row():
    batch = SampleBatch(
        {"obs": [1.0, 2.0, 3.0], "new_obs": [2.0, 3.0, 4.0], "actions": [7, 8, 9], "rewards": [0.1, 0.2, 0.3]}
    )
    views = {
        "obs": ViewRequirement(),
        "prev_actions": ViewRequirement("actions", shift=-1),
        "prev_rewards": ViewRequirement(),
        "last_four": ViewRequirement("obs", shift="-4:0", space=Box(-1, 1, ())),
        "two": ViewRequirement("obs", shift=[-2, 0]),
    }
    del views["prev_rewards"]
    last = batch.get_single_step_input_dict(views, index="last")
    assert last["obs"].tolist() == [4.0] and last["prev_actions"].tolist() == [9]
    assert last["last_four"].tolist() == [[0.0, 1.0, 2.0, 3.0, 4.0]] and last["two"].tolist() == [[2.0, 4.0]]
    assert last["seq_lens"].tolist() == [1] and last.count == 1
    first = batch.get_single_step_input_dict(views, index=0)
    assert first["obs"].tolist() == [1.0] and first["prev_actions"].tolist() == [0]
    assert batch.get_single_step_input_dict(views, index=-1)["prev_actions"].tolist() == [8]
    asked = {"prev_rewards": ViewRequirement(shift=0)}
    assert batch.get_single_step_input_dict(asked)["prev_rewards"].tolist() == [0.3]


def test_batches_of_several_policies():
    def of(eps, t, agent, value):
        return SampleBatch({"eps_id": eps, "t": t, "agent_index": agent, "v": value})

    both = MultiAgentBatch(
        {"p": of([0, 0, 0], [0, 1, 2], [0, 0, 0], [1, 2, 3]), "q": of([0, 0, 0], [0, 2, 2], [1, 2, 1], [4, 6, 5])}, 3
    )
    assert (both.env_steps(), both.agent_steps(), len(both)) == (3, 6, 3)
    one, two = both.timeslices(2)
    assert {name: part["v"].tolist() for name, part in one.policy_batches.items()} == {"p": [1, 2], "q": [4]}
    assert {name: part["v"].tolist() for name, part in two.policy_batches.items()} == {"p": [3], "q": [5, 6]}
    assert (one.count, two.count) == (2, 1)
    again = SampleBatch.concat_samples([one, two])
    assert again.count == 3 and again.policy_batches["q"]["v"].tolist() == [4, 5, 6]
    single = SampleBatch({"a": [1]})
    assert MultiAgentBatch.wrap_as_needed({DEFAULT_POLICY_ID: single}, 1) is single
    assert single.as_multi_agent().policy_batches[DEFAULT_POLICY_ID] is single
    assert isinstance(MultiAgentBatch.wrap_as_needed({"p": single}, 1), MultiAgentBatch)
    with pytest.raises(ValueError, match="expected a SampleBatch"):
        MultiAgentBatch({"p": {"a": [1]}}, 1)


def test_a_batch_grows_row_by_row():
    builder = SampleBatchBuilder()
    builder.add_values(obs=np.zeros(2), rewards=1.0)
    builder.add_batch(SampleBatch({"obs": np.ones((2, 2)), "rewards": [2.0, 3.0]}))
    batch = builder.build_and_reset()
    assert batch["rewards"].tolist() == [1, 2, 3] and batch["rewards"].dtype == np.float32
    assert len(set(batch["unroll_id"])) == 1 and builder.count == 0
