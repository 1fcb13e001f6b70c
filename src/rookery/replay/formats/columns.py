"""Rows of tables as episodes: which column is what, where an episode ends, and what is wrong in which row.

Files with named columns (``.npz``, ``.csv``, ``.parquet``, RLlib's batches) differ in how columns are read; all else is
here. Numbers of such files are the environment's own: actions as it takes them, categories as it counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import ConfigError, SpaceError, nearest
from rookery.core.spaces import CATEGORIES, MASK, Leaf, ObsSpec, Tree, action_spec, obs_spec
from rookery.replay.recording import RecordedEpisode, Recording
from rookery.replay.segments import Spaces

ALIASES: dict[str, tuple[str, ...]] = {
    "obs": ("obs", "observation", "observations", "state", "states"),
    "next_obs": ("next_obs", "next_observation", "next_observations", "new_obs"),
    "action": ("action", "actions", "act", "acts"),
    "reward": ("reward", "rewards", "rew", "rews"),
    "logp": ("logp", "action_logp", "log_prob", "log_probs"),
    "terminated": ("terminated", "terminateds", "terminal", "terminals", "terminations", "dones"),
    "truncated": ("truncated", "truncateds", "timeout", "timeouts", "truncations"),
    "begins": ("begins", "episode_start", "episode_starts"),
    "episode": ("episode", "episode_id", "eps_id"),
}
"""What columns of each role are usually called."""

WHOLE = "iub"
"""Kinds of NumPy types that hold whole numbers."""


@dataclass(frozen=True)
class Wanted:
    """How a file of others is to be read.

    Attributes:
        spaces: What its rows are made of; None = as the file says, or as its numbers look.
        columns: Names or patterns (``x*``) of the columns of a role, for tables.
        trust_pickle: Whether parts of it that are pickles, which can run code, may be read.
        policy: What the policy is called in the directory, unless the file says it.
    """

    spaces: Spaces | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    trust_pickle: bool = False
    policy: str = "main"


@dataclass(frozen=True)
class ColumnTable:
    """Columns of N rows.

    Attributes:
        source: Where they come from, for messages.
        columns: By role: ``obs`` or ``obs/PATH``, ``next_obs`` likewise, ``action``, and what else there is of
            `ALIASES`; ``[N, ...]`` each.
        row_name: Gives what a user calls row 0, 1, ...
    """

    source: str
    columns: Mapping[str, np.ndarray]
    row_name: Callable[[int], str] = lambda row: f"row {row + 1}"

    def __len__(self) -> int:
        return len(self.columns["action"])

    def bad(self, row: int, problem: str) -> ConfigError:
        """Makes the error for a row that cannot be used."""
        return ConfigError(f"{self.source}: {self.row_name(row)}: {problem}")


# --- which column is what ---------------------------------------------------------------------------------------------


def find_columns(source: str, names: Sequence[str], given: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Finds the columns of each role.

    Args:
        source: Where they are, for messages.
        names: All columns there are, in order.
        given: What a user says: names or patterns by role.

    Raises:
        ConfigError: If a role or a name is unknown (names the nearest), or there are no observations, actions or ends
            of episodes.
    """
    problems = []
    found: dict[str, list[str]] = {}
    for role, wanted in given.items():
        if role.partition("/")[0] not in ALIASES:
            problems.append(f"--column {role}: is not one of {', '.join(ALIASES)}{nearest(role, list(ALIASES))}")
            continue
        found[role] = []
        for pattern in wanted:
            fitting = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
            if not fitting:
                there = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
                hint = nearest(pattern, list(names))
                problems.append(f"{source}: has no column {pattern!r} for {role}; there are {there}{hint}")
            found[role] += fitting
    if problems:
        raise ConfigError(*problems)
    for role, aliases in ALIASES.items():
        if not any(known.partition("/")[0] == role for known in found):
            found |= _usual(role, aliases, names)
    for role in ("obs", "action"):
        if not any(known.partition("/")[0] == role for known in found):
            there = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise ConfigError(f"{source}: which columns are {role}? Say --column {role}=NAME,...; there are {there}")
    if not {"terminated", "truncated", "begins", "episode"} & found.keys():
        raise ConfigError(
            f"{source}: nothing says where an episode ends; name a column of the number of the episode or of its end: "
            "--column episode=NAME, --column terminated=NAME or --column truncated=NAME"
        )
    return found


def _usual(role: str, aliases: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """The columns of a role by their usual names: ``obs``, ``obs_0`` and so on, ``obs/camera_0``."""
    found: dict[str, list[str]] = {}
    for alias in aliases:
        numbered: dict[str, list[tuple[int, str]]] = {}
        for name in names:
            match = re.fullmatch(rf"{alias}(/.+?)?(?:[_.\[](\d+)\]?)?", name)
            if match and (match[1] is None or role in ("obs", "next_obs")):
                numbered.setdefault(role + (match[1] or ""), []).append((int(match[2] or 0), name))
        for key, ordered in numbered.items():
            found.setdefault(key, [name for _, name in sorted(ordered)])
    return found


# --- from rows to episodes --------------------------------------------------------------------------------------------


def recording_of_table(table: ColumnTable, wanted: Spaces | None) -> Recording:
    """Makes episodes of rows.

    Args:
        table: The rows.
        wanted: What they are made of; None = as they look, see `guessed_spaces`.

    Raises:
        ConfigError: If there is no row, or one holds what is no number or not in the spaces; names it.
        SpaceError: If they are of other spaces; names both.
    """
    if not len(table):
        raise ConfigError(f"{table.source}: has no rows")
    made_of = guessed_spaces(table) if wanted is None else wanted
    tree = _tree(table, "obs", made_of.obs)
    check_rows(table, made_of.obs, tree)
    action = _actions(table, made_of)
    numbers = {name: _plain(table, name) for name in ("reward", "logp")}
    following = _tree(table, "next_obs", made_of.obs) if _has(table, "next_obs") else None
    terminated, truncated = (_flags(table, name) for name in ("terminated", "truncated"))
    episodes = []
    for rows in episodes_in(table, terminated | truncated):
        last = rows[-1]
        ends, cut = bool(terminated[last]), bool(truncated[last] and not terminated[last])
        last_obs = (
            None if ends or following is None else {path: leaf[last : last + 1] for path, leaf in following.items()}
        )
        if last_obs is not None and (problem := made_of.obs.check(last_obs, slice(None))):
            raise table.bad(int(last), f"next_obs: {problem}")
        reward, logp = (None if array is None else array[rows] for array in numbers.values())
        seen = {path: leaf[rows] for path, leaf in tree.items()}
        episodes.append(RecordedEpisode(seen, action[rows], reward, logp, ends, cut, last_obs))
    return Recording(made_of, tuple(episodes))


def episodes_in(table: ColumnTable, ends: np.ndarray) -> list[np.ndarray]:
    """The rows of each episode, ``[n]`` each, in the order in which episodes begin.

    Args:
        table: The rows; those of one episode may have others between them where a column numbers episodes.
        ends: ``[N]`` whether an episode is over after a row.
    """
    number = len(table)
    order = np.arange(number)
    breaks = np.concatenate(([True], ends[:-1]))
    if "episode" in table.columns:
        ids = table.columns["episode"].reshape(number, -1)
        _, first, group = np.unique(ids, axis=0, return_index=True, return_inverse=True)
        place = first[group.ravel()]  # where the first row of its episode stands
        order = np.argsort(place, kind="stable")
        breaks = np.concatenate(([True], (np.diff(place[order]) != 0) | ends[order][:-1]))
    if "begins" in table.columns:
        breaks = breaks | _flags(table, "begins")[order]
    return np.split(order, np.flatnonzero(breaks)[1:])


def guessed_spaces(table: ColumnTable) -> Spaces:
    """What rows are made of, going by their numbers: whole ones are categories where they are actions, or the only
    number that is seen; bytes are pictures or the like; others have no bounds.
    """
    seen = {role.partition("/")[2]: array for role, array in table.columns.items() if role.partition("/")[0] == "obs"}
    only = len(seen) == 1 and all(array.ndim == 1 for array in seen.values())
    inside = {path: _guessed(array, only) for path, array in seen.items() if path != MASK}
    action = action_spec(_guessed(table.columns["action"], True))
    space = inside[""] if set(inside) == {""} else spaces.Dict({path: part for path, part in inside.items() if path})
    return Spaces(obs_spec(space, action.space, info_mask=MASK in seen), action, 0)


def _guessed(array: np.ndarray, whole_are_categories: bool) -> spaces.Space[Any]:
    if array.dtype == np.uint8 and array.ndim > 1:
        return spaces.Box(0, 255, array.shape[1:], np.uint8)
    if array.dtype.kind in WHOLE and whole_are_categories and array.ndim <= 2 and array.min(initial=0) >= 0:
        if array.ndim == 1 or array.shape[1] == 1:
            return spaces.Discrete(int(array.max()) + 1)
        return spaces.MultiDiscrete(array.max(axis=0).astype(np.int64) + 1)
    return spaces.Box(-np.inf, np.inf, array.shape[1:] or (1,), np.float32)


def _has(table: ColumnTable, role: str) -> bool:
    return any(known.partition("/")[0] == role for known in table.columns)


def _tree(table: ColumnTable, role: str, spec: ObsSpec) -> Tree:
    """The observations of all rows, by leaf path.

    Raises:
        SpaceError: If a part is missing or has another shape.
    """
    tree: Tree = {}
    for leaf in spec.leaves:
        name = role if leaf.path == "obs" else f"{role}/{leaf.path}"
        if name not in table.columns:
            there = ", ".join(known for known in table.columns if known.partition("/")[0] == role)
            raise SpaceError(f"{table.source}: has {there}, and observations of {spec.space} have {leaf.path!r} too")
        tree[leaf.path] = stored_leaf(table, name, leaf)
    return tree


def stored_leaf(table: ColumnTable, name: str, leaf: Leaf) -> np.ndarray:
    """A column of observations as it is stored, ``[N, ...]``.

    Raises:
        SpaceError: If it has another shape; names both.
        ConfigError: If a row has what is no number; names it.
    """
    array, rows = table.columns[name], len(table)
    width, size = int(np.prod(array.shape[1:])), int(np.prod(leaf.shape))
    if leaf.kind == "discrete" and width == leaf.sizes[0] != 1:  # one-hot, as RLlib writes categories
        array, width = array.reshape(rows, -1).argmax(axis=1) + leaf.start, 1
    if width != size:
        raise SpaceError(
            f"{table.source}: {name} has {width} numbers in a row (shape {array.shape[1:]}), and the space that is "
            f"wanted has {size} (shape {leaf.shape})"
        )
    shaped = array.reshape(rows, *leaf.shape)
    if leaf.dtype.kind in "iub" and leaf.kind != "mask":
        given = shaped.astype(np.float64) - (leaf.start if leaf.kind in CATEGORIES else 0)
        high = 255 if leaf.dtype == np.uint8 else np.inf
        wrong = ~np.isfinite(given) | (given != np.rint(given)) | (given < 0) | (given > high)
        if name.startswith("obs") and wrong.any():
            row = int(np.argmax(wrong.reshape(rows, -1).any(axis=1)))
            raise table.bad(row, f"{name} is {shaped[row].tolist()}, where the space has {leaf.kind} ({leaf.dtype})")
        return np.where(wrong, 0, given).astype(leaf.dtype)
    return shaped.astype(leaf.dtype)


def check_rows(table: ColumnTable, spec: ObsSpec, tree: Tree) -> None:
    """Looks for observations that are not in the space.

    Raises:
        ConfigError: If there are; names the first row.
    """
    if not spec.check(tree, slice(None)):
        return
    for row in range(len(table)):
        if problem := spec.check(tree, np.array([row])):
            raise table.bad(row, problem)


def _actions(table: ColumnTable, made_of: Spaces) -> np.ndarray:
    """The actions of all rows as they are stored."""
    array, space = table.columns["action"], made_of.action.space
    if made_of.action.kind == "composite":
        raise SpaceError(
            f"{table.source}: actions of {space} have parts, which a column of numbers does not name; use a .npz file "
            "that Rookery wrote, or Minari"
        )
    width = int(np.prod(array.shape[1:]))
    size = int(np.prod(space.shape or ()))
    if width != size:
        raise SpaceError(f"{table.source}: actions have {width} numbers, and {space} has {size}")
    finite = np.isfinite(array.reshape(len(table), -1).astype(np.float64)).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise table.bad(row, f"action is {array[row].tolist()}, which is no finite number")
    shaped = array.reshape(len(table), *(space.shape or ()))
    try:
        return made_of.action.from_env(shaped)
    except SpaceError:
        for row in range(len(table)):
            try:
                made_of.action.from_env(shaped[row : row + 1])
            except SpaceError:
                raise table.bad(row, f"action is {shaped[row].tolist()}, which is not in {space}") from None
        raise


def _plain(table: ColumnTable, name: str) -> np.ndarray | None:
    """A column of one number a row as float32 ``[N]``; None if there is none."""
    if name not in table.columns:
        return None
    array = table.columns[name].reshape(len(table), -1)
    if array.shape[1] != 1:
        raise ConfigError(f"{table.source}: {name} has {array.shape[1]} numbers in a row where one is wanted")
    finite = np.isfinite(array[:, 0].astype(np.float64))
    if not finite.all():
        row = int(np.argmin(finite))
        raise table.bad(row, f"{name} is {array[row, 0]}, which is no finite number")
    return array[:, 0].astype(np.float32)


def _flags(table: ColumnTable, name: str) -> np.ndarray:
    """A column of yes or no ``[N]``; all no if there is none."""
    if name not in table.columns:
        return np.zeros(len(table), bool)
    array = table.columns[name].reshape(len(table), -1)[:, 0]
    wrong = ~np.isin(array, (0, 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise table.bad(row, f"{name} is {array[row]}, which is neither 0 nor 1")
    return array.astype(bool)


# --- from episodes to rows --------------------------------------------------------------------------------------------


def columns_of(recording: Recording, role_of_next: str = "next_obs") -> dict[str, np.ndarray]:
    """The rows of a recording by role ``[N, ...]``, in the environment's own numbers.

    What was seen after a decision that ended its episode for good is nothing: NaN, or 0 where there is no NaN.

    Args:
        recording: The episodes.
        role_of_next: Role of what was seen after each decision.

    Raises:
        SpaceError: If actions have parts, for which there is no column.
    """
    spec = recording.spaces.action
    if spec.kind == "composite":
        raise SpaceError(
            f"actions of {spec.space} have parts, which a column of numbers cannot name; use .npz or Minari instead"
        )
    episodes = recording.episodes
    found: dict[str, np.ndarray] = {
        "episode": np.repeat(np.arange(len(episodes)), [len(one) for one in episodes]),
        "step": np.concatenate([np.arange(len(one)) for one in episodes]),
    }
    for leaf in recording.spaces.obs.leaves:
        path = "" if leaf.path == "obs" else f"/{leaf.path}"
        found[f"obs{path}"] = np.concatenate([_own(leaf, one.obs[leaf.path]) for one in episodes])
    found["action"] = np.asarray(spec.to_env(np.concatenate([one.action for one in episodes])))
    for name in ("reward", "logp"):
        if name not in recording.missing:
            found[name] = np.concatenate([getattr(one, name) for one in episodes])
    for name in ("terminated", "truncated"):
        found[name] = np.zeros(len(recording), bool)
        found[name][np.cumsum([len(one) for one in episodes]) - 1] = [getattr(one, name) for one in episodes]
    if "last_obs" not in recording.missing:
        for leaf in recording.spaces.obs.leaves:
            path = "" if leaf.path == "obs" else f"/{leaf.path}"
            found[f"{role_of_next}{path}"] = np.concatenate([_next(leaf, one) for one in episodes])
    return found


def _own(leaf: Leaf, stored: np.ndarray) -> np.ndarray:
    return stored + leaf.start if leaf.kind in CATEGORIES else stored


def _next(leaf: Leaf, episode: RecordedEpisode) -> np.ndarray:
    """What was seen after each decision of an episode."""
    seen = _own(leaf, episode.obs[leaf.path])
    if episode.last_obs is not None:
        last = _own(leaf, episode.last_obs[leaf.path])
    else:
        last = np.full_like(seen[:1], np.nan if seen.dtype.kind == "f" else 0)
    return np.concatenate((seen[1:], last))


def flat_columns(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns of several numbers a row as columns of one number each: ``obs_0``, ``obs_1`` and so on."""
    flat: dict[str, np.ndarray] = {}
    for name, array in columns.items():
        if array.ndim == 1:
            flat[name] = array
            continue
        wide = array.reshape(len(array), -1)
        flat |= {f"{name}_{number}": wide[:, number] for number in range(wide.shape[1])}
    return flat
