"""``rookery serve``: answers observations with actions, over HTTP and a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rookery.cli.runs import SavedRun, TrustedCode, find_saved
from rookery.core.errors import ConfigError, nearest
from rookery.core.files import FOLDER


def serve(
    run: SavedRun,
    policy: Annotated[str | None, typer.Option(help="Which policy.", metavar="NAME", show_default="all")] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; this one is reached from here alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of HTTP; 0 = any that is free.")] = 0,
    socket: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of the socket of rookery.Client; 0 = any that is free.",
            show_default="no socket",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="ROOKERY_TOKEN",
            help="What has to be shown to be answered.",
            show_default="a new one, in RUN/serve.token",
            show_envvar=True,
        ),
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
    if token is not None and no_token:
        raise ConfigError("--token and --no-token: say one of them")
    saved = find_saved(run, checkpoint)
    from rookery.policies.export import policy_names
    from rookery.serving.server import PolicyServer, ServingOptions, check
    from rookery.serving.tokens import FILE, check_token, new_token, remove_token, write_token
    from rookery.training.checkpoint import best_name

    names = policy_names(saved)
    if policy is not None and policy not in names:
        raise ConfigError(f"--policy {policy}: there are {', '.join(names)} in {saved}{nearest(policy, names)}")
    if token is not None:
        check_token(token)
    shown = None if no_token else token or new_token()
    options = ServingOptions(
        host, port, socket, shown, deterministic, max_batch, max_sessions, max_bytes=max_bytes, seconds=reload,
        num_threads=threads,
    )  # fmt: skip
    check(options)
    named = saved in (run, run.resolve()) or checkpoint not in ("last", "best")
    folder = saved.parent.parent if saved.parent.name == FOLDER else saved

    def best() -> Path | None:
        name = best_name(folder / FOLDER)
        return None if name is None else folder / FOLDER / name

    server = PolicyServer(
        saved,
        options,
        None if named else folder,
        policy,
        best if checkpoint == "best" else None,
        trust_code,
        lambda line: typer.echo(line, err=True),
    )
    file = folder / FILE if shown is not None and token is None else None
    try:
        if file is not None and shown is not None:
            write_token(file, shown)
        address = f"[{server.address[0]}]" if ":" in server.address[0] else server.address[0]
        typer.echo(
            f"serving   {policy or ', '.join(names)} of {saved}{'' if named or not reload else ', and newer ones'}"
        )
        typer.echo(f"http      http://{address}:{server.address[1]}")
        if server.socket_address is not None:
            typer.echo(f"socket    {address}:{server.socket_address[1]}")
        typer.echo(f"token     {'none' if no_token else 'as given' if file is None else f'in {file}'}")
        server.run()
    finally:
        server.close()
        if file is not None and shown is not None:
            remove_token(file, shown)
    typer.echo("stopped")
