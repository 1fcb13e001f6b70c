"""Results of learning from demonstrations: ``python benchmarks/studies/imitation.py [WORD ...]``, some minutes, three
seeds each; with words, only rows that have one of them are measured, and the others stay as they were.

Experts are trained first (PPO on CartPole-v1, SAC on Pendulum-v1), and their episodes are recorded as replay. Then:

- BC from 20 expert episodes of CartPole; the control clones 20 episodes of random play.
- BC and MARWIL from the same mixed data: 10 expert episodes among 230 of random play, about as many decisions of each.
  BC is asked for the mean return of the better half of the episodes. The control is what was cloned, all of it: BC with
  drawn actions, and random play, which must stay below the mean of all.
- GAIL from 10 expert episodes, without the environment's reward; the control imitates random play.
- PPO with demonstrations beside it, and without.

The page is `benchmarks/results/imitation.md`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np

from rookery import PPOConfig, SACConfig, Trainer
from rookery.algorithms.offline.bc import BCConfig, MARWILConfig
from rookery.core.io.files import write_directory
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.segments import FACTS, facts_of, new_segments

PAGE = Path(__file__).parents[1] / "results" / "imitation.md"
SEEDS = (0, 1, 2)
EPISODES = 50
"""Episodes of an evaluation, with the likeliest actions."""

READ = """
BC from mixed data beats the data: the mean return of all episodes, and that of the better half. Most of that comes
from the likeliest actions. Random play prefers no action, so the expert's share decides which one is the likeliest; the
same policies with drawn actions stay below the better half, though above the mean of all. Cloning the better half alone
is better than cloning everything, and MARWIL is better than both. Its margin over BC from the better half, the harder
comparison, is only 56; 500 is the highest return.
GAIL's claim on CartPole does not hold against its control. Its default reward is never below 0, so there it pays for
staying up whatever is shown: random demonstrations lead to 500 as well, and neither row says anything about imitation.
`airl`, which has both signs, gets there in one seed of three; in the others the discriminator easily separates the
policy's episodes from demonstrations, so that every step costs, and episodes get short.
Pendulum's episodes all have one length: there the expert's demonstrations lead part of the way to its return in two
seeds of three, with a weaker penalty further; random ones in one. A large update, as Pendulum's preset has, gives the
discriminator few gradient steps (`signals.gail.minibatches`); with four times as many, two seeds came to -220. Of
what pre-training alone has given, PPO's first updates lose most in two seeds of three; imitation beside every update
holds it.
"""
"""What the table says, below it."""

Returns = tuple[float, float]
"""Mean returns of data: of all episodes, and of the better half."""

Act = Callable[[Any], tuple[Any, Any]]
"""From an observation to an action as it is stored, and as the environment takes it."""
Episode = dict[str, Any]


def play(name: str, act: Act, episodes: int, seed: int) -> list[Episode]:
    """Plays episodes, one after the other."""
    env, found = gymnasium.make(name), []
    for number in range(episodes):
        seen, _ = env.reset(seed=seed + number)
        obs, action, reward, terminated, truncated = [seen], [], [], False, False
        while not (terminated or truncated):
            stored, given = act(seen)
            seen, earned, terminated, truncated, _ = env.step(given)
            obs.append(seen)
            action.append(stored)
            reward.append(earned)
        found.append({"obs": np.stack(obs), "action": np.stack(action), "reward": reward, "terminated": terminated})
    return found


def keep(path: Path, name: str, episodes: list[Episode]) -> str:
    """Writes episodes as replay; gives its path."""
    env = gymnasium.make(name)
    spec, actions = obs_spec(env.observation_space, env.action_space), action_spec(env.action_space)
    size = sum(len(episode["reward"]) for episode in episodes)
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(spec, actions, ReplayConfig(capacity=size), rng, memory_size=0, memory_every=1)
    for number, episode in enumerate(episodes):
        length, ended = len(episode["reward"]), bool(episode["terminated"])
        every = np.arange(length)
        cut = np.arange(length - 1, length) if not ended else np.zeros(0, np.int64)
        piece = {
            "serial": np.array([0]),
            "obs/obs": episode["obs"][:-1].astype(spec.leaves[0].dtype),
            "action": episode["action"].astype(actions.dtype),
            "logp": np.zeros(length, np.float32),
            "reward": np.array(episode["reward"], np.float32),
            "terminated": (every == length - 1) & ended,
            "truncated": (every == length - 1) & (not ended),
            "begins": every == 0,
            "slot": np.full(length, number),
            "clock": every,
            "before": (every > 0).astype(np.int64),
            "next_row": cut,
            "next_obs/obs": episode["obs"][1:][cut].astype(spec.leaves[0].dtype),
        }
        buffer.append(piece, continues=False)
    facts = {FACTS: {"main": facts_of(buffer)}}
    write_directory(path, new_segments(buffer, "main", 0, buffer.total), facts, replace=True)
    return str(path)


def expert(policy: Policy, half_range: float = 1.0) -> Act:
    """Plays a policy's likeliest actions; numbers are stored in units of half their range."""

    def act(obs: Any) -> tuple[Any, Any]:
        action = policy.predict(obs)
        return (np.asarray(action) if half_range == 1.0 else action / half_range), action

    return act


def random_play(seed: int) -> Act:
    """Plays CartPole evenly at random."""
    rng = np.random.default_rng(seed)

    def act(obs: Any) -> tuple[Any, Any]:
        action = np.asarray(rng.integers(2))
        return action, int(action)

    return act


def random_torque(seed: int) -> Act:
    """Plays Pendulum evenly at random."""
    rng = np.random.default_rng(seed)

    def act(obs: Any) -> tuple[Any, Any]:
        share = rng.uniform(-1.0, 1.0, 1).astype(np.float32)
        return share, 2.0 * share

    return act


def mean_return(episodes: list[Episode]) -> float:
    """The mean return of episodes."""
    return float(np.mean([np.sum(episode["reward"]) for episode in episodes]))


def recorded(folder: Path) -> tuple[dict[str, str], Returns, str]:
    """Trains the experts, records them; gives the paths of the data by name, the returns of the mixed data, and a text
    about all.
    """
    with Trainer("CartPole-v1", PPOConfig(), seed=1, preset="auto") as trainer:
        trainer.train({"env_steps": 100_000})
        poles = play("CartPole-v1", expert(trainer.policies["main"]), 20, 100)
    with Trainer("Pendulum-v1", SACConfig(), seed=1, preset="auto") as trainer:
        trainer.train({"env_steps": 20_000})
        swings = play("Pendulum-v1", expert(trainer.policies["main"], 2.0), 20, 100)
    chance = play("CartPole-v1", random_play(0), 230, 1000)
    waving = play("Pendulum-v1", random_torque(0), 10, 1000)
    mixed = sorted(chance + poles[:10], key=lambda episode: mean_return([episode]))
    data = {
        "poles 20": keep(folder / "poles-20", "CartPole-v1", poles),
        "poles 10": keep(folder / "poles-10", "CartPole-v1", poles[:10]),
        "random 20": keep(folder / "random-20", "CartPole-v1", chance[:20]),
        "random 230": keep(folder / "random-230", "CartPole-v1", chance),
        "mixed": keep(folder / "mixed", "CartPole-v1", chance + poles[:10]),
        "better half": keep(folder / "better-half", "CartPole-v1", mixed[len(mixed) // 2 :]),
        "swings 10": keep(folder / "swings-10", "Pendulum-v1", swings[:10]),
        "swings 20": keep(folder / "swings-20", "Pendulum-v1", swings),
        "waving 10": keep(folder / "waving-10", "Pendulum-v1", waving),
    }
    returns = mean_return(mixed), mean_return(mixed[len(mixed) // 2 :])
    about = (
        f"CartPole's expert (PPO, 100,000 env steps) earned {mean_return(poles):.0f} an episode, random play "
        f"{mean_return(chance):.0f}; Pendulum's expert (SAC, 20,000 env steps) {mean_return(swings):.0f}, random play "
        f"{mean_return(waving):.0f}. The mixed data's episodes earned {returns[0]:.1f} on average, the better half of "
        f"them {returns[1]:.1f}."
    )
    return data, returns, about


def cloned(env: str, cfg: BCConfig, data: str, seed: int, deterministic: bool = True) -> float:
    """The return of what is learned from data alone, with the likeliest actions or with drawn ones."""
    with Trainer(env, cfg, seed=seed, replay=data) as trainer:
        trainer.learn(cfg.gradient_steps or 0)
        return trainer.evaluate(EPISODES, deterministic).return_mean


def played(env: str, cfg: PPOConfig, steps: int, seed: int, preset: str = "none") -> float:
    """The return of PPO after so many env steps."""
    with Trainer(env, cfg, seed=seed, preset=preset, num_envs=8) as trainer:
        if steps:
            trainer.train({"env_steps": steps})
        return trainer.evaluate(EPISODES).return_mean


def adversarial(data: str, **gail: Any) -> PPOConfig:
    """PPO that is rewarded for likeness alone."""
    return PPOConfig(signals={"gail": {"replay": [data], **gail}, "extrinsic": {"strength": 0.0}})


ABOVE = ">= 50 above "
Asked = tuple[str, float] | str
"""A claim: ``>=`` or, for a control, ``<``, and a limit of the median; or `ABOVE` and the name of a row; or a word."""


def verdict(asked: Asked, middle: float, medians: dict[str, float]) -> str:
    """Returns two cells of the table: the claim, and whether a median holds it."""
    if isinstance(asked, str):
        if not asked.startswith(ABOVE):
            return f"{asked} |"
        return f"{asked} | {'yes' if middle >= medians[asked.removeprefix(ABOVE)] + 50 else 'no'}"
    sign, limit = asked
    held = middle >= limit if sign == ">=" else middle < limit
    return f"{sign} {limit:.4g}{' (control)' if sign == '<' else ''} | {'yes' if held else 'no'}"


def rows(data: dict[str, str], returns: Returns) -> list[tuple[str, str, Callable[[int], float], Asked]]:
    """Returns the rows of the table: environment, learner, function from seed to return, and what is asked."""
    pole, swing, gail = "CartPole-v1", "Pendulum-v1", "GAIL and PPO, no other reward, 200,000 env steps"
    beside = {"replay": [data["poles 20"]]}
    all_of_it, better_half = returns
    return [
        (pole, "BC, 20 expert episodes", lambda s: cloned(pole, BCConfig(), data["poles 20"], s), (">=", 450)),
        (pole, "BC, 20 random episodes", lambda s: cloned(pole, BCConfig(), data["random 20"], s), ("<", all_of_it)),
        (pole, "BC, mixed data", lambda s: cloned(pole, BCConfig(), data["mixed"], s), (">=", better_half)),
        (
            pole,
            "BC, mixed data, drawn actions",
            lambda s: cloned(pole, BCConfig(), data["mixed"], s, deterministic=False),
            ("<", better_half),
        ),
        (
            pole,
            "BC, better half of the mixed data",
            lambda s: cloned(pole, BCConfig(), data["better half"], s),
            "recorded",
        ),
        (
            pole,
            "MARWIL, mixed data",
            lambda s: cloned(pole, MARWILConfig(), data["mixed"], s),
            ABOVE + "BC, mixed data",
        ),
        (swing, "BC, 20 expert episodes", lambda s: cloned(swing, BCConfig(), data["swings 20"], s), "recorded"),
        (
            swing,
            "BC, the same, squashed Gaussian",
            lambda s: cloned(swing, BCConfig(distribution="squashed"), data["swings 20"], s),
            "recorded",
        ),
        (
            swing,
            "BC, the same, variance_power 0",
            lambda s: cloned(swing, BCConfig(distribution="squashed", variance_power=0.0), data["swings 20"], s),
            "control",
        ),
        (
            pole,
            f"{gail}, 10 expert episodes",
            lambda s: played(pole, adversarial(data["poles 10"]), 200_000, s),
            (">=", 450),
        ),
        (
            pole,
            "the same, 230 random episodes",
            lambda s: played(pole, adversarial(data["random 230"]), 200_000, s),
            ("<", 450),
        ),
        (
            pole,
            "the same, 10 expert episodes, reward airl",
            lambda s: played(pole, adversarial(data["poles 10"], reward="airl"), 200_000, s),
            "recorded",
        ),
        (
            swing,
            f"{gail}, 10 expert episodes",
            lambda s: played(swing, adversarial(data["swings 10"]), 200_000, s),
            "recorded",
        ),
        (
            swing,
            "the same, penalty 1",
            lambda s: played(swing, adversarial(data["swings 10"], penalty=1.0), 200_000, s),
            "recorded",
        ),
        (
            swing,
            "the same, 10 random episodes",
            lambda s: played(swing, adversarial(data["waving 10"]), 200_000, s),
            "control",
        ),
        (
            swing,
            "the same, 10 expert episodes, reward airl",
            lambda s: played(swing, adversarial(data["swings 10"], reward="airl"), 200_000, s),
            "recorded",
        ),
        (pole, "PPO, 20,000 env steps", lambda s: played(pole, PPOConfig(), 20_000, s, "auto"), "control"),
        (
            pole,
            "PPO, 500 steps of pre-training, nothing played",
            lambda s: played(
                pole, PPOConfig(imitation={**beside, "pretrain_steps": 500, "strength": 0.0}), 0, s, "auto"
            ),
            "recorded",
        ),
        (
            pole,
            "the same, 20,000 env steps later",
            lambda s: played(
                pole, PPOConfig(imitation={**beside, "pretrain_steps": 500, "strength": 0.0}), 20_000, s, "auto"
            ),
            "recorded",
        ),
        (
            pole,
            "PPO, 20,000 env steps, imitation beside",
            lambda s: played(pole, PPOConfig(imitation=beside), 20_000, s, "auto"),
            "recorded",
        ),
    ]


def main() -> None:
    """Measures all, or the rows that have a word of the command line in them, and writes the page."""
    words = sys.argv[1:]
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    before = {(env, what): (each, middle) for env, what, each, middle, *_ in cells}
    medians: dict[str, float] = {}
    lines = ["| environment | what learns | return, each seed | median | asked | held |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        data, returns, about = recorded(Path(folder))
        print(about, flush=True)
        for env, what, measured, asked in rows(data, returns):
            if not words or any(word in f"{env} {what}" for word in words):
                found = [measured(seed) for seed in SEEDS]
                each, middle = ", ".join(f"{value:.4g}" for value in found), f"{median(found):.4g}"
            elif (env, what) in before:
                each, middle = before[env, what]
            else:
                continue
            medians[what] = float(middle)
            lines.append(f"| {env} | {what} | {each} | {middle} | {verdict(asked, float(middle), medians)} |")
            print(lines[-1], flush=True)
    text = (
        "# Learning from demonstrations\n\nMade by `python benchmarks/studies/imitation.py`: three seeds, "
        f"{EPISODES} episodes with the likeliest actions each. {about}\n\n" + "\n".join(lines) + "\n" + READ
    )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
