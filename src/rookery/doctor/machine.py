"""`machine_report`: the machine and the installation, for bug reports and questions of speed; ``rookery doctor`` alone.

A report contains no values of environment variables and no tokens, and the home folder is written as ``~``.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from rookery.core.device import check_compiler, devices
from rookery.core.errors import ConfigError
from rookery.core.io.signing import NoKeyError, key_file
from rookery.core.native import FOLDER, SWITCH, best_build, candidates
from rookery.core.packages import install_line
from rookery.core.process.cpu import usable_cores
from rookery.envs.native.compiler import find_compiler
from rookery.report.finding import Finding
from rookery.run.checkpoint.run_dir import versions
from rookery.run.findings.catalog import causes_first, finding

EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "envs": (("Box2D", "minigrid", "mpe2"), "Box2D, MiniGrid and multi-agent particle environments"),
    "mujoco": (("mujoco",), "MuJoCo's robots"),
    "atari": (("ale_py",), "Atari's games"),
    "minatar": (("minatar",), "MinAtar"),
    "envpool": (("envpool",), "EnvPool's vectorized environments"),
    "plot": (("matplotlib",), "rookery plot"),
    "tune": (("optuna", "cmaes", "scipy", "pandas"), "Optuna's searches, tables of experiments"),
    "ray": (("ray",), "workers and learners on several machines"),
    "keras": (("keras",), "TensorFlow models of RLlib scripts"),
    "video": (("av",), "videos as MP4"),
    "onnx": (("onnx", "onnxruntime"), "rookery export, and its check"),
    "unity": (("grpc", "google.protobuf"), "Unity players and the Editor"),
    "serve": (("uvicorn", "httptools"), "rookery serve"),
    "hdf5": (("h5py",), "replay in HDF5 files"),
    "hub": (("huggingface_hub",), "models on the Hugging Face Hub, for ML-Agents' commands"),
    "offline": (("minari", "h5py", "pyarrow"), "data sets of Minari, replay in Parquet files"),
}
"""Modules of each extra, and what they are for."""

PORTS = {8000: "rookery serve", 6006: "tensorboard", 5004: "Unity's Editor", 5005: "Unity players", 6379: "Ray"}
"""Ports that are usual, and what listens there."""

WRITTEN = 32 * 2**20
"""Bytes that are written to measure the disk."""

FULL_SHARE, FULL_BYTES = 0.05, 5 * 2**30
"""Free share and bytes of a disk below which it is near full."""


@dataclass(frozen=True)
class MachineReport:
    """The machine and the installation.

    Attributes:
        facts: Values by name, in sections: texts, numbers, lists and None for unknown ones.
        findings: Problems, the worst first.
    """

    facts: Mapping[str, Mapping[str, Any]]
    findings: tuple[Finding, ...] = field(default=())

    def lines(self) -> list[str]:
        """Returns the printable report."""
        lines = []
        for section, facts in self.facts.items():
            shown = [f"{name} {_text(value)}" for name, value in facts.items() if value not in (None, "")]
            lines += [f"{section if not number else '':<10} {text}" for number, text in enumerate(shown)]
        for one in self.findings:
            lines.append(f"{one.severity:<10} {one.message} [{one.rule}]")
            lines += [f"{'':<10} try {text}" for text in one.remedies]
        return lines

    def to_json(self) -> str:
        """Returns the report as one JSON object, for bug reports."""
        found = [{**one.row(), "causes": list(one.causes)} for one in self.findings]
        return json.dumps(_without_home({**self.facts, "findings": found}), indent=1)


def machine_report(folder: Path | None = None) -> MachineReport:
    """Looks at the machine and the installation; takes about a second.

    Args:
        folder: Folder whose disk is measured, that of the runs; None = the working directory.
    """
    place = _existing(folder or Path.cwd())
    facts: dict[str, dict[str, Any]] = {
        "versions": dict(versions()),
        "python": {"program": sys.executable, "implementation": platform.python_implementation(),
                   "virtual environment": sys.prefix != sys.base_prefix},
        "torch": _torch(),
        "kernels": _kernels(),
        "compilers": _compilers(),
        "cpu": _cpu(),
        "memory": _memory(),
        "disk": _disk(place),
        "extras": {name: _extra(name) for name in EXTRAS},
        "keys": _keys(),
        "ports": {str(port): f"{what}: {_port(port)}" for port, what in PORTS.items()},
    }  # fmt: skip
    return MachineReport(_without_home(facts), tuple(causes_first(_findings(facts))))


# --- facts ------------------------------------------------------------------------------------------------------------


def _torch() -> dict[str, Any]:
    """Returns torch's build, its devices, and why there are no better ones."""
    found = devices()
    gpus = (
        [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())] if "cuda" in found else []
    )
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    return {
        "build": built,
        "devices": found,
        "GPUs": gpus,
        "reason": "" if gpus or not _has_nvidia() else _why_no_cuda(built),
        "threads": torch.get_num_threads(),
        "CPU instructions": torch.backends.cpu.get_cpu_capability(),
    }


def _has_nvidia() -> bool:
    """Whether the system has a GPU of NVIDIA with its driver."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _why_no_cuda(built: str) -> str:
    """Returns the reason why torch does not use a GPU that the system has."""
    if built == "CPU only":
        return "this build of torch has no CUDA: https://pytorch.org/get-started has one"
    return "torch finds no GPU, although there is a driver: compare nvidia-smi, and the versions of driver and CUDA"


def _kernels() -> dict[str, Any]:
    """Returns the build of the kernels that is used, and why none of the better ones is."""
    possible = candidates()
    try:
        build = best_build()
    except ConfigError:
        return {"build": "none", "reason": f"the variable {SWITCH} has an invalid value"}
    better = possible if build is None else possible[: possible.index(build.name)] if build.name in possible else ()
    missing = [name for name in better if not (FOLDER / f"{name}.so").exists()]
    if os.environ.get(SWITCH) not in (None, "", "1"):
        reason = f"the variable {SWITCH} chooses it"
    elif missing:
        reason = f"not built: {', '.join(missing)}"
    else:
        reason = f"damaged, or of another version: {', '.join(better)}" if better else ""
    best = "x86-64-v4"
    if build is not None and not reason and platform.machine().lower() in ("x86_64", "amd64") and build.name != best:
        reason = f"this CPU cannot run {best}: it lacks its instructions"
    unit = build is not None and build.has_matrix_unit
    name = "none" if build is None else f"{build.name}{' with the matrix unit' * unit}"
    return {"build": name, "reason": reason}


def _compilers() -> dict[str, Any]:
    """Returns the compilers, and why `torch.compile` has none."""
    named = os.environ.get("CXX", "")
    cpp = next((one for one in ([named] if named else ["c++", "g++", "clang++"]) if _runs(one)), "")
    compiles = "has a compiler"
    try:
        check_compiler()
    except ConfigError:  # its text has the value of a variable
        compiles = "has no headers of Python" if cpp else "has no C++ compiler"
    return {"C++": _version(shlex.split(cpp)), "C": _version(find_compiler()), "torch.compile": compiles}


def _runs(command: str) -> bool:
    """Whether the program of a command exists."""
    words = shlex.split(command)
    return bool(words) and shutil.which(words[0]) is not None


def _version(command: list[str]) -> str:
    """Returns the first line of a compiler's version, or ``none``."""
    if not command:
        return "none"
    with suppress(OSError, subprocess.SubprocessError):
        ran = subprocess.run([command[0], "--version"], capture_output=True, text=True, timeout=10, check=False)
        return next(iter(ran.stdout.splitlines()), "") or "no version"
    return "does not start"


def _cpu() -> dict[str, Any]:
    """Returns the model, the cores and the load of the CPU."""
    model = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), model)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "model": model or None,
        "cores of this process": usable_cores(),
        "cores of the machine": os.cpu_count(),
        "quota of the container": _quota(),
        "load of the last minute": None if load is None else round(load, 2),
    }


def _quota() -> float | None:
    """Returns the cores that a container may use on average; None without a limit."""
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        return round(int(quota) / int(period), 2)
    return None


def _memory() -> dict[str, Any]:
    """Returns the RAM of the machine and the limit of a container, in GiB."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            found[name] = int(value.split()[0]) * 1024
    if not found and hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            found["MemTotal"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = None
    with suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8"))
    return {"RAM, GiB": _gib(found.get("MemTotal")), "free, GiB": _gib(found.get("MemAvailable")),
            "limit of the container, GiB": _gib(limit)}  # fmt: skip


def _gib(size: int | None) -> float | None:
    """Returns bytes as GiB."""
    return None if size is None else round(size / 2**30, 1)


def _existing(folder: Path) -> Path:
    """Returns the folder, or the first one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())


def _disk(folder: Path) -> dict[str, Any]:
    """Returns size and speed of the disk of a folder; the file that is written for it is removed."""
    use = shutil.disk_usage(folder)
    facts: dict[str, Any] = {"folder": str(folder), "GiB": _gib(use.total), "free, GiB": _gib(use.free)}
    if use.free < 4 * WRITTEN:
        return facts | {"written": "not measured: too little is free"}
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".rookery-disk-") as file:
            block, began = os.urandom(WRITTEN // 8), perf_counter()
            for _ in range(8):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            written = perf_counter() - began
            began = perf_counter()
            for _ in range(5):
                file.write(b"x")
                file.flush()
                os.fsync(file.fileno())
            flushed = (perf_counter() - began) / 5
    except OSError as error:
        return facts | {"written": f"cannot be written: {error.strerror}"}
    return facts | {"written, MB/s": round(WRITTEN / written / 1e6), "a flush, ms": round(1000 * flushed, 2)}


def _extra(name: str) -> str:
    """Returns the state of an extra, and what it is for."""
    modules, what = EXTRAS[name]
    missing = [module for module in modules if not _is_here(module)]
    if not missing:
        return f"installed: {what}"
    state = "not installed" if len(missing) == len(modules) else f"without {', '.join(missing)}"
    return f"{state}: {what}; {install_line(name)}"


def _is_here(module: str) -> bool:
    """Whether a module is installed; it is not imported."""
    with suppress(ImportError, ValueError):  # a package above it is missing
        return find_spec(module) is not None
    return False


def _keys() -> dict[str, Any]:
    """Returns the state of the key that signs files, never its content."""
    try:
        path = key_file()
    except NoKeyError as error:
        return {"signing": f"none: {error}"}
    if not path.exists():
        return {"signing": "none yet; the first run makes one"}
    private = not hasattr(os, "getuid") or not path.stat().st_mode & 0o077
    return {"signing": f"{path}{'' if private else ', readable by others'}"}


def _port(port: int) -> str:
    """Returns whether a port of this machine is free."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return "in use"
    return "free"


# --- findings ---------------------------------------------------------------------------------------------------------


def _findings(facts: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Yields problems of the machine and the installation."""
    kernels, disk, cpu = facts["kernels"], facts["disk"], facts["cpu"]
    reason, none = kernels["reason"], kernels["build"] == "none"
    if none or reason.startswith(("not built", "damaged")):
        text = "small networks run in PyTorch, slower: there are no kernels" if none else "better kernels are not used"
        yield finding("kernels-missing", text, *filter(None, (reason,)))
    if why := facts["torch"]["reason"]:
        yield finding("gpu-unused", "torch does not use the GPU of this machine", why)
    free = disk["free, GiB"] * 2**30
    if free < min(FULL_BYTES, FULL_SHARE * disk["GiB"] * 2**30):
        text = f"{disk['free, GiB']} GiB are free on the disk of the runs"
        yield finding("disk-full", text, severity="error" if free < 4 * WRITTEN else "warning", remedies=())
    quota, load, cores = cpu["quota of the container"], cpu["load of the last minute"], cpu["cores of this process"]
    if quota is not None and quota < cores:
        yield finding("cores-limited", f"the container may use {quota} of {cores} cores")
    if load is not None and load > 1.5 * (cpu["cores of the machine"] or 1):
        yield finding("cores-busy", f"other programs use the cores: load {load}")


# --- text -------------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    """Returns a value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _without_home(value: Any) -> Any:
    """Returns a value in whose texts the home folder is ``~``."""
    if isinstance(value, Mapping):
        return {key: _without_home(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_home(inner) for inner in value]
    if not isinstance(value, str):
        return value
    for home in _homes():
        value = value.replace(home, "~")
    return value


def _homes() -> list[str]:
    """Returns the home folder as it is named and as it is resolved, the longest first."""
    with suppress(RuntimeError, OSError):
        home = Path.home()
        return sorted(
            {str(path) for path in (home, Path(os.path.realpath(home))) if path != Path(path.anchor)},
            key=len,
            reverse=True,
        )
    return []
