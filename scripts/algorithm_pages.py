"""The parts of docs/algorithms/ that are generated: settings with their defaults, what each algorithm works with, and
the measured claims.

They stand between ``<!-- generated: NAME -->`` and ``<!-- end -->``; all else on these pages is written by hand.
"""

from __future__ import annotations

import json
import re
import textwrap
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery import ConfigError, Trainer
from rookery.algorithms.capabilities import Capabilities, known_capabilities
from rookery.algorithms.names import ALGORITHMS
from rookery.cli.settings.listing import settings_in
from rookery.core.seeding import Streams
from rookery.core.settings.layers import import_object
from rookery.core.spaces.arrays import SpaceError, action_spec, obs_spec

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "algorithms"

ACTIONS: dict[str, spaces.Space[Any]] = {
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(-1.0, 1.0, (2,)),
    "Dict and Tuple": spaces.Dict({"one": spaces.Discrete(3), "two": spaces.Box(-1.0, 1.0, (2,))}),
}
"""Action spaces that each algorithm is tried with, by their name on the page."""

OF_OTHER_NAME = {"discrete_cql": "cql"}
"""Pages of algorithms that share one."""

CLAIMED = {
    "lstm": "ppo", "gru": "ppo", "scan": "ppo", "attention": "ppo", "dueling": "dqn", "quantile": "dqn", "c51": "dqn",
    "lagrangian": "ppo_lagrangian", "linear": "neural_linear",
    "apex": "dqn", "r2d2": "dqn", "implicit": "dqn", "munchausen": "dqn", "redq": "sac", "droq": "sac",
    "drq": "td3", "unshifted": "td3",
}  # fmt: skip
"""Algorithms of claims whose name ends in no name of an algorithm; those that end in neither are PPO's."""

EXPECTED = {
    "ppo": "cartpole", "a2c": "cartpole-a2c", "impala": "cartpole-impala", "appo": "cartpole-appo", "es": "cartpole-es",
    "ars": "cartpole-ars", "reinforce": "cartpole-reinforce", "pqn": "cartpole-pqn", "dqn": "cartpole-dqn",
    "sac": "pendulum-sac", "td3": "pendulum-td3", "ddpg": "pendulum-ddpg", "linucb": "linear-bandit-linucb",
    "lints": "linear-bandit-lints",
}  # fmt: skip
"""Claims with the task and the settings of the first command of a page."""

BLOCK = "<!-- generated: {} -->"
END = "<!-- end -->"


class TwoPlayers:
    """Two agents in one group that observe noise, with a given action space.

    Args:
        actions: A name of `ACTIONS`.
    """

    possible_agents = ("a", "b")
    groups = {"both": ["a", "b"]}

    def __init__(self, actions: str) -> None:
        self.observation_spaces = dict.fromkeys(self.possible_agents, spaces.Box(-1.0, 1.0, (2,)))
        self.action_spaces = dict.fromkeys(self.possible_agents, ACTIONS[actions])

    def reset(self, seed: int | None = None, options: object = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begins an episode."""
        return dict.fromkeys(self.possible_agents, np.zeros(2, np.float32)), {}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Ends the episode."""
        rewards = dict.fromkeys(self.possible_agents, 0.0)
        return self.reset()[0], rewards, {"__all__": False}, {"__all__": True}, {}


@cache
def supported_actions(algorithm: str) -> tuple[str, ...]:
    """Returns the action spaces that an algorithm takes: those of which it makes a policy and learns."""
    found = []
    for name, space in ACTIONS.items():
        try:
            begin(algorithm, name, space)
        except (SpaceError, ConfigError) as error:
            if isinstance(error, ConfigError) and "action" not in str(error):
                raise
        else:
            found.append(name)
    return tuple(found)


def begin(algorithm: str, name: str, space: spaces.Space[Any]) -> None:
    """Begins a training on an action space, without a step.

    Raises:
        SpaceError, ConfigError: The algorithm does not take such actions.
    """
    settings = import_object(ALGORITHMS.own[algorithm])
    if settings.capabilities.needs_team or settings.capabilities.needs_group_obs:
        teams = {"teams": {"team": ["a", "b"]}} if settings.capabilities.needs_team else {}
        config = {"algorithm.name": algorithm, "env.config": {"actions": name}, "sampling.num_envs": 1, **teams}
        Trainer(TwoPlayers, config=config, seed=0).close()
        return
    action, cfg = action_spec(space), settings()
    obs = obs_spec(spaces.Box(-1.0, 1.0, (2,)), action)
    import_object(cfg.algorithm)(cfg.build_policy(obs, action, "main", torch.Generator()), cfg, Streams(0), "main")


def settings_and_defaults(algorithms: list[str]) -> str:
    """Returns how the algorithms of a page are named in Python, and their settings with the defaults."""
    parts = []
    for name in algorithms:
        cls = import_object(ALGORITHMS.own[name])
        found = settings_in(cls)
        known = ", ".join(f"`{one.path}={one.default}`" for one in found if one.default)
        sections = ", ".join(f"`{one.path}`" for one in found if not one.default)
        text = (
            f"`Trainer(env, {cls.__name__}())` in Python, `--algo {name}` on the command line. Defaults, which "
            f"[presets](../reference/presets.md) replace: {known}; and the sections {sections}. "
            f"[What each means](../reference/settings.md#algorithm-{name})."
        )
        parts.append(textwrap.fill(text, 140, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(parts)


def works_with(algorithms: list[str]) -> str:
    """Returns the table of what the algorithms of a page work with."""
    known = known_capabilities()
    columns = [(name, cells(name, known[name])) for name in algorithms]
    lines = [f"| | {' | '.join(f'`{name}`' for name, _ in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in columns[0][1]:
        lines.append(f"| {row} | {' | '.join(of[row] for _, of in columns)} |")
    return "\n".join(lines)


def cells(algorithm: str, known: Capabilities) -> dict[str, str]:
    """Returns the cells of an algorithm, by their row."""
    source = "its own experience, as it comes"
    if known.uses_replay:
        source = "a [replay buffer](../how-to/replay-memory.md)"
    if known.offline:
        source = "[stored data](../how-to/learn-from-data.md)"
        source += ", then its own experience" if known.supports_online_finetune else ""
    agents = "any number, each on its own"
    if known.needs_team:
        agents = "a [team](../how-to/teams.md), as one"
    elif known.needs_group_obs:
        agents = "a [group](../how-to/groups.md), each on its own, with a critic that sees all"
    return {
        "action spaces": ", ".join(supported_actions(algorithm)),
        "learns from": source,
        "agents": agents,
        "[policies with a memory](../how-to/memory.md)": yes(known.supports_memory),
        "[asynchronous sampling](../how-to/asynchronous-sampling.md)": yes(known.supports_staleness),
        "[several learners](../how-to/several-learners.md)": yes(known.supports_multi_learner),
    }


def yes(flag: bool) -> str:
    """Returns a flag as a word."""
    return "yes" if flag else "no"


def claims() -> dict[str, list[dict[str, Any]]]:
    """Returns the measured claims of benchmarks/results/learning.json, by algorithm."""
    rows = json.loads((ROOT / "benchmarks/results/learning.json").read_text(encoding="utf-8"))["rows"]
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        end = row["claim"].rpartition("-")[2]
        of = end if end in ALGORITHMS.own or end == "her" else CLAIMED.get(end, "ppo")
        found.setdefault(of, []).append(row)
    return found


def expected_line(rows: list[dict[str, Any]], claim: str) -> str:
    """Returns what the first command of a page reaches, and in which time, as its claim was measured."""
    row = next(row for row in rows if row["claim"] == claim)
    scores = ", ".join(f"{run['score']:g}" for run in row["runs"])
    seeds = ", ".join(str(run["seed"]) for run in row["runs"])
    seconds = sorted(run["seconds"] for run in row["runs"])
    return (
        f"Expect, without a `--stop`: {row['what']} {scores} (seeds {seeds}) after {row['env_steps']:,} environment\n"
        f"steps, in {seconds[0]:g} to {seconds[-1]:g} seconds on two cores. The command prints a line of progress\n"
        "every few seconds, then the return, its interval and where the run is stored."
    )


def claims_table(rows: list[dict[str, Any]], page: str) -> str:
    """Returns the table of the claims of a page, with the curves of those that are in the zoo."""
    lines = [
        "A claim holds if the median score of its seeds reaches the score that is needed, and the control stays below.",
        "The score is the one that [learning results](../../benchmarks/results/learning.md) name. A control learns",
        "nothing, or learns without what the claim is about. Again: `python benchmarks/learning.py CLAIM`.",
        "",
        "| claim | env steps | needed | median | each seed | control | seconds, each | holds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        scores, seconds = (", ".join(f"{run[key]:g}" for run in row["runs"]) for key in ("score", "seconds"))
        holds = "yes" if row["holds"] else "no"
        control = f"{row['control']['score'] + 0.0:g}" if row.get("control") else ""  # 0 in place of -0
        lines.append(
            f"| `{row['claim']}` | {row['env_steps']:,} | {row['threshold']:g} | {row['median']:g} | {scores} "
            f"| {control} | {seconds} | {holds} |"
        )
    entries = sorted((ROOT / "benchmarks/zoo").glob(f"*-{page}/entry.json"))
    fold = len(entries) > 2
    lines += ["", f"<details><summary>{len(entries)} learning curves</summary>"] if fold else []
    for entry in entries:
        name, known = entry.parent.name, json.loads(entry.read_text(encoding="utf-8"))
        seeds = ", ".join(str(run["seed"]) for run in known["runs"])
        text = f"Mean return of {page} on {known['environment']} over environment steps, seeds {seeds}"
        picture, peer = beside_peer(entry.parent)
        lines += [
            "",
            f"![{text}](../../benchmarks/zoo/{name}/{picture})",
            "",
            f"{text} ([settings](../../benchmarks/zoo/{name})).{peer}",
        ]
    lines += ["", "</details>"] if fold else []
    return "\n".join(lines)


def beside_peer(entry: Path) -> tuple[str, str]:
    """Returns the picture of an entry of the zoo, and a sentence on the peer that is drawn in it, if there is one."""
    stored = entry / "beside_sb3.json"
    if not stored.exists():
        return "curve.svg", ""
    known = json.loads(stored.read_text(encoding="utf-8"))
    mine, theirs = (", ".join(f"{run['score']:.4g}" for run in known[side]) for side in ("rookery", "sb3"))
    seconds, others = (f"{median(run['cpu_seconds'] for run in known[side]):.0f}" for side in ("rookery", "sb3"))
    version = known["versions"]["stable-baselines3"]
    return "beside_sb3.svg", (
        f" Beside it Stable-Baselines3 {version} with the settings of RL Baselines3 Zoo: returns of 20 deterministic "
        f"episodes at the end {mine} and {theirs}, CPU seconds of a run {seconds} and {others} "
        f"(`python benchmarks/zoo/beside_sb3.py {entry.name}`)."
    )


def algorithm_pages() -> dict[str, str]:
    """Returns the text of each page of an algorithm, by its path below docs/reference/."""
    by_page: dict[str, list[str]] = {}
    for name in ALGORITHMS.own:
        by_page.setdefault(OF_OTHER_NAME.get(name, name), []).append(name)
    measured = claims()
    pages = {}
    for page in sorted({*by_page, *measured}):
        text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
        if page in by_page:
            text = with_block(text, "works with", works_with(by_page[page]), "## Works with")
            text = with_block(text, "settings", settings_and_defaults(by_page[page]), "## Settings")
        if page in EXPECTED:
            text = with_block(text, "expected", expected_line(measured[page], EXPECTED[page]), "")
        if page in measured:
            text = with_block(text, "claims", claims_table(measured[page], page), "## Results")
        pages[f"../algorithms/{page}.md"] = text
    return pages


def with_block(text: str, name: str, content: str, heading: str) -> str:
    """Returns a page with a generated block, which a page without one gets below a heading.

    A page without the heading gets that, too: before its first section other than "When to use it".
    """
    block = f"{BLOCK.format(name)}\n{content}\n{END}"
    pattern = re.compile(re.escape(BLOCK.format(name)) + r".*?" + re.escape(END), re.S)
    if pattern.search(text):
        return pattern.sub(lambda _: block, text)
    if not heading:  # behind the first block of code
        end = text.index("\n```\n", text.index("\n```sh\n")) + len("\n```\n")
        return f"{text[:end]}\n{block}\n{text[end:]}"
    if f"\n{heading}\n" in text:
        return text.replace(f"\n{heading}\n", f"\n{heading}\n\n{block}\n", 1)
    first = text.index("\n## ", text.index("\n## When to use it") + 1 if "\n## When to use it" in text else 0)
    return f"{text[:first]}\n{heading}\n\n{block}\n{text[first:]}"
