"""A machine that joins the cluster of an asynchronous run gets a worker, and is lost again."""

from __future__ import annotations

import pytest

from rookery import A2CConfig, Trainer

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from nodes_of_ray import Nodes, eventually  # noqa: E402


class Ledger:
    """Notes which decision of which slot every rollout has brought."""

    def __init__(self, trainer):
        self.seen = []
        step = trainer.learners["main"].training_step

        def note(rollout):
            headers = (rollout.slot.tolist(), rollout.clock.tolist(), rollout.length.tolist())
            for slot, clock, length in zip(*headers, strict=True):
                self.seen += [(slot, at) for at in range(clock, clock + length)]
            return step(rollout)

        trainer.learners["main"].training_step = note


def test_a_node_that_joins_gets_a_worker_of_an_asynchronous_run(monkeypatch, capsys, measured):
    monkeypatch.setattr("rookery.cluster.ray_hosts.LOOK_SECONDS", 0.3)
    alone = Nodes()
    try:
        sampling = {"num_envs": 4, "workers": 3, "asynchronous": True, "iteration_steps": 500}
        algorithm = A2CConfig(fragment_length=16, rollout_size=64)
        with Trainer("CartPole-v1", algorithm, seed=5, sampling=sampling) as trainer:
            ledger, hosts = Ledger(trainer), trainer._pool.hosts

            def homes():
                trainer.train_iteration()
                return {hosts.home(share).node for share in range(3)}

            assert len(homes()) == 1
            added = alone.add()
            eventually(lambda: len(homes()) == 2)
            for _ in range(3):
                result = trainer.train_iteration()
            assert capsys.readouterr().err.count("note: cluster: 1 worker joined on ") == 1
            assert result.counters["workers_moved"] == 1
            assert "workers_lost" not in result.counters and "decisions_lost" not in result.counters
            assert len(ledger.seen) == len(set(ledger.seen))
            alone.lose(added, "killed")  # the remaining workers continue where there is room
            eventually(lambda: len(homes()) == 1)
            assert trainer.train_iteration().counters["workers_lost"] == 1
            assert len(ledger.seen) == len(set(ledger.seen))
    finally:
        alone.close()
    measured("a node joins an asynchronous run", 1, "a share moves there, no decision lost")
