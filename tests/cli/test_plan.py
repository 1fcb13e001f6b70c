"""``rookery bench --plan``: costs of a tiny training in this process, rows of a plan, and what is refused."""

from __future__ import annotations

import json

from rookery.run.plan import measured_costs
from rookery.run.plan.cost_model import LinearCost
from rookery.run.plan.exchange_cost import CountedRanks

QUICK = [
    "algorithm.fragment_length=4", "sampling.warmup_steps=0", "cluster.ray=here", "--preset", "none", "--seconds", 0.1,
]  # fmt: skip
SMALL = [*QUICK, "algorithm.epochs=1"]


def test_a_plan_says_what_workers_and_learners_reach(rookery, tmp_path, monkeypatch):
    monkeypatch.setattr(measured_costs, "measure_exchange", lambda numbers: LinearCost(1.0, 0.0))
    words = ["bench", "--plan", "CartPole-v1", "--workers", "1,2", "--learners", "1,2", "--json", *SMALL]
    code, out, err = rookery(*words)
    assert code == 0, err
    found = json.loads(out)
    rows = [(row["workers"], row["learners"], row["copies"]) for row in found["plan"]]
    assert rows == [(0, 1, 8), (1, 1, 8), (2, 1, 8), (0, 2, 8), (2, 2, 8)]
    assert all(row["steps_per_second"] > 0 for row in found["plan"])
    assert found["plan"][3]["bottleneck"] == "exchange"  # a message was said to take a second
    costs, workload = found["measured"]["costs"], found["measured"]["workload"]
    assert (workload["fragment_length"], workload["batch"], costs["rows"]) == (4, None, 1.0)
    assert costs["exchanges"] > 1
    assert costs["weight_bytes"] > 1000
    assert costs["row_bytes"] > 4 * 4  # of the observation alone
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_a_table_with_what_was_measured_and_assumed(rookery):
    words = [
        "bench",
        "--plan",
        "--algo",
        "impala",
        "sampling.asynchronous=true",
        "--workers",
        4,
        "--envs-per-worker",
        1,
    ]
    code, out, err = rookery(
        *words, "--machines", 2, "--cores", 8, "--gigabits", 1, *QUICK, "algorithm.rollout_size=16"
    )
    assert code == 0, err
    assert "within this process, because cluster.ray = here" in out
    assert "predicted, asynchronous sampling, 2 machines of 8 cores" in out
    assert "not measured: the link between machines has 1 Gbit/s and 0.2 ms" in out
    head, *rows = out[out.index("workers  ") :].splitlines()
    assert head.split() == [
        "workers", "learners", "envs", "steps/s", "playing", "cores", "transfer", "learning", "bottleneck",
    ]  # fmt: skip
    assert rows[0].split()[:3] == ["none", "1", "1"]
    assert rows[1].split()[:3] == ["4", "1", "4"]


def test_learners_that_are_counted_send_nothing():
    ranks = CountedRanks(3)
    assert ranks.gather("same") == ["same"] * 3
    assert (ranks.messages, ranks.bytes) == (2, 1000)
