"""Requests of HTTP/1.1 out of the bytes of a connection: exact ones, and everything else refused with its reason.

What two readers could understand differently is refused instead of guessed at: two lengths, a length beside chunks,
lines that end in LF alone, folded fields. Source: RFC 9112.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

MAX_HEAD = 16 << 10
"""The most bytes of a head, and of what comes behind the last chunk."""

MAX_LINE = 256
"""The most bytes of the line before a chunk."""

MAX_FIELDS = 100
"""The most fields of a head."""

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
FIRST_LINE = re.compile(rb"(%s) ([\x21-\x7e]+) HTTP/(\d)\.(\d)" % TOKEN)
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\t\x20-\x7e]*)?")
LENGTH = re.compile(rb"[0-9]{1,15}")
LONE_LF = re.compile(rb"(?<!\r)\n")
NAME = re.compile(TOKEN)

ONCE = (b"host", b"content-length", b"transfer-encoding", b"authorization", b"content-type", b"expect")
"""Fields that a head has once at most."""


class Refused(Exception):
    """A request that is answered with an error.

    Attributes:
        status: Status of the answer.
        body: What it says.
        allow: Methods that the address answers, where another was used.
    """

    def __init__(self, status: int, problem: str, allow: str = "", **more: Any) -> None:
        self.status, self.allow, self.body = status, allow, {"error": problem, **more}
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What stands before a body.

    Attributes:
        method: As it was sent; methods are written in capitals.
        path: The decoded path, without a query.
        fields: Fields by their name in small letters.
        length: Bytes of the body; None = it comes in chunks.
        keeps: Whether the connection stays open after the answer.
    """

    method: str
    path: str
    fields: Mapping[bytes, bytes]
    length: int | None
    keeps: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request: its head and its body."""

    head: RequestHead
    body: bytes


class RequestReader:
    """Takes requests out of bytes, in their order, however these come in pieces.

    Args:
        max_bytes: The largest body.

    Attributes:
        head: The head of a request whose body has not come yet.
    """

    def __init__(self, max_bytes: int) -> None:
        self.head: RequestHead | None = None
        self._max_bytes = max_bytes
        self._data, self._searched = bytearray(), 0
        self._chunks, self._trailer = bytearray(), -1

    @property
    def waiting(self) -> int:
        """Bytes that are there and belong to no request yet."""
        return len(self._data)

    @property
    def wants_body(self) -> bool:
        """Whether the sender waits to be told that it may send the body."""
        return self.head is not None and not self._data and b"expect" in self.head.fields

    def feed(self, data: bytes) -> None:
        """Takes bytes as they come."""
        self._data += data

    def take(self) -> Request | None:
        """Gives the next request; None while it is not complete.

        Raises:
            Refused: If it is none, or too large; what comes after it on the connection cannot be read either.
        """
        if self.head is None and not self._take_head():
            return None
        head = self.head
        assert head is not None
        body = self._chunked() if head.length is None else self._counted(head.length)
        if body is None:
            return None
        self.head = None
        return Request(head, body)

    def _take_head(self) -> bool:
        data = self._data
        while data.startswith(b"\r\n"):  # some senders end a body so
            del data[:2]
        end = data.find(b"\r\n\r\n", max(0, self._searched - 3))
        if end > MAX_HEAD or (end < 0 and len(data) > MAX_HEAD):
            raise Refused(431, f"the head of a request has at most {MAX_HEAD:,} bytes")
        if end < 0:
            if LONE_LF.search(data, self._searched) or (data and not NAME.match(data) and data != b"\r"):
                raise Refused(400, "this is no request of HTTP/1.1, whose lines end with CR and LF")
            self._searched = len(data)
            return False
        text = bytes(data[:end])
        del data[: end + 4]
        self._searched = 0
        self.head = read_head(text)
        self._check_size(self.head.length or 0)
        return True

    def _counted(self, length: int) -> bytes | None:
        if len(self._data) < length:
            return None
        body = bytes(self._data[:length])
        del self._data[:length]
        return body

    def _chunked(self) -> bytes | None:
        """Gives a body that comes in chunks, when the last one has come."""
        data = self._data
        while self._trailer < 0:
            end = data.find(b"\r\n", 0, MAX_LINE)
            if end < 0 and len(data) < MAX_LINE and b"\n" not in data:
                return None
            line = CHUNK.fullmatch(bytes(data[: max(end, 0)]))
            if line is None:
                raise Refused(400, "a chunk begins with its size in hexadecimal digits, CR and LF")
            size = int(line[1], 16)
            self._check_size(len(self._chunks) + size)
            if not size:
                del data[: end + 2]
                self._trailer = 0
                break
            begin = end + 2
            if len(data) < begin + size + 2:
                return None
            if data[begin + size : begin + size + 2] != b"\r\n":
                raise Refused(400, "a chunk is not as long as it says")
            self._chunks += data[begin : begin + size]
            del data[: begin + size + 2]
        while (end := data.find(b"\r\n")) != 0:
            if self._trailer + (len(data) if end < 0 else end) > MAX_HEAD:
                raise Refused(431, f"what comes behind the last chunk has at most {MAX_HEAD:,} bytes")
            if end < 0:
                return None
            if read_field(bytes(data[:end])) is None:
                raise Refused(400, "behind the last chunk stands what is no field")
            self._trailer += end + 2
            del data[: end + 2]
        del data[:2]
        body = bytes(self._chunks)
        self._chunks.clear()
        self._trailer = -1
        return body

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise Refused(413, f"a request has at most {self._max_bytes:,} bytes; send less at a time")


@lru_cache(maxsize=512)  # a client sends the same one again and again
def read_head(text: bytes) -> RequestHead:
    """Reads a head, given without the empty line at its end.

    Raises:
        Refused: If it is none; or wants what is not done here.
    """
    first, *lines = text.split(b"\r\n")
    said = FIRST_LINE.fullmatch(first)
    if said is None:
        raise Refused(400, "the first line is not METHOD /PATH HTTP/1.1")
    method, target, major, minor = said.groups()
    if major != b"1":
        raise Refused(505, f"HTTP/{major.decode()}.{minor.decode()} is not spoken here; HTTP/1.1 is")
    if len(lines) > MAX_FIELDS:
        raise Refused(431, f"a request has at most {MAX_FIELDS} header fields")
    fields: dict[bytes, bytes] = {}
    for number, line in enumerate(lines, 2):
        field = read_field(line)
        if field is None:
            raise Refused(400, f"line {number} of the head is not NAME: VALUE")
        name, value = field
        if name in fields:
            if name in ONCE:
                raise Refused(400, f"{name.decode()}: stands there twice")
            value = fields[name] + b", " + value
        fields[name] = value
    is_old = minor == b"0"
    if not is_old and b"host" not in fields:
        raise Refused(400, "host: missing; requests of HTTP/1.1 have it")
    if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise Refused(417, "expect: only 100-continue is understood")
    options = {option.strip().lower() for option in fields.get(b"connection", b"").split(b",")}
    length = _length(fields, is_old)
    return RequestHead(method.decode(), _path(target), fields, length, not is_old and b"close" not in options)


def read_field(line: bytes) -> tuple[bytes, bytes] | None:
    """Gives a field's name, in small letters, and its value; None if the line is no field."""
    name, colon, value = line.partition(b":")
    if not colon or not NAME.fullmatch(name) or not VALUE.fullmatch(value):
        return None
    return name.lower(), value.strip(b" \t")


def _length(fields: Mapping[bytes, bytes], is_old: bool) -> int | None:
    """How long the body is; None if it comes in chunks."""
    said, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if said is not None and coding is not None:
        raise Refused(400, "content-length and transfer-encoding: a request has one of them")
    if coding is not None:
        if is_old:
            raise Refused(400, "transfer-encoding: HTTP/1.0 has none; say content-length")
        if coding.lower() != b"chunked":
            raise Refused(501, "transfer-encoding: only chunked is understood")
        return None
    if said is None:
        return 0
    if not LENGTH.fullmatch(said):
        raise Refused(400, "content-length: expected one whole number of bytes")
    return int(said)


def _path(target: bytes) -> str:
    """The path of what is asked for: ``/path?query``, or a whole address as proxies send it."""
    text = target.decode()
    if text.lower().startswith(("http://", "https://")):
        text = "/" + text.partition("://")[2].partition("/")[2]
    elif not text.startswith("/") and text != "*":
        raise Refused(400, "what is asked for begins with /")
    try:
        return unquote(text.partition("?")[0].partition("#")[0], errors="strict")
    except UnicodeDecodeError:
        raise Refused(400, "the path is not UTF-8") from None
