"""Untrusted runs, policies and experiments: each names code that leaves a mark."""

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


class Watch:
    """Notes what this process does with a folder, or with the network, while it is watched.

    Attributes:
        folder: The folder that nothing may touch, start or import from.
        seen: What happened: files that were opened or listed, programs that were started with the folder in their
            words or their environment, addresses beyond loopback that were listened at.
    """

    def __init__(self):
        self.folder, self.seen = None, []
        sys.addaudithook(self._note)

    def _note(self, event, args):
        if self.folder is None:
            return
        if event == "socket.bind":
            address = args[1]
            if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
                self.seen.append((event, address))
        elif event in TOUCHES and self.folder in repr(args):
            self.seen.append((event, repr(args)[:200]))

    def __call__(self, folder):
        """Watches a folder from now on; None ends it."""
        self.folder = None if folder is None else str(folder)
        self.seen.clear()
        return self.seen


TOUCHES = frozenset(
    ("open", "os.listdir", "os.scandir", "os.mkdir", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen",
     "import", "os.chdir", "os.putenv", "os.remove", "os.rename", "shutil.copyfile", "glob.glob", "ctypes.dlopen")
)  # fmt: skip
"""Events of the interpreter that tell of a file, a program or the environment of processes."""

watch = Watch()
"""The one watch of a process: a hook cannot be taken away again."""
