"""Made-up lives of slots: rollouts of any shape, and beside them what a memory must know of every decision.

Every observation is a number of its own, so that one in the wrong place cannot pass for another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from gymnasium import spaces

from rookery.core.batch import Rollout
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.buffer import ReplayBuffer, ReplayConfig

STACK = spaces.Box(0, 255, (4, 16, 16), np.uint8)
ACTION = spaces.Discrete(1000)
BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
MEMORY_SIZE = 3

GOES_ON, TERMINATES, IS_TRUNCATED, IS_BOTH = range(4)


@dataclass
class Truth:
    """A decision: what it saw and got, the number of what was seen next, and the decision that follows it."""

    obs: int
    reward: float
    slot: int
    clock: int
    begins: bool
    terminated: bool = False
    truncated: bool = False
    next: int | None = None
    after: Truth | None = None
    """The slot's next decision, in whatever episode."""
    remembers: bool = False
    serial: int = -1


@dataclass
class Slot:
    """State of a slot."""

    sees: int
    clock: int = 0
    starts: bool = True
    latest: Truth | None = None


@dataclass
class Story:
    """All that happened, decision by decision in the order of a memory."""

    rng: np.random.Generator
    space: spaces.Space = field(default_factory=lambda: BOX)
    memory_every: int = 0
    """Every so many rows of a fragment what was remembered is kept; 0 = the policy remembers nothing."""
    slots: dict[int, Slot] = field(default_factory=dict)
    rows: list[Truth] = field(default_factory=list)
    seen: int = 0

    @property
    def spec(self):
        return obs_spec(self.space, ACTION)

    def memory(self, seed=0, **settings):
        return ReplayBuffer(
            self.spec,
            action_spec(ACTION),
            ReplayConfig(**settings),
            np.random.default_rng(seed),
            memory_size=MEMORY_SIZE if self.memory_every else 0,
            memory_every=self.memory_every or 1,
        )

    def picture(self, number):
        """The observation of this number."""
        return np.full(self.spec.leaves[0].shape, number, self.spec.leaves[0].dtype)

    def new_obs(self, slot, first):
        """The number of what is seen next; subclasses make pictures of it."""
        self.seen += 1
        return self.seen

    def slot(self, number):
        if number not in self.slots:
            self.slots[number] = Slot(self.new_obs(number, first=True))
        return self.slots[number]

    def closes(self, number):
        """Another agent takes the slot; it starts anew."""
        if number in self.slots:
            del self.slots[number]

    def breaks(self, number):
        """The episode of a slot is cut off without a word."""
        if number in self.slots and not self.slots[number].starts:
            self.slots[number].starts = True
            self.slots[number].sees = self.new_obs(number, first=True)

    def play(self, T, fragments):
        """A rollout of fragments: of each its slot, and how each of its decisions ends."""
        F = len(fragments)
        leaf = self.spec.leaves[0]
        obs, last = np.zeros((T, F, *leaf.shape), leaf.dtype), np.zeros((F, *leaf.shape), leaf.dtype)
        action, logp = np.zeros((T, F), np.int64), np.zeros((T, F), np.float32)
        reward, flags = np.zeros((T, F), np.float32), np.zeros((2, T, F), bool)
        kept = -(-T // (self.memory_every or 1))
        memory = np.zeros((kept, F, MEMORY_SIZE), np.float32)
        clock, first, finals, boot, made = np.zeros(F, np.int64), np.zeros(F, bool), [], [], []
        turns: dict[int, int] = {}
        for f, (number, ends) in enumerate(fragments):
            slot = self.slot(number)
            turn = turns[number] = turns.get(number, -1) + 1
            clock[f], first[f] = slot.clock, slot.starts
            for t, end in enumerate(ends):
                truth = Truth(slot.sees, float(self.rng.integers(1, 9)), number, slot.clock, slot.starts)
                truth.terminated, truth.truncated = end in (TERMINATES, IS_BOTH), end in (IS_TRUNCATED, IS_BOTH)
                truth.remembers = bool(self.memory_every) and t % self.memory_every == 0
                if slot.latest is not None:
                    slot.latest.after = truth
                slot.latest = truth
                made.append((turn, t, f, truth))
                obs[t, f], action[t, f], reward[t, f] = self.picture(slot.sees), slot.sees % 1000, truth.reward
                logp[t, f] = -slot.sees
                flags[:, t, f] = truth.terminated, truth.truncated
                if truth.remembers:
                    memory[t // self.memory_every, f] = slot.sees + np.arange(MEMORY_SIZE)
                if not truth.terminated:
                    truth.next = self.new_obs(number, first=False)
                if end == IS_TRUNCATED:
                    boot.append((t, f))
                    finals.append(self.picture(truth.next))
                slot.starts = end != GOES_ON
                slot.sees = self.new_obs(number, first=True) if slot.starts else truth.next
                slot.clock += 1
            last[f] = self.picture(0 if slot.starts else slot.sees)
        for _, _, _, truth in sorted(made, key=lambda place: place[:3]):
            truth.serial = len(self.rows)
            self.rows.append(truth)
        tensors = torch.from_numpy
        return Rollout(
            obs={leaf.path: tensors(obs)},
            action=tensors(action),
            logp=tensors(logp),
            reward=tensors(reward),
            terminated=tensors(flags[0]),
            truncated=tensors(flags[1]),
            last_obs={leaf.path: tensors(last)},
            final_obs={leaf.path: tensors(np.array(finals, leaf.dtype).reshape(-1, *leaf.shape))},
            boot_index=torch.tensor(boot, dtype=torch.int64).reshape(-1, 2),
            slot=torch.tensor([number for number, _ in fragments]),
            clock=tensors(clock),
            length=torch.tensor([len(ends) for _, ends in fragments]),
            first=tensors(first),
            version=torch.zeros(F, dtype=torch.int64),
            memory=tensors(memory) if self.memory_every else None,
            memory_every=self.memory_every or 1,
        )

    def window(self, serial, n_step, gamma):
        """The slow way: discounted rewards, the discount of what comes after, and the number of what was seen there."""
        row, total, discount = self.rows[serial], 0.0, 1.0
        for step in range(n_step):
            total += discount * row.reward
            discount *= gamma
            if row.terminated:
                return total, 0.0, None
            if step == n_step - 1 or row.truncated or row.after is None or row.after.begins:
                return total, discount, row.next
            row = row.after
        raise AssertionError


class Film(Story):
    """A story whose observations are the last four frames; `padding` says what there is at the start of an episode."""

    padding = "repeat"
    still = 0.0
    """How often a frame is the one before it."""

    def __init__(self, rng, space=STACK):
        super().__init__(rng, space)
        self.pictures, self.now = {}, {}

    def new_obs(self, slot, first):
        number = super().new_obs(slot, first)
        frame = self.rng.integers(0, 255, (1, 16, 16)).astype(np.uint8)
        if first:
            before = np.zeros((3, 16, 16), np.uint8) if self.padding == "zeros" else np.repeat(frame, 3, 0)
        else:
            before = self.now[slot][1:]
            if self.rng.random() < self.still:
                frame = before[-1:]
        self.now[slot] = self.pictures[number] = np.concatenate((before, frame))
        return number

    def picture(self, number):
        return self.pictures.get(number, np.zeros(self.space.shape, np.uint8))


def random_fragments(rng, slots, T, ending=0.3):
    """Fragments of some of the slots in any order, some of them twice, each of 1 to T decisions."""
    chosen = rng.integers(0, slots, rng.integers(1, slots + 2))
    return [
        (
            int(slot),
            [int(rng.integers(1, 4)) if rng.random() < ending else GOES_ON for _ in range(rng.integers(1, T + 1))],
        )
        for slot in chosen
    ]


def even_fragments(slots, T):
    """A fragment of T decisions for each slot, in which nothing ends."""
    return [(slot, [GOES_ON] * T) for slot in range(slots)]
