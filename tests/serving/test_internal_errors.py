"""Errors of our own in a policy server: clients are given an id, the log has the traceback, and it continues."""

from __future__ import annotations

import re
import socket
import threading

import numpy as np
import pytest

pytest.importorskip("uvicorn")

from served import TOKEN, Web, checkpoint, policy, serving

from rookery.core.process.internal_errors import InternalErrors
from rookery.envs.external.client import Client, ExternalError
from rookery.serving import server as server_module
from rookery.serving.server import PolicyServer, ServingOptions

ID = "internal error [0-9a-f]{8}"


@pytest.mark.regression(
    "unclear error",
    "A client of a server is given the id of an internal error, and the log has the id with the traceback",
)
def test_an_error_in_the_application_is_an_id_over_http(tmp_path, monkeypatch):
    said = []
    with serving(checkpoint(tmp_path, 1, policy()), said) as server:
        monkeypatch.setattr("rookery.serving.web.describe_policy", lambda one: {}["/home/user/secret.py"])
        status, answer = Web(server).call("GET", "/policies")
        assert status == 500 and re.fullmatch(ID, answer["error"]) and "secret" not in str(answer)
        assert any(answer["error"] in line and "secret.py" in line and "Traceback" in line for line in said)
        monkeypatch.setattr("rookery.serving.web.plain_actions", lambda value: {"action": object()})
        status, answer = Web(server).act([0.0] * 4)
        assert status == 500 and re.fullmatch(ID, answer["error"])
        assert Web(server).call("GET", "/health")[1]["internal_errors"] == 2


@pytest.mark.regression(
    "unclear error",
    "A client of a server is given the id of an internal error, and the log has the id with the traceback",
)
def test_an_error_is_an_id_on_the_socket_and_other_clients_are_answered(tmp_path, monkeypatch):
    said = []
    with serving(checkpoint(tmp_path, 1, policy()), said, socket_port=0) as server:
        host, port = server.socket_address
        with Client(f"{host}:{port}", TOKEN, timeout=5.0) as asking:
            episode = asking.start_episode()
            monkeypatch.setattr("rookery.serving.socket_clients.read_question", lambda *_: {}["secret"])
            with pytest.raises(ExternalError, match=f"^{ID}$"):
                asking.get_action(episode, np.zeros(4, np.float32))
            monkeypatch.undo()
            assert asking.get_action(episode, np.zeros(4, np.float32)).shape == (2,)
        assert any("KeyError: 'secret'" in line for line in said)


def test_a_log_that_cannot_be_written_stops_nothing():
    def full(text):
        raise OSError("No space left on device")

    internal_errors = InternalErrors(full)
    assert re.fullmatch(ID, internal_errors.report(ValueError("x"))) and internal_errors.count == 1


@pytest.mark.regression(
    "unclear error",
    "A policy server that cannot begin frees its ports and ends its threads",
)
@pytest.mark.parametrize("part", ["CheckpointWatch", "SocketClients", "Batcher"])
def test_a_server_that_cannot_begin_frees_ports_and_threads(tmp_path, monkeypatch, part):
    path = checkpoint(tmp_path, 1, policy())
    begun = []
    real = server_module.SocketClients

    def remembered(*arguments):
        begun.append(real(*arguments))
        return begun[-1]

    def fails(*_, **__):
        raise MemoryError(part)

    monkeypatch.setattr(server_module, "SocketClients", remembered)
    monkeypatch.setattr(server_module, part, fails)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    before = {thread.ident for thread in threading.enumerate()}
    with pytest.raises(MemoryError, match=part):
        PolicyServer(path, ServingOptions(port=port, socket_port=0, token=TOKEN), tmp_path)
    for address in (("127.0.0.1", port), *(one.address for one in begun)):
        with socket.socket() as again:
            again.bind(address)
    assert {thread.ident for thread in threading.enumerate()} <= before
