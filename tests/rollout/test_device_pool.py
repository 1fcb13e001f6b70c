"""Environments of tensors, played where they are: the bits of what is played by rows, and rows where that is needed."""

import copy
import functools
import hashlib
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rookery import A2CConfig, Callback, DQNConfig, POCAConfig, PPOConfig, SACConfig, Trainer
from rookery.core.batch import Demand
from rookery.core.errors import EnvError
from rookery.core.process.interrupt import Interrupted
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy
from rookery.rollout import device_pool
from rookery.rollout.device_pool import DevicePool
from rookery.rollout.device_store import DeviceStore
from rookery.rollout.loops.device import DeviceLoop
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.pool import LocalPool
from rookery.rollout.tables import RowTable
from rookery.rollout.worker import RolloutWorker
from rookery.tensor_envs.classic import TensorCartPole, TensorPendulum
from rookery.tensor_envs.rows import TensorRows
from selection import slow_repeats
from small_tensor_envs import Broken, Everything, Reaching, Ticking

PPO = PPOConfig(fragment_length=8, epochs=2, minibatch_size=32, model={"hidden": (16,)})
TORCH = PPO.replace(model={"hidden": (16,), "native": False})
NORMALIZED = PPO.replace(model={"hidden": (16,), "normalize_obs": True})
DQN = DQNConfig(learning_starts=64, train_every=4, batch_size=16, model={"hidden": (16,)})
SAC = SACConfig(learning_starts=64, train_every=8, batch_size=16, model={"hidden": (16,)})


@pytest.fixture(params=[False, True], ids=["shared", "apart"])
def apart(request, monkeypatch):
    """Parameter: whether tensors have memory of their own, as on a GPU."""
    store = functools.partial(DeviceStore, apart=request.param)
    monkeypatch.setattr(device_pool, "DeviceStore", store)
    return request.param


def hash_of(trainer):
    """A hash of all weights and statistics."""
    found = hashlib.sha256()
    for _, policy in sorted(trainer.policies.items()):
        for tensor in [*policy.parameters(), *policy.buffers()]:
            found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


def calls_of(trainer):
    return next((row.count for row in trainer.timers.rows() if row.label == "fragments"), 0)


def told(result):
    main = result.policies["main"]
    return (result.env_steps, result.episodes, result.return_mean, result.length_mean, main.return_mean,
            result.counters, result.running_length)  # fmt: skip


def played(env, algorithm, by_tensors, iterations=3, **more):
    """Returns the results and the state of a run."""
    with Trainer(env, algorithm, seed=3, **{"num_envs": 6, **more}) as trainer:
        assert isinstance(trainer._pool, DevicePool)
        assert trainer._pool.obstacle == ""
        if not by_tensors:
            trainer._pool.worker.fast_loop = None
        for _ in range(iterations):
            result = trainer.train_iteration()
        assert (calls_of(trainer) > 0) == by_tensors
        finished = list(trainer._windows.totals), list(trainer._windows.lengths)
        return hash_of(trainer), told(result), finished, trainer._pool.state_dict()


def assert_alike(one, other, path="state"):
    """Two states are the same, to the last bit."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            assert_alike(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for number, pair in enumerate(zip(one, other, strict=True)):
            assert_alike(*pair, f"{path}[{number}]")
    elif isinstance(one, torch.Tensor | np.ndarray):
        assert np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True), path
    else:
        assert one == other, path


RUNS = [
    (TensorCartPole, PPO, {}),
    (TensorCartPole, PPO, {"num_envs": 1}),
    (TensorCartPole, PPO, {"iteration_steps": 20}),  # ends within fragments
    (TensorCartPole, PPO.replace(rollout_size=100), {}),  # three fragments of each slot, the last one short
    (TensorCartPole, TORCH, {"env_config": {"max_episode_steps": 9}}),
    (TensorCartPole, NORMALIZED, {"env_config": {"max_episode_steps": 9}}),
    (Ticking, PPO, {}),
    (Ticking, A2CConfig(model={"hidden": (16,)}), {}),
    (Ticking, DQN, {"num_envs": 2, "iteration_steps": 100}),
    (Everything, PPO, {}),
    (Everything, TORCH, {}),
    (Reaching, PPO, {}),
    (Reaching, SAC, {"num_envs": 2, "iteration_steps": 100}),
]


@pytest.mark.parametrize(
    ("number", "apart"), slow_repeats(of=itertools.product(range(len(RUNS)), [False, True])), indirect=["apart"]
)
def test_tensors_come_to_the_bits_of_rows(number, apart):
    env, algorithm, more = RUNS[number]
    *by_tensors, state = played(env, algorithm, True, **more)
    *by_rows, other = played(env, algorithm, False, **more)
    assert by_tensors == by_rows
    if not apart:  # rows beyond those that count hold what was there before, and nothing learns of them
        state["worker"]["policies"]["main"]["store"].pop("_finals")
        other["worker"]["policies"]["main"]["store"].pop("_finals")
        assert_alike(state, other)


def test_a_rollout_is_on_the_storage_of_the_device_and_not_copied():
    with Trainer(Ticking, PPO, seed=3, num_envs=6) as trainer:
        worker = trainer._pool.worker
        sample = trainer._pool.sample(1000)
        rollout, store = sample.rollouts["main"], worker.policies["main"].store
        assert store.on_device
        assert rollout.reward.data_ptr() == store._tensors["reward"].data_ptr()
        assert rollout.obs["obs"].data_ptr() == store._tensors["obs"]["obs"].data_ptr()
        assert rollout.reward.shape == (8, 6)
        assert trainer._staging is None or trainer._staging.send_rollout(rollout) is rollout


# --- nothing waits for the device -----------------------------------------------------------------------------------

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique")
"""Operations whose result this process has to know."""


class Watched(TorchDispatchMode):
    """Counts operations, and refuses those that wait."""

    def __init__(self):
        super().__init__()
        self.count, self.waiting = 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        name = func.name().removeprefix("aten::").split(".")[0]
        flags = name in ("index", "index_put_") and any(
            part is not None and part.dtype == torch.bool for part in args[1]
        )
        if name in WAITING or flags or (name == "_to_copy" and (kwargs or {}).get("device")):
            self.waiting.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("env", [TensorCartPole, "TensorPendulum", Ticking, Everything, Reaching])
def test_a_vector_step_is_so_many_operations_whatever_happens_and_none_waits(env, monkeypatch):
    counts, waited = [], []
    step = TensorRows.step_tensors

    def watched_step(self, actions):
        mark = watched.count
        found = step(self, actions)
        counts.append(watched.count - mark)
        return found

    def watched_end(self, *arguments):
        waited.extend(watched.waiting)
        watched.__exit__(None, None, None)
        return hand_over(self, *arguments)

    def watched_begin(self, *arguments):
        watched.waiting.clear()
        watched.__enter__()
        return room_for(self, *arguments)

    hand_over, room_for = DeviceLoop._hand_over, DeviceLoop._room_for
    watched = Watched()
    with Trainer(env, TORCH, seed=3, num_envs=6) as trainer:
        for _ in range(3):
            trainer._pool.sample(48)  # rooms are made, and noise is drawn, for 256 steps
        monkeypatch.setattr(TensorRows, "step_tensors", watched_step)
        monkeypatch.setattr(DeviceLoop, "_hand_over", watched_end)
        monkeypatch.setattr(DeviceLoop, "_room_for", watched_begin)
        totals, ended = [], 0
        for _ in range(6):
            before = watched.count
            sample = trainer._pool.sample(48)
            totals.append(watched.count - before)
            ended += len(sample.finished)
    assert waited == []
    assert len(set(counts)) == 1
    assert len(set(totals)) == 1, totals
    if env in (Ticking, Everything, Reaching):
        assert ended > 0


def test_the_watch_sees_what_waits():
    with Watched() as watched:
        float(torch.ones(1).sum())
        torch.arange(3)[torch.tensor([True, False, True])]
        torch.arange(3).nonzero()
    assert {name.split(":")[-1].split(".")[0] for name in watched.waiting} >= {
        "_local_scalar_dense",
        "nonzero",
        "index",
    }


NOWHERE = torch.device("meta")
"""A device whose tensors have shapes and no numbers: reading one raises, and so does an operation with others'."""


def there(kept):
    return torch.empty(kept.shape, dtype=kept.dtype, device=NOWHERE)


@pytest.mark.parametrize("make", [TensorCartPole, TensorPendulum, Everything, Ticking])
def test_the_loop_runs_where_nobody_can_read_a_number(make, monkeypatch):
    monkeypatch.setattr(torch, "Generator", lambda device: None)  # there is none on that device
    env = TensorRows(make(5, device="meta"), 5, "env")
    assert env.device == NOWHERE
    env.obs = {leaf.path: there(torch.from_numpy(leaf_of)) for leaf, leaf_of in shown_by(env)}
    (kind,) = env.kinds
    made = Policy(
        kind.obs, kind.action, ModelConfig(hidden=(8,), normalize_obs=True), generator=torch.default_generator
    )
    moved = {id(weight): nn.Parameter(there(weight)) for weight in made.parameters()}
    policy = copy.deepcopy(made, moved | {id(kept): there(kept) for kept in made.buffers()})
    worker = RolloutWorker(env, PolicyMapping(None, ["main"]), Streams(0), Streams(0).episodes(Role.ENV), Timers())
    worker.make_store = functools.partial(DeviceStore, device=env.device)
    worker.add_policy("main", policy, Demand(4))
    mine, player, seen = worker.policies["main"], DeviceLoop(env, None), []
    for row in range(5):
        mine.open_slot(row)
    assert player.obstacle(mine) == ""

    def stop(self, store, room, first, made, returns, lengths):
        seen.extend((made, store.rows()[first].action, room.earned, room.final_obs[kind.obs.leaves[0].path]))

    monkeypatch.setattr(DeviceLoop, "_hand_over", stop)
    worker.tables = [RowTable(5)]
    assert player._steps_ahead(mine) == 4
    with torch.no_grad():
        player._play(env.step_tensors, mine, 4, worker)
    count, *tensors = seen
    assert count == 4
    assert {tensor.device for tensor in tensors} == {NOWHERE}


def shown_by(env):
    """The leaves of an environment's observations, with arrays in their form."""
    tree = env.kinds[0].obs.allocate(env.num_lanes)
    return [(leaf, tree[leaf.path]) for leaf in env.kinds[0].obs.leaves]


def test_a_number_cannot_be_read_there():
    for wrong in (
        lambda: there(torch.ones(1)).item(),
        lambda: bool(there(torch.ones(2)).any()),
        lambda: there(torch.ones(2)).nonzero(),
        lambda: there(torch.ones(2)) + torch.ones(2),
        lambda: there(torch.ones(2)).cpu(),
    ):
        with pytest.raises((RuntimeError, NotImplementedError)):
            wrong()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
@pytest.mark.parametrize("env", ["TensorCartPole", "TensorPendulum"])
def test_on_a_graphics_card_rollouts_stay_there_and_runs_repeat(env):
    found = []
    for _ in range(2):
        with Trainer(env, PPO, seed=3, num_envs=64, device="cuda") as trainer:
            assert trainer._pool.obstacle == ""
            rollout = trainer._pool.sample(8 * 64).rollouts["main"]
            assert {leaf.device.type for leaf in (rollout.reward, rollout.length, *rollout.obs.values())} == {"cuda"}
            found.append(rollout.obs["obs"].cpu())
            trainer.train_iteration()
    assert torch.equal(*found)


# --- resuming -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [PPO, NORMALIZED.replace(rollout_size=100), DQN])
def test_a_run_that_goes_on_comes_to_the_same(algorithm, tmp_path, apart):
    more = {"num_envs": 6, "iteration_steps": 30, "sampling": {"warmup_steps": 12}}
    with Trainer(Ticking, algorithm, seed=3, **more) as trainer:
        for _ in range(3):
            trainer.train_iteration()
        trainer.save(tmp_path / "half")
        for _ in range(3):
            result = trainer.train_iteration()
        whole = hash_of(trainer), told(result)
    with Trainer.load(tmp_path / "half") as trainer:
        assert isinstance(trainer._pool, DevicePool)
        for _ in range(3):
            result = trainer.train_iteration()
        assert (hash_of(trainer), told(result)) == whole
        assert trainer.env.exact


class Told(Callback):
    def on_episode_end(self, episode):
        episode.metrics["length"] = episode.length


def test_a_run_goes_on_by_rows_where_tensors_played_and_the_other_way_round(tmp_path, apart, capsys):
    def go_on(callbacks, then):
        with Trainer(Ticking, PPO, seed=3, num_envs=6, iteration_steps=30, callbacks=callbacks) as trainer:
            for _ in range(3):
                trainer.train_iteration()
            trainer.save(tmp_path / f"half{len(callbacks)}{len(then)}")
        with Trainer.load(tmp_path / f"half{len(callbacks)}{len(then)}", callbacks=then) as trainer:
            for _ in range(3):
                trainer.train_iteration()
            return hash_of(trainer)

    assert len({go_on([], []), go_on([Told()], []), go_on([], [Told()])}) == 1
    assert "because callbacks follow its episodes" in capsys.readouterr().err


def test_a_signal_ends_playing_between_two_steps_and_the_run_goes_on_to_the_same(tmp_path, monkeypatch, apart):
    with Trainer(Ticking, PPO, seed=3, num_envs=6) as trainer:
        for _ in range(4):
            trainer.train_iteration()
        whole = hash_of(trainer)
    step, steps = TensorRows.step_tensors, []
    with Trainer(Ticking, PPO, seed=3, num_envs=6) as trainer:

        def interrupting(self, actions):
            steps.append(1)
            if len(steps) == 13:  # in the middle of the second fragment
                trainer._interrupt.number = 2
            return step(self, actions)

        monkeypatch.setattr(TensorRows, "step_tensors", interrupting)
        with pytest.raises(Interrupted):
            trainer.train(stop={"iterations": 4})
        monkeypatch.undo()
        assert len(steps) == 13
        assert trainer._pool.worker.vector_steps == 13
        trainer.save(tmp_path / "middle")
    with Trainer.load(tmp_path / "middle") as trainer:
        assert trainer.iteration == 1
        for _ in range(3):
            trainer.train_iteration()
        assert hash_of(trainer) == whole


def test_evaluations_leave_a_training_as_it_was():
    with Trainer(Ticking, PPO, seed=3, num_envs=6) as trainer:
        for _ in range(2):
            trainer.train_iteration()
            measured = trainer.evaluate(7)
        assert measured.episodes == 7
        again = trainer.evaluate(7)
        assert again.returns == measured.returns
        assert hash_of(trainer) == played(Ticking, PPO, True, iterations=2)[0]


def test_where_time_goes_is_told_by_part():
    with Trainer(Ticking, PPO, seed=3, num_envs=6) as trainer:
        trainer.train_iteration()
        rows = {row.label: (row.depth, row.count) for row in trainer.timers.rows()}
    assert rows["fragments"] == (2, 1)
    assert [rows[part] for part in ("act", "env.step", "record")] == [(3, 8)] * 3


# --- what is played by rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "algorithm", "more"),
    [
        ("policy 'main' has a memory", PPO.replace(model={"hidden": (16,), "memory": {"kind": "gru"}}), {}),
        ("sampling.staleness = 1 plays ahead in a thread", PPO, {"sampling": {"staleness": 1}}),
        ("callbacks follow its episodes", PPO, {"callbacks": [Told()]}),
        ("its agents are shown in groups or teams", POCAConfig(fragment_length=8, model={"hidden": (16,)}), {}),
        (
            "sampling.inference_batch_envs = 2 makes environments decide in groups",
            PPO,
            {"sampling": {"inference_batch_envs": 2}},
        ),
        (
            "policy 'main' acts differently in each environment",
            DQN.replace(exploration={"per_env_epsilon": 3.0}),
            {"iteration_steps": 24},
        ),
    ],
)
def test_what_tensors_alone_cannot_play_is_played_by_rows_and_a_line_says_why(why, algorithm, more, capsys):
    with Trainer(Ticking, algorithm, seed=3, **{"num_envs": 4, **more}) as trainer:
        assert isinstance(trainer._pool, LocalPool)
        trainer.train_iteration()
        assert calls_of(trainer) == 0
        assert trainer.env_steps > 0
    line = f"Ticking: each step is copied from its tensors to arrays of this process and back, because {why}"
    assert line in capsys.readouterr().err


def test_a_frozen_policy_is_played_by_rows(capsys):
    with Trainer(Ticking, policies={"main": {"frozen": True}}, seed=3, num_envs=4, iteration_steps=16) as trainer:
        trainer.train_iteration()
        assert trainer.env_steps == 16
    assert "because policy 'main' is not recorded" in capsys.readouterr().err


def test_a_policy_that_has_learned_enough_plays_on_by_rows():
    config = {"policies.main.max_decisions": 96}
    with Trainer(Ticking, PPO, seed=3, num_envs=6, iteration_steps=48, config=config) as trainer:
        for _ in range(4):
            trainer.train_iteration()
        assert trainer.env_steps == 4 * 48
        assert trainer._decisions["main"] == 96


def test_a_policy_elsewhere_than_the_environment_is_played_by_rows():
    env = TensorRows(Ticking(4), 4, "Ticking")
    worker = RolloutWorker(env, PolicyMapping(None, ["main"]), Streams(0), Streams(0).episodes(Role.ENV), Timers())
    notes = []
    pool = device_pool.make_local_pool(worker, 0, None, notes.append)
    (kind,) = env.kinds
    policy = Policy(kind.obs, kind.action, ModelConfig(hidden=(8,)), generator=torch.default_generator)
    pool.add_policy("main", policy, Demand(4))
    assert notes == []
    env.tensors.device = torch.device("cuda:0")
    assert pool.player.obstacle(worker.policies["main"]) == ("policy 'main' is on cpu and the environment on cuda:0")


# --- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", ["obs", "reward", "final_obs", "raises", "shape"])
def test_what_an_environment_does_wrong_is_told_in_the_same_words(mistake):
    said = []
    for by_tensors in (True, False):
        config = {"mistake": mistake}
        with Trainer(Broken, PPO, seed=3, num_envs=3, env_config=config, sampling={"warmup_steps": 0}) as trainer:
            if not by_tensors:
                trainer._pool.worker.fast_loop = None
            with pytest.raises(EnvError) as caught:
                trainer.train_iteration()
            said.append(str(caught.value))
    assert said[0] == said[1]
    if mistake in ("obs", "reward", "final_obs"):
        assert said[0].startswith("Broken: environment 1, vector step 5: ")
        assert "non-finite" in said[0]


def test_numbers_too_large_to_be_added_up_are_no_mistake():
    class Huge(Ticking):
        def step(self, actions):
            shown, reward, *rest = super().step(actions)
            return shown, torch.full_like(reward, 3e38), *rest

    with Trainer(Huge, PPO, seed=3, num_envs=6) as trainer:
        rollout = trainer._pool.sample(48).rollouts["main"]
        assert bool(torch.isfinite(rollout.reward).all())
