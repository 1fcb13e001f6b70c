"""Gain of batching in a policy server, and the effect of a swapped checkpoint on its clients.

``python benchmarks/studies/serving.py`` writes benchmarks/results/serving.md. A server (`rookery serve`, a process of
its own) serves a policy of 3 x 1024; 64 clients, in one other process, each ask, wait for the answer, and ask again.
The same server with ``--max-batch 1`` answers one request at a time. Every answer is compared with the action that the
policy of the checkpoint that it names computes for that observation.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "serving.md"
TOKEN = "a token of this benchmark".replace(" ", "-")
BANK = 256
"""Different observations that are shown."""
NUMBERS, ACTIONS = 64, 8
PAGE = """# What batching gains a policy server

`python benchmarks/studies/serving.py` wrote this. `rookery serve` is one process, its {clients} clients are another;
each client asks, waits for the answer and asks again. The policy has 64 inputs, 3 layers of 1024 and 8 numbers as
actions, and computes on one thread. "One at a time" is the same server with `--max-batch 1`. Each way was measured
{repeats} times in turn for {seconds} seconds, after one second that does not count; figures are medians. "Times" is
against one at a time over the same way.

{table}

Wrong answers: {wrong} of {answers:,}. Each was compared with what the policy of the checkpoint that it names does for
that observation, asked alone (to {tolerance:g}: sums of a batch are made in another order). {swaps} checkpoints were
swapped meanwhile, one a second.

The machine has {cores} cores, which server and clients shared with each other and with other work: the load average
was {loads} during these measurements. So answers a second and latencies are those of a busy machine and vary;
CPU time is what the server itself used, all threads, reading checkpoints included, and varies little. What is
asked over HTTP are 64 numbers as JSON.
"""
TOLERANCE = 1e-4
"""What an action may differ by from that of the policy asked alone: sums of another order."""


# -- the clients, in a process of their own ----------------------------------------------------------------------------


def observations() -> np.ndarray:
    """Returns the observations, ``[BANK, NUMBERS]``."""
    return np.random.default_rng(0).uniform(-1, 1, (BANK, NUMBERS)).astype(np.float32)


@dataclass
class Caller:
    """One client: a connection, what it has asked, and when."""

    link: socket.socket
    begun: bytearray = field(default_factory=bytearray)
    asked: int = 0
    since: float = 0.0


def http_questions() -> list[bytes]:
    """Requests as bytes."""
    found = []
    for row in observations():
        body = json.dumps({"obs": [round(float(x), 6) for x in row]}, separators=(",", ":")).encode()
        head = f"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        found.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return found


def http_answer(begun: bytearray) -> dict[str, Any] | None:
    """An answer, if all of it has come."""
    head, gap, body = bytes(begun).partition(b"\r\n\r\n")
    if not gap:
        return None
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    if len(body) < length:
        return None
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"refused: {head!r} {body!r}")
    return json.loads(body)


def load(kind: str, port: int, clients: int, seconds: float, out: Path) -> None:
    """Asks for so many seconds; writes when, how long it took, which version answered what."""
    from rookery.envs.external.client import pack, proof, unpack

    bank = observations()
    questions, selector, callers = http_questions(), selectors.DefaultSelector(), []
    for number in range(clients):
        link = socket.create_connection(("127.0.0.1", port))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if kind == "socket":
            stream = link.makefile("rb")

            def message(stream: Any = stream) -> dict[str, Any]:
                return unpack(stream.read(int.from_bytes(stream.read(8), "little")))

            shown = proof(TOKEN, "client", message()["challenge"])
            link.sendall(
                pack({"protocol": 1, "client": f"client-{number:04d}", "proof": shown, "challenge": "a-challenge"})
            )
            message()
            link.sendall(pack({"op": "start_episode", "episode": "e", "seq": 1}))
            message()
        link.setblocking(False)
        callers.append(Caller(link))
        selector.register(link, selectors.EVENT_READ, callers[-1])
    sequence = [1] * clients
    order = {id(caller): number for number, caller in enumerate(callers)}
    rng, records = np.random.default_rng(1), []

    def ask(caller: Caller) -> None:
        caller.asked = int(rng.integers(BANK))
        if kind == "http":
            sent = questions[caller.asked]
        else:
            sequence[order[id(caller)]] += 1
            fields = {"op": "get_action", "episode": "e", "obs": bank[caller.asked], "reward": {}, "ended": {}}
            sent = pack({**fields, "seq": sequence[order[id(caller)]]})
        caller.since = time.perf_counter()
        assert caller.link.send(sent) == len(sent)

    began = time.perf_counter()
    for caller in callers:
        ask(caller)
    while time.perf_counter() - began < seconds:
        for key, _ in selector.select(1.0):
            caller = key.data
            caller.begun += caller.link.recv(1 << 16)
            if kind == "http":
                answer = http_answer(caller.begun)
            elif len(caller.begun) < 8 or len(caller.begun) < 8 + int.from_bytes(caller.begun[:8], "little"):
                answer = None
            else:
                answer = unpack(bytes(caller.begun[8:]))["ok"]
            if answer is None:
                continue
            caller.begun.clear()
            now = time.perf_counter()
            records.append((now - began, now - caller.since, caller.asked, answer["version"], answer["action"]))
            ask(caller)
    np.savez(
        out,
        at=[record[0] for record in records],
        took=[record[1] for record in records],
        asked=[record[2] for record in records],
        version=[record[3] for record in records],
        action=np.array([record[4] for record in records], np.float32),
        began=began,
    )


# -- the server, and what is made of it --------------------------------------------------------------------------------


def checkpoints(folder: Path, count: int) -> dict[str, np.ndarray]:
    """Writes `count` checkpoints beside each other; gives what the policy of each does for every observation."""
    import torch
    from gymnasium import spaces

    from rookery.core.io.files import write_directory
    from rookery.core.spaces.arrays import action_spec, obs_spec
    from rookery.models.build import ModelConfig
    from rookery.policies.export import policy_files
    from rookery.policies.policy import Policy

    torch.set_num_threads(1)
    obs, action = spaces.Box(-1, 1, (NUMBERS,), np.float32), spaces.Box(-1, 1, (ACTIONS,), np.float32)
    told = {}
    for number in range(1, count + 1):
        model = ModelConfig(hidden=[1024, 1024, 1024], normalize_obs=True)
        generator = torch.Generator().manual_seed(number)
        policy = Policy(obs_spec(obs, action), action_spec(action), model, generator=generator)
        with torch.no_grad():
            for weight in policy.head.parameters():  # so that policies differ, and nothing stands at a bound
                weight.copy_(0.02 * torch.randn(weight.shape, generator=generator))
        rows = torch.from_numpy(np.random.default_rng(number).uniform(-1, 1, (1000, NUMBERS)).astype(np.float32))
        policy.normalizer.update({"obs": rows})
        name = f"{number:06d}"
        write_directory(folder / name, policy_files({"main": policy}, {"main": model}), {"format": 1})
        told[name] = np.concatenate([policy.predict(row[None]) for row in observations()])
    first, second = told["000001"], told["000002"]
    assert np.abs(first - second).max(1).min() > 10 * TOLERANCE
    return told


@dataclass
class Measured:
    """One run of the clients."""

    rate: float
    p50: float
    p99: float
    worst: float
    answers: int
    wrong: int
    swaps: int = 0
    mean_batch: float = 0.0
    busy: float = 0.0
    """Returns the milliseconds of CPU time that the server takes for an answer."""


def measure(
    run: Path, kind: str, max_batch: int, seconds: float, told: dict[str, np.ndarray], later: list[Path], threads: int
) -> Measured:
    """Starts a server, lets clients ask, and moves checkpoints of `later` into the run one after the other."""
    command = [sys.executable, "-m", "rookery", "serve", str(run), "--socket", "0", "--max-batch", str(max_batch)]
    command += ["--threads", str(threads), "--reload", "0.2"]
    environment = {**os.environ, "ROOKERY_TOKEN": TOKEN, "OMP_NUM_THREADS": str(threads)}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        lines = {}
        while "token" not in lines:
            name, _, rest = server.stdout.readline().partition(" ")
            lines[name] = rest.strip()
        port = int(lines[kind].rpartition(":")[2])
        out = run.parent / "answers.npz"
        before = busy_seconds(server.pid)
        clients = [sys.executable, __file__, "--load", kind, str(port), str(seconds + 1.0), str(out)]
        asking = subprocess.Popen(clients)
        time.sleep(3.0)
        for path in later:
            time.sleep(1.0)
            os.rename(path, run / "checkpoints" / path.name)
        assert asking.wait(seconds + 60) == 0
        busy = busy_seconds(server.pid)
        health = health_of(int(lines["http"].rpartition(":")[2]))
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        for path in later:
            if not path.exists():
                os.rename(run / "checkpoints" / path.name, path)
    found = evaluated(out, told, health)
    found.busy = 1000 * (busy - before) / found.answers
    return found


def evaluated(out: Path, told: dict[str, np.ndarray], health: dict[str, Any]) -> Measured:
    """Compares answers, and takes the first second out of the times."""
    with np.load(out) as found:
        at, took, asked, version, action = (found[name] for name in ("at", "took", "asked", "version", "action"))
    expected = np.stack([told[name][row] for name, row in zip(version, asked, strict=True)])
    wrong = int((np.abs(expected - action).max(1) > TOLERANCE).sum())
    warm = at > 1.0
    took = took[warm] * 1000
    answered = health["answered"]
    return Measured(
        rate=len(took) / (at[-1] - 1.0),
        p50=float(np.percentile(took, 50)),
        p99=float(np.percentile(took, 99)),
        worst=float(took.max()),
        answers=len(at),
        wrong=wrong,
        swaps=health["checkpoints"]["swapped"],
        mean_batch=answered["rows"] / answered["batches"],
    )


def health_of(port: int) -> dict[str, Any]:
    """Returns the server's answer at ``/health``."""
    from urllib.request import Request, urlopen

    request = Request(f"http://127.0.0.1:{port}/health", headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def report(args: argparse.Namespace, folder: Path) -> None:
    """Measures each way in turn, and writes the page."""
    later, run = folder / "later", folder / "run"
    later.mkdir()
    (run / "checkpoints").mkdir(parents=True)
    (run / "config.yaml").touch()
    told = checkpoints(later, 6)
    os.rename(later / "000001", run / "checkpoints" / "000001")
    coming = sorted(later.iterdir())
    ways = {
        "one at a time": (1, []),
        "batched": (256, []),
        "batched, a checkpoint swapped every second": (256, coming),
    }
    found: dict[tuple[str, str], list[Measured]] = {}
    loads = []
    for _ in range(args.repeats):
        for kind in args.kinds:
            for way, (max_batch, swapped) in ways.items():
                one = measure(run, kind, max_batch, args.seconds, told, swapped, args.threads)
                found.setdefault((kind, way), []).append(one)
                loads.append(os.getloadavg()[0])
                print(kind, way, one, flush=True)
    text = PAGE.format(
        table=table(found),
        repeats=args.repeats,
        seconds=f"{args.seconds:g}",
        clients=args.clients,
        answers=sum(one.answers for runs in found.values() for one in runs),
        wrong=sum(one.wrong for runs in found.values() for one in runs),
        swaps=sum(one.swaps for runs in found.values() for one in runs),
        loads=f"{min(loads):.1f} to {max(loads):.1f}",
        cores=os.cpu_count(),
        tolerance=TOLERANCE,
    )
    print(text)
    if not args.dry:
        RESULT.write_text(text, encoding="utf-8")


def table(found: dict[tuple[str, str], list[Measured]]) -> str:
    """The figures as a table: medians, and of the 99th percentile the best and the worst repetition too."""
    head = "| over, how | answers/s | times | CPU ms an answer | times | batch | p50 ms | p99 ms | p99 of each run |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    for (kind, way), runs in found.items():
        alone = found[kind, "one at a time"]
        faster = middle(runs, "rate") / middle(alone, "rate")
        cheaper = middle(alone, "busy") / middle(runs, "busy")
        figures = [f"{middle(runs, 'rate'):,.0f}", f"{faster:.1f}", f"{middle(runs, 'busy'):.2f}", f"{cheaper:.1f}"]
        figures += [f"{middle(runs, name):.1f}" for name in ("mean_batch", "p50", "p99")]
        each = ", ".join(f"{one.p99:.0f}" for one in sorted(runs, key=lambda one: one.p99))
        lines.append(f"| {kind}, {way} | {' | '.join(figures)} | {each} |")
    return "\n".join(lines)


def busy_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def middle(found: list[Measured], name: str) -> float:
    """The median of a figure."""
    return median(getattr(one, name) for one in found)


def main() -> None:
    """Measures, or is the clients."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--load", nargs=4)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=["http", "socket"])
    parser.add_argument("--dry", action="store_true", help="Print, and write nothing.")
    args = parser.parse_args()
    if args.load:
        kind, port, seconds, out = args.load
        load(kind, int(port), args.clients, float(seconds), Path(out))
        return
    folder = Path(tempfile.mkdtemp())
    try:
        report(args, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
