"""``rookery serve``: answers observations with actions, over HTTP and a socket."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.errors import ConfigError, nearest
from rookery.core.io.files import FOLDER

SocketPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Port of the socket of rookery.Client; 0 = any that is free.",
        show_default="no socket",
    ),
]

Token = Annotated[
    str | None,
    typer.Option(
        envvar="ROOKERY_TOKEN",
        help="What has to be shown to be answered.",
        show_default="a new one, in RUN/serve.token",
        show_envvar=True,
    ),
]


def serve(
    run: SavedRun,
    policy: Annotated[str | None, typer.Option(help="Which policy.", metavar="NAME", show_default="all")] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; this one is reached from here alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of HTTP; 0 = any that is free.")] = 0,
    socket: SocketPort = None,
    token: Token = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file to read it from, which its owner alone can read.", show_default=False)
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Answer everybody on this machine.")] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic/--sampled", help="The likeliest actions, or drawn ones.")
    ] = True,
    max_batch: Annotated[int, typer.Option(min=1, help="Observations in a forward pass and in a request.")] = 256,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions whose memory is kept at most.")] = 10_000,
    max_bytes: Annotated[int, typer.Option(min=1024, help="The largest request, in bytes.")] = 8 << 20,
    threads: Annotated[int, typer.Option(min=1, help="Threads of a forward pass.")] = 1,
    reload: Annotated[
        float, typer.Option(min=0.0, help="Seconds between looks for a newer checkpoint; 0 = never.")
    ] = 1.0,
    checkpoint: Annotated[
        str, typer.Option(help="Which: last, best (both are followed as the run trains) or a number.")
    ] = "last",
    trust_code: TrustedCode = False,
) -> None:
    """Answer observations with the actions of a run's policies, as it trains or afterwards, until Ctrl-C or SIGTERM.

    rookery serve runs/CartPole-v1-ppo-s3 --port 8000
    """
    if (token is not None or token_file is not None) and no_token:
        raise ConfigError("--token, --token-file and --no-token: say one of them")
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
    options = ServingOptions(host, port, socket, shown, deterministic, seconds=reload, **limits)
    check_options(options)
    folder = saved.parent.parent if saved.parent.name == FOLDER else saved
    follows = bool(reload) and saved not in (run, run.resolve()) and checkpoint in ("last", "best")
    newest = partial(best_of, folder) if checkpoint == "best" else None
    say = partial(typer.echo, err=True)
    server = PolicyServer(saved, options, folder if follows else None, policy, newest, trust_code, say)
    file = folder / FILE if shown is not None and token is None else None
    try:
        with stored_token(file, shown or ""):
            typer.echo(f"serving   {policy or ', '.join(names)} of {saved}{', and newer ones' if follows else ''}")
            typer.echo(f"http      http://{written(server.address)}")
            if server.socket_address is not None:
                typer.echo(f"socket    {written(server.socket_address)}")
            typer.echo(f"token     {'none' if no_token else 'as given' if file is None else f'in {file}'}")
            server.run()
    finally:
        server.close()
    typer.echo("stopped")


def written(address: tuple[str, int]) -> str:
    """Writes an address as it stands in a URL."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def best_of(folder: Path) -> Path | None:
    """Gives the checkpoint of a run that is called the best by now."""
    from rookery.run.checkpoint.checkpoint import best_name

    name = best_name(folder / FOLDER)
    return None if name is None else folder / FOLDER / name
