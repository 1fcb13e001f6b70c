"""`Batcher`: one thread that answers all waiting questions with one forward pass of the policies of one version.

The thread batches all questions that wait when it is free, and never waits to fill a batch, so that the batch size
follows the load.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rookery.core.device import device_of
from rookery.core.errors import RookeryError
from rookery.core.process.internal_errors import InternalErrors
from rookery.core.spaces.arrays import Tree
from rookery.policies.policy import Policy
from rookery.serving.sessions import SessionMemory
from rookery.serving.versions import ServedVersion, check_compatible, fresh_memory, memory_width, num_rows


class LimitExceeded(RookeryError):
    """The request exceeds a limit of the server."""


class ServerStopping(RookeryError):
    """The server is stopping."""


class InferenceFailed(RookeryError):
    """A policy could not decide because of an internal error; the message has only the id of the error."""


class InvalidRequest(RookeryError):
    """A request with a missing or wrong field."""


@dataclass(frozen=True)
class ServedActions:
    """Answer of a policy.

    Attributes:
        actions: ``[N, ...]`` the environment's own actions.
        version: The checkpoint of the policy.
        started: Whether the session began with this request, so that its memory was empty.
    """

    actions: np.ndarray
    version: str
    started: bool = False


Reply = Callable[[ServedActions | RookeryError], None]
"""Receives the answer or an error; called in the batcher's thread, and must neither block nor raise."""


@dataclass(eq=False)
class Question:
    """Request of one client for the actions of a policy.

    Attributes:
        policy: Name of the policy.
        obs: ``[N, ...]`` by leaf path, types as stored, checked.
        deterministic: Whether the most likely actions are requested, instead of sampled ones.
        reply: Receives the answer.
        session: Session with the memory; None if no memory is kept.
        first: ``[N]`` bool, rows where an episode starts; True for all; False for none.
        reward: ``[N]`` reward of the last action, for policies that observe it.
        is_answered: Whether `reply` was called; set by the batcher.
    """

    policy: str
    obs: Tree
    deterministic: bool
    reply: Reply
    session: Hashable | None = None
    first: np.ndarray | bool = False
    reward: np.ndarray | None = None
    is_answered: bool = False

    @property
    def rows(self) -> int:
        """Number of observations."""
        return num_rows(self.obs)


@dataclass(eq=False)
class SessionDeletion:
    """Request to delete a session that is over.

    Attributes:
        session: The session.
        forgotten: Called with whether the session existed, in the batcher's thread.
        is_answered: Whether `forgotten` was called; set by the batcher.
    """

    session: Hashable
    forgotten: Callable[[bool], None]
    is_answered: bool = False


@dataclass
class Counts:
    """Counters of a batcher.

    Attributes:
        questions: Answered questions.
        rows: Observations in them.
        batches: Forward passes.
        largest: Observations in the largest forward pass.
    """

    questions: int = 0
    rows: int = 0
    batches: int = 0
    largest: int = 0


class Batcher:
    """Answers questions in the order of their arrival, in batches.

    Args:
        version: The first policies.
        max_rows: Maximum number of observations in a forward pass, and in a question.
        max_waiting: Maximum number of waiting questions; more are refused.
        max_remembered: Maximum number of memory rows (`SessionMemory`).
        seed: Random seed of sampled actions; None = random.
        internal_errors: Logs errors of the server and of networks; the thread continues after each.

    Attributes:
        version: The current policies.
        counts: Counters so far.
        sessions: Memory of sessions; only the batcher's thread uses it, except for its counters.
    """

    def __init__(
        self,
        version: ServedVersion,
        *,
        max_rows: int,
        max_waiting: int,
        max_remembered: int,
        internal_errors: InternalErrors,
        seed: int | None = None,
    ) -> None:
        self.version = version
        self._internal_errors = internal_errors
        self.counts = Counts()
        self.sessions = SessionMemory(max_remembered)
        self._max_rows, self._max_waiting = max_rows, max_waiting
        self._rng = np.random.default_rng(seed)
        self._waiting: deque[Question | SessionDeletion] = deque()
        self._ready = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="policies", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the batcher's thread is alive."""
        return self._thread.is_alive()

    def ask(self, question: Question) -> None:
        """Adds a question to the queue; for any thread.

        Raises:
            LimitExceeded: If it has too many observations, or too many questions wait.
            ServerStopping: If the server is stopping.
        """
        if question.rows > self._max_rows:
            raise LimitExceeded(f"{question.rows:,} observations in a request; at most {self._max_rows:,} are allowed")
        self._put(question)

    def forget(self, session: Hashable, forgotten: Callable[[bool], None]) -> None:
        """Deletes a session after its earlier questions are answered; for any thread. Raises the errors of `ask`."""
        self._put(SessionDeletion(session, forgotten))

    def swap(self, version: ServedVersion) -> None:
        """Replaces the policies from the next forward pass on; for any thread. Sessions continue.

        Raises:
            RookeryError: If they are not compatible with the current ones.
        """
        check_compatible(version, self.version)
        self.version = version

    def close(self) -> None:
        """Answers all waiting questions, and stops."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        self._thread.join()

    def _put(self, entry: Question | SessionDeletion) -> None:
        with self._ready:
            if self._stopping:
                raise ServerStopping("the server is stopping")
            if len(self._waiting) >= self._max_waiting:
                raise LimitExceeded(f"{len(self._waiting):,} requests wait already; try again later")
            self._waiting.append(entry)
            self._ready.notify()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._waiting and not self._stopping:
                    self._ready.wait()
                if not self._waiting:
                    return
            taken: list[Question | SessionDeletion] = []
            try:
                with self._ready:
                    self._take(taken)
                self._answer(taken)
            except BaseException as error:  # without its only thread, later questions would wait for ever
                self._give_up(taken, self._internal_errors.report(error))

    def _take(self, taken: list[Question | SessionDeletion]) -> None:
        """Moves waiting entries to `taken`, in order: as many as fit, and one for each session.

        The next question of a session needs the memory after this one.
        """
        kept: list[Question | SessionDeletion] = []
        rows, seen = 0, set()
        try:
            while self._waiting:
                taken.append(entry := self._waiting.popleft())
                if entry.session is not None and entry.session in seen:
                    kept.append(taken.pop())
                    continue
                if isinstance(entry, Question):
                    if rows and rows + entry.rows > self._max_rows:
                        kept.append(taken.pop())
                        break
                    rows += entry.rows
                if entry.session is not None:
                    seen.add(entry.session)
        finally:
            self._waiting.extendleft(reversed(kept))

    def _answer(self, taken: list[Question | SessionDeletion]) -> None:
        """Answers these entries, with one forward pass for each policy."""
        version = self.version  # the same for all of them, also if `swap` is called meanwhile
        groups: dict[tuple[str, bool], list[Question]] = {}
        for entry in taken:
            if isinstance(entry, SessionDeletion):
                self._tell(entry, self.sessions.forget(entry.session))
            else:
                groups.setdefault((entry.policy, entry.deterministic), []).append(entry)
        for (name, deterministic), questions in groups.items():
            self._decide(version, version.policies[name], deterministic, questions)

    def _give_up(self, taken: list[Question | SessionDeletion], problem: str) -> None:
        """Answers the entries without an answer with an error."""
        for entry in taken:
            if not entry.is_answered:
                self._tell(entry, False if isinstance(entry, SessionDeletion) else InferenceFailed(problem))

    def _tell(self, entry: Question | SessionDeletion, answer: Any) -> None:
        """Calls the function that takes an answer; an error in it does not affect other entries."""
        entry.is_answered = True
        try:
            (entry.forgotten if isinstance(entry, SessionDeletion) else entry.reply)(answer)
        except Exception as error:
            self._internal_errors.report(error)

    def _decide(self, version: ServedVersion, policy: Policy, deterministic: bool, questions: list[Question]) -> None:
        """Answers questions to one policy with one forward pass."""
        remembering = bool(memory_width(policy))
        accepted: list[tuple[Question, torch.Tensor | None, bool]] = []
        for question in questions:
            try:
                memory, started = self._recalled(policy, question) if remembering else (None, False)
                accepted.append((question, memory, started))
            except RookeryError as error:
                self._tell(question, error)
        if not accepted:
            return
        try:
            obs = _concatenated([question.obs for question, _, _ in accepted])
            memory = torch.cat([memory for _, memory, _ in accepted if memory is not None]) if remembering else None
            actions = self._acted(policy, obs, memory, deterministic)
        except Exception as error:  # a user's network can raise any exception
            problem = InferenceFailed(f"policy {policy.name!r} cannot decide: {self._internal_errors.report(error)}")
            for question, _, _ in accepted:
                self._tell(question, problem)
            return
        counts, begin = self.counts, 0
        counts.batches += 1
        counts.questions += len(accepted)
        counts.rows += len(actions)
        counts.largest = max(counts.largest, len(actions))
        for question, _, started in accepted:
            end = begin + question.rows
            if memory is not None and question.session is not None:
                self.sessions.keep(question.session, memory[begin:end].clone())
            self._tell(question, ServedActions(actions[begin:end], version.name, started))
            begin = end

    def _acted(self, policy: Policy, obs: Tree, memory: torch.Tensor | None, deterministic: bool) -> np.ndarray:
        """Returns actions for rows; changes `memory`, ``[N, memory_width]``, in place."""
        if memory is None or not deterministic or not policy.exploration_size:
            return policy.env_actions(obs, memory, deterministic, self._rng)
        own = fresh_memory(policy, num_rows(obs), deterministic)  # without the state of exploration
        if own is not None:
            own.copy_(memory[:, : policy.memory_size])
        actions = policy.env_actions(obs, own, deterministic, self._rng)
        if own is not None:
            memory[:, : policy.memory_size] = own
        return actions

    def _recalled(self, policy: Policy, question: Question) -> tuple[torch.Tensor, bool]:
        """Returns the memory before a question, ``[N, memory_width]``, and whether it is new."""
        begins, session = question.first is True, question.session
        if begins and session is not None:
            self.sessions.forget(session)
        kept = None if begins or session is None else self.sessions.recall(session)
        if kept is None:
            return torch.zeros(question.rows, memory_width(policy), device=device_of(policy), dtype=torch.float32), True
        if len(kept) != question.rows:
            raise InvalidRequest(
                f"obs: {question.rows} observations, but earlier requests of this session had {len(kept)}; name "
                "another session, or restart this one with first = true"
            )
        memory = kept.clone()
        if policy.reward_column is not None:
            if question.reward is None:
                raise InvalidRequest(
                    f"reward: policy {policy.name!r} observes the reward of its last action (memory.previous_reward): "
                    "send it"
                )
            memory[:, policy.reward_column] = torch.as_tensor(question.reward, dtype=torch.float32, device="cpu")
        if not isinstance(question.first, bool):
            memory[torch.from_numpy(np.asarray(question.first, bool))] = 0.0
        return memory, False


def _concatenated(trees: list[Tree]) -> Tree:
    """Returns concatenated observations."""
    if len(trees) == 1:
        return trees[0]
    return {path: np.concatenate([tree[path] for tree in trees]) for path in trees[0]}
