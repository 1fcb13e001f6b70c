"""A Decision Transformer in plain torch, for `benchmarks/studies/decision_transformer.py`.

Written anew after the paper (Chen et al. 2021, arXiv:2106.01345) with the details of CORL's form of it (Tarasov et al.
2022, arXiv:2210.07105): weights of linear layers and embeddings start normal with a deviation of 0.02 and zero biases,
timesteps have a learned embedding, returns are divided by a fixed number, GELU, torch's attention, windows padded on
the right, AdamW with a linear warm-up, gradients clipped to 0.25. Discrete actions have an embedding each and are
learned by their likelihood, as in the authors' code for Atari.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Episode:
    """One episode: ``obs`` ``[T, F]``, ``action`` ``[T, A]`` in [-1, 1] or ``[T]`` int64, ``reward`` ``[T]``."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray


@dataclass(frozen=True)
class Settings:
    """Sizes and settings of learning; the defaults are CORL's."""

    context: int = 20
    layers: int = 3
    heads: int = 1
    width: int = 128
    timesteps: int = 1000
    dropout: float = 0.1
    lr: float = 1e-4
    weight_decay: float = 1e-4
    warmup_steps: int = 10_000
    batch_size: int = 64
    max_grad_norm: float = 0.25
    return_scale: float = 1000.0


class Block(nn.Module):
    """A layer of GPT-2."""

    def __init__(self, cfg: Settings) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.attention = nn.MultiheadAttention(cfg.width, cfg.heads, cfg.dropout, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.width, 4 * cfg.width), nn.GELU(), nn.Linear(4 * cfg.width, cfg.width), nn.Dropout(cfg.dropout)
        )
        self.drop = nn.Dropout(cfg.dropout)
        later = torch.ones(3 * cfg.context, 3 * cfg.context, dtype=torch.bool).triu(1)
        self.register_buffer("later", later, persistent=False)

    def forward(self, x: Tensor, missing: Tensor) -> Tensor:
        """Returns the tokens after this layer."""
        length = x.shape[1]
        mask = self.later[:length, :length]  # type: ignore[index]
        y = self.norm1(x)
        y, _ = self.attention(y, y, y, attn_mask=mask, key_padding_mask=missing, need_weights=False)
        x = x + self.drop(y)
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class PlainTransformer(nn.Module):
    """The network.

    Args:
        features: Numbers of an observation.
        actions: Numbers of an action, or choices.
        discrete: Whether actions are discrete.
        cfg: Settings.
    """

    def __init__(self, features: int, actions: int, discrete: bool, cfg: Settings) -> None:
        super().__init__()
        self.cfg, self.discrete = cfg, discrete
        self.time = nn.Embedding(cfg.timesteps + cfg.context, cfg.width)
        self.seen = nn.Linear(features, cfg.width)
        self.acted = nn.Embedding(actions, cfg.width) if discrete else nn.Linear(actions, cfg.width)
        self.ahead = nn.Linear(1, cfg.width)
        self.norm, self.drop = nn.LayerNorm(cfg.width), nn.Dropout(cfg.dropout)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.layers)])
        self.last_norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, actions)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear):
                    nn.init.zeros_(module.bias)

    def forward(self, obs: Tensor, action: Tensor, ahead: Tensor, timestep: Tensor, missing: Tensor) -> Tensor:
        """Returns outputs ``[B, K, actions]``; arguments ``[B, K, ...]``, `missing` True for padding."""
        when = self.time(timestep)
        parts = (self.ahead(ahead.unsqueeze(2)), self.seen(obs), self.acted(action))
        x = torch.stack([part + when for part in parts], 2).flatten(1, 2)
        x = self.drop(self.norm(x))
        hidden = missing.repeat_interleave(3, 1)
        for block in self.blocks:
            x = block(x, hidden)
        out: Tensor = self.head(self.last_norm(x)[:, 1::3])
        return out if self.discrete else out.tanh()


class PlainDT:
    """Learns from episodes and acts.

    Args:
        episodes: The data.
        actions: Numbers of an action, or choices.
        seed: Seed of weights, batches and dropout.
        cfg: Settings.
    """

    def __init__(self, episodes: list[Episode], actions: int, seed: int, cfg: Settings) -> None:
        torch.manual_seed(seed)
        self.cfg, self.episodes = cfg, episodes
        self.rng = np.random.default_rng(seed)
        every = np.concatenate([one.obs for one in episodes])
        self.mean, self.std = every.mean(0), every.std(0) + 1e-6
        self.to_go = [one.reward[::-1].cumsum()[::-1] for one in episodes]
        lengths = np.array([len(one.reward) for one in episodes])
        self.share = lengths / lengths.sum()
        self.discrete = episodes[0].action.ndim == 1
        self.net = PlainTransformer(every.shape[1], actions, self.discrete, cfg)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        warm = max(cfg.warmup_steps, 1)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min((step + 1) / warm, 1.0))

    def batch(self) -> tuple[Tensor, ...]:
        """Draws a batch of windows, padded on the right."""
        cfg = self.cfg
        chosen = self.rng.choice(len(self.episodes), cfg.batch_size, p=self.share)
        first = self.episodes[0]
        size = (cfg.batch_size, cfg.context)
        obs = np.zeros((*size, first.obs.shape[1]), np.float32)
        action = np.zeros((*size, *first.action.shape[1:]), first.action.dtype)
        ahead, timestep = np.zeros(size, np.float32), np.zeros(size, np.int64)
        missing = np.ones(size, bool)
        for row, number in enumerate(chosen):
            one = self.episodes[number]
            start = int(self.rng.integers(len(one.reward)))
            end = min(start + cfg.context, len(one.reward))
            there = slice(0, end - start)
            obs[row, there] = (one.obs[start:end] - self.mean) / self.std
            action[row, there] = one.action[start:end]
            ahead[row, there] = self.to_go[number][start:end] / cfg.return_scale
            timestep[row] = np.minimum(start + np.arange(cfg.context), cfg.timesteps + cfg.context - 1)
            missing[row, there] = False
        return tuple(torch.from_numpy(array) for array in (obs, action, ahead, timestep, missing))

    def learn(self, steps: int) -> float:
        """Makes gradient steps; returns the last loss."""
        self.net.train()
        loss = torch.tensor(0.0)
        for _ in range(steps):
            obs, action, ahead, timestep, missing = self.batch()
            out = self.net(obs, action, ahead, timestep, missing)[~missing]
            wanted = action[~missing]
            loss = functional.cross_entropy(out, wanted) if self.discrete else functional.mse_loss(out, wanted)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.net.parameters(), self.cfg.max_grad_norm)
            self.optimizer.step()
            self.schedule.step()
        return loss.item()

    def player(self, number: int, target: float) -> Player:
        """Returns what plays in a number of environments at a time, from the start of their episodes."""
        return Player(self, number, target)


class Player:
    """Plays episodes in step; arguments as of `PlainDT.player`."""

    def __init__(self, of: PlainDT, number: int, target: float) -> None:
        self.of = of
        self.of.net.eval()
        self.obs: list[np.ndarray] = []
        self.action: list[Tensor] = []
        self.ahead = [np.full(number, target / of.cfg.return_scale, np.float32)]

    @torch.no_grad()
    def act(self, obs: np.ndarray, reward: np.ndarray | None) -> np.ndarray:
        """Returns actions for observations ``[N, F]`` after the last rewards ``[N]``."""
        of, cfg = self.of, self.of.cfg
        self.obs.append(((obs - of.mean) / of.std).astype(np.float32))
        if reward is not None:
            self.ahead.append((self.ahead[-1] - reward / cfg.return_scale).astype(np.float32))
        now = len(self.obs)
        first = max(now - cfg.context, 0)
        unknown = torch.zeros_like(self.action[-1]) if self.action else self._no_action(len(obs))
        action = torch.stack([*self.action[first : now - 1], unknown], 1)
        seen = torch.from_numpy(np.stack(self.obs[first:], 1))
        ahead = torch.from_numpy(np.stack(self.ahead[first:], 1))
        timestep = torch.arange(first, now).clamp(max=cfg.timesteps + cfg.context - 1).expand(len(obs), -1)
        missing = torch.zeros(len(obs), now - first, dtype=torch.bool)
        out = of.net(seen, action, ahead, timestep, missing)[:, -1]
        chosen: Tensor = out.argmax(1) if of.discrete else out
        self.action.append(chosen)
        found: np.ndarray = chosen.numpy()
        return found

    def _no_action(self, number: int) -> Tensor:
        first = self.of.episodes[0].action
        return torch.zeros(number, *first.shape[1:], dtype=torch.int64 if self.of.discrete else torch.float32)
