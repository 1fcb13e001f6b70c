"""A Ray cluster of several nodes on this machine, of which some are lost."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

PATIENCE = 20.0
QUICK = {"health_check_period_ms": 300, "health_check_timeout_ms": 500, "health_check_failure_threshold": 3,
         "health_check_initial_delay_ms": 0}  # fmt: skip
"""A killed node is noticed within a second or two, not after 15."""


def eventually(what):
    """Waits until something holds, and gives it."""
    until = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Nodes:
    """The cluster of a test: a head that stays, and nodes that are lost; one core each, unless the head has another
    number.
    """

    def __init__(self, cpus_of_head=1):
        head = {"num_cpus": cpus_of_head, "include_dashboard": False, "_system_config": QUICK}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.begun = set()
        self.note_processes(self.cluster.head_node)
        ray.init(address=self.cluster.address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    def add(self, **settings):
        node = self.cluster.add_node(**{"num_cpus": 1, **settings})
        self.note_processes(node)
        return node

    def note_processes(self, node):
        self.begun |= {info.process.pid for infos in node.all_processes.values() for info in infos}

    def lose(self, node, how):
        """Ends a node in order, or kills its raylet, by its own process id."""
        if how == "removed":
            self.cluster.remove_node(node)
        else:
            (raylet,) = node.all_processes["raylet"]
            os.kill(raylet.process.pid, signal.SIGKILL)

    def close(self):
        ray.shutdown()
        self.cluster.shutdown()
