"""Two Ray nodes on this machine, of which one is lost: its trials resume from their last checkpoints on the other."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rookery import tune
from rookery.tune.executor import Failed, Order, Stepped
from rookery.tune.job import Start
from rookery.tune.jobs.trainable import TrainableJob

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from nodes_of_ray import Nodes, eventually, is_alive  # noqa: E402

from rookery.tune.executors.ray_cluster import RayExecutor  # noqa: E402

AT_LENGTH = "ROOKERY_FAULTS" in os.environ
LENGTH = 6


class Walk:
    """A random walk that remembers its generator, and waits while a file exists."""

    def setup(self, config):
        self.hold, self.place = Path(config["hold"]), 0.0
        self.rng, self.seconds = np.random.default_rng(config["number"]), config["seconds"]

    def step(self):
        time.sleep(self.seconds)
        self.place += self.rng.normal()
        while self.hold.exists():
            time.sleep(0.01)
        return {"place": self.place, "node": ray.get_runtime_context().get_node_id(), "process": os.getpid()}

    def save_checkpoint(self, folder):
        (folder / "walk.json").write_text(json.dumps([self.place, self.rng.bit_generator.state]))

    def load_checkpoint(self, folder):
        self.place, self.rng.bit_generator.state = json.loads((folder / "walk.json").read_text())


def walked(number):
    """Returns the place of a walk after each iteration without a disturbance."""
    return np.cumsum(np.random.default_rng(number).normal(size=LENGTH)).tolist()


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def nodes():
    made = Nodes()
    yield made
    made.close()
    eventually(lambda: not any(map(is_alive, made.begun)))


@pytest.mark.parametrize("how", ["removed", "killed"] if AT_LENGTH else ["removed"])
def test_a_trial_on_a_lost_node_is_told_and_goes_on_elsewhere_as_if_nothing_had_been(nodes, how, tmp_path, measured):
    node, hold = nodes.add(), tmp_path / "hold"
    eventually(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
    common = {"number": tune.randint(0, 9), "seconds": 0.0, "hold": str(hold)}
    workers = RayExecutor(TrainableJob(Walk, common, {}, 0), 1.0, 0.0, None)
    try:
        assert workers.free == 2
        starts = {name: Start(name, {"number": int(name)}, 0, tmp_path / name) for name in ("00000", "00001")}
        known = dict.fromkeys(starts, 0)

        def begin(name):
            starts[name].folder.mkdir(exist_ok=True)
            workers.begin(starts[name])

        def event():
            return eventually(lambda: workers.wait(0.2))

        for name in starts:
            begin(name)
        where = {}
        for known_now in range(3):
            for name in starts:
                workers.order(name, Order(known_now, ("iteration", known_now + 1)))
            for _ in starts:
                stepped = event()
                assert isinstance(stepped, Stepped)
                where[stepped.trial] = stepped.row
                known[stepped.trial] = stepped.row["iteration"]
        assert len({row["node"] for row in where.values()}) == 2
        (there,) = [name for name, row in where.items() if row["node"] == node.node_id]

        hold.touch()
        workers.order(there, Order(3))
        assert workers.wait(0.3) is None
        nodes.lose(node, how)
        lost = event()
        assert isinstance(lost, Failed) and lost.lost and lost.trial == there
        assert "its node has died" in lost.problem
        workers.end(there, save=False)
        hold.unlink()
        eventually(lambda: not is_alive(where[there]["process"]))

        (other,) = set(starts) - {there}
        eventually(lambda: workers.wait(0.1) or workers.free == 0)  # the other node is at work
        workers.end(other, save=True)
        for name in (there, other):
            begin(name)
            for known_now in range(3, LENGTH):
                workers.order(name, Order(known_now))
                stepped = event()
                assert stepped.row["node"] == where[other]["node"]
            workers.end(name, save=False)
            assert [row["place"] for row in rows(starts[name].folder)] == walked(int(name))
            assert [row["iteration"] for row in rows(starts[name].folder)] == list(range(1, LENGTH + 1))
    finally:
        workers.close()
    measured(f"Ray node {how} in the middle of an iteration", 1, "trial resumes elsewhere with equal rows")


@pytest.mark.parametrize("how", ["removed", "killed"] if AT_LENGTH else ["killed"])
def test_an_experiment_outlives_a_node_repeats_no_finished_trial_and_loses_none(nodes, how, tmp_path, measured):
    node, folder = nodes.add(), tmp_path / "experiment"
    eventually(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
    problems = []

    def lose_when_it_is_at_work():
        def halfway():
            found = [rows(path.parent)[-1] for path in folder.glob("trials/*/metrics.jsonl") if path.stat().st_size]
            return any(row["node"] == node.node_id and row["iteration"] == 3 for row in found)

        try:
            eventually(halfway)
            nodes.lose(node, how)
        except BaseException as error:
            problems.append(error)

    loser = threading.Thread(target=lose_when_it_is_at_work)
    loser.start()
    try:
        analysis = tune.run(
            trainable=Walk,
            config={"number": tune.grid_search(list(range(6))), "seconds": 0.1, "hold": str(tmp_path / "no")},
            metric="place", stop={"iterations": LENGTH}, save_every=2, place="ray", console="quiet",
            folder=folder,
        )  # fmt: skip
    finally:
        loser.join()
    assert not problems
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    of_kind = {kind: [record for record in records if record["kind"] == kind] for kind in ("begin", "failure", "end")}
    assert [record["lost"] for record in of_kind["failure"]] == [True]
    begun = Counter(record["trial"] for record in of_kind["begin"])
    assert sorted(begun.values()) == [1, 1, 1, 1, 1, 2]  # again only the one that was lost
    assert begun[of_kind["failure"][0]["trial"]] == 2
    assert {record["status"] for record in of_kind["end"]} == {"TERMINATED"}
    assert len(of_kind["end"]) == 6
    for trial in analysis.trials:
        assert [row["place"] for row in rows(trial.folder)] == walked(trial.params["number"])
    measured(f"experiment of 6 trials on two Ray nodes, one {how}", 1, "none repeated, none lost")
