"""Fields of requests and answers of the policy server, as JSON or on the socket."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from rookery.core.errors import nearest
from rookery.core.spaces.space_files import space_to_json
from rookery.policies.policy import Policy
from rookery.serving.batcher import Question, Reply, ServedActions, UnfitQuestion
from rookery.serving.reading import read_observation, takes_mask
from rookery.serving.versions import ServedVersion, memory_width, rows_of

FIELDS = ("obs", "policy", "session", "deterministic", "first", "reward", "action_mask")
"""Fields of a request."""

MAX_SESSION = 200
"""The longest name of a session, in characters."""


def known_policy(version: ServedVersion, name: Any, default: str | None) -> str:
    """Returns the name of the requested policy.

    Raises:
        UnfitQuestion: If there is no policy with this name, or no name is given and there are several.
    """
    if name is None and default is not None:
        return default
    names = list(version.policies)
    if not isinstance(name, str) or name not in version.policies:
        problem = "several are served, name one" if name is None else f"there is no policy {str(name)[:50]!r}"
        raise UnfitQuestion(f"policy: {problem}; there are {', '.join(names)}{nearest(str(name)[:50], names)}")
    return name


def read_question(
    request: Mapping[str, Any], policy: Policy, deterministic: bool, session: Hashable | None, reply: Reply
) -> tuple[Question, bool]:
    """Returns the question in a request, and whether it is a batch of observations.

    Args:
        request: The fields: ``obs``, and optionally ``deterministic``, ``first``, ``reward`` and ``action_mask``.
        policy: The requested policy.
        deterministic: Whether the most likely actions are returned if the request does not choose.
        session: Session whose memory is used and kept.
        reply: Function that receives the answer.

    Raises:
        WrongObservation: If observations do not fit the space.
        UnfitQuestion: If another field is wrong.
    """
    if "obs" not in request:
        raise UnfitQuestion("obs: missing; send an observation of the policy, as GET /policies describes it")
    given = request.get("deterministic")
    if given is not None and not isinstance(given, bool):
        raise UnfitQuestion(f"deterministic: {str(given)[:50]!r}, expected true or false")
    mask = request.get("action_mask")
    if mask is not None and not takes_mask(policy):
        raise UnfitQuestion("action_mask: this policy takes no mask beside its observations; leave it out")
    first = _first(request.get("first", False))
    if policy.memory_size and session is None and not np.all(first):
        raise UnfitQuestion(
            f"session: policy {policy.name!r} has a memory: name a session, with a text of your choice for each episode"
        )
    reward = _numbers("reward", request.get("reward"))
    if reward is not None and policy.reward_column is None:
        reward = None  # the policy does not observe rewards, and clients may send them in any case
    obs, is_batch = read_observation(policy, request["obs"], mask)
    rows = rows_of(obs)
    if not isinstance(first, bool) and len(first) != rows:
        raise UnfitQuestion(f"first: {len(first)} values for {rows} observations")
    if reward is not None and reward.shape not in ((), (1,), (rows,)):
        raise UnfitQuestion(f"reward: shape {reward.shape} for {rows} observations")
    wanted = deterministic if given is None else given
    return Question(policy.name, obs, wanted, reply, session, bool(np.all(first)) or first, reward), is_batch


def session_of(request: Mapping[str, Any]) -> str | None:
    """Returns the session that a request names, or None; refuses an invalid name."""
    name = request.get("session")
    if name is None:
        return None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_SESSION:
        raise UnfitQuestion(f"session: expected a text of 1 to {MAX_SESSION} characters")
    return name


def answered(decision: ServedActions, question: Question, is_batch: bool) -> dict[str, Any]:
    """Returns the fields of an answer, with actions as arrays."""
    answer: dict[str, Any] = {
        "action": decision.actions if is_batch else decision.actions[0],
        "policy": question.policy,
        "version": decision.version,
    }
    if question.session is not None:
        answer["started"] = decision.started
    return answer


def plain(value: Any) -> Any:
    """Returns actions as JSON: lists, numbers and objects in place of arrays."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype != object else [plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value


def description(policy: Policy) -> dict[str, Any]:
    """Returns the description of a policy for clients, as JSON."""
    return {
        "observation_space": space_to_json(policy.own_spec.space),
        "action_space": space_to_json(policy.action_spec.space),
        "action_mask": "beside" if takes_mask(policy) else "inside" if policy.own_spec.has_mask else None,
        "remembers": bool(policy.memory_size),
        "sees_reward": policy.reward_column is not None,
        "keeps": memory_width(policy),
    }


def _first(value: Any) -> np.ndarray | bool:
    if isinstance(value, bool):
        return value
    try:
        array = _numbers("first", value)
    except UnfitQuestion:
        array = None
    if array is None or array.ndim != 1 or not len(array):
        raise UnfitQuestion("first: expected true or false, or a list of them, one for each observation") from None
    return np.asarray(array != 0)


def _numbers(name: str, value: Any) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise UnfitQuestion(f"{name}: expected a number, or a list of them, one for each observation") from None
    if not np.isfinite(array).all():
        raise UnfitQuestion(f"{name}: expected finite numbers")
    return array
