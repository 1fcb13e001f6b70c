"""Pretended Unity players beside ML-Agents' own code: ``unity.py [--only accepted learning speed]``; writes
benchmarks/results/unity.md.

A player of `rookery_mlagents.testing` is hosted in a process of its own. `accepted`: the real UnityEnvironment of
mlagents_envs 1.1.0 plays with it, its session is recorded, and our line reads the repeated session; both add up what
they have read. `learning`: the real mlagents-learn 1.1.0 and ``rookery mlagents learn`` launch it by its path and train
Basic from one file. `speed`: both play with the same player, random actions with masks, in turn; one is a game that
runs, the other repeats a recorded session, so that the player costs nothing but the line. The peer needs
``benchmarks/peers/install.sh mlagents``, or ``--peer PYTHON``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

BENCHMARKS = Path(__file__).parents[1]
PEERS = BENCHMARKS / "peers"
PEER = PEERS / ".venv-mlagents" / "bin" / "python"
PAGE, DATA = BENCHMARKS / "results" / "unity.md", BENCHMARKS / "results" / "unity.json"
MODULE = "rookery_mlagents.testing"

GRID = ("rookery.tasks:GoalGrid", "--env-args", "observation=one_hot")
CASES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "Basic": ("one agent", ("rookery.tasks:Basic",), 2000),
    "12 grids": ("masks, two sensors, a goal", (*GRID, "--num-areas", "12", "--goal", "goal"), 300),
    "grids in PNG": ("pictures as PNG, channels first", ("rookery.tasks:GoalGrid", "--layout", "chw", "--pictures",
                                                         "png", "--num-areas", "4"), 200),
    "grids in numbers": ("pictures as numbers, channels first", ("rookery.tasks:GoalGrid", "--layout", "chw",
                                                                 "--num-areas", "2"), 200),
    "food": ("actions of both sorts", ("rookery.tasks:FoodCollector",), 200),
    "groups": ("members end before their group, group rewards", ("rookery.tasks:Sacrifice", "--behavior", "*=Team",
                                                                 "--num-areas", "4"), 1000),
    "teams": ("two behaviours, one from step 100 on", ("rookery.tasks:LineSoccer", "--behavior", "red*=Soccer?team=1",
                                                       "--behavior", "*=Soccer?team=0", "--late",
                                                       "Soccer?team=1:100"), 500),
    "periods": ("a decision in 5 steps, staggered, new ids", ("rookery.tasks:BallPlate", "--num-areas", "12",
                                                              "--decision-period", "5", "--stagger", "--ids",
                                                              "new"), 500),
    "API 1.3.0": ("no names, no groups", (*GRID, "--num-areas", "4", "--api", "1.3.0", "--package", "2.0.0"), 300),
    "API 1.0.0": ("deprecated fields alone", (*GRID, "--num-areas", "4", "--api", "1.0.0", "--package", "2.0.0"), 300),
    "statistics": ("statistics, and a parameter sent", ("rookery.tasks:BallPlate", "--stats"), 300),
}  # fmt: skip

BASIC = """behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 256, learning_rate: 0.0003, beta: 0.005, epsilon: 0.2, lambd: 0.95,
      num_epoch: 3, learning_rate_schedule: linear}
    network_settings: {normalize: false, hidden_units: 20, num_layers: 1}
    reward_signals: {extrinsic: {gamma: 0.9, strength: 1.0}}
    keep_checkpoints: 5
    max_steps: 30000
    time_horizon: 3
    summary_freq: 2000
"""

WANTED = {12: 6, 64: 20}


# --- players ----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """Returns a port that is free at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def launched(arguments: Sequence[str], port: int, log: Path) -> subprocess.Popen[bytes]:
    """A player in a process of its own."""
    words = [sys.executable, "-m", MODULE, *arguments, "-batchmode", "--mlagents-port", str(port), "-logFile", str(log),
             "--wait", "60"]  # fmt: skip
    return subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1"})


def with_them(peer: Path, player: Sequence[str], steps: int, folder: Path, *more: str) -> dict[str, Any]:
    """Returns what the real UnityEnvironment reads from a player."""
    port = free_port()
    words = [str(peer), str(PEERS / "mlagents_env.py"), str(port), str(steps), *more]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    log = folder / "Player.log"
    with launched(player, port, log) as process:
        run = subprocess.run(words, capture_output=True, text=True, env={**env, "OMP_NUM_THREADS": "1"})
        status = process.wait(30)
    if run.returncode:
        sys.exit(f"{' '.join(player)}: {run.stderr[-2000:]}")
    return {**json.loads(run.stdout.splitlines()[-1]), "status": status, "log": log.read_text()}


def with_our_line(player: Sequence[str], folder: Path) -> dict[str, Any]:
    """Returns what Rookery's link reads from a player that ends by itself, added up as the peer does."""
    from rookery.envs.async_copies.step_message import Answer
    from rookery_mlagents.link.grpc_server import Closed, Greeting, Hello, Mailbox, PlayerLink

    mailbox = Mailbox()
    link = PlayerLink(0, mailbox, 0, Hello())
    sums: dict[str, dict[str, Any]] = {}
    with launched(player, link.port, folder / "Player.log") as process:
        while True:
            for _, said in mailbox.take(10.0):
                if isinstance(said, Greeting):
                    continue
                if isinstance(said, Closed):
                    link.close()
                    process.wait(30)
                    return sums
                for name, told in (*said.asking.items(), *said.ended.items()):
                    add(sums, name, told, link.layouts[name])
                answers = {
                    name: Answer(asking.ids, link.layouts[name].action.to_env(nothing(link.layouts[name], asking)))
                    for name, asking in said.asking.items()
                }
                link.answer(answers, reset=said.first)


def nothing(layout: Any, asking: Any) -> np.ndarray:
    """Zeros as actions."""
    return np.zeros((len(asking.ids), *layout.action.shape), layout.action.dtype)


def add(sums: dict[str, dict[str, Any]], name: str, told: Any, layout: Any) -> None:
    """Adds up what agents of a behaviour have seen and earned."""
    leaves = [leaf for leaf in layout.obs.leaves if leaf.kind != "mask"]
    mine = sums.setdefault(name, {"asking": 0, "ended": 0, "interrupted": 0, "reward": 0.0, "group_reward": 0.0,
                                  "groups": 0, "forbidden": 0, "obs": [0.0] * len(leaves)})  # fmt: skip
    over = hasattr(told, "truncated")
    mine["ended" if over else "asking"] += len(told.ids)
    mine["interrupted"] += int(told.truncated.sum()) if over else 0
    mine["reward"] += float(told.reward.sum())
    mine["group_reward"] += 0.0 if told.group_reward is None else float(told.group_reward.sum())
    mine["groups"] = max(mine["groups"], len({*told.groups} - {None}))
    for number, leaf in enumerate(leaves):
        mine["obs"][number] += float(told.obs[leaf.path].astype(np.float64).sum() / leaf.scale)
    if layout.obs.has_mask and not over:
        mine["forbidden"] += int((~told.obs["action_mask"]).sum())


def same(one: Any, other: Any) -> bool:
    """Whether two sums are equal, as float32 numbers add up."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(np.allclose(one, other, rtol=1e-4, atol=1e-2))


def accepted(peer: Path) -> list[dict[str, Any]]:
    """Every case with the real UnityEnvironment, and its session on our line."""
    found = []
    for name, (what, player, steps) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            session = Path(folder) / "session"
            more = ["--set", "mass=2"] if "--stats" in player else []
            theirs = with_them(peer, [*player, "--record", str(session)], steps, Path(folder), "--warm", "0", *more)
            ours = with_our_line(["replay", str(session)], Path(folder))
        unread = {key: one for key, one in ours.items() if key not in theirs["sums"]}
        row = {"case": name, "what": what, "steps": steps, "specs": theirs["specs"], "theirs": theirs["sums"],
               "ours": ours, "status": theirs["status"], "statistics": theirs["statistics"],
               "mass": "parameter mass 2" in theirs["log"], "last": theirs["log"].splitlines()[-1],
               "same": not unread and close_to(ours, theirs["sums"])}  # fmt: skip
        found.append(row)
        print(name, row["same"], row["status"], row["last"], flush=True)
        if not row["same"]:
            print(json.dumps(theirs["sums"]), json.dumps(ours), sep="\n", flush=True)
    return found


def close_to(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Returns whether both have read the same; the flag of each row of a table is only in Rookery's."""
    return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in theirs)


# --- learning ---------------------------------------------------------------------------------------------------------


def learning(peer: Path) -> dict[str, Any]:
    """The curve of Basic, files and tags, there and here."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "Basic.yaml").write_text(BASIC)
        from rookery_mlagents.testing import write_player

        player = write_player(folder / "Basic.x86_64", "rookery.tasks:Basic", ["--stats"])
        flags = ["Basic.yaml", "--env", str(player), "--no-graphics", "--torch-device", "cpu", "--seed", "1"]
        bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for who, words, env in (
            ("theirs", [str(peer), str(PEERS / "mlagents_learn.py")], bare),
            ("ours", [sys.executable, "-m", "rookery", "mlagents", "learn"], {**os.environ}),
        ):
            full = [*words, *flags, "--run-id", who, "--base-port", str(free_port())]
            run = subprocess.run(full, capture_output=True, text=True, cwd=folder, env={**env, "OMP_NUM_THREADS": "1"})
            if run.returncode:
                sys.exit(f"{who}: {run.stdout[-1000:]}{run.stderr[-3000:]}")
            found[who] = run_as_it_is(folder / "results" / who, run.stdout + run.stderr)
            print(who, round(found[who]["seconds"]), found[who]["curve"][-1], flush=True)
    return found


def run_as_it_is(folder: Path, printed: str) -> dict[str, Any]:
    """Returns the results of a run: its printed curve, names of files with their numbers left out, tags."""
    curve = re.findall(r"Basic\. Step: (\d+)\. .*?Mean Reward: (-?[\d.]+?)\. ", printed)
    files = {re.sub(r"\d{3,}[.\w-]*", "N", str(one.relative_to(folder))) for one in folder.rglob("*") if one.is_file()}
    return {
        "seconds": float(re.findall(r"Time Elapsed: ([\d.]+) s", printed)[-1]),
        "curve": [[int(step), float(reward)] for step, reward in curve],
        "files": sorted(files),
        "tags": tags(folder / "Basic"),
        "log": (folder / "run_logs" / "Player-0.log").read_text().splitlines()[-1],
    }


def tags(folder: Path) -> list[str]:
    """The tags of TensorBoard's files in a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: set[str] = set()
    for file in folder.glob("events*"):
        told = EventAccumulator(str(file)).Reload().Tags()
        found |= {*told["scalars"], *told["histograms"], *told["tensors"]}
    return sorted(found)


# --- speed ------------------------------------------------------------------------------------------------------------


def play_here(player: Sequence[str], steps: int, warm: int) -> dict[str, float]:
    """Plays with one player through the whole of `UnityEnv`, in this process."""
    from rookery_mlagents.link.unity_env import UnityEnv
    from rookery_mlagents.testing import write_player

    with tempfile.TemporaryDirectory() as folder:
        program = write_player(Path(folder) / "Game.x86_64", player[0], player[1:])
        env = UnityEnv(1, program, base_port=free_port(), log_folder=folder, seed=1)
        rng, done, decisions = np.random.default_rng(0), 0, 0
        step = env.reset(lambda lane, episode: episode)
        while done < steps + warm:
            if done == warm:
                began, processor, decisions = time.perf_counter(), time.process_time(), 0
            actions = []
            for rows in step.rows:
                allowed = rows.obs["action_mask"][rows.waiting]
                actions.append((rng.random(allowed.shape) * allowed).argmax(axis=1))
            decisions += sum(map(len, actions))
            step = env.step(actions)
            done += int(step.stepped.sum())
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        env.close()
    return {"steps": steps / seconds, "decisions": decisions / seconds, "processor": processor / steps}


def speed(peer: Path, rounds: int) -> list[dict[str, Any]]:
    """Env steps a second, there and here, in turn."""
    found = []
    for agents in (12, 64):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            session = folder / "session"
            game = [*GRID, "--num-areas", str(agents)]
            theirs_steps, our_steps = (400, 2000) if agents == 12 else (150, 1500)
            with_them_free = json.loads(here([*game, "--record", str(session)], our_steps + 200))
            assert with_them_free["steps"]
            for kind, player in (("a game", game), ("a session, repeated", ["replay", str(session)])):
                row: dict[str, Any] = {"agents": agents, "player": kind, "ours": [], "theirs": []}
                order = ["ours", "theirs"]
                for _ in range(rounds):
                    for who in order:
                        row[who].append(
                            json.loads(here(player, our_steps))
                            if who == "ours"
                            else with_them(peer, player, theirs_steps, folder, "--bare")
                        )
                        row[who][-1].pop("log", None)
                    order.reverse()
                found.append(row)
                ratio = median(one["steps"] for one in row["ours"]) / median(one["steps"] for one in row["theirs"])
                print(agents, kind, f"{ratio:.1f}", flush=True)
    return found


def here(player: Sequence[str], steps: int) -> str:
    """`play_here` in a process of its own."""
    words = [sys.executable, __file__, "--here", json.dumps([list(player), steps])]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=env).stdout.splitlines()[-1]


# --- the page ---------------------------------------------------------------------------------------------------------


def page(data: dict[str, Any]) -> str:
    """The results as a page."""
    lines = ["# Unity players, pretended, beside ML-Agents' own code", "", *(__doc__ or "").splitlines()[3:]]
    if "accepted" in data:
        lines += ["", "## What UnityEnvironment 1.1.0 and our line read of the same session", ""]
        lines += ["| player | what is in it | steps | decisions | ends, of them interrupted | reward, group reward | "
                  "read alike | exit |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
        for row in data["accepted"]:
            of = list(row["theirs"].values())
            total = {key: sum(one[key] for one in of) for key in ("asking", "ended", "interrupted", "reward",
                                                                  "group_reward")}  # fmt: skip
            lines.append(
                f"| {row['case']} | {row['what']} | {row['steps']:,} | {total['asking']:,} | {total['ended']:,}, "
                f"{total['interrupted']:,} | {total['reward']:.2f}, {total['group_reward']:.2f} | "
                f"{'yes' if row['same'] else 'NO'} | {row['status']} |"
            )
        lines += ["", "Read alike: counts are equal, and sums of all observations by sensor, of rewards, group rewards "
                  "and masks agree to the precision of float32 sums."]  # fmt: skip
    if "learning" in data:
        theirs, ours = data["learning"]["theirs"], data["learning"]["ours"]
        lines += ["", "## Basic, from one file, the player launched by its path", ""]
        lines += ["| step | ML-Agents, mean reward | Rookery |", "|---|---|---|"]
        mine = dict(ours["curve"])
        lines += [f"| {step:,} | {reward:.3f} | {mine.get(step, float('nan')):.3f} |" for step, reward in
                  theirs["curve"]]  # fmt: skip
        seconds = f"{theirs['seconds']:.0f} s with ML-Agents, {ours['seconds']:.0f} s with Rookery"
        lines += ["", f"{seconds}, by the console of each.", ""]
        for what in ("files", "tags"):
            one, other = ({*who[what]} for who in (theirs, ours))
            shared = ", ".join(f"`{name}`" for name in sorted(one & other))
            lines.append(f"- {what} of both: {shared}")
            lines.append(f"- ML-Agents alone: {', '.join(f'`{name}`' for name in sorted(one - other)) or 'none'}")
            lines.append(f"- Rookery alone: {', '.join(f'`{name}`' for name in sorted(other - one)) or 'none'}")
    if "speed" in data:
        lines += ["", "## Speed: random actions with masks, one player", ""]
        lines += ["| agents | player | Rookery, env steps/s | ML-Agents | Rookery / ML-Agents | wanted | CPU time of a "
                  "step, Rookery | ML-Agents |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
        for row in data["speed"]:
            ours_, theirs_ = ({key: median(one[key] for one in row[who]) for key in ("steps", "processor")}
                              for who in ("ours", "theirs"))  # fmt: skip
            lines.append(
                f"| {row['agents']} | {row['player']} | {ours_['steps']:,.0f} | {theirs_['steps']:,.0f} | "
                f"{ours_['steps'] / theirs_['steps']:.1f} | {WANTED[row['agents']]} | "
                f"{ours_['processor'] * 1e3:.2f} ms | {theirs_['processor'] * 1e3:.2f} ms |"
            )
        lines += ["", "Rookery is `UnityEnv`: the link, rows with slots, masks and ends; ML-Agents is "
                  "`UnityEnvironment` with `get_steps` and `set_actions`. CPU time is that of the trainer's "
                  "process."]  # fmt: skip
    lines += ["", f"`python benchmarks/studies/unity.py`; medians; {platform.machine()}, {os.cpu_count()} CPUs, "
              "which others used meanwhile."]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("accepted", "learning", "speed")
    parser.add_argument("--only", nargs="*", choices=parts, default=list(parts))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", type=Path, default=PEER)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        player, steps = json.loads(args.here)
        print(json.dumps(play_here(player, steps, 50)))
        return
    data = json.loads(DATA.read_text()) if DATA.is_file() else {}
    for part in args.only:
        data[part] = {"accepted": accepted, "learning": learning}[part](args.peer) if part != "speed" else speed(
            args.peer, args.rounds
        )  # fmt: skip
        DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(data), encoding="utf-8")


if __name__ == "__main__":
    main()
