"""Fields of requests and answers of the policy server, as JSON or on the socket."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from rookery.core.errors import nearest
from rookery.core.spaces.space_files import space_to_json
from rookery.policies.policy import Policy
from rookery.serving.batcher import InvalidRequest, Question, Reply, ServedActions
from rookery.serving.observations import read_observation, takes_mask
from rookery.serving.versions import ServedVersion, memory_width, num_rows

FIELDS = ("obs", "policy", "session", "deterministic", "first", "reward", "action_mask")
"""Fields of a request."""

MAX_SESSION = 200
"""The longest name of a session, in characters."""


def requested_policy(version: ServedVersion, name: Any, default: str | None) -> str:
    """Returns the name of the requested policy.

    Raises:
        InvalidRequest: If there is no policy with this name, or no name is given and there are several.
    """
    if name is None and default is not None:
        return default
    names = list(version.policies)
    if not isinstance(name, str) or name not in version.policies:
        problem = "several are served, name one" if name is None else f"there is no policy {str(name)[:50]!r}"
        raise InvalidRequest(f"policy: {problem}; there are {', '.join(names)}{nearest(str(name)[:50], names)}")
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
        InvalidRequest: If another field is wrong.
    """
    if "obs" not in request:
        raise InvalidRequest("obs: missing; send an observation of the policy, as GET /policies describes it")
    given = request.get("deterministic")
    if given is not None and not isinstance(given, bool):
        raise InvalidRequest(f"deterministic: {str(given)[:50]!r}, expected true or false")
    mask = request.get("action_mask")
    if mask is not None and not takes_mask(policy):
        raise InvalidRequest("action_mask: this policy takes no mask beside its observations; leave it out")
    first = _first(request.get("first", False))
    if policy.memory_size and session is None and not np.all(first):
        raise InvalidRequest(
            f"session: policy {policy.name!r} has a memory: name a session, with a text of your choice for each episode"
        )
    reward = _numbers("reward", request.get("reward"))
    if reward is not None and policy.reward_column is None:
        reward = None  # the policy does not observe rewards, and clients may send them in any case
    obs, is_batch = read_observation(policy, request["obs"], mask)
    rows = num_rows(obs)
    if not isinstance(first, bool) and len(first) != rows:
        raise InvalidRequest(f"first: {len(first)} values for {rows} observations")
    if reward is not None and reward.shape not in ((), (1,), (rows,)):
        raise InvalidRequest(f"reward: shape {reward.shape} for {rows} observations")
    wanted = deterministic if given is None else given
    return Question(policy.name, obs, wanted, reply, session, bool(np.all(first)) or first, reward), is_batch


def session_of(request: Mapping[str, Any]) -> str | None:
    """Returns the session that a request names, or None; refuses an invalid name."""
    name = request.get("session")
    if name is None:
        return None
    if not isinstance(name, str) or not 0 < len(name) <= MAX_SESSION:
        raise InvalidRequest(f"session: expected a text of 1 to {MAX_SESSION} characters")
    return name


def answer_fields(decision: ServedActions, question: Question, is_batch: bool) -> dict[str, Any]:
    """Returns the fields of an answer, with actions as arrays."""
    answer: dict[str, Any] = {
        "action": decision.actions if is_batch else decision.actions[0],
        "policy": question.policy,
        "version": decision.version,
    }
    if question.session is not None:
        answer["started"] = decision.started
    return answer


def plain_actions(value: Any) -> Any:
    """Returns actions as JSON: lists, numbers and objects in place of arrays."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype != object else [plain_actions(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: plain_actions(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain_actions(inner) for inner in value]
    return value


def describe_policy(policy: Policy) -> dict[str, Any]:
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
    except InvalidRequest:
        array = None
    if array is None or array.ndim != 1 or not len(array):
        raise InvalidRequest("first: expected true or false, or a list of them, one for each observation") from None
    return np.asarray(array != 0)


def _numbers(name: str, value: Any) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequest(f"{name}: expected a number, or a list of them, one for each observation") from None
    if not np.isfinite(array).all():
        raise InvalidRequest(f"{name}: expected finite numbers")
    return array
