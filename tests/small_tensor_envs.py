"""Small environments of tensors for tests that need any."""

import numpy as np
import torch
from gymnasium import spaces

from rookery.tensor_envs.env import TensorEnv, TensorStep


class Ticking(TensorEnv):
    """Copies that count their steps, from a start that is drawn; they show them in buffers that are written over.

    Action 2 in a copy's third step or later ends its episode, and so does the tenth step, which cuts it off. A copy
    earns its action and a tenth of its number.
    """

    saved = ("ticks", "start")

    def __init__(self, num_envs, device="cpu", limit=10):
        super().__init__(spaces.Box(-np.inf, np.inf, (3,)), spaces.Discrete(3), num_envs, device)
        self.limit = limit
        self.ticks = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.start = torch.zeros(num_envs, device=self.device)
        self.lane = torch.arange(num_envs, device=self.device, dtype=torch.float32)
        self.shown = torch.zeros(num_envs, 3, device=self.device)
        self.last = torch.zeros(num_envs, 3, device=self.device)

    def reset(self, seed):
        self.generator.manual_seed(seed)
        self.ticks.zero_()
        self.start.copy_(self.draw())
        return self.show(self.shown)

    def draw(self):
        return torch.rand(self.num_envs, generator=self.generator, device=self.device)

    def show(self, into):
        return torch.stack((self.lane, self.ticks.to(torch.float32), self.start), 1, out=into)

    def step(self, actions):
        self.ticks.add_(1)
        terminated = (actions == 2) & (self.ticks >= 3)
        truncated = self.ticks >= self.limit
        self.show(self.last)
        ended = terminated | truncated
        self.ticks.masked_fill_(ended, 0)
        self.start.copy_(torch.where(ended, self.draw(), self.start))
        reward = actions.to(torch.float32) + self.lane / 10
        return TensorStep(self.show(self.shown), reward, terminated, truncated, self.last)


class Reaching(Ticking):
    """The same with a number of each action, from -3 to 1 and from 0 to 2, and without ends."""

    def __init__(self, num_envs, device="cpu", limit=10):
        super().__init__(num_envs, device, limit)
        low, high = np.array([-3.0, 0.0], np.float32), np.array([1.0, 2.0], np.float32)
        self.single_action_space = spaces.Box(low, high)

    def step(self, actions):
        assert actions.dtype == torch.float32
        shown, _, terminated, truncated, last = super().step(torch.zeros_like(actions[:, 0], dtype=torch.int64))
        return shown, actions.sum(1), terminated, truncated, last


class Everything(TensorEnv):
    """Observations of all kinds, with a mask that moves on, and a part for critics alone."""

    saved = ("place",)

    def __init__(self, num_envs, device="cpu"):
        parts = {
            "place": spaces.Discrete(5, start=2),
            "many": spaces.MultiDiscrete([2, 5], start=[0, 2]),
            "flags": spaces.MultiBinary(3),
            "inside": spaces.Dict(
                {"numbers": spaces.Box(-1.0, 1.0, (2,)), "bytes": spaces.Box(0, 255, (4,), np.uint8)}
            ),
            "action_mask": spaces.MultiBinary(4),
            "central": spaces.Box(-1.0, 1.0, (1,)),
        }
        super().__init__(spaces.Dict(parts), spaces.Discrete(4), num_envs, device)
        self.place = torch.zeros(num_envs, dtype=torch.int64, device=self.device)

    def reset(self, seed):
        self.generator.manual_seed(seed)
        self.place = torch.randint(5, (self.num_envs,), generator=self.generator, device=self.device)
        return self.show()

    def show(self):
        place, count = self.place, torch.arange(4, device=self.device)
        number = place.to(torch.float32) / 5
        return {
            "place": place + 2,
            "many": torch.stack((place % 2, place + 2), 1),
            "flags": torch.stack((place > 1, place > 2, place > 3), 1).to(torch.uint8),
            "inside": {"numbers": torch.stack((number, -number), 1), "bytes": place.to(torch.uint8).repeat(4, 1).T},
            "action_mask": (count <= place.unsqueeze(1) % 4) | (count == 0),
            "central": number.unsqueeze(1),
        }

    def step(self, actions):
        allowed = self.show()["action_mask"].gather(1, actions.unsqueeze(1)).squeeze(1)
        reward = torch.where(allowed, actions.to(torch.float32), -100.0)
        terminated = (self.place + actions) % 7 == 0
        self.place = (self.place + actions + 1) % 5
        return self.show(), reward, terminated, torch.zeros_like(terminated), self.show()


class Forgetting(Ticking):
    """The same, which cannot say where it is."""

    saved = ()


class Broken(Ticking):
    """The same with a mistake in its fifth step."""

    def __init__(self, num_envs, device="cpu", mistake="obs"):
        super().__init__(num_envs, device)
        self.mistake, self.made = mistake, 0

    def step(self, actions):
        self.made += 1
        shown, reward, terminated, truncated, last = super().step(actions)
        bad = torch.zeros(self.num_envs, device=self.device)
        bad[1] = float("nan")
        if self.made == 5:
            if self.mistake == "obs":
                shown[:, 1] += bad
            elif self.mistake == "reward":
                reward += bad
            elif self.mistake == "final_obs":
                truncated = torch.ones_like(truncated)
                terminated = torch.zeros_like(terminated)
                last[:, 1] += bad
            elif self.mistake == "raises":
                raise ValueError("the wheel is off")
            else:
                reward = reward[:, None]
        return shown, reward, terminated, truncated, last


class Measuring(Ticking):
    """The same, which reports two numbers."""

    def numbers(self):
        return {"ticks": self.ticks.to(torch.float32).mean(), "oldest": self.ticks.max()}


def made_by_a_function(num_envs, device="cpu"):
    return Ticking(num_envs, device, limit=7)
