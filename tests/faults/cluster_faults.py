"""Faults of a cluster of two nodes: ``python tests/faults/cluster_faults.py [CASE...]`` writes what became of runs.

Each case begins a cluster with two ``ray start`` of its own and a run or an experiment on it, lets something hang, or
freezes or kills it by its process number, and reads from the run's own files what follows. A case is ``kill worker``,
``freeze learner`` and so on; without arguments all of them are run. The table is a section of
``benchmarks/results/faults.md``, in which cases that were not run keep their lines.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "benchmarks" / "results" / "faults.md"
HEADING = "## A cluster of two nodes"
COLUMNS = "| fault | output of the run | seconds | rows | weights | decisions lost: counted, by the env, most | left |"

PATIENCE = 420.0
"""Seconds that a cluster gets to begin, or a run to end: other programs may share the machine."""

WALKS = 60
"""Iterations of a run, or of a trial."""

LONG_WALKS = 300
"""Iterations of a run whose head is struck: it has to last until the head counts as lost."""

NOISE = re.compile(r"^(\(raylet\)|\x1b\[\d+m\(raylet\)|\[\d{4}-\d\d-\d\d [^]]* [EWC] )", re.MULTILINE)
"""Lines of Ray's own log."""

TRAINING = ["sampling.num_envs=4", "algorithm.fragment_length=32", "algorithm.epochs=2", "checkpoint.every=5",
            "logging.tensorboard=false", "seed=5", "sampling.step_timeout_seconds=10"]  # fmt: skip


def eventually(what, patience=PATIENCE):
    """Waits until something holds, and returns it."""
    until = time.monotonic() + patience
    while not (found := what()):
        if time.monotonic() > until:
            raise TimeoutError(f"not within {patience:g} seconds")
        time.sleep(0.05)
    return found


def processes():
    """All processes: number, number of the parent, command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has just ended
            continue
        if fields[0] != "Z":
            found.append((int(path.name), int(fields[1]), words))
    return found


def below(*roots):
    """Numbers and commands of all processes that some have begun, themselves included."""
    known, found = set(roots), {}
    there = processes()
    for _ in range(8):  # deep enough
        for number, parent, words in there:
            if number in known or parent in known:
                known.add(number)
                found[number] = words
    return found


def is_alive(number):
    """Returns whether a process exists."""
    return any(each == number for each, _, _ in processes())


def send(number, signals):
    """Sends a signal to a process, if it is still there."""
    try:
        os.kill(number, signals)
    except ProcessLookupError:
        pass


class TwoNodes:
    """A cluster of two ``ray start`` on this machine: a head and another node.

    Args:
        folder: Where Ray writes.
    """

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as door:
            port = door.getsockname()[1]
        self.token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_worker_niceness": "0"}
        self.folder, self.begun, self.nodes, self.frozen = folder, set(), [], []
        self.address = f"{_own_address()}:{port}"
        self._start("head", "--head", f"--port={port}", f"--temp-dir={folder}/ray", "--include-dashboard=false")
        self._start("other", f"--address={self.address}")

    def _start(self, name, *options):
        log = self.folder / f"{name}.log"
        command = [shutil.which("ray") or str(Path(sys.executable).with_name("ray")), "start", *options,
                   "--num-cpus=2", "--disable-usage-stats", "--block"]  # fmt: skip
        with log.open("w") as out:
            node = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self.nodes.append(node)
        eventually(lambda: "Ray runtime started" in log.read_text() or node.poll() is not None)
        if node.poll() is not None:
            raise RuntimeError(log.read_text())
        self.processes_of(len(self.nodes) - 1)

    @property
    def environment(self):
        """Environment variables of all who join."""
        paths = [str(ROOT / "src"), str(Path(__file__).parent)]
        return {**os.environ, **self.token, "PYTHONPATH": os.pathsep.join(paths)}

    def processes_of(self, number):
        """Numbers and commands of the processes of the head, 0, or the other node, 1."""
        session = self.folder / "ray"
        found = below(self.nodes[number].pid)
        mine = {each: words for each, _, words in processes() if str(session) in words}
        self.begun |= found.keys() | mine.keys()
        return found

    def left(self):
        """Returns numbers and commands of all processes of runs that are or were on a node, with any parent."""
        for number in (0, 1):
            self.processes_of(number)
        names = ("ray::HostActor", "ray::RankActor", "ray::TrialActor")
        return [(each, words) for each, _, words in processes() if each in self.begun and words.startswith(names)]

    def close(self):
        """Ends all of it."""
        for number in (1, 0):
            self.processes_of(number)
        for node in reversed(self.nodes):
            node.terminate()
        time.sleep(3.0)
        for number in self.begun:
            send(number, signal.SIGKILL)
        for node in self.nodes:
            node.wait()


def _own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return probe.getsockname()[0]


@dataclass
class Outcome:
    """A line of the table."""

    said: str = ""
    seconds: float = 0.0
    rows: str = ""
    weights: str = "-"
    lost: str = "-"
    left: str = ""
    problems: list[str] = field(default_factory=list)

    def line(self, case):
        """Returns it as a line."""
        cells = [case, self.said, f"{self.seconds:.0f}", self.rows, self.weights, self.lost, self.left]
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


class Run:
    """A command line in a process of its own, of a session of its own.

    Args:
        cluster: Where it runs.
        log: Its output.
        words: The command.
        variables: More environment variables.
    """

    def __init__(self, cluster, log, *words, variables=()):
        self.log = log
        environment = {**cluster.environment, **dict(variables)}
        with log.open("a") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rookery", *map(str, words)], env=environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True, cwd=cluster.folder,
            )  # fmt: skip

    @property
    def text(self):
        """Its output so far."""
        return self.log.read_text(errors="replace")

    def end(self):
        """Waits until it is over, and returns its exit code."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def rows(folder):
    """Rows that a run or trial has written whole."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def consecutive(folder, outcome):
    """Notes whether the rows of a run have the numbers from 1 on, without a gap or one twice."""
    numbers = [row["iteration"] for row in rows(folder)]
    outcome.rows = f"1 to {len(numbers)}"
    if numbers != list(range(1, len(numbers) + 1)):
        outcome.rows = "NOT CONSECUTIVE"
        outcome.problems.append(f"rows {numbers}")


def weights(folder):
    """The weights that a run came to."""
    from rookery import load_policy

    policy = load_policy(folder)
    return b"".join(value.detach().numpy().tobytes() for value in policy.state_dict().values())


def play_process(cluster, name):
    """Numbers of Ray's processes of a kind on the other node, else on the head's."""
    for number in (1, 0):
        found = [each for each, words in cluster.processes_of(number).items() if words.startswith(f"ray::{name}")]
        if found:
            return found
    return []


def strike(cluster, how, what, run):
    """Makes a process hang, freezes or kills it; returns the numbers of the processes that were struck."""
    kinds = {"worker": "HostActor", "learner": "RankActor", "trial": "TrialActor"}
    if how == "hang":
        (cluster.folder / "steps" / "hang").touch()
        return []
    if what == "driver":
        struck = [run.process.pid]
    elif what == "node":
        words = cluster.processes_of(1)
        struck = list(words) if how == "freeze" else [each for each, said in words.items() if "raylet/raylet" in said]
    elif what == "head":
        struck = [each for each, said in cluster.processes_of(0).items() if "gcs/gcs_server" in said]
    else:
        struck = play_process(cluster, kinds[what])[:1]
    if not struck:
        raise RuntimeError(f"no process of a {what}")
    cluster.frozen = struck if how == "freeze" else []
    for number in struck:
        send(number, signal.SIGSTOP if how == "freeze" else signal.SIGKILL)
    return struck


def one_case(how, what, folder):
    """Runs a case; returns what came of it."""
    outcome = Outcome()
    cluster = TwoNodes(folder)
    try:
        {"trial": of_trials, "learner": of_learners}.get(what, of_workers)(cluster, how, what, outcome)
        if (how, what) == ("freeze", "node") and cluster.left():  # nothing ends these before the machine runs again
            outcome.left = f"processes: {len(cluster.left())}, frozen with their machine; once that runs again: "
            for number in cluster.frozen:
                send(number, signal.SIGCONT)
        await_end(cluster, outcome)
    finally:
        cluster.close()
    return outcome


def await_end(cluster, outcome):
    """Waits until nothing of runs is left on the nodes, and notes how long that took."""
    began = time.monotonic()
    while (left := cluster.left()) and time.monotonic() - began < 90:
        time.sleep(0.5)
    outcome.left += f"processes: {len(left)}" if left else f"nothing after {time.monotonic() - began:.0f} s"
    if left:
        outcome.problems.append(f"left: {left}")


def train(cluster, name, *words, walks=WALKS):
    """Begins a run on the cluster."""
    steps = cluster.folder / "steps"
    steps.mkdir(exist_ok=True)
    return Run(
        cluster, cluster.folder / f"{name}.out", "train", "hangable:Hangable", "--plain", "--evaluate", 0, "--preset",
        "none", "--run-dir", cluster.folder, "--run-id", name, "--stop", f"iterations={walks}",
        "--ray", cluster.address, f"env.config={{folder: {steps}, seconds: 0.002}}", *TRAINING, *words,
    )  # fmt: skip


def struck_run(cluster, how, what, outcome, run, name):
    """Strikes a run in its middle; notes its lines and when it continues, and resumes it if it has ended."""
    folder = cluster.folder / name
    eventually(lambda: len(rows(folder)) >= 12 or run.process.poll() is not None)
    before, began = len(rows(folder)), time.monotonic()
    strike(cluster, how, what, run)
    eventually(lambda: len(rows(folder)) >= before + 3 or run.process.poll() is not None)
    outcome.seconds = time.monotonic() - began
    if run.process.poll() is None:
        code = run.end()
    else:
        code = run.process.returncode
    said = [line for line in run.text.splitlines() if re.match(r"note: |error: |worker|cluster|learner", line)]
    shown = said[-1:] if code else [line for line in said if "worker" in line or "learner" in line]
    outcome.said = f"`{shorter(shown[0])}`" if shown else "nothing"
    if NOISE.search(run.text):
        outcome.problems.append("lines of Ray at the terminal")
    if code:
        outcome.said += f" (exit code {code})"
        if what == "head":
            await_end(cluster, outcome)
            outcome.left += "; after the resumed run "
            cluster.close()
            shutil.rmtree(cluster.folder / "ray", ignore_errors=True)
            cluster.__init__(cluster.folder)
        resumed = Run(cluster, run.log, "resume", folder, "--ray", cluster.address, "--evaluate", 0)
        if resumed.end():
            outcome.problems.append(f"not resumed: {resumed.text[-500:]}")
    consecutive(folder, outcome)


def shorter(line):
    """Returns a line without what differs from run to run."""
    names = {
        r" on \S+ \(process \d+\)": " on M (process N)",
        r" /\S+/": " ",
        r"[\d.]+:\d+": "HOST:PORT",
        r"[0-9a-f]{32}": "ID",
    }
    short = line
    for pattern, name in names.items():
        short = re.sub(pattern, name, short)
    return short if len(short) < 300 else f"{short[:150]} [...] {short[-120:]}"


def equal_weights(cluster, outcome, *words):
    """Compares the weights with those of a run that nothing disturbs."""
    if train(cluster, "undisturbed", *words).end():
        outcome.problems.append("the undisturbed run has failed")
        return
    same = weights(cluster.folder / "struck") == weights(cluster.folder / "undisturbed")
    outcome.weights = "equal" if same else "NOT EQUAL"
    if not same:
        outcome.problems.append("other weights")


def of_workers(cluster, how, what, outcome):
    """A run with two workers, one on each node."""
    words = ["sampling.workers=2", "cluster.placement=spread"]
    run = train(cluster, "struck", *words, walks=LONG_WALKS if what == "head" else WALKS)
    struck_run(cluster, how, what, outcome, run, "struck")
    if what == "driver":
        equal_weights(cluster, outcome, *words)
    elif what != "head":
        from hangable import steps_made

        row = rows(cluster.folder / "struck")[-1]
        exact, most = (row.get(f"counters/decisions_lost{end}", 0) for end in ("", "_at_most"))
        own = steps_made(cluster.folder / "steps") - row["env_steps"] + exact
        outcome.lost = f"{exact}, {own}, {most}"
        if not exact <= own <= most:
            outcome.problems.append(f"lost decisions {outcome.lost}")


def of_learners(cluster, how, what, outcome):
    """A run with two learners, one an actor."""
    words = ["cluster.learners=2", "cluster.placement=spread"]
    struck_run(cluster, how, what, outcome, train(cluster, "struck", *words), "struck")
    equal_weights(cluster, outcome, *words)


def of_trials(cluster, how, what, outcome):
    """An experiment of two trials."""
    run = Run(
        cluster, cluster.folder / "struck.out", "tune", "hangable:Hangable", "--plain", "--preset", "none", "--name",
        "struck", "--stop", f"iterations={WALKS}", "--place", "ray", "tune.metric=return_mean",
        "algorithm.lr={grid_search: [1e-3, 3e-4]}", f"env.config={{folder: {cluster.folder}, seconds: 0.002}}",
        *TRAINING, variables={"RAY_ADDRESS": cluster.address},
    )  # fmt: skip

    def trials():
        return sorted((cluster.folder / "runs" / "struck" / "trials").glob("*"))

    eventually(lambda: any(len(rows(trial)) >= 12 for trial in trials()) or run.process.poll() is not None)
    before, began = {trial.name: len(rows(trial)) for trial in trials()}, time.monotonic()
    strike(cluster, how, what, run)
    eventually(lambda: "was lost" in run.text or run.process.poll() is not None)
    shown = shorter(next((line for line in run.text.splitlines() if "was lost" in line), "nothing"))
    outcome.said, name = "nothing" if shown == "nothing" else f"`{shown}`", shown.split()[0]
    lost = next((trial for trial in trials() if trial.name.startswith(name)), trials()[0])
    eventually(lambda: len(rows(lost)) > before.get(lost.name, 0) + 3 or run.process.poll() is not None)
    outcome.seconds = time.monotonic() - began
    if run.end():
        outcome.problems.append(f"the experiment has failed: {run.text[-500:]}")
    for trial in trials():
        consecutive(trial, outcome)


CASES = {
    f"{how} {what}": (how, what)
    for what, ways in {
        "worker": ("hang", "freeze", "kill"),
        "node": ("freeze", "kill"),
        "head": ("freeze", "kill"),
        "driver": ("kill",),
        "learner": ("freeze", "kill"),
        "trial": ("freeze", "kill"),
    }.items()
    for how in ways
}


def write(lines):
    """Puts lines into the section of the page, by case; others of it stay."""
    written = PAGE.read_text(encoding="utf-8")
    above, _, rest = written.partition(f"{HEADING}\n")
    old, mark, below_ = rest.partition("\n## ")
    kept = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| ")}
    kept = {case: line for case, line in {**kept, **lines}.items() if case in CASES}
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown CPU")  # fmt: skip
    section = [
        HEADING, "",
        "`python tests/faults/cluster_faults.py`: two `ray start` on one machine; a run with two workers, one with two "
        "learners or an experiment of two trials, one on each node, that is struck after 12 iterations of "
        f"{WALKS}, or of {LONG_WALKS} where the head is struck. Seconds are those until the third row after it, or "
        "until a run that cannot continue has ended with a line that names how to resume; it is resumed then, and its "
        "weights are compared, where these are claimed to be equal, with those of a run that "
        "nothing has disturbed. The environment counts its own steps. Rows are those of the whole run.",
        "", COLUMNS, "|---|---|---|---|---|---|---|",
        *(kept[case] for case in CASES if case in kept), "",
        "Once the head is killed, workers on other nodes stay until Ray itself gives the head up. A process whose "
        "machine is frozen ends when that runs again. **Not as it should be:** where the head is frozen, the run ended "
        "only after 52 seconds without an answer, its last line does not name the run, and worker processes were still "
        "on the nodes 90 seconds later; the seconds of that line are those of three more rows, before the run has "
        "noticed. Seconds are of a machine that other programs may share.", "",
        f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}.",
    ]  # fmt: skip
    text = above.rstrip("\n") + "\n\n" + "\n".join(section) + "\n"
    PAGE.write_text(text + (f"{mark}{below_}" if mark else ""), encoding="utf-8")


def main(wanted):
    """Runs the cases that are named, or all."""
    failed = False
    for case in wanted or CASES:
        folder = Path(tempfile.mkdtemp(prefix="rookery-faults-"))
        try:
            outcome = one_case(*CASES[case], folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(outcome.line(case), *outcome.problems, sep="\n  ", flush=True)
        failed = failed or bool(outcome.problems)
        write({case: outcome.line(case)})
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
