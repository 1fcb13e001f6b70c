"""Hours of a training with two simulated Unity players: ``unity_endurance.py [--minutes 120] [--folder DIR]``; writes
benchmarks/results/unity_endurance.md.

``rookery mlagents learn`` trains three behaviours (PPO, SAC, PPO with an LSTM and curiosity) in two players of
`Changing`, whose agents come and go, and in which behaviours appear late and vanish. The second player is killed from
time to time, or stopped so that it hangs; the trainer replaces it. Every minute memory, threads, open files and child
processes of the trainer and of each player are read from ``/proc``, and the size of the run's folder. Linux only.

Players wait between steps, so that the whole costs a small part of a core. Samples are written to ``samples.jsonl`` as
they are taken; after SIGTERM the page is written from those that exist, and ``--report DIR`` writes it again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete, Space

PAGE = Path(__file__).parents[1] / "results" / "unity_endurance.md"

LIMITS = {"memory": 1.0, "threads": 0.0, "files": 0.0, "children": 0.0}
"""Largest slope of a flat curve, per hour; memory in MB."""

BEHAVIORS = """default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 128, buffer_size: 1024, num_epoch: 2, learning_rate_schedule: constant}
  network_settings: {hidden_units: 32, num_layers: 1, normalize: true}
  max_steps: 1.0e+9
  time_horizon: 32
  summary_freq: 5000
  checkpoint_interval: 20000
  keep_checkpoints: 3
behaviors:
  Runner: {}
  Guest:
    trainer_type: sac
    hyperparameters: {batch_size: 64, buffer_size: 4000, buffer_init_steps: 200, steps_per_update: 40}
  Visitor:
    network_settings: {hidden_units: 32, num_layers: 1, memory: {sequence_length: 8, memory_size: 16}}
    reward_signals:
      extrinsic: {}
      curiosity: {strength: 0.01, network_settings: {hidden_units: 16}}
env_settings: {max_lifetime_restarts: -1, restarts_rate_limit_n: -1, timeout_wait: 30}
engine_settings: {no_graphics: true}
"""


class Changing:
    """A scene whose agents come and go: four runners, guests and visitors, on a line each.

    Runners are there in every episode. Guests and visitors are there in half of the episodes, each agent from a drawn
    step to another one, after which it is terminated or truncated. Every agent earns how far to the right it is.
    """

    LENGTH: ClassVar[int] = 200
    possible_agents: ClassVar[list[str]] = [f"{kind}_{k}" for kind in ("Runner", "Guest", "Visitor") for k in range(4)]
    observation_spaces: ClassVar[dict[str, Space[Any]]] = {
        agent: Box(-1.0, 1.0, (2 if agent < "H" else 3,), np.float32) for agent in possible_agents
    }
    action_spaces: ClassVar[dict[str, Space[Any]]] = {
        agent: Discrete(3) if agent.startswith("Visitor") else Box(-1.0, 1.0, (1,), np.float32)
        for agent in possible_agents
    }

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
        """Draws the agents of an episode, and when they come and go."""
        self._rng, self._time = np.random.default_rng(seed), 0
        self._place = dict.fromkeys(self.possible_agents, 0.0)
        there = {"Runner": True, "Guest": self._rng.random() < 0.5, "Visitor": self._rng.random() < 0.5}
        self._stay: dict[str, tuple[int, int]] = {}
        for agent in self.possible_agents:
            kind = agent.partition("_")[0]
            if kind == "Runner":
                self._stay[agent] = (0, self.LENGTH)
            elif there[kind]:
                first = int(self._rng.integers(1, self.LENGTH // 2))
                self._stay[agent] = (first, first + int(self._rng.integers(2, self.LENGTH // 2)))
        return self._seen([agent for agent, (first, _) in self._stay.items() if first == 0]), {}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Moves the agents that are there by up to a tenth."""
        self._time += 1
        for agent, action in actions.items():
            move = float(action) - 1.0 if np.ndim(action) == 0 else float(np.clip(action[0], -1, 1))
            self._place[agent] = float(np.clip(self._place[agent] + move / 10, -1, 1))
        ends = {agent: self._time == last for agent, (_, last) in self._stay.items() if agent in actions}
        cut = {agent: is_end and agent[-1] in "01" for agent, is_end in ends.items()}
        over = self._time == self.LENGTH
        shown = [agent for agent, (first, last) in self._stay.items() if first <= self._time <= last]
        return (
            self._seen(shown),
            {agent: self._place[agent] for agent in actions},
            {**{agent: ends[agent] and not cut[agent] for agent in ends}, "__all__": False},
            {**cut, "__all__": over},
            {},
        )

    def _seen(self, agents: list[str]) -> dict[str, Any]:
        time_left = 1.0 - self._time / self.LENGTH
        wide = np.array([0.0, time_left, 1.0], np.float32)
        seen = {}
        for agent in agents:
            seen[agent] = wide[: self.observation_spaces[agent].shape[0]].copy()  # type: ignore[index]
            seen[agent][0] = self._place[agent]
        return seen


# --- what is measured -------------------------------------------------------------------------------------------------


def facts_of(pid: int) -> dict[str, float]:
    """Returns memory in MB that is the process's own, all of its memory, threads, open files and CPU seconds."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return {
        "memory": int(fields["RssAnon"].split()[0]) / 1024,
        "resident": int(fields["VmRSS"].split()[0]) / 1024,
        "threads": int(fields["Threads"]),
        "files": len(os.listdir(f"/proc/{pid}/fd")),
        "cpu": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
    }


def children_of(pid: int) -> dict[int, str]:
    """Returns the command lines of a process's children and grandchildren, by number."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    for child in sorted(parents):
        above = parents.get(child)
        while above is not None and above != pid:
            above = parents.get(above)
        if above == pid:
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def players_of(pid: int, port: int) -> list[int]:
    """Returns the numbers of the players of a trainer, the first player first."""
    found = {}
    for child, words in children_of(pid).items():
        if "--mlagents-port" in words:
            found[int(words.partition("--mlagents-port ")[2].split()[0]) - port] = child
    return [found[lane] for lane in sorted(found)]


def sample_of(pid: int, port: int, folder: Path) -> dict[str, Any]:
    """Returns a sample of a trainer, its players and its folder."""
    row: dict[str, Any] = {"children": len(children_of(pid)), "trainer": facts_of(pid)}
    for lane, player in enumerate(players_of(pid, port)):
        try:
            row[f"player {lane}"] = {**facts_of(player), "pid": player}
        except OSError:  # it has just ended
            continue
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    row["folder"] = sum(path.stat().st_size for path in files) / 2**20
    row["folder_files"] = len(files)
    metrics = folder / "metrics.jsonl"
    if metrics.is_file():
        with metrics.open("rb") as file:
            file.seek(max(0, metrics.stat().st_size - 20_000))
            lines = file.read().decode(errors="replace").splitlines()
        last = json.loads(lines[-1])
        row["env_steps"] = last["env_steps"]
        row["decisions"] = {
            name.split("/")[1]: value
            for name, value in last.items()
            if name.startswith("policies/") and name.endswith("/decisions")
        }
        row["lost"] = {name: value for name, value in last.items() if "players_" in name}
    return row


# --- the run ----------------------------------------------------------------------------------------------------------


class Ended(Exception):
    """Raised at SIGTERM."""


def _end(*_: object) -> None:
    raise Ended


def endure(minutes: float, folder: Path, every: float, kill_every: float, step_seconds: float, port: int) -> None:
    """Trains for some minutes and samples; see the module."""
    from rookery_mlagents.testing import write_player

    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    late = ["--late", "Guest:300", "--late", "Visitor:900"]
    options = ["--ids", "new", "--step-seconds", str(step_seconds), "--stats", *late]
    game = write_player(folder / "Changing.x86_64", f"{Path(__file__).stem}:Changing", options)
    (folder / "changing.yaml").write_text(BEHAVIORS)
    words = [sys.executable, "-m", "rookery", "mlagents", "learn", str(folder / "changing.yaml"), "--env", str(game)]
    words += ["--num-envs", "2", "--run-id", "run", "--results-dir", str(folder / "results"), "--force", "--seed", "1"]
    words += ["--base-port", str(port)]
    samples = folder / "samples.jsonl"
    samples.write_text("")
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / "learn.log").open("w") as log:
        trainer = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environ)
    began = time.monotonic()
    killed, next_kill, next_sample = 0, began + kill_every * 60, began + every
    try:
        while time.monotonic() < began + minutes * 60:
            time.sleep(1.0)
            now = time.monotonic()
            if trainer.poll() is not None:
                print(f"the trainer has ended with status {trainer.returncode}; see {folder / 'learn.log'}")
                break
            if now >= next_kill:
                next_kill = now + kill_every * 60
                if len(players := players_of(trainer.pid, port)) > 1:
                    killed += 1
                    os.kill(players[1], signal.SIGSTOP if killed % 3 == 0 else signal.SIGKILL)
            if now >= next_sample:
                next_sample += every
                found = sample_of(trainer.pid, port, folder / "results" / "run")
                row = {"minute": (now - began) / 60, "killed": killed, **found}
                with samples.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if trainer.poll() is None:
            trainer.send_signal(signal.SIGINT)
            try:
                trainer.wait(60)
            except subprocess.TimeoutExpired:
                trainer.kill()
                trainer.wait()
        report(folder)


# --- the page ---------------------------------------------------------------------------------------------------------


def slope(rows: list[dict[str, Any]], value: Any) -> float:
    """Returns the median slope per hour between any two samples (Theil and Sen), NaN with less than two."""
    points = [(row["minute"] / 60, value(row)) for row in rows]
    slopes = [(b - a) / (t - s) for at, (s, a) in enumerate(points) for t, b in points[at + 1 :]]
    return median(slopes) if slopes else float("nan")


def report(folder: Path) -> None:
    """Writes the page from the samples of a folder."""
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    if len(rows) < 4:
        print(f"{len(rows)} samples are too few for a page")
        return
    end = rows[-1]["minute"]
    whole = [row for row in rows if row["minute"] > min(60.0, end / 2)] if end < 120 else rows
    late = [row for row in whole if row["minute"] > end - 60]
    lines = [
        "# Two hours with two simulated Unity players" if 115 < end < 125 else f"# {end:.0f} minutes with two players",
        "",
        *(__doc__ or "").split("\n\n", 1)[1].strip().splitlines(),
        "",
        f"Measured by `benchmarks/studies/unity_endurance.py`: {end:.0f} minutes, {rows[-1].get('env_steps', 0):,} env "
        f"steps, decisions {', '.join(f'{name} {n:,.0f}' for name, n in rows[-1].get('decisions', {}).items())}. "
        f"The second player was killed or stopped {rows[-1]['killed']} times; the trainer counts "
        f"{', '.join(f'{name} {n:,.0f}' for name, n in rows[-1].get('lost', {}).items()) or 'no lost players'}.",
        "",
        "Memory is what a process has for itself (RssAnon). The slope is the median of the slopes between any two "
        f"samples of the last {late[-1]['minute'] - late[0]['minute']:.0f} minutes. A curve is flat if its slope is "
        f"below {LIMITS['memory']:g} MB an hour for memory, and 0 for threads, open files and child processes.",
        "",
        "| process | quantity | first | last | largest | slope per hour | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    verdicts = []

    def line(who: str, what: str, value: Any, limit: float, unit: str = "") -> None:
        chosen = [row for row in rows if value(row) is not None]
        values, recent = [value(row) for row in chosen], [row for row in late if value(row) is not None]
        found = slope(recent, value)
        verdicts.append(found <= limit)
        shown = [f"{one:.1f}{unit}" if unit else f"{one:.0f}" for one in (values[0], values[-1], max(values))]
        verdict = "flat" if verdicts[-1] else "**grows**"
        lines.append(f"| {who} | {what} | {' | '.join(shown)} | {found:.2f}{unit} | {verdict} |")

    for who in ("trainer", "player 0"):
        for what, unit in (("memory", " MB"), ("threads", ""), ("files", "")):
            line(who, what, lambda row, who=who, what=what: row.get(who, {}).get(what), LIMITS[what], unit)
    line("all", "child processes", lambda row: row["children"], LIMITS["children"])
    growth = slope(late, lambda row: row["folder"])
    files = slope(late, lambda row: row["folder_files"])
    cpu = rows[-1]["trainer"]["cpu"] / (end * 60)
    lines += [
        "",
        f"Verdict: **{'flat' if all(verdicts) else 'not flat'}**. The first player is never killed; the second "
        "lives for minutes, and its memory is that of a new process each time.",
        "",
        f"The run's folder grows by {growth:.2f} MB and {files:.0f} files an hour: metrics, TensorBoard events, and "
        f"the files that ML-Agents' layout keeps. The trainer took {100 * cpu:.0f} % of a core.",
        "",
        "| minute | trainer, MB | threads | files | player 0, MB | player 1, MB | children | folder, MB | killed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    step = max(1, len(rows) // 24)
    for row in [*rows[:-1:step], rows[-1]]:
        trainer = row["trainer"]
        players = [row.get(f"player {lane}", {}).get("memory") for lane in (0, 1)]
        cells = [f"{row['minute']:.0f}", f"{trainer['memory']:.1f}", f"{trainer['threads']}", f"{trainer['files']}"]
        cells += ["-" if one is None else f"{one:.1f}" for one in players]
        cells += [f"{row['children']}", f"{row['folder']:.1f}", f"{row['killed']}"]
        lines.append(f"| {' | '.join(cells)} |")
    PAGE.write_text("\n".join(lines) + "\n")
    print(f"wrote {PAGE}")


def main() -> None:
    """Runs the study, or writes its page."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--minutes", type=float, default=120.0)
    reader.add_argument("--folder", type=Path, default=Path("unity_endurance"))
    reader.add_argument("--every", type=float, default=60.0, help="seconds between two samples")
    reader.add_argument("--kill-every", type=float, default=8.0, help="minutes between two killed players")
    reader.add_argument("--step-seconds", type=float, default=0.05, help="seconds of a step of a player")
    reader.add_argument("--port", type=int, default=28600, help="of the first player")
    reader.add_argument("--report", type=Path, metavar="DIR", help="write the page from this folder's samples")
    given = reader.parse_args()
    if given.report:
        report(given.report)
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        endure(given.minutes, given.folder.resolve(), given.every, given.kill_every, given.step_seconds, given.port)
    except (Ended, KeyboardInterrupt):
        print("ended before its time")


if __name__ == "__main__":
    main()
