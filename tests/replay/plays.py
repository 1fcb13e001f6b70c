"""Made-up play for tests of files: every observation is another one, so that nothing can be mixed up unnoticed."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from rookery.core.batch import Rollout
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.buffer import ReplayBuffer, ReplayConfig

STACK = 4

SPACES = {
    "numbers": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "frames": spaces.Box(0, 255, (STACK, 6, 5), np.uint8),
    "dict": spaces.Dict(
        {"camera": spaces.Box(0, 255, (STACK, 6, 5), np.uint8), "place": spaces.Box(-9, 9, (2,), np.float32)}
    ),
}
ACTIONS = spaces.Discrete(3)


def memory_for(space, actions=ACTIONS, *, seed=0, memory_size=0, **settings):
    """An empty memory of a space by name, or of one that is given."""
    space = SPACES.get(space, space) if isinstance(space, str) else space
    cfg = ReplayConfig(**{"capacity": 200, **settings})
    rng = np.random.default_rng(seed)
    obs = obs_spec(space, actions)
    return ReplayBuffer(obs, action_spec(actions), cfg, rng, memory_size=memory_size, memory_every=4)


class Slot:
    """The life of one slot."""

    def __init__(self, play, number):
        self.play, self.number, self.clock = play, number, 0
        self.begin()

    def begin(self):
        """The first observation of an episode; stacks are padded with its first frame."""
        self.starts = True
        self.obs = {path: self.play.leaf(leaf, None) for path, leaf in self.play.leaves.items()}

    def step(self):
        """Observations before and after a decision."""
        before = self.obs
        self.obs = {path: self.play.leaf(leaf, before[path]) for path, leaf in self.play.leaves.items()}
        self.clock, self.starts = self.clock + 1, False
        return before


class Play:
    """Slots that play at different paces, in episodes that end in either way; some leave and come back."""

    def __init__(self, memory, seed=0, slots=5):
        self.memory = memory
        self.leaves = {leaf.path: leaf for leaf in memory.obs_spec.leaves}
        self.rng = np.random.default_rng(seed)
        self.slots = [Slot(self, number) for number in range(slots)]

    def leaf(self, leaf, before):
        """Another array, whose stack continues that of the previous observation."""
        if leaf.dtype != np.uint8:
            return self.rng.normal(size=leaf.shape).astype(np.float32)
        frame = self.rng.integers(0, 256, leaf.shape[1:], dtype=np.uint8)
        return np.stack([frame] * STACK) if before is None else np.concatenate((before[1:], frame[None]))

    def rollout(self, steps=4):
        """Some decisions of most slots."""
        playing = [slot for slot in self.slots if self.rng.random() < 0.9] or self.slots[:1]
        for place, slot in enumerate(playing):
            if self.rng.random() < 0.05:  # it left in the middle of an episode; the number is given anew
                self.slots[slot.number] = playing[place] = Slot(self, slot.number)
        number = len(playing)
        action = self.memory.action_spec
        obs = self.memory.obs_spec.allocate(steps, number)
        last = self.memory.obs_spec.allocate(number)
        columns = {
            "action": np.zeros((steps, number, *action.shape), action.dtype),
            **{name: np.zeros((steps, number), np.float32) for name in ("logp", "reward")},
            **{name: np.zeros((steps, number), bool) for name in ("terminated", "truncated")},
        }
        header = {name: np.zeros(number, np.int64) for name in ("slot", "clock", "length", "version")}
        first, finals, boots = np.zeros(number, bool), [], []
        for f, slot in enumerate(playing):
            length = int(self.rng.integers(1, steps + 1))
            header["slot"][f], header["clock"][f], header["length"][f] = slot.number, slot.clock, length
            first[f] = slot.starts
            for t in range(length):
                seen = slot.step()
                for path, leaf in seen.items():
                    obs[path][t, f] = leaf
                columns["action"][t, f] = self.rng.integers(0, 3, action.shape)
                columns["reward"][t, f], columns["logp"][t, f] = self.rng.normal(), -self.rng.random()
                end = self.rng.random()
                columns["terminated"][t, f], columns["truncated"][t, f] = end < 0.06, 0.06 < end < 0.12
                if end < 0.12:
                    if end > 0.06:
                        finals.append(slot.obs)
                        boots.append((t, f))
                    slot.begin()
            for path, leaf in slot.obs.items():
                last[path][f] = leaf
        final = self.memory.obs_spec.allocate(len(finals))
        for row, seen in enumerate(finals):
            for path, leaf in seen.items():
                final[path][row] = leaf
        remembered = None
        if self.memory.memory_size:
            shape = (-(-steps // 4), number, self.memory.memory_size)
            remembered = torch.from_numpy(self.rng.normal(size=shape).astype(np.float32))
        tensors = {name: torch.from_numpy(array) for name, array in (columns | header).items()}
        return Rollout(
            obs=_tree(obs), last_obs=_tree(last), final_obs=_tree(final), first=torch.from_numpy(first),
            boot_index=torch.tensor(boots, dtype=torch.int64).reshape(-1, 2), memory=remembered, memory_every=4,
            **tensors,
        )  # fmt: skip

    def go_on(self, rows):
        """Adds at least so many rows to the memory."""
        goal = self.memory.total + rows
        while self.memory.total < goal:
            self.memory.add(self.rollout())
        return self.memory


def _tree(arrays):
    return {path: torch.from_numpy(array) for path, array in arrays.items()}


def drawn(memory, batches=100):
    """So many batches as one text to compare, priorities moved after each."""
    found = []
    for number in range(batches):
        if memory.cfg.kind == "prioritized" or not memory_of(memory).memory_size:
            batch = memory.sample(16, n_step=1 + number % 4, gamma=0.9, beta=0.5)
            parts = [*batch.obs.values(), *batch.next_obs.values(), batch.action, batch.reward, batch.discount]
        else:
            batch = memory.sample_sequences(5, length=6, beta=0.5)
            rollout = batch.rollout
            parts = [*rollout.obs.values(), *rollout.last_obs.values(), rollout.reward, rollout.memory, rollout.length]
        parts += [batch.row] if batch.weight is None else [batch.row, batch.weight]
        found.append(b"".join(part.numpy().tobytes() for part in parts))
        memory.update_priorities(batch.row, torch.arange(1.0, len(batch.row) + 1) / (number + 1))
    return found


def memory_of(memory):
    """The memory itself, of a mixture its own one."""
    return getattr(memory, "own", memory)
