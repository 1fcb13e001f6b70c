"""Tests of a policy server over HTTP: its answers are the policy's own actions, or errors."""

import json
import re
import socket
import stat
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("uvicorn")

from served import HYBRID, MANY_SORTS, TOKEN, Web, checkpoint, policy, serving

from rookery.core.errors import ConfigError
from rookery.serving.server import PolicyServer, ServingOptions
from rookery.serving.tokens import check_token, is_loopback_host, write_token


def listed(obs):
    if isinstance(obs, dict):
        return {key: listed(value) for key, value in obs.items()}
    return np.asarray(obs).tolist()


def test_one_and_a_batch_get_the_actions_of_the_policy(tmp_path):
    made = policy(normalize_obs=True)
    path = checkpoint(tmp_path, 1, made)
    obs = np.random.default_rng(0).uniform(-1, 1, (5, 4)).astype(np.float32)
    with serving(path) as server:
        web = Web(server)
        status, answer = web.act(obs[0].tolist())
        assert (status, answer["policy"], answer["version"]) == (200, "main", "000001")
        np.testing.assert_allclose(answer["action"], made.predict(obs[0]), rtol=1e-4, atol=1e-6)
        status, answer = web.act(obs.tolist())
        np.testing.assert_allclose(answer["action"], made.predict(obs), rtol=1e-4, atol=1e-6)
        drawn = {tuple(web.act(obs[0].tolist(), deterministic=False)[1]["action"]) for _ in range(4)}
        assert len(drawn) > 1
    with serving(path, likeliest=False) as server:
        drawn = {tuple(Web(server).act(obs[0].tolist())[1]["action"]) for _ in range(8)}  # some are cut off at a bound
        assert len(drawn) > 1
        answer = Web(server).act(obs[0].tolist(), deterministic=True)[1]
        np.testing.assert_allclose(answer["action"], made.predict(obs[0]), rtol=1e-4, atol=1e-6)


def test_nested_observations_masks_inside_them_and_several_sorts_of_actions(tmp_path):
    made = policy(MANY_SORTS, spaces.Discrete(3))
    MANY_SORTS.seed(0)
    with serving(checkpoint(tmp_path, 1, made)) as server:
        web = Web(server)
        for only in range(3):
            obs = {**MANY_SORTS.sample(), "action_mask": np.arange(3) == only}
            status, answer = web.act(listed(obs))
            assert (status, answer["action"]) == (200, only)
            assert web.act(listed(obs), deterministic=False)[1]["action"] == only
    made = policy(action=HYBRID)
    with serving(checkpoint(tmp_path, 2, made)) as server:
        obs = np.linspace(-1, 1, 4).astype(np.float32)
        status, answer = Web(server).act(obs.tolist())
        expected = made.predict(obs)
        assert answer["action"]["move"] == expected["move"]
        np.testing.assert_allclose(answer["action"]["aim"], expected["aim"], rtol=1e-4, atol=1e-6)
        status, answer = Web(server).act([obs.tolist()] * 2)
        assert [one["move"] for one in answer["action"]] == [expected["move"]] * 2


def test_masks_beside_observations(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy(action=spaces.Discrete(3), info_mask=True))) as server:
        web = Web(server)
        assert web.act([0.0] * 4, action_mask=[False, True, False])[1]["action"] == 1
        status, answer = web.act([0.0] * 4)
        assert (status, answer["path"], answer["got"]) == (422, "action_mask", "nothing")
        assert web.act([0.0] * 4, action_mask=[False] * 3)[0] == 422
        assert web.act([[0.0] * 4] * 2, action_mask=[[False, True, False], [1, 0, 0]])[1]["action"] == [1, 0]


WRONG = [
    ([0.0] * 3, "shape (3,)"),
    ([0.0, 0.0, 0.0, float("nan")], "nan"),
    ([0.0, 0.0, [0.0], 0.0], "differ in length"),
    ("left", "text"),
    (None, "nothing"),
    ([], "shape (0,)"),
    ([[]], "shape (1, 0)"),
    ({"position": 1}, "position"),
    ([0.0, 0.0, 0.0, None], "not numbers"),
]


def test_a_wrong_observation_is_refused_with_its_path_what_was_expected_and_what_came(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy())) as server:
        web = Web(server)
        for obs, got in WRONG:
            status, answer = web.act(obs)
            assert (status, answer["path"]) == (422, "obs")
            assert got in answer["got"] + answer["error"]
            assert "(4,)" in answer["expected"]


def test_a_wrong_part_of_an_observation_is_named(tmp_path):
    MANY_SORTS.seed(1)
    good = listed({**MANY_SORTS.sample(), "action_mask": [1, 1, 1]})
    wrong = {
        "camera": (good | {"camera": [0, 256, 0]}, "0 to 256"),
        "place": (good | {"place": 6}, "6"),
        "body/angles": (good | {"body": {**good["body"], "angles": [[0, 0]]}}, "(1, 2)"),
        "body/flags": (good | {"body": {"angles": [[0, 0], [0, 0]]}}, "nothing"),
        "action_mask": (good | {"action_mask": [0, 0, 0]}, "(3,)"),
    }  # fmt: skip
    with serving(checkpoint(tmp_path, 1, policy(MANY_SORTS, spaces.Discrete(3)))) as server:
        for path, (obs, got) in wrong.items():
            status, answer = Web(server).act(obs)
            assert (status, answer["path"]) == (422, path), answer
            assert got in answer["got"]
            assert answer["expected"]
        assert Web(server).act(good)[0] == 200


def test_what_is_no_question_is_refused(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy()), max_bytes=2000, max_batch=8) as server:
        web = Web(server)
        assert web.call("POST", "/act", b"{")[0] == 400
        assert web.call("POST", "/act", b"[" * 1500)[0] == 400
        assert web.call("POST", "/act", [])[0] == 400
        assert web.call("POST", "/act", {})[0] == 422
        status, answer = web.act([0.0] * 4, polcy="main")
        assert status == 422 and "did you mean 'policy'" in answer["error"]
        assert web.act([0.0] * 4, deterministic="yes")[0] == 422
        assert web.act([0.0] * 4, session=3)[0] == 422
        assert web.act([0.0] * 4, policy="other")[0] == 422
        assert web.act([0.0] * 4, action_mask=[1, 1])[0] == 422
        assert web.act([[0.0] * 4] * 9)[0] == 429
        assert web.call("GET", "/act")[0] == 405
        assert web.call("GET", "/actions")[0] == 404
        assert Web(server).act([0.0] * 1000)[0] == 413
        assert web.act([0.0] * 4)[0] == 200
        with socket.create_connection(server.address) as link:  # no length is given, and it never ends
            head = (
                f"POST /act HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            link.sendall(head.encode() + b"400\r\n" + b" " * 1024 + b"\r\n400\r\n" + b" " * 1024 + b"\r\n")
            assert link.recv(100).startswith(b"HTTP/1.1 413")


def test_the_token_has_to_be_shown(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy())) as server:
        for token in (None, "open-sesame-", "\xe9"):
            assert Web(server, token).call("POST", "/act", {"obs": [0.0] * 4})[0] == 401
            assert Web(server, token).call("GET", "/policies")[0] == 401
            assert Web(server, token).call("GET", "/health") == (200, {"status": "ok"})
        assert Web(server).call("GET", "/health")[1]["version"] == "000001"


def test_without_a_token_programs_of_this_machine_are_answered_and_pages_are_not(tmp_path):
    path = checkpoint(tmp_path, 1, policy())
    with serving(path, token=None) as server:
        web = Web(server, None)
        assert web.act([0.0] * 4)[0] == 200
        assert web.call("POST", "/act", {"obs": [0.0] * 4}, Origin="http://127.0.0.1")[0] == 403
        assert web.call("GET", "/policies", Host="elsewhere.example")[0] == 403
    with pytest.raises(ConfigError, match="--no-token: host 0.0.0.0"):
        PolicyServer(path, ServingOptions(host="0.0.0.0"))


def test_tokens_are_for_their_owner_alone(tmp_path):
    file = tmp_path / "serve.token"
    file.write_text("old")
    write_token(file, "a" * 20)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == "a" * 20 + "\n"
    for bad in ("short", "with a blank", "ümlautümlaut"):
        with pytest.raises(ConfigError):
            check_token(bad)


def test_a_port_that_is_taken_is_said(tmp_path):
    path = checkpoint(tmp_path, 1, policy())
    with serving(path) as server, pytest.raises(ConfigError, match=f"--port {server.address[1]}: cannot listen"):
        PolicyServer(path, ServingOptions(port=server.address[1]))


def test_several_policies_and_their_spaces(tmp_path):
    blue, red = policy(name="blue", seed=1), policy(spaces.Discrete(3), spaces.Discrete(2), name="red")
    path = checkpoint(tmp_path, 1, blue, red)
    with serving(path) as server:
        web = Web(server)
        status, answer = web.act([0.5] * 4)
        assert status == 422 and "blue, red" in answer["error"]
        np.testing.assert_allclose(
            web.act([0.5] * 4, policy="blue")[1]["action"],
            blue.predict(np.full(4, 0.5, np.float32)),
            rtol=1e-4,
            atol=1e-6,
        )
        assert web.act(2, policy="red")[1]["action"] == red.predict(2)
        told = web.call("GET", "/policies")[1]
        assert told["policies"]["red"]["observation_space"] == {
            "kind": "Discrete",
            "n": 3,
            "start": 0,
            "dtype": "int64",
        }
        assert told["policies"]["blue"]["action_space"]["shape"] == [2]
        assert told["default"] is None
    with serving(path, name="red") as server:
        assert Web(server).act(1)[0] == 200
        assert Web(server).act([0.0] * 4, policy="blue")[0] == 422


def test_many_clients_at_once_each_get_their_own_answer(tmp_path):
    made = policy(hidden=[64])
    wrong = []

    def client(number):
        rng, web = np.random.default_rng(number), Web(server)
        for _ in range(10):
            obs = rng.uniform(-1, 1, 4).astype(np.float32)
            status, answer = web.act(obs.tolist())
            if status != 200 or not np.allclose(answer["action"], made.predict(obs), atol=1e-5):
                wrong.append(answer)

    with serving(checkpoint(tmp_path, 1, made)) as server:
        threads = [threading.Thread(target=client, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = Web(server).call("GET", "/health")[1]["answered"]
    assert not wrong
    assert counts["questions"] == counts["rows"] == 160
    assert counts["batches"] < 160


@pytest.mark.regression(
    "unclear error",
    "A client of a server is given the id of an internal error, and the log has the id with the traceback",
)
def test_a_network_that_fails_is_told_to_those_who_asked_and_the_server_goes_on(tmp_path, monkeypatch):
    said = []
    with serving(checkpoint(tmp_path, 1, policy()), said) as server:
        served = server._batcher.version.policies["main"]
        monkeypatch.setattr(served, "env_actions", lambda *_: 1 / 0)
        status, answer = Web(server).act([0.0] * 4)
        assert status == 500 and re.fullmatch(
            "policy 'main' cannot decide: internal error [0-9a-f]{8}", answer["error"]
        )
        (entry,) = [line for line in said if answer["error"].rpartition(": ")[2] in line]
        assert "ZeroDivisionError: division by zero" in entry and "Traceback" in entry
        health = Web(server).call("GET", "/health")[1]
        assert health["internal_errors"] == 1 and health["status"] == "ok"
        monkeypatch.undo()
        assert Web(server).act([0.0] * 4)[0] == 200


def test_clients_that_leave_before_the_answer_do_no_harm(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy())) as server:
        body = json.dumps({"obs": [0.0] * 4}).encode()
        head = f"POST /act HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
        for cut in (10, len(head), len(head) + 5, len(head) + len(body)):
            link = socket.create_connection(server.address)
            link.sendall((head.encode() + body)[:cut])
            link.close()
        assert Web(server).act([0.0] * 4)[0] == 200


def test_somebody_who_sends_slowly_is_not_waited_for(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy()), head_seconds=0.2) as server:
        silent, slow = (socket.create_connection(server.address, timeout=10) for _ in range(2))
        slow.sendall(b"POST /act HTTP/1.1\r\nHost: x\r\nAuth")
        with silent, slow:
            assert silent.recv(10) == slow.recv(10) == b""
        web = Web(server)  # a connection that is kept is not closed between two requests
        assert web.act([0.0] * 4)[0] == 200
        held = web.link.sock
        time.sleep(0.4)
        assert web.act([0.0] * 4)[0] == 200
        assert web.link.sock is held
        held.sendall(b"POST /act HT")
        assert held.recv(10) == b""


def test_answers_do_not_wait_for_their_second_half(tmp_path):
    """Without TCP_NODELAY each answer takes 40 ms, until the client acknowledges its first half."""
    with serving(checkpoint(tmp_path, 1, policy())) as server:
        web = Web(server)
        assert web.act([0.0] * 4)[0] == 200
        [held] = server._server.server_state.connections
        sock = held.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert web.act([0.0] * 4)[0] == 200


@pytest.mark.regression("foreign code", "A server without a token answers only requests that name this machine")
@pytest.mark.parametrize(
    ("host", "is_taken"),
    [
        ("127.0.0.1", True), ("localhost:80", True), ("[::1]", True), ("[::1]:8000", True), ("127.0.0.1:", False),
        ("[::1].evil.com", False), ("[::1].evil.com:80", False), ("[::1]evil.com", False),
        ("127.0.0.1.evil.com", False), ("127.0.0.1:80@evil.com", False), ("[::1", False), ("evil.com", False),
        ("", False),
    ],
)  # fmt: skip
def test_without_a_token_the_whole_name_of_the_host_counts(host, is_taken):
    assert is_loopback_host(host) is is_taken


@pytest.mark.regression("exhausted memory or time", "Connections without the token shut out no client that has it")
def test_idle_connections_without_a_token_give_way_to_those_with_one(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy()), max_connections=16) as server, ExitStack() as held:
        first = Web(server)
        assert first.act([0.0] * 4)[0] == 200
        kept = first.link.sock
        idle = [held.enter_context(socket.create_connection(server.address, timeout=10)) for _ in range(60)]
        idle[-1].sendall(b"POST /act HTTP/1.1\r\nHost: x\r\nAuth")
        began = time.monotonic()
        for _ in range(3):
            assert Web(server).act([0.0] * 4)[0] == 200
        assert first.act([0.0] * 4)[0] == 200
        assert first.link.sock is kept and time.monotonic() - began < 5
        assert idle[0].recv(10) == b""  # the oldest has given way
        assert len(server._server.server_state.connections) <= 16


@pytest.mark.regression("exhausted memory or time", "Connections without the token shut out no client that has it")
def test_so_many_clients_with_a_token_are_served_as_was_said(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy()), max_connections=3) as server:
        clients = [Web(server) for _ in range(4)]
        assert [client.act([0.0] * 4)[0] for client in clients[:3]] == [200] * 3
        clients[3].link.request("GET", "/health", headers=clients[3].headers)
        assert clients[3].link.getresponse().status == 503
