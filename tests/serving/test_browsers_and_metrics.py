"""Pages in a browser get answers only where their origin is allowed; metrics count what was answered."""

from __future__ import annotations

import re
from http.client import HTTPConnection

import pytest

pytest.importorskip("uvicorn")

from served import TOKEN, Web, checkpoint, policy, serving

from rookery.core.errors import ConfigError
from rookery.serving.origins import check_origins

PAGE = "https://game.example"


def asked(server, method, path, **headers):
    """Sends a request; returns status, headers and text of the answer."""
    connection = HTTPConnection(*server.address)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, fields, answer.read().decode()
    finally:
        connection.close()


def preflight(server, origin):
    asks = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"}
    return asked(server, "OPTIONS", "/act", Origin=origin, **asks)


BEARER = f"Bearer {TOKEN}"


def test_an_allowed_page_may_ask_and_no_other(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy()), origins=(PAGE, "http://localhost:5173")) as server:
        status, fields, text = preflight(server, PAGE)
        assert (status, text, fields["access-control-allow-origin"]) == (204, "", PAGE)
        assert "authorization" in fields["access-control-allow-headers"] and fields["vary"] == "Origin"
        status, fields, _ = asked(server, "GET", "/policies", Origin=PAGE, Authorization=BEARER)
        assert (status, fields["access-control-allow-origin"]) == (200, PAGE)
        status, fields, _ = asked(server, "GET", "/policies", Origin=PAGE)
        assert (status, fields["access-control-allow-origin"]) == (401, PAGE)  # the page can read why
        for other in ("https://evil.example", f"{PAGE}.evil.example", "null", "http://game.example"):
            status, fields, _ = preflight(server, other)
            assert status in (401, 405) and "access-control-allow-origin" not in fields
            _, fields, _ = asked(server, "GET", "/policies", Origin=other, Authorization=BEARER)
            assert "access-control-allow-origin" not in fields and fields["vary"] == "Origin"
        assert not any("credentials" in name for name in fields)


def test_by_default_no_page_is_allowed(tmp_path):
    path = checkpoint(tmp_path, 1, policy())
    with serving(path) as server:
        status, fields, _ = preflight(server, PAGE)
        assert status == 401 and not any(name.startswith("access-control") for name in fields)
    with serving(path, token=None) as server:
        assert asked(server, "GET", "/policies", Origin=PAGE)[0] == 403
    with serving(path, token=None, origins=(PAGE,)) as server:
        assert asked(server, "GET", "/policies", Origin=PAGE)[0] == 200
        assert asked(server, "GET", "/policies", Origin="https://evil.example")[0] == 403
        assert asked(server, "GET", "/policies", Origin=PAGE, Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    "origin", ["game.example", "https://game.example/", "https://a b", "null", "https://*.example"]
)
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(ConfigError, match="SCHEME://HOST"):
        check_origins([origin], True)


def test_every_origin_needs_a_token():
    check_origins(["*", "http://[::1]:80"], True)
    with pytest.raises(ConfigError, match="without a token"):
        check_origins(["*"], False)


def test_metrics_count_requests_errors_latency_and_batches(tmp_path):
    with serving(checkpoint(tmp_path, 12, policy())) as server:
        web = Web(server)
        web.act([0.0] * 4)
        web.act([[0.0] * 4] * 3)
        web.act("wrong")
        asked(server, "GET", "/some-name", Authorization=BEARER)
        assert asked(server, "GET", "/metrics")[0] == 401
        status, fields, text = asked(server, "GET", "/metrics", Authorization=BEARER)
        assert status == 200 and fields["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+', line) for line in lines)
    values = dict(line.rsplit(" ", 1) for line in lines)
    assert values['rookery_requests_total{path="/act",status="200"}'] == "2"
    assert values['rookery_requests_total{path="/act",status="422"}'] == "1"
    assert values['rookery_requests_total{path="other",status="404"}'] == "1" and "some-name" not in text
    assert values["rookery_request_errors_total"] == "3"  # with the request for metrics without a token
    assert values['rookery_request_seconds_bucket{path="/act",le="+Inf"}'] == "3"
    assert values['rookery_request_seconds_count{path="/act"}'] == "3"
    assert float(values['rookery_request_seconds_sum{path="/act"}']) > 0
    assert (values["rookery_batch_size_sum"], values["rookery_batch_size_count"]) == ("4", "2")
    assert (values["rookery_batch_size_largest"], values["rookery_checkpoint"]) == ("3", "12")
    assert float(values["rookery_uptime_seconds"]) > 0
