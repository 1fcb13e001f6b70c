"""Tables of rows as episodes: roles of columns, ends of episodes, and errors by row.

Files with named columns (``.npz``, ``.csv``, ``.parquet``, RLlib's batches) differ in how columns are read; the rest is
here. Values in such files are the environment's: actions as it takes them, categories with its offsets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import ConfigError, SpaceError, nearest, refuse
from rookery.core.spaces.arrays import CATEGORIES, MASK, Leaf, ObsSpec, Tree, action_spec, obs_spec
from rookery.replay.recording import RecordedEpisode, Recording, known_raw, raw_of_episodes
from rookery.replay.segments import RAW, Spaces

ALIASES: dict[str, tuple[str, ...]] = {
    "obs": ("obs", "observation", "observations", "state", "states"),
    "next_obs": ("next_obs", "next_observation", "next_observations", "new_obs"),
    "action": ("action", "actions", "act", "acts"),
    "action_raw": ("action_raw",),
    "reward": ("reward", "rewards", "rew", "rews"),
    "logp": ("logp", "action_logp", "log_prob", "log_probs"),
    "terminated": ("terminated", "terminateds", "terminal", "terminals", "terminations", "done", "dones"),
    "truncated": ("truncated", "truncateds", "timeout", "timeouts", "truncations"),
    "begins": ("begins", "episode_start", "episode_starts"),
    "episode": ("episode", "episode_id", "eps_id"),
    "step": ("step", "timestep", "timesteps", "timestamp", "timestamps"),
}
"""Usual column names of each role."""

DONE = ("done", "dones")
"""Names of flags that do not distinguish termination from truncation."""

MOST_CATEGORIES = 1 << 24
"""Integers below this limit may be categories if spaces are unknown."""

WHOLE = "iub"
"""Kinds of NumPy types of integers."""


@dataclass(frozen=True)
class Wanted:
    """Options of reading a file of another program.

    Attributes:
        spaces: Spaces of its rows; None = from the file, or inferred from its values.
        columns: Names or patterns (``x*``) of the columns of each role, for tables.
        trust_pickle: Whether pickles in it, which can run code, may be read.
        policy: Name of the policy in the directory, unless the file has one.
        time_limit: Length at which episodes count as truncated, whatever the flags; None = by the flags only.
        env_limit: Time limit of the environment, which applies if flags do not distinguish termination from truncation
            and no other limit is given.
        cut_at_jumps: Whether episodes are truncated where time jumps; else jumps are refused.
        clip_actions: Whether actions outside the bounds are clipped; else they are refused.
        action_bounds: Bounds of every action value, if the action space is not known otherwise.
        max_unpacked: Limit of the unpacked size of a file in bytes; None = in proportion to its size, see
            `replay/formats/growth.py:Growth`.
    """

    spaces: Spaces | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    trust_pickle: bool = False
    policy: str = "main"
    time_limit: int | None = None
    env_limit: int | None = None
    cut_at_jumps: bool = False
    clip_actions: bool = False
    action_bounds: tuple[float, float] | None = None
    max_unpacked: int | None = None


@dataclass(frozen=True)
class ColumnTable:
    """Columns of N rows, by role.

    Attributes:
        source: Their source, for messages.
        columns: By role: ``obs`` or ``obs/PATH``, ``next_obs`` likewise, ``action``, and other roles of `ALIASES`;
            ``[N, ...]`` each.
        row_name: Returns the name of row 0, 1, ... in messages.
        taken: Roles of the file's columns, as text.
        dropped: Columns of the file without a role.
        bare_flag: The only flag of episode ends, if it does not distinguish termination from truncation.
    """

    source: str
    columns: Mapping[str, np.ndarray]
    row_name: Callable[[int], str] = lambda row: f"row {row + 1}"
    taken: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    bare_flag: str | None = None

    def __len__(self) -> int:
        return len(self.columns["action"])

    def bad(self, row: int, problem: str) -> ConfigError:
        """Returns the error for a row that cannot be used."""
        return ConfigError(f"{self.source}: {self.row_name(row)}: {problem}")


# --- roles of columns -------------------------------------------------------------------------------------------------


def find_columns(source: str, names: Sequence[str], given: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the columns of each role.

    Args:
        source: Their source, for messages.
        names: All columns, in order.
        given: Names or patterns by role, given by the user.

    Raises:
        ConfigError: If a role or a name is unknown (names the nearest), a used column name is not unique, or there are
            no observations, actions or ends of episodes.
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
    free = unused(names, found)
    for role, aliases in ALIASES.items():
        if not any(known.partition("/")[0] == role for known in found):
            found |= _usual(role, aliases, free)
    for role in ("obs", "action"):
        if not any(known.partition("/")[0] == role for known in found):
            there = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            hints = [hint for alias in ALIASES[role] if (hint := nearest(alias, list(names)))]
            raise ConfigError(
                f"{source}: the columns of {role} are unknown; give --column {role}=NAME,...; there are {there}"
                f"{hints[0] if hints else ''}"
            )
    if not {"terminated", "truncated", "begins", "episode"} & found.keys():
        raise ConfigError(
            f"{source}: no column has the ends of episodes; name a column of episode numbers or of ends: "
            "--column episode=NAME, --column terminated=NAME or --column truncated=NAME"
        )
    check_unique(source, names, [name for mine in found.values() for name in mine])
    return found


def check_unique(source: str, names: Sequence[str], used: Iterable[str]) -> None:
    """Refuses used columns whose name is not unique.

    Args:
        source: Their source, for messages.
        names: All columns, in order.
        used: Columns that are read; others may share a name.

    Raises:
        ConfigError: If a name is not unique; names the columns and their places, counted from 1.
    """
    problems = []
    for name in dict.fromkeys(used):
        places = [str(place) for place, other in enumerate(names, 1) if other == name]
        if len(places) > 1:
            listed = f"{', '.join(places[:-1])} and {places[-1]}"
            problems.append(
                f"{source}: has {len(places)} columns named {name!r} (columns {listed} of {len(names)}); rename them "
                "or remove all but one"
            )
    refuse(problems)


def unused(names: Sequence[str], found: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Returns the columns without a role, which are dropped."""
    used = {name for mine in found.values() for name in mine}
    return tuple(name for name in names if name not in used)


def table_of(
    source: str,
    columns: dict[str, np.ndarray],
    names: Sequence[str],
    found: Mapping[str, Sequence[str]],
    row_name: Callable[[int], str] = ColumnTable.row_name,
) -> ColumnTable:
    """Returns a table of a file's columns by role.

    Args:
        source: The file.
        columns: Columns by role.
        names: All columns.
        found: Names of the columns of each role.
        row_name: Returns the name of row 0, 1, ... in messages.
    """
    by_role = with_reasons(found, columns)
    return ColumnTable(source, by_role, row_name, taken(found), unused(names, found), bare_flag(found))


def with_reasons(found: Mapping[str, Sequence[str]], columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns columns in which truncated episodes are not also terminated, as a common flag for both has them."""
    is_done = any(name.rpartition("/")[2].lower() in DONE for name in found.get("terminated", ()))
    if not is_done or "truncated" not in columns or columns["truncated"].shape != columns["terminated"].shape:
        return columns
    return columns | {"terminated": np.where(columns["truncated"] == 1, 0, columns["terminated"])}


WORDS = {
    "action_raw": "action before tanh",
    "obs": "observation",
    "next_obs": "next observation",
    "logp": "log-probability",
    "begins": "beginning",
}
"""Readable names of roles."""

FEW = 4
"""Largest number of columns of a role that are listed one by one."""


def taken(found: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Returns the roles of columns as text: ``observation: x, v``."""
    lines = []
    for role, names in found.items():
        kind, slash, path = role.partition("/")
        listed = ", ".join(names) if len(names) <= FEW else f"{names[0]} to {names[-1]} ({len(names)} columns)"
        lines.append(f"{WORDS.get(kind, kind)}{slash}{path}: {listed}")
    return tuple(lines)


def bare_flag(found: Mapping[str, Sequence[str]]) -> str | None:
    """Returns the only flag of episode ends if it does not distinguish termination from truncation; else None."""
    ends = [name for name in found.get("terminated", ()) if name.rpartition("/")[2].lower() in DONE]
    return ends[0] if ends and "truncated" not in found else None


def _usual(role: str, aliases: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Returns the columns of a role by their usual names: ``obs``, ``obs_0`` and so on, ``obs/camera_0``."""
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


@dataclass(frozen=True)
class StoredRows:
    """Rows of a table in stored form, ``[n, ...]`` each.

    Attributes:
        obs: Observations by leaf path.
        action: Actions.
        reward: Rewards; None if unknown.
        logp: Log-probabilities; None if unknown.
        next_obs: Next observations by leaf path; None if unknown. Without meaning where an episode terminated.
        terminated: Whether the episode terminated.
        truncated: Whether it was truncated.
        action_raw: See `RecordedEpisode`; None if there is no such column.
    """

    obs: Tree
    action: np.ndarray
    reward: np.ndarray | None
    logp: np.ndarray | None
    next_obs: Tree | None
    terminated: np.ndarray
    truncated: np.ndarray
    action_raw: np.ndarray | None


def recording_of_table(table: ColumnTable, wanted: Wanted, made_of: Spaces | None = None) -> Recording:
    """Returns the episodes of a table.

    Args:
        table: The rows.
        wanted: Options of reading.
        made_of: Their spaces; None = the wanted ones, or inferred, see `guessed_spaces`.

    Raises:
        ConfigError: If there are no rows, or one has a value that is not a number or not in the spaces; names it.
        SpaceError: If their spaces differ; names both.
    """
    if not len(table):
        raise ConfigError(f"{table.source}: has no rows")
    check_numbers(table)
    spaces_ = made_of or wanted.spaces or guessed_spaces(table, wanted.action_bounds)
    rows = stored_rows(table, spaces_, clip_actions=wanted.clip_actions)
    order = order_of(table)
    begins = _flags(table, "begins")[order] | breaks_of(table, order)
    differs = None if rows.next_obs is None else differs_from_next(rows.next_obs, rows.obs, order)
    steps = table.columns["step"].reshape(len(table), -1)[order, 0] if "step" in table.columns else None
    flags = EpisodeFlags(begins, rows.terminated[order], rows.truncated[order], differs, steps)
    wanted, notes = flags.with_limit(wanted, table.bare_flag)
    bounds = flags.episodes(wanted, lambda place, problem: table.bad(int(order[place]), problem))
    episodes = []
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine = order[start:end]
        ends, cut = bool(flags.terminated[end - 1]), bool(flags.truncated[end - 1])
        one = episode_of(rows, mine, ends, cut)
        if one.last_obs is not None and (problem := spaces_.obs.check(one.last_obs, slice(None))):
            if len(one) != wanted.time_limit:
                raise table.bad(int(mine[-1]), f"next_obs: {problem}")
            one = replace(one, last_obs=None)  # recorded as termination, so the observation was not written
        episodes.append(one)
    return Recording(spaces_, tuple(episodes), table.taken, table.dropped, notes)


def episode_of(rows: StoredRows, mine: Any, terminated: bool, truncated: bool) -> RecordedEpisode:
    """Returns an episode of some rows.

    Args:
        rows: The rows.
        mine: Indices of its rows, an array or a slice.
        terminated: Whether it terminated.
        truncated: Whether it was truncated.
    """
    following = None if terminated or rows.next_obs is None else rows.next_obs
    reward, logp = (None if one is None else one[mine] for one in (rows.reward, rows.logp))
    return RecordedEpisode(
        {path: leaf[mine] for path, leaf in rows.obs.items()},
        rows.action[mine],
        reward,
        logp,
        terminated,
        truncated and not terminated,
        None if following is None else {path: leaf[mine][-1:] for path, leaf in following.items()},
        None if rows.action_raw is None else known_raw(rows.action_raw[mine]),
    )


def stored_rows(table: ColumnTable, made_of: Spaces, *, clip_actions: bool) -> StoredRows:
    """Returns the rows of a table in stored form, with a check of every value.

    Raises:
        ConfigError: If a row has a value that is not a number or not in the spaces; names it.
        SpaceError: If their spaces differ; names both.
    """
    tree = _tree(table, "obs", made_of.obs)
    check_rows(table, made_of.obs, tree)
    action = _actions(table, made_of, clip_actions)
    return StoredRows(
        tree,
        action,
        _plain(table, "reward"),
        _plain(table, "logp"),
        _tree(table, "next_obs", made_of.obs) if _has(table, "next_obs") else None,
        _flags(table, "terminated"),
        _flags(table, "truncated"),
        _raw_actions(table, action, made_of),
    )


def check_numbers(table: ColumnTable) -> None:
    """Checks that columns do not contain texts or objects.

    Raises:
        ConfigError: If one does; names the first row without a number.
    """
    for role, array in table.columns.items():
        if array.dtype.kind in "fiub" or role == "episode":
            continue
        for row, value in enumerate(array.reshape(len(array), -1)):
            for one in value.tolist():
                if not _is_number(one):
                    shown = one.decode(errors="replace") if isinstance(one, bytes) else one
                    raise table.bad(
                        row, f"{role} is {shown!r}, which is not a number; name other columns with --column"
                    )
        raise ConfigError(f"{table.source}: {role} is {array.dtype}, where numbers are wanted: write numbers")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number | np.bool_)


def order_of(table: ColumnTable) -> np.ndarray:
    """Returns the rows ``[N]`` episode by episode, in the order of their starts: with a column of episode ids, episodes
    may be interleaved.
    """
    if "episode" not in table.columns:
        return np.arange(len(table))
    return np.argsort(_first_of_episode(table), kind="stable")


def breaks_of(table: ColumnTable, order: np.ndarray) -> np.ndarray:
    """Returns a mask of the rows ``[N]``, in this order, at which the episode id changes."""
    if "episode" not in table.columns:
        return np.zeros(len(table), bool)
    return np.concatenate(([True], np.diff(_first_of_episode(table)[order]) != 0))


def _first_of_episode(table: ColumnTable) -> np.ndarray:
    """Returns the first row of each row's episode, ``[N]``."""
    ids = table.columns["episode"].reshape(len(table), -1)
    _, first, group = np.unique(ids, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[group.ravel()])


def differs_from_next(next_obs: Tree, obs: Tree, order: np.ndarray) -> np.ndarray:
    """Returns a mask of the rows ``[N]``, in this order, whose next observation differs from the next row."""
    found = np.zeros(len(order), bool)
    for path, leaf in obs.items():
        here, there = next_obs[path][order[:-1]], leaf[order[1:]]
        found[:-1] |= differ(here, there)
    return found


def differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns which of N observations ``[N, ...]`` differ by more than rounding."""
    if one.dtype.kind != "f":
        return np.asarray((one != other).reshape(len(one), -1).any(axis=1))
    return np.asarray(~np.isclose(one, other, rtol=1e-4, atol=1e-5).reshape(len(one), -1).all(axis=1))


MEND = "mend the row, or leave its episode out of the file"

JUMP = 1.5
"""Ratio to the median time between decisions from which on it is a jump."""

WAYS_OUT = (
    "name the column of episode numbers or ends (--column episode=NAME), give their time limit "
    "(--time-limit N), or cut them where time jumps: --cut-at-jumps"
)


@dataclass
class EpisodeFlags:
    """Starts and ends of episodes in N rows, ordered by episode.

    Attributes:
        begins: ``[N]`` whether an episode is known to begin.
        terminated: ``[N]`` whether it terminated after the row.
        truncated: ``[N]`` whether it was truncated there.
        differs: ``[N]`` whether the next observation differs from the next row; None if unknown.
        steps: ``[N]`` times or numbers of steps; None if there are none.
    """

    begins: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    differs: np.ndarray | None
    steps: np.ndarray | None

    def with_limit(self, wanted: Wanted, flag: str | None) -> tuple[Wanted, tuple[str, ...]]:
        """Returns the options of reading, with the environment's time limit if flags do not distinguish termination
        from truncation; and notes.

        Args:
            wanted: Options of reading.
            flag: Returns the only flag of episode ends if it does not distinguish termination from truncation; else
                None.
        """
        limit = wanted.env_limit
        if flag is None or wanted.time_limit is not None:
            return wanted, ()
        doubt = f"{flag} does not distinguish termination from truncation"
        if limit is None:
            return wanted, (
                f"{doubt}: episodes that a time limit cut count as terminated; import again with --time-limit N if "
                "there "
                "was one of N decisions",
            )
        lengths = np.diff(np.append(np.flatnonzero(self._begins()), len(self.begins)))
        longer = int((lengths > limit).sum())
        if longer:
            return wanted, (
                f"{doubt}: the time limit of the environment, {limit} decisions, is not that of these data, which have "
                f"{longer} of {len(lengths)} episodes that are longer, up to {lengths.max()}; so all ends "
                "count as termination; import again with --time-limit N if there was a limit of N decisions",
            )
        return replace(wanted, time_limit=limit), (
            f"{doubt}: episodes of {limit} decisions, the time limit of the environment, count as "
            "truncated; --time-limit N sets another",
        )

    def _begins(self) -> np.ndarray:
        """Returns whether an episode begins with each row by the flags, ``[R]``."""
        begins = self.begins.copy()
        begins[0] = True
        begins[1:] |= (self.terminated | self.truncated)[:-1]
        return begins

    def episodes(self, wanted: Wanted, bad: Callable[[int, str], ConfigError]) -> np.ndarray:
        """Returns the first rows of episodes, ``[E + 1]`` with the end of the last one; corrects the flags of truncated
        ones.

        Args:
            wanted: Options on time limits and jumps.
            bad: Returns the error for a row.

        Raises:
            ConfigError: If time jumps in an episode; names the row after the jump.
        """
        self.truncated = self.truncated & ~self.terminated
        begins = self._begins()
        if wanted.time_limit is not None:
            self._limit(begins, wanted.time_limit)
        jumps = self._jumps(begins)
        if len(jumps):
            if not wanted.cut_at_jumps:
                raise bad(int(jumps[0][0]) + 1, f"{jumps[0][1]}; {WAYS_OUT}")
            places = np.array([place for place, _ in jumps])
            begins[places + 1], self.truncated[places] = True, True
        return np.append(np.flatnonzero(begins), len(begins))

    def _limit(self, begins: np.ndarray, limit: int) -> None:
        """Truncates episodes after `limit` decisions."""
        bounds = np.append(np.flatnonzero(begins), len(begins))
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            last = np.arange(start + limit - 1, end, limit)
            self.terminated[last], self.truncated[last] = False, True
            begins[last[last < len(begins) - 1] + 1] = True

    def _jumps(self, begins: np.ndarray) -> list[tuple[int, str]]:
        """Returns the rows after which time jumps within an episode, and the reasons."""
        inside = ~begins[1:]
        found: dict[int, str] = {}
        if self.steps is not None and inside.any():
            ahead = np.diff(self.steps.astype(np.float64))
            usual = float(np.median(ahead[inside]))
            wrong = inside & ((ahead <= 0) | (ahead > JUMP * usual) | ~np.isfinite(ahead))
            for place in np.flatnonzero(wrong).tolist():
                before, after = self.steps[place], self.steps[place + 1]
                found[place] = f"step is {after}, and {before} in the previous row: time jumps within an episode"
        if self.differs is not None:
            for place in np.flatnonzero(inside & self.differs[:-1]).tolist():
                found[place] = "obs differs from next_obs of the previous row: time jumps within an episode"
        return sorted(found.items())


def guessed_spaces(table: ColumnTable, action_bounds: tuple[float, float] | None) -> Spaces:
    """Returns spaces inferred from values: integers are categories if they are actions, or the only observation; bytes
    are images or similar; others have no bounds. Actions with `action_bounds` are continuous within these.
    """
    seen = {role.partition("/")[2]: array for role, array in table.columns.items() if role.partition("/")[0] == "obs"}
    only = len(seen) == 1 and all(array.ndim == 1 for array in seen.values())
    inside = {path: _guessed(array, only) for path, array in seen.items() if path != MASK}
    actions = table.columns["action"]
    if actions.dtype.kind in WHOLE and not action_bounds and actions.max(initial=0) >= MOST_CATEGORIES:
        raise ConfigError(
            f"{table.source}: action is up to {actions.max():,}, which is too large for a discrete action; give the "
            "action space: --action-bounds=LEAST,LARGEST, --env ENV or --like REPLAY"
        )
    bounded = action_bounds and spaces.Box(*action_bounds, actions.shape[1:] or (1,), np.float32)
    action = action_spec(bounded or _guessed(actions, True))
    space = inside[""] if set(inside) == {""} else spaces.Dict({path: part for path, part in inside.items() if path})
    return Spaces(obs_spec(space, action.space, info_mask=MASK in seen), action, 0)


def _guessed(array: np.ndarray, whole_are_categories: bool) -> spaces.Space[Any]:
    if array.dtype == np.uint8 and array.ndim > 1:
        return spaces.Box(0, 255, array.shape[1:], np.uint8)
    are_categories = array.dtype.kind in WHOLE and whole_are_categories and array.ndim <= 2
    if are_categories and array.min(initial=0) >= 0 and array.max(initial=0) < MOST_CATEGORIES:
        if array.ndim == 1 or array.shape[1] == 1:
            return spaces.Discrete(int(array.max()) + 1)
        return spaces.MultiDiscrete(array.max(axis=0).astype(np.int64) + 1)
    return spaces.Box(-np.inf, np.inf, array.shape[1:] or (1,), np.float32)


def _has(table: ColumnTable, role: str) -> bool:
    return any(known.partition("/")[0] == role for known in table.columns)


def _tree(table: ColumnTable, role: str, spec: ObsSpec) -> Tree:
    """Returns the observations of all rows, by leaf path.

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
    """Returns a column of observations in stored form, ``[N, ...]``.

    Raises:
        SpaceError: If it has another shape; names both.
        ConfigError: If a row has a value that is not a number; names it.
    """
    array, rows = table.columns[name], len(table)
    width, size = int(np.prod(array.shape[1:])), int(np.prod(leaf.shape))
    if leaf.kind == "discrete" and width == leaf.sizes[0] != 1:  # one-hots, as RLlib writes categories
        array, width = array.reshape(rows, -1).argmax(axis=1) + leaf.start, 1
    if width != size:
        raise SpaceError(
            f"{table.source}: {name} has {width} numbers in a row (shape {array.shape[1:]}), and the wanted "
            f"space has {size} (shape {leaf.shape})"
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
    """Checks that observations are in the space.

    Raises:
        ConfigError: If they are not; names the first row.
    """
    if not spec.check(tree, slice(None)):
        return
    for row in range(len(table)):
        if problem := spec.check(tree, np.array([row])):
            raise table.bad(row, f"{problem}; {MEND}" if "non-finite" in problem else problem)


def _actions(table: ColumnTable, made_of: Spaces, clip: bool) -> np.ndarray:
    """Returns the actions of all rows in stored form; values outside the bounds are clipped or refused."""
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
        raise table.bad(row, f"action is {array[row].tolist()}, which is not a finite number; {MEND}")
    shaped = array.reshape(len(table), *(space.shape or ()))
    if isinstance(space, spaces.Box) and not clip:
        slack = 1e-5 * np.maximum(np.abs(space.low), np.abs(space.high))  # rounding error
        low = shaped < np.where(np.isfinite(space.low), space.low - slack, -np.inf)
        high = shaped > np.where(np.isfinite(space.high), space.high + slack, np.inf)
        outside = (low | high).reshape(len(table), -1).any(axis=1)
        if outside.any():
            row = int(np.argmax(outside))
            raise table.bad(
                row,
                f"action is {shaped[row].tolist()}, which is outside the bounds of {space}; --clip-actions clips such "
                "actions, as the environment does, or name other spaces (--env, --like)",
            )
    try:
        return made_of.action.from_env(shaped)
    except SpaceError:
        for row in range(len(table)):
            try:
                made_of.action.from_env(shaped[row : row + 1])
            except SpaceError:
                raise table.bad(row, f"action is {shaped[row].tolist()}, which is not in {space}") from None
        raise


FITS = 2e-6
"""Largest rounding error of tanh of `action_raw` from the action, in units of half its range."""


def _raw_actions(table: ColumnTable, action: np.ndarray, made_of: Spaces) -> np.ndarray | None:
    """Returns the column `action_raw` in stored form, NaN where tanh of it is not the action; None without the column,
    or if the number of elements differs.
    """
    spec, rows = made_of.action, len(table)
    if RAW not in table.columns or spec.kind != "box" or not spec.is_bounded:
        return None
    raw = table.columns[RAW].reshape(rows, -1).astype(np.float32)
    if raw.shape[1] != spec.num_numbers:
        return None
    fits = np.abs(np.tanh(raw) - action.reshape(rows, -1)) <= FITS
    return np.where(fits, raw, np.float32(np.nan))


def _plain(table: ColumnTable, name: str) -> np.ndarray | None:
    """Returns a column of one number per row as float32 ``[N]``; None without the column."""
    if name not in table.columns:
        return None
    array = table.columns[name].reshape(len(table), -1)
    if array.shape[1] != 1:
        raise ConfigError(f"{table.source}: {name} has {array.shape[1]} numbers in a row where one is wanted")
    finite = np.isfinite(array[:, 0].astype(np.float64))
    if not finite.all():
        row = int(np.argmin(finite))
        raise table.bad(row, f"{name} is {array[row, 0]}, which is not a finite number; {MEND}")
    return array[:, 0].astype(np.float32)


def _flags(table: ColumnTable, name: str) -> np.ndarray:
    """Returns a column of flags ``[N]``; all False without the column."""
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
    """Returns the rows of a recording by role ``[N, ...]``, in the environment's values.

    The next observation of a terminal decision is NaN, or 0 for types without NaN.

    Args:
        recording: The episodes.
        role_of_next: Role of next observations.

    Raises:
        SpaceError: If actions have parts, which have no column.
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
    if (raw := raw_of_episodes(episodes)) is not None:
        found[RAW] = raw
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
    """Returns the next observations of an episode."""
    seen = _own(leaf, episode.obs[leaf.path])
    if episode.last_obs is not None:
        last = _own(leaf, episode.last_obs[leaf.path])
    else:
        last = np.full_like(seen[:1], np.nan if seen.dtype.kind == "f" else 0)
    return np.concatenate((seen[1:], last))


def flat_columns(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns columns of several numbers per row as columns of one number each: ``obs_0``, ``obs_1`` and so on."""
    flat: dict[str, np.ndarray] = {}
    for name, array in columns.items():
        if array.ndim == 1:
            flat[name] = array
            continue
        wide = array.reshape(len(array), -1)
        flat |= {f"{name}_{number}": wide[:, number] for number in range(wide.shape[1])}
    return flat
