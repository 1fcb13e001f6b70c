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


@pytest.mark.slow
def test_a_cluster_is_started_and_left_without_private_names(renamed):
    assert connection.connect("local", setting="cluster.ray", instead="nothing")
    try:
        assert connection.nodes() and not connection.node_is_gone()
    finally:
        connection.disconnect()
    assert not ray.is_initialized()
