"""Head to head with mlagents-learn 1.1.0: ``mlagents_head_to_head.py [--only ROW ...] [--seeds 0 1 2]``; writes
benchmarks/results/mlagents_head_to_head.json and a section of benchmarks/results/mlagents.md.

Each run is a process of its own, ``mlagents-learn`` or ``rookery mlagents learn``, with the same file, the same flags
and the same program as a Unity player (`rookery_mlagents.testing`), one thread of torch each, the sides in turn. The
settings are those of the file of ML-Agents in brackets, with smaller networks and updates.

- reward: mean of ``Environment/Cumulative Reward`` (of groups: ``Environment/Group Cumulative Reward``) over the last
  quarter of the steps and, in brackets, over all of them, from the event files that each side writes; actions are
  drawn. Self-play: the points of the exported model, with its likeliest actions, against random play; 1 for a win and
  1/2 for a draw. Random: the same of random actions, under the last lesson where there are lessons.
- CPU: user and system seconds of the trainer's processes from start to exit, files and export included; in brackets
  those of the first process. ML-Agents has a second one for the environment, where its messages are read: by protobuf
  in Python, because the version it needs has no other for Python 3.11. The player is not counted.
- memory: the highest sum of the trainer's processes, shared pages counted once (PSS), sampled every two seconds.
- not below: the median is at least the lowest seed of ML-Agents; less CPU: every run takes less than each run of
  ML-Agents.

A run that is in the JSON file is not repeated, so that the study continues where it was stopped. The peer needs
``benchmarks/peers/install.sh mlagents``, or ``--peer PYTHON``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from measure import memory, process_tree

BENCHMARKS = Path(__file__).parents[1]
PEERS = BENCHMARKS / "peers"
PEER = PEERS / ".venv-mlagents" / "bin" / "python"
PAGE, DATA = BENCHMARKS / "results" / "mlagents.md", BENCHMARKS / "results" / "mlagents_head_to_head.json"
TITLE = "## Head to head"
SIDES = ("ours", "theirs")
MODELS = Path(tempfile.gettempdir()) / "mlagents_head_to_head"
"""Where models of self-play stay until both sides have one."""

PLAYER = "rookery_mlagents.testing"

REWARD, GROUP_REWARD = "Environment/Cumulative Reward", "Environment/Group Cumulative Reward"
BEHAVIOR = "Agent"
"""Name of the behaviour of all files."""

SUMMARIES = 20
"""Number of summaries of a run; those of the last quarter count."""

GAMES = 200
"""Games of self-play on each side of the pitch in an evaluation."""


@dataclass(frozen=True)
class Row:
    """A comparison.

    Attributes:
        title: What is compared.
        env: Environment that the player hosts.
        areas: Number of its copies.
        steps: Decisions of a run.
        section: Settings of the behaviour.
        seeds: Number of seeds.
        arguments: Arguments of the environment.
        player: More options of the player.
        parameters: ``environment_parameters`` of the file.
        tag: Tag of the reward; empty for games against the script.
    """

    title: str
    env: str
    areas: int
    steps: int
    section: dict[str, Any]
    seeds: int = 3
    arguments: tuple[str, ...] = ()
    player: tuple[str, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    tag: str = REWARD

    @property
    def place(self) -> str:
        """Returns the import path of the environment."""
        return f"rookery.tasks.{self.env}" if ":" in self.env else f"rookery.tasks:{self.env}"

    @property
    def settings(self) -> dict[str, Any]:
        """Returns the arguments of the environment's constructor."""
        return {name: json.loads(value) for name, _, value in (word.partition("=") for word in self.arguments)}

    @property
    def words(self) -> list[str]:
        """Returns the options of the player."""
        given = ["--env-args", *self.arguments] if self.arguments else []
        return [
            "--num-areas",
            str(self.areas),
            "--ids",
            "new",
            *given,
            *(self.player or ("--behavior", f"*={BEHAVIOR}")),
        ]


def on_policy(
    batch_size: int, buffer_size: int, beta: float, layers: tuple[int, int], gamma: float, horizon: int,
    schedule: str = "linear", trainer: str = "ppo", lambd: float = 0.95, network: Mapping[str, Any] | None = None,
    signals: Mapping[str, Any] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Returns the section of a behaviour that learns by PPO or POCA."""
    units, number = layers
    return {
        "trainer_type": trainer,
        "hyperparameters": {
            "batch_size": batch_size,
            "buffer_size": buffer_size,
            "learning_rate": 3e-4,
            "beta": beta,
            "epsilon": 0.2,
            "lambd": lambd,
            "num_epoch": 3,
            "learning_rate_schedule": schedule,
        },
        "network_settings": {"normalize": False, "hidden_units": units, "num_layers": number, **(network or {})},
        "reward_signals": {"extrinsic": {"gamma": gamma, "strength": 1.0}, **(signals or {})},
        "time_horizon": horizon,
        **more,
    }


def lessons(name: str, values: tuple[float, ...], ends: tuple[float, ...], behavior: str) -> dict[str, Any]:
    """Returns lessons of a parameter, which end after these shares of the steps."""
    made: list[dict[str, Any]] = []
    for number, value in enumerate(values):
        made.append({"name": f"Lesson{number}", "value": value})
        if number < len(ends):
            made[-1]["completion_criteria"] = {
                "measure": "progress", "behavior": behavior, "signal_smoothing": True, "min_lesson_length": 10,
                "threshold": ends[number],
            }  # fmt: skip
    return {name: {"curriculum": made}}


DEMONSTRATION = "DEMONSTRATION"
"""Stands for the path of the demonstration in a section."""

WIDTH = {"hidden_units": 64}
SIZE = ("size=5", "max_steps=50")
ROWS: dict[str, Row] = {
    "ppo": Row("PPO (Basic)", "Basic", 8, 20_000, on_policy(32, 256, 5e-3, (20, 1), 0.9, 3)),
    "sac": Row("SAC (sac/Basic)", "Basic", 16, 24_000, {
        "trainer_type": "sac",
        "hyperparameters": {"learning_rate": 3e-4, "learning_rate_schedule": "constant", "batch_size": 64,
                            "buffer_size": 50_000, "buffer_init_steps": 0, "tau": 0.005, "steps_per_update": 10.0,
                            "save_replay_buffer": False, "init_entcoef": 0.01, "reward_signal_steps_per_update": 10.0},
        "network_settings": {"normalize": False, "hidden_units": 20, "num_layers": 2},
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
        "time_horizon": 10,
    }),
    "lstm": Row("LSTM (Hallway)", "memory_tasks:CueCorridor", 32, 24_000,
                on_policy(128, 1024, 0.03, (64, 1), 0.99, 64,
                          network={"memory": {"sequence_length": 16, "memory_size": 64}}), arguments=("length=3",)),
    "lstm-whole": Row("LSTM, sequences of whole episodes", "memory_tasks:CueCorridor", 32, 24_000,
                      on_policy(128, 1024, 0.03, (64, 1), 0.99, 64,
                                network={"memory": {"sequence_length": 4, "memory_size": 64}}),
                      arguments=("length=3",)),
    "curiosity": Row("curiosity (Pyramids)", "key_door:KeyDoor", 32, 32_000,
                     on_policy(128, 1024, 0.01, (64, 2), 0.99, 128, signals={"curiosity": {
                         "gamma": 0.99, "strength": 0.02, "learning_rate": 3e-4, "network_settings": WIDTH}}),
                     arguments=SIZE),
    "rnd": Row("RND (PyramidsRND)", "key_door:KeyDoor", 32, 32_000,
               on_policy(128, 1024, 0.01, (64, 2), 0.99, 128, signals={"rnd": {
                   "gamma": 0.99, "strength": 0.01, "learning_rate": 1e-4, "network_settings": WIDTH}}),
               arguments=SIZE),
    "imitation": Row("GAIL and BC (imitation/Pyramids)", "key_door:KeyDoor", 16, 20_000,
                     on_policy(128, 1024, 0.01, (64, 2), 0.99, 128, signals={"gail": {
                         "gamma": 0.99, "strength": 0.01, "learning_rate": 3e-4, "network_settings": WIDTH,
                         "demo_path": DEMONSTRATION}},
                         behavioral_cloning={"demo_path": DEMONSTRATION, "steps": 10_000, "strength": 0.5}),
                     arguments=SIZE),
    "curriculum": Row("curriculum (WallJump)", "wall_curriculum:WallCurriculum", 32, 32_000,
                      on_policy(128, 1024, 5e-3, (64, 2), 0.99, 128),
                      parameters=lessons("wall_height", (0.0, 2.0, 4.0), (0.2, 0.4), BEHAVIOR)
                      | {"block_distance": 0.0}),
    "poca": Row("POCA (DungeonEscape)", "Sacrifice", 16, 20_000,
                on_policy(128, 1024, 0.01, (64, 2), 0.99, 64, "constant", "poca"), tag=GROUP_REWARD),
    "self-play": Row("self-play with POCA (SoccerTwos)", "LineSoccer", 16, 16_000,
                     on_policy(256, 2048, 5e-3, (64, 2), 0.99, 1000, "constant", "poca",
                               self_play={"save_steps": 1000, "team_change": 4000, "swap_steps": 500, "window": 10,
                                          "play_against_latest_model_ratio": 0.5, "initial_elo": 1200.0}),
                     player=("--behavior", f"red*={BEHAVIOR}?team=1", "--behavior", f"blue*={BEHAVIOR}?team=0"),
                     tag=""),
}  # fmt: skip


# --- a run ------------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """Returns a port that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_demonstration(row: Row, folder: Path) -> Path:
    """Records 300 episodes of the shortest way through KeyDoor, in which one action in ten is random."""
    from rookery import export_replay, record_replay
    from rookery.tasks.key_door import key_door_rules

    size = row.settings["size"]
    rules = key_door_rules(size, 100)
    far = np.where(np.zeros(len(rules.next), bool), 0, 10_000)
    for _ in range(len(far)):
        far = np.minimum(far, np.where(rules.ends, 0, far[rules.next]).min(axis=1) + 1)
    best = np.where(rules.ends, 0, far[rules.next]).argmin(axis=1)
    state_of = {tuple(obs): number for number, obs in enumerate(rules.obs.tolist())}
    rng = np.random.default_rng(0)

    def decide(obs: Any) -> int:
        state = state_of[tuple(np.asarray(obs).tolist())]
        return int(rng.integers(4)) if rng.random() < 0.1 else int(best[state])

    record_replay(
        "rookery.tasks.key_door:KeyDoor", decide, episodes=300, out=folder / "expert", env_config={"size": size}
    )
    export_replay(folder / "expert", folder / "expert.demo", name=BEHAVIOR)
    return folder / "expert.demo"


def filled(value: Any, demonstration: str) -> Any:
    """Returns settings with the path of the demonstration."""
    if isinstance(value, dict):
        return {key: filled(one, demonstration) for key, one in value.items()}
    return demonstration if value == DEMONSTRATION else value


def measured(command: list[str], folder: Path, env: Mapping[str, str]) -> dict[str, float]:
    """Runs a trainer; returns the CPU seconds of its processes and of the player, and the trainer's peak memory."""
    seconds: dict[int, float] = {}
    is_player: dict[int, bool] = {}
    peak, number = 0.0, 0
    with (folder / "printed.txt").open("w") as printed:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=printed, stderr=subprocess.STDOUT,
                                   start_new_session=True)  # fmt: skip
        while process.poll() is None:
            pids = process_tree(process.pid)
            for pid in pids:
                try:
                    is_player[pid] = is_player.get(pid, False) or PLAYER in Path(f"/proc/{pid}/cmdline").read_text()
                    used = own_cpu_seconds(pid)
                except OSError:  # it has just ended
                    continue
                seconds[pid] = max(used, seconds.get(pid, 0.0))
            if number % 8 == 0:
                peak = max(peak, memory([pid for pid in pids if not is_player.get(pid, True)])[0])
            number += 1
            time.sleep(0.25)
    if process.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {(folder / 'printed.txt').read_text()[-3000:]}")
    trainer = [used for pid, used in seconds.items() if not is_player[pid]]
    return {
        "cpu": sum(trainer),
        "cpu_first": seconds[process.pid],
        "cpu_player": sum(used for pid, used in seconds.items() if is_player[pid]),
        "memory": peak,
    }


def own_cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds of a process without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """Returns the values of a tag by step, from a folder's event files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: list[tuple[int, float]] = []
    for file in sorted(folder.glob("events*")):
        events = EventAccumulator(str(file), {"tensors": 0, "scalars": 0}).Reload()
        if tag in events.Tags()["scalars"]:
            found += [(one.step, one.value) for one in events.Scalars(tag)]
        elif tag in events.Tags()["tensors"]:
            found += [(one.step, float(one.tensor_proto.float_val[0])) for one in events.Tensors(tag)]
    return found


def run(row: Row, side: str, seed: int, peer: Path) -> dict[str, Any]:
    """Trains once; returns what was measured."""
    from rookery_mlagents.testing import write_player

    print(f"{row.title}, {side}, seed {seed}:", end=" ", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        section = {**row.section, "max_steps": row.steps, "summary_freq": row.steps // SUMMARIES}
        if DEMONSTRATION in json.dumps(section):
            section = filled(section, str(write_demonstration(row, folder)))
        file = {"behaviors": {BEHAVIOR: section}}
        if row.parameters:
            file["environment_parameters"] = row.parameters
        (folder / "settings.yaml").write_text(json.dumps(file), encoding="utf-8")  # JSON is YAML
        player = write_player(folder / "Game.x86_64", row.place, row.words)
        flags = ["settings.yaml", "--env", str(player), "--no-graphics", "--torch-device", "cpu", "--seed", str(seed),
                 "--run-id", "run", "--base-port", str(free_port()), "--timeout-wait", "120"]  # fmt: skip
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        if side == "theirs":
            command = [str(peer), str(PEERS / "mlagents_learn.py"), *flags]
            env.pop("PYTHONPATH", None)
        else:
            command = [sys.executable, "-m", "rookery", "mlagents", "learn", *flags]
        found: dict[str, Any] = {"steps": row.steps, "section": row.section}
        found |= measured(command, folder, env)
        results = folder / "results" / "run"
        found["curve"] = curve(results / BEHAVIOR, row.tag or "Self-play/ELO")
        if row.parameters:
            found["lessons"] = {
                name: curve(results / BEHAVIOR, f"Environment/Lesson Number/{name}") for name in row.parameters
            }
        if not row.tag:
            MODELS.mkdir(exist_ok=True)
            (MODELS / f"{side}-{seed}.onnx").write_bytes((results / f"{BEHAVIOR}.onnx").read_bytes())
            mine = model_player(MODELS / f"{side}-{seed}.onnx")
            found["against_random"] = won(row, mine, drawn())
    found["reward"] = found["against_random"] if not row.tag else last_quarter(found["curve"], row.steps)
    print(", ".join(f"{key} {one:.3f}" for key, one in found.items() if isinstance(one, float)), flush=True)
    return found


# --- the score --------------------------------------------------------------------------------------------------------


def last_quarter(points: list[tuple[int, float]], steps: int) -> float:
    """Returns the mean of the values of the last quarter of the steps."""
    return fmean(value for step, value in points if step > 0.75 * steps)


Decide = Callable[[Any], np.ndarray]
"""From the observations of a team, by leaf, to its actions."""


def model_player(path: Path) -> Decide:
    """Returns the likeliest actions of an exported model."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes())
    names = [one.name for one in session.get_inputs()]

    def decide(obs: Any) -> np.ndarray:
        given = {name: obs["obs"].astype(np.float32) for name in names}
        return np.asarray(session.run(["deterministic_continuous_actions"], given)[0])

    return decide


def drawn() -> Decide:
    """Returns random actions."""
    rng = np.random.default_rng(0)
    return lambda obs: rng.uniform(-1.0, 1.0, (len(obs["obs"]), 2)).astype(np.float32)


def won(row: Row, one: Decide, other: Decide) -> float:
    """Returns the share of points of a player of line soccer: 1 for a goal scored first, 1/2 for a game without one."""
    from rookery.tasks import LineSoccer

    points: list[float] = []
    for blue, red, sign in ((one, other, 1.0), (other, one, -1.0)):
        env = LineSoccer(GAMES, **row.settings)
        size = len(env.kinds[0].agents) // 2
        step = env.reset(lambda lane, episode: 1000 * episode + lane)
        scored = np.full(GAMES, np.nan)
        while np.isnan(scored).any():
            seen = step.rows[0].obs["obs"].reshape(GAMES, 2, size, -1)
            actions = np.empty((GAMES, 2, size, 2), np.float32)
            for team, decide in enumerate((blue, red)):
                mine = {"obs": seen[:, team].reshape(GAMES * size, -1)}
                actions[:, team] = np.clip(decide(mine), -1.0, 1.0).reshape(GAMES, size, 2)
            step = env.step([actions.reshape(-1, 2)])
            rows = step.rows[0]
            over = (rows.terminated | rows.truncated).reshape(GAMES, -1)[:, 0] & np.isnan(scored)
            scored[over] = rows.group_reward.reshape(GAMES, -1)[over, 0]
        points += [0.5 + 0.5 * sign * value for value in np.sign(scored)]
        env.close()
    return fmean(points)


def random_reward(row: Row) -> float:
    """Returns the mean return of random actions, under the last lessons where there are some."""
    from rookery.envs.make import make_env
    from rookery.envs.parameters import Draws, EpisodePlan
    from rookery.envs.random_play import random_play
    from rookery.envs.samplers import ConstantSampler

    if not row.tag:
        return won(row, drawn(), drawn())
    rng = np.random.default_rng(0)
    ends = {n: one["curriculum"][-1]["value"] if isinstance(one, dict) else one for n, one in row.parameters.items()}
    last = {name: ConstantSampler(value) for name, value in ends.items()}
    env = make_env(row.place, row.settings, (), 64, "auto", parameters=tuple(last) or None)
    plan = EpisodePlan(lambda lane, episode: 1000 * episode + lane, Draws(last), lambda *_: rng, {})
    total, ended = 0.0, 0
    for step in islice(random_play(env, plan, rng), 4000):
        (rows,) = step.rows
        if row.tag == REWARD:
            total, ended = total + float(rows.reward.sum()), ended + int((rows.terminated | rows.truncated).sum())
        else:
            total += float(rows.group_reward.sum()) / len(env.kinds[0].agents)
            ended += int(step.ended.sum())
    env.close()
    return total / ended


FOUND = """
Three seeds, so differences of a few hundredths say nothing; memory varies little between seeds. CPU seconds were
measured beside other work on the same two cores, which makes them up to half larger in some runs of both sides.

- LSTM, the only no: ML-Agents reaches 0.99 to 1.00, Rookery to 0.93 to 0.96. Episodes of this corridor have 4
  decisions, and in the first row sequences have 16. ML-Agents counts the padding as decisions, in `buffer_size` and in
  `batch_size`, so that it makes four times as many updates of the same number of decisions. With both divided by four,
  which makes as many here, Rookery came to 1.00, too (one run). In the second row nothing is padded. There the first
  run came to 0.47: the critic uses the LSTM of the policy, and a weight of the value loss of 0.5 let its errors decide
  what is remembered. The weight is now 0.02 for files of ML-Agents (0.02 and 0.005 were about equal, 0.1 was between,
  with one seed here and in a corridor of twice the length), with which both rows were measured again.
- Basic has two outcomes, the near goal (0.07) and the far one (0.93). Of Rookery's seeds one of three stayed at the
  near one with SAC, and one of seven with PPO (four more were run: 0.92, 0.92, 0.91, 0.92); of ML-Agents' three none.
- Curiosity and RND: the yes in their rows means nothing. On each side one seed of three found the goal at times (0.33
  of Rookery and 0.10 of ML-Agents with curiosity, 0.10 and 0.07 with RND), and the others are at the level of random
  play: 32,000 decisions are too few for either.
- POCA: ML-Agents is at 0.30 to 0.32 after these 20 updates, little above random play.
- Self-play: in so few steps neither learns (`self_play.md` has half a million env steps), so that this row compares
  cost alone.
"""
"""What the section says below the table."""


# --- the page ---------------------------------------------------------------------------------------------------------


def shown(values: list[float], form: str) -> str:
    """Returns the median, and each value after it if there are several."""
    if len(values) == 1:
        return format(values[0], form)
    return f"{format(median(values), form)}: {', '.join(format(one, form) for one in values)}"


def section(data: Mapping[str, Any]) -> list[str]:
    """Returns the lines of the section."""
    lines = [TITLE, "", *(__doc__ or "").splitlines()[3:], ""]
    lines += ["| row | steps | seeds | reward, Rookery | reward, ML-Agents | random | CPU s, Rookery "
              "| CPU s, ML-Agents | memory MB, Rookery | memory MB, ML-Agents | not below, less CPU |",
              "|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, row in ROWS.items():
        kept = data.get(name, {})
        both = [[kept.get(side, {})[seed] for seed in sorted(kept.get(side, {}), key=int)] for side in SIDES]
        if not all(both):
            continue
        rewards = [[one["reward"] for one in runs] for runs in both]
        over_all = [[fmean(value for _, value in one["curve"]) for one in runs] for runs in both]
        cpu = [[one["cpu"] for one in runs] for runs in both]
        first = [median(one["cpu_first"] for one in runs) for runs in both]
        cells = [row.title, f"{row.steps:,}", " and ".join(str(len(runs)) for runs in both)]
        for last, whole in zip(rewards, over_all, strict=True):
            cells.append(shown(last, ".2f") + (f" ({shown(whole, '.2f')})" if row.tag else ""))
        cells.append(f"{kept['random']:.2f}")
        cells += [f"{shown(used, '.0f')} ({one:.0f})" for used, one in zip(cpu, first, strict=True)]
        cells += [f"{median(one['memory'] for one in runs):.0f}" for runs in both]
        held = median(rewards[0]) >= min(rewards[1]), max(cpu[0]) < min(cpu[1])
        cells.append(", ".join("yes" if one else "no" for one in held))
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *FOUND.strip().splitlines()]


def main() -> None:
    """Measures what is not there yet, and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--seeds", nargs="+", type=int, help="default: from 0 on, as many as the row has")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--peer", type=Path, default=PEER)
    args = parser.parse_args()
    data = json.loads(args.data.read_text()) if args.data.is_file() else {}
    seeds = args.seeds or range(max(ROWS[name].seeds for name in args.only))
    for number, seed in enumerate(seeds):
        for name in args.only:
            row = ROWS[name]
            if args.seeds is None and seed >= row.seeds:
                continue
            kept = data.setdefault(name, {side: {} for side in SIDES})
            kept["random"] = random_reward(row)
            for side in args.sides[:: -1 if number % 2 else 1]:
                if str(seed) not in kept[side]:
                    kept[side][str(seed)] = run(row, side, seed, args.peer)
                    args.data.write_text(json.dumps(data) + "\n", encoding="utf-8")
    if args.data == DATA:
        text = PAGE.read_text(encoding="utf-8").partition(f"\n{TITLE}\n")[0].rstrip()
        PAGE.write_text("\n".join([text, "", *section(data)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
