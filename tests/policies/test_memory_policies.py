"""Policies that remember: asked step by step they do what a worker plays, on kernels as in torch, copied or loaded."""

import copy
import itertools
import json
import pickle
from dataclasses import fields

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation

from rookery import ModelConfig, PPOConfig, Trainer, load_policy
from rookery.core.batch import Demand, Stacked
from rookery.core.errors import RookeryError
from rookery.core.native import best_build
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.core.timers import Timers
from rookery.envs.make import make_env
from rookery.models.cells.table import CELLS
from rookery.models.memory import MemoryConfig
from rookery.native.actor import native_actor
from rookery.policies.policy import Policy
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker
from selection import slow_except, slow_repeats

VECTOR, FIVE = spaces.Box(-5.0, 5.0, (4,), np.float32), spaces.Discrete(5, start=2)
NUMBERS = spaces.Box(-2.0, 2.0, (3,), np.float32)
MIXED = spaces.Dict({"place": spaces.Discrete(7), "speed": VECTOR, "bytes": spaces.Box(0, 255, (5,), np.uint8)})
ACTIONS = {
    "discrete": FIVE,
    "multi_discrete": spaces.MultiDiscrete([2, 5, 3]),
    "multi_binary": spaces.MultiBinary(4),
    "box": NUMBERS,
    "composite": spaces.Dict({"move": NUMBERS, "turn": spaces.Discrete(3), "arms": spaces.MultiBinary(2)}),
}
RECALL = {"previous_action": True, "previous_reward": True, "frame_stack": 3}
MEMORIES = {
    **{kind: {"kind": kind, "size": 12, "context": 4, "heads": 3} for kind in CELLS},
    "two layers": {"kind": "lstm", "size": 7, "layers": 2},
    "recall": RECALL,
    "recall and gru": {"kind": "gru", "size": 5, "layers": 3, **RECALL},
}


def policy(memory, obs=VECTOR, action=FIVE, seed=0, **model):
    """A policy as a worker has it: weights far from their start, without gradients."""
    generator = torch.Generator().manual_seed(seed)
    cfg = ModelConfig(**{"hidden": (16,), "memory": memory, **model})
    made = Policy(obs_spec(obs, action), action_spec(action), cfg, generator=generator)
    made.requires_grad_(False)
    for weight in made.parameters():
        weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.3)
    return made


def masked(action):
    """Observations with a mask for these actions."""
    return spaces.Dict({"obs": VECTOR, MASK: spaces.MultiBinary(sum(action_spec(action).sizes))})


def seen(of, rows, seed):
    """Observations ``[rows, ...]``, of whose actions some are allowed."""
    space = of.obs_spec.space
    space.seed(seed)
    trees = [of.obs_spec.read(space.sample(), None)[0] for _ in range(rows)]
    tree = {path: np.concatenate([tree[path] for tree in trees]) for path in trees[0]}
    if MASK in tree:
        tree[MASK][:, np.cumsum((0, *of.action_spec.sizes[:-1]))] = True
    return tree


def noise_for(of, rows, rng):
    uniform = rng.random((rows, of.noise.uniform), dtype=np.float32)
    normal = rng.standard_normal((rows, of.noise.normal), dtype=np.float32)
    return torch.from_numpy(np.concatenate((uniform, normal), axis=1))


def tensors(tree):
    return {path: torch.from_numpy(array.copy()) for path, array in tree.items()}


# --- on kernels -------------------------------------------------------------------------------------------------------


def play_alike(subject, rows=37, steps=6):
    """Asserts that kernels do for some decisions in a row as the modules do, and remember the same."""
    actor, rng = native_actor(subject), np.random.default_rng(2)
    native, by_torch = np.zeros((rows, subject.memory_size), np.float32), subject.initial_memory(rows)
    whole = len(subject.action_spec.sizes) + subject.action_spec.num_flags
    for step in range(steps):
        tree, noise = seen(subject, rows, step), noise_for(subject, rows, rng) if step % 3 else None
        action, logp = actor.act(tree, noise, native)
        expected, likelihood = subject.act(tensors(tree), noise, noise is None, by_torch)
        columns = action.reshape(rows, -1), expected.numpy().reshape(rows, -1)
        assert (action.shape, action.dtype) == (tuple(expected.shape), expected.numpy().dtype)
        assert np.array_equal(columns[0][:, :whole], columns[1][:, :whole])
        assert columns[0] == pytest.approx(columns[1], rel=1e-5, abs=1e-5)
        assert logp == pytest.approx(likelihood.numpy(), rel=1e-5, abs=2e-5)
        assert native == pytest.approx(by_torch.numpy(), rel=1e-5, abs=1e-5)
        if subject.reward_column is not None:
            reward = rng.standard_normal(rows, dtype=np.float32)
            native[:, subject.reward_column] += reward
            by_torch[:, subject.reward_column] += torch.from_numpy(reward)
        assert (np.abs(native) > 0.01).any()
        begun = rng.random(rows) < 0.2
        native[begun], by_torch[torch.from_numpy(begun)] = 0.0, 0.0


@pytest.mark.usefixtures("kernels")
class TestKernels:
    @pytest.mark.parametrize(
        ("action", "memory"),
        slow_repeats(of=itertools.product(ACTIONS, [name for name in MEMORIES if name != "attention"])),
    )
    def test_actions_probabilities_and_memories_are_those_of_the_modules(self, action, memory):
        play_alike(policy(MEMORIES[memory], action=ACTIONS[action]))

    @pytest.mark.parametrize(
        ("action", "memory"),
        slow_repeats(
            of=itertools.product(
                ["discrete", "multi_discrete", "composite"], ["lstm", "scan", "recall", "recall and gru"]
            )
        ),
    )
    def test_masks_are_obeyed(self, action, memory):
        subject = policy(MEMORIES[memory], masked(ACTIONS[action]), ACTIONS[action])
        play_alike(subject)
        actor, remembered = native_actor(subject), np.zeros((200, subject.memory_size), np.float32)
        offsets = np.cumsum((0, *subject.action_spec.sizes[:-1]))
        for step in range(3):
            tree = seen(subject, 200, step)
            action, _ = actor.act(tree, noise_for(subject, 200, np.random.default_rng(step)), remembered)
            choices = action.reshape(200, -1)[:, : len(offsets)].astype(int) + offsets
            assert np.take_along_axis(tree[MASK], choices, axis=1).all()

    @pytest.mark.parametrize(
        ("clip", "memory"), slow_repeats(of=itertools.product([1.5, 10.0], ["lstm", "gru", "recall", "recall and gru"]))
    )
    def test_observations_are_normalized_first(self, memory, clip):
        subject = policy(MEMORIES[memory], MIXED, ACTIONS["composite"], normalize_obs=True, obs_clip=clip)
        play_alike(subject)
        subject.normalizer.update(tensors(seen(subject, 300, 5)))
        play_alike(subject)

    @pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 16, 17, 64, 65, 130])
    def test_any_number_of_rows(self, rows):
        play_alike(policy(MEMORIES["lstm"]), rows, steps=3)
        play_alike(policy(MEMORIES["recall and gru"], MIXED), rows, steps=3)

    @pytest.mark.parametrize(
        ("activation", "hidden"), slow_repeats(of=itertools.product(["tanh", "relu", "silu"], [(), (9,), (32, 16)]))
    )
    def test_any_trunk_below(self, hidden, activation):
        for memory in ("two layers", "scan"):
            play_alike(policy(MEMORIES[memory], hidden=hidden, activation=activation), steps=3)

    @pytest.mark.parametrize(
        ("kind", "size"), slow_repeats(of=itertools.product(["lstm", "gru", "scan"], [1, 3, 16, 33, 100]))
    )
    def test_cells_of_any_width(self, kind, size):
        play_alike(policy({"kind": kind, "size": size, "layers": 2}), steps=3)

    def test_a_row_is_answered_the_same_whatever_rows_stand_beside_it(self):
        subject = policy(MEMORIES["recall and gru"], MIXED, ACTIONS["composite"])
        rng = np.random.default_rng(0)
        tree, noise = seen(subject, 130, 0), noise_for(subject, 130, rng)
        before = np.abs(rng.standard_normal((130, subject.memory_size), dtype=np.float32)).round()
        after = before.copy()
        action, logp = native_actor(subject).act(tree, noise, after)
        for rows in (slice(0, 1), slice(7, 23), slice(59, 61), slice(3, 74), slice(129, 130)):
            part = before[rows].copy()
            some = native_actor(subject).act({path: array[rows] for path, array in tree.items()}, noise[rows], part)
            assert np.array_equal(some[0], action[rows])
            assert np.array_equal(some[1], logp[rows])
            assert np.array_equal(part, after[rows])

    def test_new_weights_are_seen_at_once(self):
        subject = policy(MEMORIES["two layers"])
        play_alike(subject)
        actor, tree = native_actor(subject), seen(subject, 9, 0)
        before, _ = np.zeros((9, subject.memory_size), np.float32), None
        actor.act(tree, None, before)
        for weight in subject.parameters():
            weight.mul_(0.5)
        after = np.zeros_like(before)
        actor.act(tree, None, after)
        expected = subject.initial_memory(9)
        subject.act(tensors(tree), None, True, expected)
        assert after == pytest.approx(expected.numpy(), abs=1e-5)
        assert not np.allclose(before, after)

    def test_what_kernels_do_not_know_is_left_to_torch(self):
        assert native_actor(policy(MEMORIES["attention"])) is None
        hooked = policy(MEMORIES["lstm"])
        hooked.memory.register_forward_hook(lambda *arguments: None)
        assert native_actor(hooked) is None
        assert native_actor(policy(MEMORIES["lstm"], native=False)) is None
        assert native_actor(policy({"kind": "lstm", "size": 300})) is None  # 4 * 300 * 300 weights are too many
        assert native_actor(policy(MEMORIES["lstm"])) is not None


# --- predict ----------------------------------------------------------------------------------------------------------


class Short(gymnasium.Env):
    """Noise to look at, for 2 to 12 steps; a reward that depends on the action."""

    observation_space, action_space = VECTOR, FIVE

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(2, 13))
        return self.seen(), {}

    def seen(self):
        return self.np_random.uniform(-5, 5, self.observation_space.shape).astype(np.float32)

    def step(self, action):
        self.left -= 1
        reward = float(self.np_random.normal()) + float(np.sum(action))
        return self.seen(), reward, self.left == 0, self.left == 1 and self.np_random.random() < 0.5, {}


class ShortNumbers(Short):
    action_space = NUMBERS


def worker_for(env, subject, lanes, T, *, deterministic):
    """A worker that plays a policy."""
    streams = Streams(4)
    copies = make_env(env, None, (), lanes, "serial")
    seeds = streams.episodes(Role.ENV)
    mapping = PolicyMapping(None, ["main"])
    worker = RolloutWorker(copies, mapping, streams, seeds, Timers(), deterministic)
    worker.add_policy("main", subject, Demand(T))
    return worker


@pytest.mark.parametrize(
    ("env", "memory", "native"), slow_repeats(of=itertools.product([Short, ShortNumbers], MEMORIES, [True, False]))
)
def test_predict_does_what_a_worker_plays(env, memory, native):
    subject = policy(MEMORIES[memory], action=env.action_space, native=native)
    worker = worker_for(env, subject, 3, 40, deterministic=True)
    many = one = None
    previous = np.zeros(3, np.float32)
    first = np.ones(3, dtype=bool)
    for _ in range(2):
        (rollout,) = worker.sample().rollouts.values()
        for t in range(40):
            obs, begins = rollout.obs["obs"][t].numpy(), rollout.begins[t].numpy()
            assert np.array_equal(begins, first)
            reward = {"reward": previous} if subject.reward_column is not None and many is not None else {}
            action, many = subject.predict(obs, many, first=first, **reward)
            expected = subject.action_spec.to_env(rollout.action[t].numpy())
            assert action == pytest.approx(expected, abs=1e-5)
            reward = {"reward": previous[1]} if subject.reward_column is not None and not first[1] else {}
            alone, one = subject.predict(obs[1], None if first[1] else one, **reward)
            assert alone == pytest.approx(expected[1], abs=1e-5)
            assert torch.allclose(one[0], many[1], atol=1e-5)
            previous = rollout.reward[t].numpy().copy()
            first = (rollout.terminated | rollout.truncated)[t].numpy().copy()


def test_a_policy_that_remembers_gives_a_pair_and_leaves_what_it_was_given_alone():
    subject = policy(MEMORIES["lstm"])
    action, memory = subject.predict(np.zeros(4, np.float32))
    assert isinstance(action, np.int64)
    assert memory.shape == (1, subject.memory_size) == (1, 24)
    actions, memories = subject.predict(np.ones((3, 4), np.float32))
    assert actions.shape == (3,)
    kept = memories.clone()
    subject.predict(np.ones((3, 4), np.float32), memories, first=[True, False, True])
    assert torch.equal(memories, kept)
    assert isinstance(policy({}).predict(np.zeros(4, np.float32)), np.int64)


def test_what_was_drawn_is_what_is_recalled():
    subject = policy({"previous_action": True})
    obs = np.zeros((50, 4), np.float32)
    drawn, memory = subject.predict(obs, deterministic=False, rng=np.random.default_rng(0))
    assert len(set(drawn.tolist())) > 1
    assert memory[:, 0].tolist() == (drawn - 2 + 1).tolist()  # choices from 1, actions of the environment from 2


def test_rows_that_begin_an_episode_forget_theirs_alone():
    subject, rng = policy(MEMORIES["recall and gru"]), np.random.default_rng(0)
    obs, reward = rng.normal(size=(2, 4, 4)).astype(np.float32), rng.normal(size=4)
    _, memory = subject.predict(obs[0])
    _, mixed = subject.predict(obs[1], memory, first=[True, False, True, False], reward=reward)
    _, begun = subject.predict(obs[1])
    _, went_on = subject.predict(obs[1], memory, reward=reward)
    assert torch.equal(mixed[::2], begun[::2])
    assert torch.equal(mixed[1::2], went_on[1::2])
    assert not torch.allclose(begun, went_on)
    _, scalar = subject.predict(obs[1], memory, reward=reward[0])
    assert torch.equal(scalar[0], went_on[0])


@pytest.mark.parametrize("native", [True, False])
def test_a_memory_may_come_in_any_layout_and_precision(native):
    subject, obs = policy(MEMORIES["gru"], native=native), np.ones((3, 4), np.float32)
    _, memory = subject.predict(obs)
    _, expected = subject.predict(obs, memory)
    for other in (memory.double(), memory.T.contiguous().T, memory.repeat_interleave(2, 1)[:, ::2]):
        assert torch.equal(subject.predict(obs, other)[1], expected)


@pytest.mark.parametrize(
    ("memory", "arguments", "message"),
    [
        ({}, {"memory": torch.zeros(2, 3)}, "policy 'main' has no memory: predict takes memory=None, not Tensor"),
        ({}, {"first": [True, False]}, "has no memory: predict takes first=None, not list"),
        ({}, {"reward": 1.0}, "has no memory: predict takes reward=None, not float"),
        (MEMORIES["lstm"], {"memory": torch.zeros(3, 24)}, r"\(2, 24\) numbers for 2 rows, not \(3, 24\)"),
        (MEMORIES["lstm"], {"memory": torch.zeros(2, 12)}, r"\(2, 24\) numbers for 2 rows, not \(2, 12\)"),
        (MEMORIES["lstm"], {"memory": (1, 2)}, "memory must be the memory that the last .* not tuple"),
        (MEMORIES["lstm"], {"reward": 1.0}, "observes no rewards .memory.previous_reward.: leave reward out"),
        (RECALL, {"memory": torch.zeros(2, 11)}, r"predict\(obs, memory, reward=...\)"),
        (RECALL, {"memory": torch.zeros(2, 11), "reward": [1, 2, 3]}, r"reward .* for each of 2 rows, not .* \(3,\)"),
        (MEMORIES["lstm"], {"memory": torch.zeros(2, 24), "first": [True] * 3}, r"first must .* 2 rows, not .* \(3,\)"),
        (MEMORIES["lstm"], {"first": [[True, False]]}, r"first must .* 2 rows, not .* \(1, 2\)"),
    ],
)  # fmt: skip
def test_predict_says_what_it_must_be_given(memory, arguments, message):
    with pytest.raises(RookeryError, match=message):
        policy(memory).predict(np.zeros((2, 4), np.float32), **arguments)


# --- copies -----------------------------------------------------------------------------------------------------------


def walk(subject, memory=None, steps=5, seed=0):
    """Returns a policy's actions and memory over some steps."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(steps):
        obs = rng.normal(size=(3, 4)).astype(np.float32)
        reward = {} if subject.reward_column is None or memory is None else {"reward": rng.normal(size=3)}
        action, memory = subject.predict(obs, memory, deterministic=False, rng=rng, **reward)
        found += [np.asarray(action, np.float64), memory.numpy()]
    return memory, found


def same(mine, theirs):
    return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize(("memory", "native"), slow_repeats(of=itertools.product(MEMORIES, [True, False])))
def test_copies_and_pickles_go_on_alike_and_apart(memory, native):
    subject = policy(MEMORIES[memory], native=native, normalize_obs=True)
    subject.normalizer.update({"obs": torch.randn(9, 4) + 1})
    remembered, _ = walk(subject)
    for twin in (copy.deepcopy(subject), pickle.loads(pickle.dumps(subject))):
        assert same(walk(twin, remembered, seed=1)[1], walk(subject, remembered, seed=1)[1])
        before = walk(subject, remembered, seed=1)[1]
        for weight in twin.parameters():
            weight.mul_(0.7)
        assert not same(walk(twin, remembered, seed=1)[1], before)
        assert same(walk(subject, remembered, seed=1)[1], before)


@pytest.mark.parametrize("memory", slow_except("scan", "recall and gru", "two layers", of=MEMORIES))
def test_a_policy_loaded_from_a_run_goes_on_as_the_one_that_was_trained(memory, tmp_path):
    settings = PPOConfig(
        fragment_length=8, epochs=1, model={"hidden": (8,), "normalize_obs": True, "memory": MEMORIES[memory]}
    )
    with Trainer(Short, settings, seed=1, num_envs=2, run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 2})
        trained = trainer.policies["main"]
        loaded = load_policy(tmp_path)
        assert loaded.model.memory == trained.model.memory
        assert loaded.model == trained.model
        remembered, found = walk(trained)
        assert same(found, walk(loaded)[1])
        assert same(walk(trained, remembered, seed=1)[1], walk(loaded, remembered, seed=1)[1])


def test_every_setting_of_a_memory_comes_back_with_its_policy(tmp_path):
    given = MemoryConfig(
        kind="attention", size=6, layers=2, sequence_length=7, context=5, heads=3, previous_action=True,
        previous_reward=True, frame_stack=2,
    )  # fmt: skip
    assert all(getattr(given, item.name) != item.default for item in fields(MemoryConfig))
    settings = PPOConfig(fragment_length=8, epochs=1, model={"memory": given})
    with Trainer(Short, settings, seed=1, num_envs=2, run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 1})
    assert load_policy(tmp_path).model.memory == given
    (written,) = tmp_path.glob("checkpoints/*/policies.json")
    described = json.loads(written.read_text())
    text = json.dumps(described)
    assert all(f'"{item.name}"' in text for item in fields(MemoryConfig))


# --- frames -----------------------------------------------------------------------------------------------------------


class Shown(gymnasium.Env):
    """Noise in a space, for 2 to 12 steps."""

    action_space = spaces.Discrete(3)

    def __init__(self, space):
        self.observation_space = copy.deepcopy(space)  # it draws

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        self.left = int(self.np_random.integers(2, 13))
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        reward = float(self.np_random.normal()) + float(action)
        return self.observation_space.sample(), reward, self.left == 0, self.left == 1 and reward > 0, {}


class Rearranged(gymnasium.ObservationWrapper):
    """Converts the output of `FrameStackObservation` to a network's form: channels of images together, the rest
    unchanged.
    """

    def __init__(self, env):
        super().__init__(env)
        raw = env.unwrapped.observation_space
        self.kind = "plain"
        if isinstance(raw, spaces.MultiDiscrete):
            self.kind, sizes = "flat", raw.nvec.tolist()
            self.observation_space = spaces.MultiDiscrete(sizes * FRAMES)
        elif isinstance(raw, spaces.Box) and len(raw.shape) == 3:
            self.kind = "last" if raw.shape[2] < raw.shape[0] else "first"
            self.observation_space = spaces.Box(
                0, 255, self.observation(env.observation_space.sample()).shape, np.uint8
            )

    def observation(self, stack):
        stack = np.asarray(stack)
        if self.kind == "last":
            return np.concatenate(list(stack), axis=2)
        if self.kind == "first":
            return np.concatenate(list(stack), axis=0)
        return stack.reshape(-1) if self.kind == "flat" else stack


FRAMES = 4
SHOWN = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "category": spaces.Discrete(5),
    "categories": spaces.MultiDiscrete([3, 4]),
    "picture": spaces.Box(0, 255, (8, 9), np.uint8),
    "picture, channels last": spaces.Box(0, 255, (8, 9, 3), np.uint8),
    "picture, channels first": spaces.Box(0, 255, (2, 8, 9), np.uint8),
}


def wrapped(space):
    return Rearranged(FrameStackObservation(Shown(space), FRAMES, padding_type="reset"))


@pytest.mark.parametrize("name", SHOWN)
def test_frames_are_those_of_gymnasiums_wrapper(name):
    raw, stacked = Shown(SHOWN[name]), wrapped(SHOWN[name])
    mine = policy({"frame_stack": FRAMES}, SHOWN[name], raw.action_space)
    theirs = policy({}, stacked.observation_space, raw.action_space)
    theirs.load_state_dict(mine.state_dict())
    actions = np.zeros(0)
    for episode in range(8):
        (obs, _), (stack, _), memory, over = raw.reset(seed=episode), stacked.reset(seed=episode), None, False
        while not over:
            tree, _ = mine.obs_spec.read(obs, None)
            look, _ = mine.recall.look(
                tensors(tree), mine.initial_memory(1) if memory is None else memory, mine.normalize
            )
            expected, _ = theirs.obs_spec.read(stack, None)
            ((seen, wanted),) = zip(look.values(), expected.values(), strict=True)
            assert np.array_equal(seen.numpy().reshape(1, -1), wanted.reshape(1, -1))
            draw = actions.size
            action, memory = mine.predict(obs, memory, deterministic=False, rng=np.random.default_rng(draw))
            assert action == theirs.predict(stack, deterministic=False, rng=np.random.default_rng(draw))
            actions = np.append(actions, action)
            obs, _, terminated, truncated, _ = raw.step(action)
            stack = stacked.step(action)[0]
            over = terminated or truncated
    assert len(np.unique(actions)) > 1


@pytest.mark.parametrize("name", slow_except(*(name for name in SHOWN if name != "picture, channels first"), of=SHOWN))
def test_learning_from_frames_is_learning_from_gymnasiums_wrapper(name):
    weights = []
    for env, memory in ((Shown, {"frame_stack": FRAMES}), (wrapped, {})):
        model = {"hidden": (16,), "shared_trunk": False, "precision": "float32", "memory": memory}
        settings = PPOConfig(
            fragment_length=10, epochs=2, minibatch_size=16, lr=1e-3, clip=0.2, entropy_coef=0.01, model=model
        )
        with Trainer(env, settings, env_config={"space": SHOWN[name]}, seed=3, num_envs=3) as trainer:
            for _ in range(2):
                trainer.train_iteration()
            weights.append(torch.cat([w.detach().flatten() for w in trainer.learners["main"].net.parameters()]))
    assert torch.allclose(*weights, atol=1e-6)


def test_a_picture_is_stored_once_however_many_see_it():
    space = SHOWN["picture, channels last"]
    settings = PPOConfig(fragment_length=20, model={"hidden": (16,), "memory": {"frame_stack": FRAMES}})
    with Trainer(Shown, settings, env_config={"space": space}, seed=3, num_envs=3) as trainer:
        (rollout,) = trainer._pool.sample(1000).rollouts.values()
        store = trainer._pool.worker.policies["main"].store
        assert store._store["obs"]["obs"].shape == (20, 3, 8, 9, 3)
        assert rollout.memory.shape == (1, 3, 1 + (FRAMES - 1) * 8 * 9 * 3)
        data = trainer.learners["main"].targets(rollout)
    stacked = data.obs["obs"]
    assert isinstance(stacked, Stacked)
    assert len(stacked.base) == 60 + 3 * (FRAMES - 1) + 3 + len(rollout.boot_index)
    assert stacked.base.dtype == torch.uint8
    batch = next(data.shuffled(16, np.random.default_rng(0)))
    assert batch.obs["obs"].shape == (15, 8, 9, 3 * FRAMES)
    assert isinstance(data.obs["obs"], Stacked)


def test_kernels_or_none_are_told_with_their_reason():
    from rookery.run.compute import describe_path, paths_of

    for memory, why in ((MEMORIES["attention"], "torch: attention"), (MEMORIES["lstm"], "kernels")):
        subject = policy(memory)
        path = paths_of({"main": subject}, {})["main"]
        if best_build() is not None:
            assert describe_path(path, subject).startswith(why)
