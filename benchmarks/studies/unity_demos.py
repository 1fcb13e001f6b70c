"""Demonstrations of Unity beside ML-Agents' own reader: ``unity_demos.py FOLDER``; writes
benchmarks/results/unity_demos.md.

Each file ``*.demo`` below FOLDER is read by Rookery (`read_unity`) and by `make_demo_buffer` of mlagents 1.1.0, and all
decisions are compared bit by bit: observations, actions, the reward that follows, and whether the episode ends
there. ML-Agents' rows that begin where an episode has ended are no decisions, and are left out. The peer needs
``benchmarks/peers/install.sh mlagents``, or ``--peer PYTHON``.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from rookery.face import RookeryError, Wanted
from rookery_mlagents.files.demo_replay import read_unity

BENCHMARKS = Path(__file__).parents[1]
PEER = BENCHMARKS / "peers" / ".venv-mlagents" / "bin" / "python"
PAGE = BENCHMARKS / "results" / "unity_demos.md"

HEAD = (
    "| file | SHA-1 | rows | behavior | shapes | actions | episodes | decisions | equal: observations | actions | "
    "rewards | ends |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def files_below(folder: Path) -> list[Path]:
    """Returns the files of a folder, each content once."""
    by_content: dict[bytes, Path] = {}
    for path in sorted(folder.rglob("*.demo")):
        by_content.setdefault(path.read_bytes(), path)
    return list(by_content.values())


def same(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Returns ``yes``, or the number of decisions that differ."""
    if ours.shape != theirs.shape:
        return f"{list(ours.shape)}, not {list(theirs.shape)}"
    differ = int((ours != theirs).reshape(len(ours), -1).any(axis=1).sum())
    return f"{differ:,} differ" if differ else "yes"


def compared(path: Path, theirs: dict[str, np.ndarray]) -> list[str]:
    """Returns the cells of a file that both have read."""
    ((name, recording),) = read_unity(path, Wanted()).items()
    episodes, spec = recording.episodes, recording.spaces.action
    kept = ~theirs["begins_at_end"]
    num_sensors = sum(key.startswith("obs_") for key in theirs)
    seen = [leaf for leaf in recording.spaces.obs.leaves if leaf.kind != "mask"]
    assert len(seen) == num_sensors
    verdicts, shapes = set(), []
    for number, leaf in enumerate(seen):
        ours, wanted = np.concatenate([one.obs[leaf.path] for one in episodes]), theirs[f"obs_{number}"][kept]
        shapes.append("x".join(map(str, leaf.shape)) or "none")
        if leaf.kind == "discrete":  # of an agent without observations
            ours = np.zeros((len(ours), 0))
        if leaf.dtype == np.uint8:
            ours = ours.astype(np.float32) / np.float32(leaf.scale)
        turned = ours.shape != wanted.shape and bool(theirs["turned"])
        verdicts.add(same(np.moveaxis(ours, -1, 1) if turned else ours, wanted))
    acts = np.concatenate([one.action for one in episodes]).reshape(sum(map(len, episodes)), -1)
    choices = len(spec.sizes)
    parts = {"discrete": acts[:, :choices], "continuous": acts[:, choices:]}
    acted = {same(part, theirs[key][kept].astype(part.dtype)) for key, part in parts.items() if part.shape[1]}
    rewards = np.concatenate([one.reward for one in episodes if one.reward is not None])
    ends = np.concatenate([np.arange(len(one)) == len(one) - 1 for one in episodes])
    ended = np.repeat([one.terminated or one.truncated for one in episodes], [len(one) for one in episodes])
    decides = ", ".join(
        [f"{spec.num_numbers} numbers"] * bool(spec.num_numbers) + [f"{list(spec.sizes)}"] * bool(choices)
    )
    return [
        f"{int(theirs['rows']):,}", name, ", ".join(shapes), decides, f"{len(episodes):,}", f"{int(kept.sum()):,}",
        "; ".join(sorted(verdicts)), "; ".join(sorted(acted)), same(rewards, theirs["reward"][kept]),
        same(ends & ended, theirs["done"][kept]),
    ]  # fmt: skip


def row_of(path: Path, result: Path) -> str:
    """Returns the row of a file; `result` is the peer's, without its suffix."""
    digest = hashlib.sha1(path.read_bytes()).hexdigest()[:8]
    cells = [path.stem, digest]
    refused = result.with_suffix(".txt")
    if refused.exists():
        try:
            read_unity(path, Wanted())
            ours = "reads it"
        except RookeryError as error:
            ours = f"refuses it: {str(error).removeprefix(f'{path}: ')}"
        return f"| {' | '.join(cells)} | ML-Agents refuses it: {refused.read_text(encoding='utf-8')} Rookery {ours} |"
    with np.load(result.with_suffix(".npz")) as stored:
        theirs = dict(stored)
    if theirs["agents_mix"]:
        return f"| {' | '.join(cells)} | {int(theirs['rows']):,} | several agents in turn, which ML-Agents mixes |"
    return f"| {' | '.join([*cells, *compared(path, theirs)])} |"


def main() -> None:
    """Compares and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", type=Path, default=PEER)
    args = parser.parse_args()
    files = files_below(args.folder)
    with tempfile.TemporaryDirectory() as folder:
        words = [str(args.peer), str(BENCHMARKS / "peers" / "mlagents_demos.py"), *map(str, files), folder]
        subprocess.run(words, check=True, capture_output=True)
        rows = [row_of(path, Path(folder) / str(number)) for number, path in enumerate(files)]
    page = ["# Demonstrations of Unity, file by file", "", *(__doc__ or "").splitlines()[3:], "", *HEAD, *rows, ""]
    page.append("`python benchmarks/studies/unity_demos.py FOLDER`, mlagents 1.1.0.")
    PAGE.write_text("\n".join(page) + "\n", encoding="utf-8")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
