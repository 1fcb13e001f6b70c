"""MaskablePPO of SB3-contrib plays connect four against itself: ``sb3_connect_four.py --seconds N``; prints JSON.

SB3 has no self-play, so `Turns` turns PettingZoo's game into an environment of a single agent: the opponent's ply is
played in ``step``, by the weights that the policy had when the last rollout began. Sides alternate by episode. Steps
that are reported are plies of both sides, as Rookery counts them.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import torch
from measure import Meter, seconds_since_start
from pettingzoo.classic import connect_four_v3
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv
from workloads import MATCHED

IMPORTED = seconds_since_start()
SIDES = ("player_0", "player_1")


class Opponent:
    """The policy that plays the other side; None until the first rollout begins: random plies."""

    policy: Any = None
    plies = 0
    """Plies of all games, of both sides."""


class Turns(gymnasium.Env[np.ndarray, int]):
    """Connect four for one side; the other side is played by an `Opponent`."""

    def __init__(self, opponent: Opponent, index: int) -> None:
        self.game = connect_four_v3.env()
        self.opponent = opponent
        self.episode = index
        self.mine = SIDES[0]
        self.observation_space = gymnasium.spaces.Box(0, 1, (6, 7, 2), np.int8)
        self.action_space = gymnasium.spaces.Discrete(7)
        self.random = np.random.default_rng(index)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins a game, and plays the opponent's first ply if it moves first."""
        self.game.reset(seed=seed)
        self.episode += 1
        self.mine = SIDES[self.episode % 2]
        if self.game.agent_selection != self.mine:
            self.reply()
        return self.seen()["observation"], {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays a ply, and the opponent's answer."""
        self.ply(int(action))
        if not self.over():
            self.reply()
        reward = float(self.game.rewards[self.mine])
        return self.seen()["observation"], reward, self.over(), False, {}

    def ply(self, action: int) -> None:
        """Plays a ply of either side."""
        self.opponent.plies += 1
        self.game.step(action)

    def reply(self) -> None:
        """Plays a ply of the opponent."""
        shown = self.game.observe(self.game.agent_selection)
        mask = shown["action_mask"].astype(bool)
        if self.opponent.policy is None:
            self.ply(int(self.random.choice(np.flatnonzero(mask))))
        else:
            self.ply(int(self.opponent.policy.predict(shown["observation"], action_masks=mask)[0]))

    def over(self) -> bool:
        """Returns whether the game has ended."""
        return any(self.game.terminations.values()) or any(self.game.truncations.values())

    def seen(self) -> dict[str, np.ndarray]:
        """Returns what the side of the learner observes."""
        return self.game.observe(self.mine)

    def action_masks(self) -> np.ndarray:
        """Returns the columns that are not full, as MaskablePPO asks for them."""
        return self.seen()["action_mask"].astype(bool)


class Metered(BaseCallback):
    """Calls the meter after every iteration, and gives the opponent the policy's weights."""

    def __init__(self, meter: Meter, opponent: Opponent) -> None:
        super().__init__()
        self.meter, self.opponent, self.enough = meter, opponent, False

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self.enough = self.meter.iteration(self.opponent.plies, None)
        policy = self.model.policy
        if self.opponent.policy is None:
            self.opponent.policy = type(policy)(**policy._get_constructor_parameters())
            self.opponent.policy.set_training_mode(False)
        self.opponent.policy.load_state_dict(policy.state_dict())

    def _on_step(self) -> bool:
        return not self.enough


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings = MATCHED["connect-four"]
    opponent = Opponent()
    env = DummyVecEnv([lambda index=index: Turns(opponent, index) for index in range(settings.num_envs)])
    learner = MaskablePPO(
        "MlpPolicy",
        env,
        learning_rate=settings.lr,
        n_steps=settings.fragment_length,
        batch_size=settings.minibatch_size,
        n_epochs=settings.epochs,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip,
        ent_coef=settings.entropy_coef,
        policy_kwargs={"net_arch": list(settings.hidden), "activation_fn": torch.nn.Tanh},
        seed=args.seed,
        device="cpu",
    )
    meter = Meter(IMPORTED, args.seconds, None)
    learner.learn(10**9, callback=Metered(meter, opponent))
    names = ("stable-baselines3", "sb3-contrib", "pettingzoo", "torch")
    meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})


if __name__ == "__main__":
    main()
