"""``rookery mlagents push-to-hf`` and ``load-from-hf``: runs on the Hugging Face Hub, as ML-Agents' own commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rookery.face import ConfigError, needed, yaml_layer
from rookery_mlagents.files.run_files import CONFIGURATION

STAYING = ["run.lock", ".tmp-*", "**/.tmp-*"]
"""Files of a run that are not uploaded."""

Repo = Annotated[str, typer.Option(metavar="OWNER/NAME", help="Repository on the Hub.")]


def push_to_hf(
    repo_id: Repo,
    local_dir: Annotated[Path, typer.Option(help="Folder of the run.")] = Path(),
    run_id: Annotated[str | None, typer.Option(help="Name of the run; default: that of its folder.")] = None,
    commit_message: Annotated[str, typer.Option(help="Message of the commit.")] = "Push to Hub",
    configfile_name: Annotated[str, typer.Option(help="Configuration in the folder.")] = CONFIGURATION,
) -> None:
    """Upload a run with its models and a model card to the Hugging Face Hub.

    rookery mlagents push-to-hf --repo-id me/basic --local-dir results/basic
    """
    check_repo(repo_id)
    if not local_dir.is_dir():
        raise ConfigError(f"--local-dir: there is no folder {local_dir}")
    values = dict(yaml_layer(local_dir / configfile_name).values)
    behaviors = values.get("behaviors")
    if not isinstance(behaviors, dict) or not behaviors:
        raise ConfigError(f"{local_dir / configfile_name}: names no behavior; give the folder of a run")
    api = hub().HfApi()
    url = api.create_repo(repo_id=repo_id, exist_ok=True)
    api.upload_folder(
        repo_id=repo_id, folder_path=local_dir, commit_message=commit_message, ignore_patterns=list(STAYING)
    )
    name = run_id or local_dir.resolve().name
    for path, text in (("config.json", json.dumps(values)), ("README.md", model_card(name, behaviors))):
        api.upload_file(
            repo_id=repo_id, path_or_fileobj=text.encode(), path_in_repo=path, commit_message=commit_message
        )
    typer.echo(f"pushed: {url}")


def load_from_hf(
    repo_id: Repo, local_dir: Annotated[Path, typer.Option(help="Folder for the repository.")] = Path()
) -> None:
    """Download a run from the Hugging Face Hub.

    rookery mlagents load-from-hf --repo-id me/basic --local-dir results
    """
    target = local_dir / check_repo(repo_id)
    hub().snapshot_download(repo_id=repo_id, local_dir=target)
    typer.echo(f"written: {target}; another user may have written it (docs/trust.md)")


def check_repo(repo_id: str) -> str:
    """Returns the name of a repository without its owner.

    Raises:
        ConfigError: If it is not ``OWNER/NAME``.
    """
    owner, _, name = repo_id.partition("/")
    if not owner or not name or "/" in name or name in (".", ".."):
        raise ConfigError(f"--repo-id {repo_id!r}: must be OWNER/NAME")
    return name


def hub() -> Any:
    """Imports the client of the Hub.

    Raises:
        ConfigError: If it is not installed.
    """
    with needed("the Hugging Face Hub needs the package huggingface_hub", "hub"):
        import huggingface_hub
    return huggingface_hub


def model_card(run: str, behaviors: dict[str, Any]) -> str:
    """Returns the text of ``README.md`` on the Hub, with the tags by which the Hub finds models of ML-Agents."""
    trainers = {name: (one or {}).get("trainer_type", "ppo") for name, one in behaviors.items()}
    first = next(iter(trainers))
    tags = "".join(
        f"- {tag}\n" for tag in (first, "deep-reinforcement-learning", "reinforcement-learning", f"ML-Agents-{first}")
    )
    rows = "".join(f"| {name} | {trainer} | `{name}.onnx` |\n" for name, trainer in trainers.items())
    return (
        f"---\nlibrary_name: ml-agents\ntags:\n{tags}---\n\n# {run}\n\nTrained with Rookery from a configuration of "
        f"Unity ML-Agents.\n\n| behavior | trainer | model for Unity |\n|---|---|---|\n{rows}\nContinue with "
        f"`rookery mlagents learn --run-id {run} --resume`.\n"
    )
