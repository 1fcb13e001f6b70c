"""`rookery serve`: what it prints, writes and refuses, and how it stops."""

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httptools")

import uvicorn
from served import checkpoint, policy
from typer.testing import CliRunner

from rookery.cli.main import app
from rookery.core.errors import ConfigError
from rookery.serving.server import IN_PROTOCOL, IN_SERVER, require_uvicorn
from rookery.serving.tokens import read_token


@pytest.fixture
def run(tmp_path):
    (tmp_path / "config.yaml").touch()
    checkpoint(tmp_path, 1, policy(name="blue", hidden=[8]), policy(name="red", hidden=[8]))
    return tmp_path


@pytest.mark.slow
def test_a_server_is_started_asked_and_stopped(run):
    environment = {key: value for key, value in os.environ.items() if key != "ROOKERY_TOKEN"}
    command = [sys.executable, "-m", "rookery", "serve", str(run), "--policy", "red", "--socket", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        lines = dict(server.stdout.readline().strip().split(None, 1) for _ in range(4))
        file = run / "serve.token"
        assert lines["token"] == f"in {file}"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        host, port = lines["http"].removeprefix("http://").split(":")
        web = http.client.HTTPConnection(host, int(port), timeout=10)
        headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
        for _ in range(50):  # it may not listen yet
            try:
                web.request("POST", "/act", json.dumps({"obs": [0, 0, 0, 0]}), headers)
                break
            except ConnectionError:
                time.sleep(0.1)
        answer = json.loads(web.getresponse().read())
        assert (answer["policy"], answer["version"]) == ("red", "000001")
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
        assert "stopped" in server.stdout.read()
        assert not file.exists()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        server.stderr.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "7000", "--socket", "7000"], "give them different ports"),
        (["--host", "192.0.2.7"], "`--host 192.0.2.7` is not an address of this machine"),
        (["--policy", "re"], "did you mean 'red'"),
        (["--token", "long-enough", "--no-token"], "give one of them"),
        (["--token", "short"], "expected 8 to"),
        (["--no-token", "--host", "0.0.0.0"], "reached from other machines"),
        (["--no-token", "--socket", "0"], "leave --no-token out"),
        (["--checkpoint", "7"], "there are 000001"),
    ],
)
def test_what_does_not_go_together_is_refused(run, options, message):
    result = CliRunner(env={"ROOKERY_TOKEN": None}).invoke(app, ["serve", str(run), *options])
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


def test_a_port_that_is_taken_leaves_nothing_behind(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", str(run), "--port", str(port)])
    assert f"--port {port}: cannot listen" in str(result.exception)
    assert not (run / "serve.token").exists()


def test_a_port_of_the_socket_that_is_taken_is_said_by_its_option(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", str(run), "--socket", str(port)])
    assert f"--socket {port}: cannot listen" in str(result.exception)
    assert not (run / "serve.token").exists()


def test_a_run_without_checkpoints_says_how_it_gets_one(tmp_path):
    (tmp_path / "config.yaml").touch()
    result = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert "has no checkpoint yet; rookery resume" in str(result.exception)


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("", 0o600, "is empty"),
        ("short", 0o600, "8 to 1000 printable"),
        ("x" * 2000, 0o600, "8 to 1000 printable"),
        ("long-enough", 0o644, "chmod 600"),
    ],
)
def test_token_files_that_will_not_do(run, tmp_path, content, mode, message):
    file = tmp_path / "a-token"
    file.write_text(content)
    file.chmod(mode)
    result = CliRunner().invoke(app, ["serve", str(run), "--token-file", str(file)])
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception) and f"--token-file {file}: " in str(result.exception)
    file.write_text("long-enough\n")
    file.chmod(0o600)
    assert read_token(file) == "long-enough"


def test_a_missing_token_file_is_created_for_its_owner_alone_and_keeps_its_token(tmp_path):
    file = tmp_path / "token"
    token = read_token(file)
    assert read_token(file) == token == file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="there is no folder"):
        read_token(tmp_path / "missing" / "token")


@pytest.mark.parametrize("package", ["uvicorn", "httptools"])
def test_without_what_answers_http_it_says_what_to_install(run, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    result = CliRunner().invoke(app, ["serve", str(run)])
    assert f"needs the package {package}: pip install 'rookery-rl[serve]'" in str(result.exception)


@pytest.mark.parametrize("name", ["capture_signals", "on_headers_complete", "cycle"])
def test_a_uvicorn_without_what_limits_requests_is_refused_with_a_way_out(name, monkeypatch):
    def whole(self):
        self.connections = self.transport = self.loop = self.headers = self.cycle = None

    def part(self):
        self.connections = self.transport = self.loop = self.headers = None

    methods = {one: None for one in IN_PROTOCOL if one != name}
    protocol = type("HttpToolsProtocol", (), {"__init__": part if name == "cycle" else whole, **methods})
    server = type("Server", (), {one: None for one in IN_SERVER if one != name})
    monkeypatch.setattr("uvicorn.protocols.http.httptools_impl.HttpToolsProtocol", protocol)
    monkeypatch.setattr(uvicorn, "Server", server)
    with pytest.raises(ConfigError, match=f"has no '{name}'; .* pip install 'uvicorn<{uvicorn.__version__}'"):
        require_uvicorn()
    monkeypatch.undo()
    require_uvicorn()
