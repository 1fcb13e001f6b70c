"""`PolicyServer`: serves the policies of a run over a network."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rookery.core.errors import ConfigError, EnvError
from rookery.core.packages import install_line
from rookery.core.process.internal_errors import InternalErrors
from rookery.core.process.interrupt import Interrupt
from rookery.core.settings.trust import TrustCode
from rookery.envs.external.listener import ConnectionLimits, max_unauthenticated
from rookery.serving.batcher import Batcher
from rookery.serving.origins import check_origins
from rookery.serving.socket_clients import SocketClients
from rookery.serving.tokens import has_token, is_loopback
from rookery.serving.versions import load_version
from rookery.serving.watch import CheckpointWatch
from rookery.serving.web import PolicyApp

if TYPE_CHECKING:
    import uvicorn

MAX_HEAD_BYTES = 1 << 16
"""The longest head of an HTTP request."""


@dataclass(frozen=True)
class ServingOptions:
    """Settings of a policy server.

    Attributes:
        host: Address to listen at; ``127.0.0.1`` accepts connections from this machine only.
        port: Port of HTTP; 0 = any free port.
        socket_port: Port of the socket; 0 = any free port; None = no socket.
        token: Token that clients must send; None = none, and no socket.
        likeliest: Whether the most likely actions are returned if a request does not choose; else sampled ones.
        max_batch: Maximum number of observations in a forward pass, and in a request.
        max_sessions: Maximum number of memory rows.
        max_waiting: Maximum number of requests that wait for a forward pass.
        max_connections: Maximum number of connections of each kind.
        max_bytes: Maximum size of a request.
        head_seconds: Time limit for the head of a request.
        seconds: Time between two checks for a newer checkpoint; 0 = never.
        num_threads: Threads of torch in a forward pass.
        draws: Random seed of sampled actions; None = random.
        origins: Origins whose pages in a browser may use the server, or ``*`` for all.
    """

    host: str = "127.0.0.1"
    port: int = 0
    socket_port: int | None = None
    token: str | None = None
    likeliest: bool = True
    max_batch: int = 256
    max_sessions: int = 10_000
    max_waiting: int = 10_000
    max_connections: int = 2048
    max_bytes: int = 8 << 20
    head_seconds: float = 20.0
    seconds: float = 1.0
    num_threads: int = 1
    draws: int | None = None
    origins: tuple[str, ...] = ()


class PolicyServer:
    """Serves the policies of a checkpoint, and of later ones.

    Args:
        checkpoint: The first checkpoint.
        options: Settings of the server.
        run: The run whose newer checkpoints are served once they exist; None = this checkpoint only.
        name: The only policy to serve; None = all.
        newest: Returns the checkpoint of the run to serve; None = the last.
        trust_code: As in `policies/export.py:read_policy`.
        say: Receives messages, one line each.

    Attributes:
        address: Host and port of HTTP.
        socket_address: Host and port of the socket, if there is one.

    Raises:
        ConfigError: If a port is taken, or the server is reachable from other machines without a token.
        FileError: If the checkpoint is broken.
    """

    def __init__(
        self,
        checkpoint: Path,
        options: ServingOptions,
        run: Path | None = None,
        name: str | None = None,
        newest: Callable[[], Path | None] | None = None,
        trust_code: TrustCode = False,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        check_options(options)
        self._options, self._say, self._started = options, say, time.time()
        torch.set_num_threads(options.num_threads)
        version = load_version(checkpoint, [name] if name else (), trust_code)
        names = list(version.policies)
        self._default = names[0] if len(names) == 1 else None
        self._internal_errors = InternalErrors(say)
        self.socket_address: tuple[str, int] | None = None
        self._clients: SocketClients | None = None
        self._watch: CheckpointWatch | None = None
        with contextlib.ExitStack() as undo:  # if a later part fails, earlier parts are closed
            self._listening = listen(options.host, options.port)
            undo.callback(self._listening.close)
            self.address: tuple[str, int] = self._listening.getsockname()[:2]
            self._batcher = Batcher(
                version,
                max_rows=options.max_batch,
                max_waiting=options.max_waiting,
                max_remembered=options.max_sessions,
                internal_errors=self._internal_errors,
                seed=options.draws,
            )
            undo.callback(self._batcher.close)
            if options.socket_port is not None and options.token is not None:
                self._clients = self._socket_clients(options.socket_port, options.token)
                undo.callback(self._clients.close, "the policy server could not begin")
                self.socket_address = self._clients.address
            if run is not None and options.seconds:
                self._watch = CheckpointWatch(
                    run, version, names, trust_code, self._batcher.swap, say, options.seconds, newest
                )
            undo.pop_all()
        self._server: uvicorn.Server | None = None

    def _socket_clients(self, port: int, token: str) -> SocketClients:
        """Starts the socket for clients; raises a ConfigError if its port is taken."""
        options = self._options
        limits = ConnectionLimits(options.max_bytes, options.max_connections)
        at = options.host, port
        try:
            return SocketClients(
                self._batcher, self._default, options.likeliest, *at, token, limits, self._say, self._internal_errors
            )
        except EnvError as error:
            raise ConfigError(
                f"--socket {port}: cannot listen at {at[0]}:{port}; is another program there? Give another port, or 0 "
                "for any that is free"
            ) from error

    def run(self) -> None:
        """Serves until `stop`, or until SIGINT, SIGTERM or SIGHUP; then answers open requests, and returns."""
        interrupt = Interrupt()
        server = self._server = _server(self._app(), self._options, interrupt)
        try:
            with interrupt.watching("stopping: open requests are answered (again to stop at once)"):
                asyncio.run(server.serve(sockets=[self._listening]))
        finally:
            self.close()

    def stop(self) -> None:
        """Makes `run` return; for any thread."""
        if self._server is not None:
            self._server.should_exit = True

    @contextlib.contextmanager
    def running(self) -> Iterator[PolicyServer]:
        """Serves in a separate thread inside the context."""
        thread = threading.Thread(target=self.run, name="server", daemon=True)
        thread.start()
        while thread.is_alive() and not (self._server is not None and self._server.started):
            time.sleep(0.002)
        try:
            yield self
        finally:
            self.stop()
            thread.join()

    def health(self) -> dict[str, Any]:
        """Returns the current version and counters, as JSON."""
        version, sessions, watch = self._batcher.version, self._batcher.sessions, self._watch
        return {
            "version": version.name,
            "digest": version.digest,
            "policies": list(version.policies),
            "seconds": round(time.time() - self._started, 3),
            "version_seconds": round(time.time() - version.loaded, 3),
            "sessions": {"kept": len(sessions), "rows": sessions.rows, "evicted": sessions.evicted},
            "answered": asdict(self._batcher.counts),
            "internal_errors": self._internal_errors.count,
            "checkpoints": {"swapped": watch.swapped if watch else 0, "refused": watch.refused if watch else 0},
        }

    def _app(self) -> PolicyApp:
        options = self._options
        return PolicyApp(
            self._batcher,
            self._default,
            options.likeliest,
            options.token,
            options.max_bytes,
            self.health,
            self._internal_errors,
            options.origins,
        )

    def close(self) -> None:
        """Answers waiting requests, and frees ports and threads; `run` calls it at its end too."""
        if self._watch is not None:
            self._watch.close()
        self._batcher.close()
        if self._clients is not None:
            self._clients.close("the policy server has stopped")
        self._listening.close()


def check_options(options: ServingOptions) -> None:
    """Refuses options that contradict each other, and a missing uvicorn.

    Raises:
        ConfigError: With the problem and a way out.
    """
    require_uvicorn()
    check_origins(options.origins, options.token is not None)
    if options.token is None and not is_loopback(options.host):
        raise ConfigError(
            f"--no-token: host {options.host} can be reached from other machines, which requires a token; leave "
            "--no-token out, or serve at 127.0.0.1"
        )
    if options.token is None and options.socket_port is not None:
        raise ConfigError("--socket: clients of the socket need a token; leave --no-token out")
    if options.port and options.port == options.socket_port:
        raise ConfigError(f"--port and --socket: both are {options.port}; give them different ports")


IN_PROTOCOL = ("connection_made", "on_headers_complete", "data_received", "connection_lost")
"""Methods of uvicorn's protocol that limit the time and size of requests here."""

OF_PROTOCOL = {"connections", "transport", "loop", "headers", "cycle"}
"""Attributes of uvicorn's protocol that these read."""

IN_SERVER = ("capture_signals", "on_tick")
"""Methods of uvicorn's server that leave signals to `Interrupt`."""


def require_uvicorn() -> None:
    """Refuses to serve without the HTTP server, or with one whose parts that are used here have other names.

    Raises:
        ConfigError: With the command that installs one.
    """
    try:
        import httptools  # noqa: F401
        import uvicorn
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError as error:
        raise ConfigError(f"rookery serve needs the package {error.name}: {install_line('serve')}") from None
    missing = [name for name in IN_PROTOCOL if not hasattr(HttpToolsProtocol, name)]
    missing += sorted(OF_PROTOCOL.difference(HttpToolsProtocol.__init__.__code__.co_names))
    missing += [name for name in IN_SERVER if not hasattr(uvicorn.Server, name)]
    if missing:  # without them, requests would have no limits
        raise ConfigError(
            f"rookery serve cannot limit requests with uvicorn {uvicorn.__version__}, which has no {missing[0]!r}; "
            f"install an older one: pip install 'uvicorn<{uvicorn.__version__}'"
        )


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket.

    Raises:
        ConfigError: If the port is taken, or this machine does not have the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only for a socket made with IPPROTO_TCP; else the second half of answers waits 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host.strip("[]"), port))
        made.listen(1024)
    except (OSError, OverflowError, UnicodeError) as error:
        made.close()
        if isinstance(error, socket.gaierror | UnicodeError) or getattr(error, "errno", 0) == errno.EADDRNOTAVAIL:
            raise ConfigError(
                f"`--host {host}` is not an address of this machine; use 127.0.0.1 for this machine only, 0.0.0.0 for "
                "all machines"
            ) from None
        raise ConfigError(
            f"--port {port}: cannot listen at {host}:{port} ({error}); give another port, or 0 for any that is free"
        ) from None
    made.setblocking(False)
    return made


def _protocol(options: ServingOptions) -> type[asyncio.Protocol]:
    """Returns the protocol class that reads the requests of a connection."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    most = max_unauthenticated(options.max_connections)
    strangers: dict[HeadTimeoutProtocol, None] = {}  # connections that have not sent the token, the oldest first

    class HeadTimeoutProtocol(HttpToolsProtocol):
        """Closes a connection if the head of a request takes too long, or is too long; the application limits time and
        size of bodies. Closes the oldest connection that has not sent the token if there are too many.
        """

        late: asyncio.TimerHandle | None = None
        head_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if strangers and (len(strangers) >= most or len(self.connections) >= options.max_connections):
                oldest = next(iter(strangers))
                del strangers[oldest]
                oldest.transport.abort()
                self.connections.discard(oldest)
            super().connection_made(transport)
            strangers[self] = None
            self.late = self.loop.call_later(options.head_seconds, transport.close)

        def on_headers_complete(self) -> None:
            if options.token is None or has_token(dict(self.headers), options.token):
                strangers.pop(self, None)
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            waits = self.cycle is None or (self.cycle is before and before.response_complete)
            self.head_bytes = self.head_bytes + len(data) if waits else 0
            if self.head_bytes > MAX_HEAD_BYTES:
                self.transport.close()
            if waits and self.late is None:
                self.late = self.loop.call_later(options.head_seconds, self.transport.close)
            elif not waits:
                self.in_time()

        def connection_lost(self, exc: Exception | None) -> None:
            self.in_time()
            strangers.pop(self, None)
            super().connection_lost(exc)

        def in_time(self) -> None:
            """Stops the clock."""
            if self.late is not None:
                self.late.cancel()
                self.late = None

    return HeadTimeoutProtocol


def _server(app: PolicyApp, options: ServingOptions, interrupt: Interrupt) -> uvicorn.Server:
    """Returns the HTTP server, which leaves signals to `interrupt`."""
    import uvicorn

    class Server(uvicorn.Server):
        """Stops after a signal."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def on_tick(self, counter: int) -> bool:
            return await super().on_tick(counter) or interrupt.number is not None

    return Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            http=_protocol(options),
            ws="none",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=10,
            limit_concurrency=options.max_connections + 1,  # the count includes the current connection
        )
    )
