"""Versions of Ray without the private names that are used here."""

from types import SimpleNamespace

import pytest

pytest.importorskip("ray")

import ray

from rookery.cluster import connection


@pytest.fixture(params=["module", "names"])
def renamed(request, monkeypatch):
    """Ray without its private modules, or with other names in them."""
    empty = None if request.param == "module" else SimpleNamespace()
    monkeypatch.setattr(connection, "ray_worker", empty)
    monkeypatch.setattr(connection, "raylet", empty)


def test_a_private_module_that_is_gone_counts_as_none():
    assert connection._private("ray._private.worker") is not None
    assert connection._private("ray._private.of_no_version") is None


def test_without_private_names_a_node_counts_as_there_and_a_token_is_left_to_ray(renamed):
    assert not connection.node_is_gone()
    connection._show_token("127.0.0.1:6379")


def test_a_cluster_is_joined_and_left_without_private_names(renamed, monkeypatch):
    started = []
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(started))
    monkeypatch.setattr(connection, "_begin", lambda *given: started.append(given))
    monkeypatch.setattr(connection.head, "watch", lambda *given: None)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="127.0.0.1:1"))
    assert connection.connect("local", said="cluster.ray", instead="nothing")
    monkeypatch.setattr(ray, "shutdown", started.clear)
    monkeypatch.setattr(connection, "answers", lambda *given: True)
    connection.disconnect()
    assert not started
