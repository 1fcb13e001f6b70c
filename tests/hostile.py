"""Runs, policies and experiments as somebody else might hand them over: each names code that leaves a mark."""

import hashlib
import json
import sys

MODULE = "hostile_package.inner"

SOURCE = """
from pathlib import Path
MARK = Path({mark!r})
MARK.touch()
def call(*args, **kwargs): MARK.touch()
class Thing: pass
"""


def plant(folder, monkeypatch):
    """Makes the package that hostile files name; gives the file that is there as soon as any of it runs."""
    mark = folder / "it-ran"
    package = folder / "path" / "hostile_package"
    package.mkdir(parents=True)
    for name in ("__init__", "inner"):
        (package / f"{name}.py").write_text(SOURCE.format(mark=str(mark)))
    monkeypatch.syspath_prepend(str(folder / "path"))
    for name in ("hostile_package", MODULE):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return mark


def rewrite(checkpoint, name, change, *, signed=False):
    """Changes a file of JSON in a checkpoint as its author could: with hashes that are right, without a signature."""
    content = json.loads((checkpoint / name).read_text())
    change(content)
    (checkpoint / name).write_text(json.dumps(content))
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    content = (checkpoint / name).read_bytes()
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    if not signed:
        manifest.pop("signature", None)
    write_manifest(checkpoint, manifest)


def write_manifest(checkpoint, manifest):
    manifest.pop("sha256", None)
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (checkpoint / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True))
