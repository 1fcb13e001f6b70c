"""The policy server on the socket of external environments: the episodes of a client are sessions here.

`envs/external/client.py:Client` uses a policy server like a training: policies that observe rewards receive them, and
nothing is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.core.errors import RookeryError
from rookery.core.process.internal_errors import InternalErrors
from rookery.core.spaces.space_files import space_to_json
from rookery.envs.external.listener import ClientListener, ConnectionLimits
from rookery.envs.external.wire import MessageError
from rookery.serving.batcher import Batcher, InvalidRequest, Question, ServedActions
from rookery.serving.observations import WrongObservation
from rookery.serving.requests import read_question, requested_policy


class SocketClients:
    """Handles requests of clients on a socket.

    Args:
        batcher: Answers questions.
        default: The policy to ask; None = there are several, and each observation is a dict by policy.
        deterministic: Whether the most likely actions are returned.
        host: Address to listen at.
        port: Port; 0 = any free port.
        token: Token of clients.
        limits: Limits of connections.
        say: Receives error messages, one line each.
        internal_errors: Logs internal errors; a client gets only the id.

    Attributes:
        address: Host and port.

    Raises:
        EnvError: If the port is taken.
    """

    def __init__(
        self,
        batcher: Batcher,
        default: str | None,
        deterministic: bool,
        host: str,
        port: int,
        token: str,
        limits: ConnectionLimits,
        say: Callable[[str], None],
        internal_errors: InternalErrors,
    ) -> None:
        self._failed, self._internal_errors = say, internal_errors
        self._batcher, self._default, self._deterministic = batcher, default, deterministic
        self._episodes: dict[str, set[str]] = {}
        version = batcher.version
        agents = {
            name: [space_to_json(policy.own_spec.space), space_to_json(policy.action_spec.space)]
            for name, policy in version.policies.items()
        }
        self._listener: ClientListener | None = None
        self._listener = ClientListener(self, host, port, token, limits, {"name": "policy server", "agents": agents})
        self.address = self._listener.address

    def close(self, reason: str) -> None:
        """Sends all clients a reason, and stops."""
        if self._listener is not None:
            self._listener.close(reason)

    def requested(self, session: str, number: int, request: Mapping[str, Any]) -> None:
        """Handles a request of a client, in the listener's thread, which must survive internal errors."""
        try:
            self._take(session, number, request)
        except MessageError:
            raise
        except Exception as error:
            raise MessageError(self._internal_errors.report(error)) from None

    def _take(self, session: str, number: int, request: Mapping[str, Any]) -> None:
        operation, episode = request.get("op"), request.get("episode")
        if not isinstance(episode, str) or not 0 < len(episode) <= 200:
            raise MessageError("episode: expected a text of 1 to 200 characters")
        running = self._episodes.setdefault(session, set())
        if operation == "start_episode":
            if episode in running:
                raise MessageError(f"episode {episode} is running already")
            running.add(episode)
            self._say(session, number, {"ok": {}})
        elif operation == "get_action":
            if episode not in running:
                raise MessageError(f"episode {episode} was not started, or is over")
            self._ask(session, number, episode, request)
        elif operation == "end_episode":
            running.discard(episode)
            self._forget(session, episode, lambda: self._say(session, number, {"ok": {}}))
        elif operation == "log_action":
            raise MessageError("log_action: a policy server does not learn, so it takes no actions of clients")
        else:
            raise MessageError(
                f"op {str(operation)[:30]!r}: a policy server supports start_episode, get_action, end_episode"
            )

    def gone(self, session: str) -> None:
        """Removes a client, and the memory of its episodes."""
        for episode in self._episodes.pop(session, ()):
            self._forget(session, episode, lambda: None)

    def failed(self, error: BaseException) -> None:
        """Handles an error that ended the listener's thread: clients on the socket get no more answers."""
        self._failed(f"the socket is closed, because of an error: {type(error).__name__}: {error}")

    # -- answers -------------------------------------------------------------------------------------------------------

    def _ask(self, session: str, number: int, episode: str, request: Mapping[str, Any]) -> None:
        """Asks one policy, or each policy that the client sends an observation for."""
        version, obs, named = self._batcher.version, request.get("obs"), request.get("policy")
        several = named is None and self._default is None
        if several:
            if not (isinstance(obs, Mapping) and obs and set(obs) <= set(version.policies)):
                raise MessageError(
                    f"obs: several policies are served, so send a dict by policy, of {', '.join(version.policies)}"
                )
            shown = dict(obs)
        else:
            try:
                shown = {requested_policy(version, named, self._default): obs}
            except InvalidRequest as error:
                raise MessageError(str(error)) from None
        together = _CombinedReply(
            list(shown),
            lambda answers: self._answered(session, number, answers, None if several else next(iter(shown))),
        )
        earned = request.get("reward")
        questions: list[Question] = []
        for name, seen in shown.items():
            fields = {"obs": seen, "reward": _reward_of(earned, name)}
            for field in ("deterministic", "first", "action_mask"):
                if field in request:
                    fields[field] = request[field]
            try:
                question, is_batch = read_question(
                    fields, version.policies[name], self._deterministic, (name, session, episode), together.part(name)
                )
            except (WrongObservation, InvalidRequest) as error:
                raise MessageError(f"{name}: {error}" if several else str(error)) from None
            together.batches[name] = is_batch
            questions.append(question)
        for question in questions:
            try:
                self._batcher.ask(question)
            except RookeryError as error:
                question.reply(error)

    def _answered(self, session: str, number: int, answers: Mapping[str, Any], only: str | None) -> None:
        """Sends the actions of policies."""
        for name, (answer, _) in answers.items():
            if isinstance(answer, RookeryError):
                self._say(session, number, {"error": str(answer) if only else f"{name}: {answer}"})
                return
        actions, version = {}, ""
        for name, (answer, is_batch) in answers.items():
            assert isinstance(answer, ServedActions)
            actions[name] = list(answer.actions) if answer.actions.dtype == object else answer.actions
            actions[name] = actions[name] if is_batch else actions[name][0]
            version = answer.version
        self._say(session, number, {"ok": {"action": actions[only] if only else actions, "version": version}})

    def _forget(self, session: str, episode: str, forgotten: Callable[[], None]) -> None:
        """Deletes the memory of all policies for an episode; then calls `forgotten`, in the batcher's thread."""
        *others, last = self._batcher.version.policies
        try:
            for name in others:
                self._batcher.forget((name, session, episode), lambda was: None)
            self._batcher.forget((last, session, episode), lambda was: forgotten())  # answered in order
        except RookeryError:
            forgotten()  # the server is stopping or overloaded: the session is evicted later

    def _say(self, session: str, number: int, answer: Mapping[str, Any]) -> None:
        if self._listener is not None:
            self._listener.answer(session, number, answer)


class _CombinedReply:
    """Waits until all parts of a request are answered."""

    def __init__(self, names: list[str], whole: Callable[[Mapping[str, Any]], None]) -> None:
        self.batches: dict[str, bool] = {}
        self._missing, self._whole = set(names), whole
        self._answers: dict[str, Any] = {}

    def part(self, name: str) -> Callable[[ServedActions | RookeryError], None]:
        """Returns the reply function of one policy; all answers of a request come in one thread, or are errors."""

        def reply(answer: ServedActions | RookeryError) -> None:
            self._answers[name] = (answer, self.batches[name])
            self._missing.discard(name)
            if not self._missing:
                self._whole(self._answers)

        return reply


def _reward_of(reward: Any, name: str) -> Any:
    """Returns the reward of a client's last action; `Client.log_returns` sends a dict by agent, ``""`` for the only."""
    if not isinstance(reward, Mapping):
        return 0.0
    earned = reward.get(name, reward.get("", 0.0))
    return earned if isinstance(earned, int | float) else None
