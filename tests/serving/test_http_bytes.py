"""HTTP as bytes: what is no request is refused, requests are answered in their order, and the server continues."""

import json
import random
import socket
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httptools")

from served import TOKEN, Web, checkpoint, policy, serving

HOST = b"Host: x\r\n"
LAST = b"Connection: close\r\n"
ACT = json.dumps({"obs": [0.0] * 4}).encode()


HEAD = b"POST /act HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BAD = {
    "two lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "two lengths in one": HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    "a length and chunks": HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a signed length": HEAD + b"Content-Length: +3\r\n\r\nabc",
    "a length in hexadecimal": HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    "a length beyond all bounds": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "two hosts": HEAD + b"Host: y\r\n\r\n",
    "two tokens": HEAD + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    "a blank before the colon": HEAD + b"Content-Length : 3\r\n\r\nabc",
    "no colon": HEAD + b"Authorization\r\n\r\n",
    "a null": HEAD + b"A: \0\r\n\r\n",
    "one word": b"GET\r\nHost: x\r\n\r\n",
    "no slash": b"GET a HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00",
    "a chunk without a size": CHUNKED + b"\r\n\r\n",
    "a size with a sign": CHUNKED + b"+1\r\na\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = checkpoint(tmp_path_factory.mktemp("run"), 1, policy())
    with serving(path, max_bytes=4000) as running:
        yield running


def post(body=ACT, fields=b"", version=b"1.1", path=b"/act"):
    head = b"POST %s HTTP/%s\r\n%sAuthorization: Bearer %s\r\nContent-Length: %d\r\n%s\r\n"
    return head % (path, version, HOST, TOKEN.encode(), len(body), fields) + body


def said(server, sent, more=True):
    """All that a server answers to bytes, until it closes the connection."""
    found = bytearray()
    with socket.create_connection(server.address, timeout=60) as link:
        link.sendall(sent)
        if not more:
            link.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):  # it need not read what it has refused
            while piece := link.recv(1 << 16):
                found += piece
    return bytes(found)


def answers(text):
    """Status, fields and body of each answer, whose lengths have to be right."""
    found = []
    while text:
        head, gap, text = text.partition(b"\r\n\r\n")
        assert gap
        first, *lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(fields["content-length"])
        found.append((int(first.split()[1]), fields, json.loads(text[:length])))
        text = text[length:]
    return found


def test_pipelined_requests_are_answered_in_their_order(server):
    asked = [post(json.dumps({"obs": [0.0] * 4, "session": f"s{number}"}).encode()) for number in range(30)]
    asked[7] = post(b"{")
    asked[9] = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    asked[11] = b"DELETE /sessions/s3 HTTP/1.1\r\n" + HOST + b"Authorization: Bearer %s\r\n\r\n" % TOKEN.encode()
    asked[29] = post(fields=LAST)
    found = answers(said(server, b"".join(asked)))
    assert [status for status, _, _ in found] == [200] * 7 + [400] + [200] * 22
    assert found[9][2] == {"status": "ok"} and found[11][2]["session"] == "s3"


def test_a_large_body_behind_a_request_that_waits_is_read(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy())) as server:
        batches = [json.dumps({"obs": [[0.0] * 4] * 2}).encode() + b" " * size for size in (0, 700_000, 0, 700_000)]
        found = answers(said(server, b"".join(map(post, batches)) + post(fields=LAST)))
    assert [(status, len(body["action"])) for status, _, body in found[:4]] == [(200, 2)] * 4


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_request_is_answered_by_400_or_not_at_all(server, name):
    told = said(server, BAD[name] + b"\r\n\r\n")
    assert told == b"" or told.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 ")), told
    assert b"HTTP/1.1 200" not in told
    assert Web(server).act([0.0] * 4)[0] == 200


def test_a_body_that_is_too_large_and_a_head_without_end_are_cut_off(server):
    [refused] = answers(said(server, post(b" " * 100_000)))
    assert refused[0] == 413 and "at most 4,000 bytes" in refused[2]["error"]
    assert said(server, HEAD + (b"A: " + b"b" * 1000 + b"\r\n") * 1000) == b""


def test_methods_addresses_and_versions(server):
    shown = HOST + LAST + b"Authorization: Bearer %s\r\n" % TOKEN.encode()
    for method, path, status, allow in (
        (b"GET", b"/act", 405, "POST"),
        (b"OPTIONS", b"/act", 405, "POST"),
        (b"POST", b"/policies", 405, "GET, HEAD"),
        (b"PUT", b"/health", 405, "GET, HEAD"),
        (b"GET", b"/sessions/a", 405, "DELETE"),
        (b"GET", b"/polices", 404, None),
    ):
        [(got, fields, body)] = answers(said(server, b"%s %s HTTP/1.1\r\n%s\r\n" % (method, path, shown)))
        assert (got, fields.get("allow")) == (status, allow), body
    [(_, _, body)] = answers(said(server, b"GET /polices HTTP/1.1\r\n%s\r\n" % shown))
    assert "did you mean '/policies'" in body["error"]
    whole = said(server, b"GET /policies HTTP/1.1\r\n%s\r\n" % shown)
    head = said(server, b"HEAD /policies HTTP/1.1\r\n%s\r\n" % shown)
    assert whole.startswith(head) and head.endswith(b"\r\n\r\n") and b"content-length: 0" not in head


def test_tokens_that_are_missing_or_wrong(server):
    sent = b"POST /act HTTP/1.1\r\n" + HOST + LAST + b"%sContent-Length: 2\r\n\r\n{}"
    for field, told in ((b"", "missing"), (b"Authorization: Bearer x\r\n", "wrong"), (b"Authorization:\r\n", "wrong")):
        [(status, fields, body)] = answers(said(server, sent % field))
        assert (status, fields["www-authenticate"]) == (401, "Bearer")
        assert f"the token is {told}" in body["error"] and TOKEN not in body["error"]


def test_what_is_wrong_with_json_is_said_with_its_place(server):
    for body, told in (
        (b'{"obs": [0.0,\n 0.0, ]}', "line 2 column 7"),
        (b"", "the body is empty"),
        (b"\xff{}", "not JSON"),
        (b'{"obs": [0, 0, 0, 0]} x', "Extra data: line 1 column 23"),
        (b"[" * 2000, "not JSON"),
    ):
        [(status, _, answer)] = answers(said(server, post(body, LAST)))
        assert (status, told in answer["error"]) == (400, True), answer
    [(status, _, answer)] = answers(said(server, post(b'{"obs": [0, NaN, 0, 0]}', LAST)))
    assert (status, answer["path"]) == (422, "obs") and "nan" in answer["got"]


def test_who_asks_whether_to_send_is_told_to(server):
    head, _, body = post(fields=b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    with socket.create_connection(server.address, timeout=60) as link:
        link.sendall(head + b"\r\n\r\n")
        told = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert link.recv(len(told), socket.MSG_WAITALL) == told
        link.sendall(body)
        assert link.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"


def test_no_bytes_keep_the_server_from_the_next_good_client(server):
    rng = random.Random(0)
    whole = [*BAD.values(), post(), post(b"{"), post(b'{"obs": 1e999}')]
    for number in range(150):
        text = bytearray(rng.choice(whole) + rng.choice(whole))
        for _ in range(rng.randrange(6)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        answers_or_not = said(server, bytes(text[: rng.randrange(1, len(text) + 1)]), more=False)
        assert answers_or_not == b"" or answers_or_not.startswith(b"HTTP/1.1 ")
        if number % 10 == 0:
            status, answer = Web(server).act([0.0] * 4)
            assert status == 200 and np.isfinite(answer["action"]).all()
