"""What is a request of HTTP/1.1, what is none, and that what comes in pieces is what comes at once."""

import json
import random
import socket
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import TOKEN, Web, checkpoint, policy, serving

from rookery.serving.http_requests import MAX_HEAD, Refused, RequestReader

HOST = b"Host: x\r\n"
ACT = json.dumps({"obs": [0.0] * 4}).encode()


def post(body=ACT, fields=b"", version=b"1.1", path=b"/act"):
    head = b"POST %s HTTP/%s\r\n%sAuthorization: Bearer %s\r\nContent-Length: %d\r\n%s\r\n"
    return head % (path, version, HOST, TOKEN.encode(), len(body), fields) + body


def taken(*pieces, max_bytes=1000):
    """All requests in bytes that come so."""
    reader, found = RequestReader(max_bytes), []
    for piece in pieces:
        reader.feed(piece)
        while (request := reader.take()) is not None:
            found.append((request.head.method, request.head.path, request.body, request.head.keeps))
    return found


GOOD = {
    b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n": ("GET", "/a", b"", True),
    b"\r\nGET /a?b=c HTTP/1.1\r\nHost:x  \r\nConnection: keep-alive, Close\r\n\r\n": ("GET", "/a", b"", False),
    b"GET /a HTTP/1.0\r\n\r\n": ("GET", "/a", b"", False),
    b"DELETE /sessions/a%20b%2Fc HTTP/1.1\r\nHost: x\r\n\r\n": ("DELETE", "/sessions/a b/c", b"", True),
    b"GET http://there:80/a?b HTTP/1.1\r\nHost: x\r\n\r\n": ("GET", "/a", b"", True),
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n": ("OPTIONS", "*", b"", True),
    b"POST /a HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: 3\r\n\r\nabc": ("POST", "/a", b"abc", True),
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=1\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\n": (
        "POST",
        "/a",
        b"ab0123456789",
        True,
    ),
    b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nSum: 1\r\nB: \r\n\r\n": (
        "POST",
        "/a",
        b"a",
        True,
    ),
}

ONE_MORE = b"GET /a HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
BAD = {
    "two lengths": (400, ONE_MORE + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    "two lengths in one": (400, ONE_MORE + b"Content-Length: 3, 3\r\n\r\nabc"),
    "a length and chunks": (400, ONE_MORE + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a signed length": (400, ONE_MORE + b"Content-Length: +3\r\n\r\nabc"),
    "a negative length": (400, ONE_MORE + b"Content-Length: -3\r\n\r\nabc"),
    "a length in hexadecimal": (400, ONE_MORE + b"Content-Length: 0x3\r\n\r\nabc"),
    "an empty length": (400, ONE_MORE + b"Content-Length:\r\n\r\nabc"),
    "a length of another script": (400, ONE_MORE + b"Content-Length: \xd9\xa3\r\n\r\nabc"),
    "too long a body": (413, ONE_MORE + b"Content-Length: 1001\r\n\r\n"),
    "a length beyond all bounds": (400, ONE_MORE + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n"),
    "another coding": (501, ONE_MORE + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
    "chunked twice": (400, ONE_MORE + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "chunks of HTTP/1.0": (400, b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "no host": (400, b"GET /a HTTP/1.1\r\n\r\n"),
    "two hosts": (400, ONE_MORE + b"Host: y\r\n\r\n"),
    "two tokens": (400, ONE_MORE + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
    "a blank before the colon": (400, ONE_MORE + b"Content-Length : 3\r\n\r\n"),
    "a folded field": (400, ONE_MORE + b"A: b\r\n c\r\n\r\n"),
    "no colon": (400, ONE_MORE + b"Authorization\r\n\r\n"),
    "a lone LF": (400, b"GET /a HTTP/1.1\nHost: x\n\n"),
    "a lone LF in a head": (400, ONE_MORE + b"A: b\nContent-Length: 3\r\n\r\n"),
    "a lone CR in a head": (400, ONE_MORE + b"A: b\rContent-Length: 3\r\n\r\n"),
    "a null": (400, ONE_MORE + b"A: \0\r\n\r\n"),
    "three words too few": (400, b"GET\r\nHost: x\r\n\r\n"),
    "a blank in the path": (400, b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "no slash": (400, b"GET a HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a path that is no UTF-8": (400, b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n"),
    "HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00"),
    "another expectation": (417, ONE_MORE + b"Expect: more\r\n\r\n"),
    "a long head": (431, ONE_MORE + b"A: " + b"b" * MAX_HEAD),
    "a long head with its end": (431, ONE_MORE + b"A: " + b"b" * MAX_HEAD + b"\r\n\r\n"),
    "many fields": (431, ONE_MORE + b"A: b\r\n" * 200 + b"\r\n"),
    "a chunk without a size": (400, CHUNKED + b"\r\n\r\n"),
    "a size with a sign": (400, CHUNKED + b"+1\r\na\r\n0\r\n\r\n"),
    "a size with a prefix": (400, CHUNKED + b"0x1\r\na\r\n0\r\n\r\n"),
    "a chunk that is longer than it says": (400, CHUNKED + b"1\r\nab\r\n0\r\n\r\n"),
    "a chunk with a lone LF": (400, CHUNKED + b"1\na\r\n0\r\n\r\n"),
    "a chunk with an endless line": (400, CHUNKED + b"1;" + b"a" * 300),
    "chunks that are too many": (413, CHUNKED + b"3e8\r\n" + b"a" * 1000 + b"\r\n1\r\na\r\n0\r\n\r\n"),
    "a chunk that is too large": (413, CHUNKED + b"ffffffff\r\n"),
    "a wrong trailer": (400, CHUNKED + b"0\r\nA b\r\n\r\n"),
    "an endless trailer": (431, CHUNKED + b"0\r\n" + b"A: bcdefgh\r\n" * (MAX_HEAD // 11)),
}


@pytest.mark.parametrize("sent", GOOD, ids=range(len(GOOD)))
def test_a_request_is_the_same_in_one_piece_and_byte_by_byte(sent):
    assert taken(sent) == [GOOD[sent]]
    assert taken(*(sent[at : at + 1] for at in range(len(sent)))) == [GOOD[sent]]
    assert taken(sent * 3) == [GOOD[sent]] * 3


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_request_is_refused_in_one_piece_and_byte_by_byte(name):
    status, sent = BAD[name]
    for pieces in ([sent], [sent[at : at + 1] for at in range(len(sent))]):
        with pytest.raises(Refused) as refused:
            assert taken(*pieces) == []
        assert (refused.value.status, bool(refused.value.body["error"])) == (status, True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*GOOD, *(sent for _, sent in BAD.values())]), min_size=1, max_size=4), st.data())
def test_no_bytes_bring_the_reader_down_and_pieces_change_nothing(sent, data):
    text = bytearray(b"".join(sent))
    for _ in range(data.draw(st.integers(0, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(text)))

    def outcome(*pieces):
        reader, found = RequestReader(1000), []
        try:
            for piece in pieces:
                reader.feed(piece)
                while (request := reader.take()) is not None:
                    found.append(request)
        except Refused:
            return found, True
        return found, False

    assert outcome(bytes(text)) == outcome(bytes(text[:cut]), bytes(text[cut:]))


def test_a_head_of_blanks_is_refused_at_once():
    reader = RequestReader(1000)
    reader.feed(ONE_MORE + b"A:" + b" " * 16_000 + b"\x01\r\n\r\n")
    began = time.process_time()
    with pytest.raises(Refused):
        reader.take()
    assert time.process_time() - began < 1.0  # a pattern that goes back over the blanks takes many seconds


# -- with a server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = checkpoint(tmp_path_factory.mktemp("run"), 1, policy())
    with serving(path, max_bytes=4000) as running:
        yield running


def said(server, *sent, end=True):
    """All that a server answers to bytes, until it closes the connection."""
    with socket.create_connection(server.address, timeout=60) as link:
        for piece in sent:
            link.sendall(piece)
        if end:
            link.shutdown(socket.SHUT_WR)
        found = bytearray()
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
        fields = dict(line.split(": ", 1) for line in lines)
        length = int(fields["content-length"])
        found.append((int(first.split()[1]), fields, json.loads(text[:length])))
        text = text[length:]
    return found


def test_pipelined_requests_are_answered_in_their_order(server):
    asked = [post(json.dumps({"obs": [0.0] * 4, "session": f"s{number}"}).encode()) for number in range(30)]
    asked[7] = post(b"{")
    asked[9] = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    asked[11] = b"DELETE /sessions/s3 HTTP/1.1\r\n" + HOST + b"Authorization: Bearer %s\r\n\r\n" % TOKEN.encode()
    found = answers(said(server, b"".join(asked)))
    assert [status for status, _, _ in found] == [200] * 7 + [400] + [200] * 22
    assert found[9][2] == {"status": "ok"} and found[11][2]["session"] == "s3"


def test_a_large_body_behind_a_request_that_waits_is_read(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy())) as server:
        batches = [json.dumps({"obs": [[0.0] * 4] * 2}).encode() + b" " * size for size in (0, 700_000, 0, 700_000)]
        found = answers(said(server, b"".join(map(post, batches))))
    assert [(status, len(body["action"])) for status, _, body in found] == [(200, 2)] * 4


def test_actions_that_are_no_json_are_an_error_of_that_request_alone(tmp_path, monkeypatch):
    with serving(checkpoint(tmp_path, 1, policy())) as server:
        served = server._batcher.version.policies["main"]
        monkeypatch.setattr(served, "env_actions", lambda obs, *_: np.array([{1, 2}], dtype=object))
        status, answer = Web(server).act([0.0] * 4)
        assert status == 500 and "TypeError" in answer["error"]
        monkeypatch.undo()
        assert Web(server).act([0.0] * 4)[0] == 200


def test_refused_bytes_are_answered_and_the_connection_is_closed(server):
    for status, sent in BAD.values():
        if status == 413:
            continue  # the limit is another one here
        found = answers(said(server, post(), sent + b"x" * 1000, end=False))
        assert [one[0] for one in found] == [200, status]
        assert found[1][1]["connection"] == "close"
    [refused] = answers(said(server, post(b" " * 100_000), end=False))
    assert refused[0] == 413 and "at most 4,000 bytes" in refused[2]["error"]


def test_methods_addresses_and_versions(server):
    shown = HOST + b"Authorization: Bearer %s\r\n" % TOKEN.encode()
    for method, path, status, allow in (
        (b"GET", b"/act", 405, "POST"),
        (b"OPTIONS", b"/act", 405, "POST"),
        (b"BREW", b"/health", 405, "GET, HEAD"),
        (b"POST", b"/policies", 405, "GET, HEAD"),
        (b"GET", b"/sessions/a", 405, "DELETE"),
        (b"get", b"/health", 405, "GET, HEAD"),
        (b"GET", b"/polices", 404, None),
        (b"OPTIONS", b"*", 404, None),
    ):
        [(got, fields, body)] = answers(said(server, b"%s %s HTTP/1.1\r\n%s\r\n" % (method, path, shown)))
        assert (got, fields.get("allow")) == (status, allow), body
    [(_, _, body)] = answers(said(server, b"GET /polices HTTP/1.1\r\n%s\r\n" % shown))
    assert "did you mean '/policies'" in body["error"]
    whole = said(server, b"GET /policies HTTP/1.1\r\n%s\r\n" % shown)
    head = said(server, b"HEAD /policies HTTP/1.1\r\n%s\r\n" % shown)
    assert whole.startswith(head) and head.endswith(b"\r\n\r\n") and b"content-length: 0" not in head
    [(status, fields, _)] = answers(said(server, post(version=b"1.0"), end=False))
    assert (status, fields["connection"]) == (200, "close")
    [(status, fields, _)] = answers(said(server, post(fields=b"Connection: close\r\n"), end=False))
    assert (status, fields["connection"]) == (200, "close")


def test_tokens_that_are_missing_or_wrong(server):
    sent = b"POST /act HTTP/1.1\r\n" + HOST + b"%sContent-Length: 2\r\n\r\n{}"
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
        [(status, _, answer)] = answers(said(server, post(body)))
        assert (status, told in answer["error"]) == (400, True), answer
    [(status, _, answer)] = answers(said(server, post(b'{"obs": [0, NaN, 0, 0]}')))
    assert (status, answer["path"]) == (422, "obs") and "nan" in answer["got"]


def test_who_asks_whether_to_send_is_told_to(server):
    head, _, body = post(fields=b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    with socket.create_connection(server.address, timeout=60) as link:
        link.sendall(head + b"\r\n\r\n")
        told = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert link.recv(len(told), socket.MSG_WAITALL) == told
        link.sendall(body)
        assert link.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"


def test_a_client_that_reads_nothing_is_not_answered_forever(tmp_path):
    asked = b"GET /policies HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % TOKEN.encode()
    with serving(checkpoint(tmp_path, 1, policy())) as server, socket.create_connection(server.address) as link:
        assert link.send(asked) == len(asked)
        assert link.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
        [held] = server._server.connections
        link.setblocking(False)
        sent, until = 0, time.monotonic() + 60
        while not (held._full and held._held) and time.monotonic() < until:  # until the server reads no more
            try:
                sent += link.send((asked * 101)[sent % len(asked) :])
            except BlockingIOError:
                time.sleep(0.01)
        assert held._full and held._held and held._transport.get_write_buffer_size() < 1 << 20
        assert Web(server).act([0.0] * 4)[0] == 200


def test_connections_beyond_the_limit_are_told_so(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy()), max_connections=2) as server:
        held = [Web(server) for _ in range(2)]
        for web in held:
            assert web.act([0.0] * 4)[0] == 200
        [(status, _, body)] = answers(said(server, b"", end=False))
        assert status == 503 and "2 connections" in body["error"]
        assert held[0].act([0.0] * 4)[0] == 200


def test_no_bytes_keep_the_server_from_the_next_good_client(server):
    rng = random.Random(0)
    whole = [*GOOD, *(sent for _, sent in BAD.values()), post(), post(b"{"), post(b'{"obs": 1e999}')]
    for number in range(150):
        text = bytearray(rng.choice(whole) + rng.choice(whole))
        for _ in range(rng.randrange(6)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        answers_or_not = said(server, bytes(text[: rng.randrange(1, len(text) + 1)]))
        assert answers_or_not == b"" or answers_or_not.startswith(b"HTTP/1.1 ")
        if number % 10 == 0:
            status, answer = Web(server).act([0.0] * 4)
            assert status == 200 and np.isfinite(answer["action"]).all()
