"""``rookery serve``: serves policies over HTTP and a socket."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.errors import ConfigError, nearest
from rookery.core.io.files import FOLDER, best_name

SocketPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Port of the socket for rookery.Client; 0 = any free port.",
        show_default="no socket",
    ),
]

Token = Annotated[
    str | None,
    typer.Option(
        envvar="ROOKERY_TOKEN",
        help="Token that clients must send.",
        show_default="a new one, in RUN/serve.token",
        show_envvar=True,
    ),
]

TokenFile = Annotated[
    Path | None,
    typer.Option(help="File with the token, readable by its owner only; created if missing.", show_default=False),
]

Origins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="Origin whose web pages may send requests; repeatable.",
        show_default=False,
    ),
]


def serve(
    run: SavedRun,
    policy: Annotated[str | None, typer.Option(help="Policy to serve.", metavar="NAME", show_default="all")] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 = all networks.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of HTTP; 0 = any free port.")] = 0,
    socket: SocketPort = None,
    token: Token = None,
    token_file: TokenFile = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Accept all clients on this machine without a token.")
    ] = False,
    allow_origin: Origins = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic/--sampled", help="Most likely actions, or sampled ones.")
    ] = True,
    max_batch: Annotated[int, typer.Option(min=1, help="Observations in a forward pass and in a request.")] = 256,
    max_sessions: Annotated[int, typer.Option(min=1, help="Maximum number of sessions with a memory.")] = 10_000,
    max_bytes: Annotated[int, typer.Option(min=1024, help="Maximum size of a request, in bytes.")] = 8 << 20,
    threads: Annotated[int, typer.Option(min=1, help="Threads of a forward pass.")] = 1,
    reload: Annotated[
        float, typer.Option(min=0.0, help="Seconds between checks for a newer checkpoint; 0 = never.")
    ] = 1.0,
    checkpoint: Annotated[
        str, typer.Option(help="Checkpoint: last or best (newer ones are loaded while the run trains), or a number.")
    ] = "last",
    trust_code: TrustedCode = False,
) -> None:
    """Serve the policies of a run over HTTP: POST an observation, get an action; until Ctrl-C or SIGTERM.

    rookery serve runs/CartPole-v1-ppo-s3 --port 8000
    """
    if (token is not None or token_file is not None) and no_token:
        raise ConfigError("--token, --token-file and --no-token exclude each other: give one of them")
    if token_file is not None:
        from rookery.serving.tokens import read_token

        token = read_token(token_file)  # wins over ROOKERY_TOKEN
    saved = find_saved(run, checkpoint)
    from rookery.policies.export import policy_names
    from rookery.serving.server import PolicyServer, ServingOptions, check_options
    from rookery.serving.tokens import FILE, check_token, new_token, stored_token

    names = policy_names(saved)
    if policy is not None and policy not in names:
        raise ConfigError(f"--policy {policy}: there are {', '.join(names)} in {saved}{nearest(policy, names)}")
    if token is not None:
        check_token(token)
    shown = None if no_token else token or new_token()
    limits = {"max_batch": max_batch, "max_sessions": max_sessions, "max_bytes": max_bytes, "num_threads": threads}
    origins = tuple(allow_origin or ())
    options = ServingOptions(host, port, socket, shown, deterministic, seconds=reload, origins=origins, **limits)
    check_options(options)
    folder = saved.parent.parent if saved.parent.name == FOLDER else saved
    follows = bool(reload) and saved not in (run, run.resolve()) and checkpoint in ("last", "best")
    newest = partial(best_checkpoint, folder) if checkpoint == "best" else None
    say = partial(typer.echo, err=True)
    server = PolicyServer(saved, options, folder if follows else None, policy, newest, trust_code, say)
    file = folder / FILE if shown is not None and token is None else None
    try:
        with stored_token(file, shown or ""):
            typer.echo(f"serving   {policy or ', '.join(names)} of {saved}{', and newer ones' if follows else ''}")
            typer.echo(f"http      http://{url_host(server.address)}")
            if server.socket_address is not None:
                typer.echo(f"socket    {url_host(server.socket_address)}")
            typer.echo(f"token     {'none' if no_token else 'as given' if file is None else f'in {file}'}")
            server.run()
    finally:
        server.close()
    typer.echo("stopped")


def url_host(address: tuple[str, int]) -> str:
    """Returns an address as in a URL."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def best_checkpoint(folder: Path) -> Path | None:
    """Returns the checkpoint of a run that is marked as the best now."""
    name = best_name(folder / FOLDER)
    return None if name is None else folder / FOLDER / name
