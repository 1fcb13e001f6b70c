"""`Batcher`: one thread that answers all who wait with one forward pass, by the policies of one version.

Nobody is made to wait for others: the thread takes what there is when it is free, so that batches are as large as the
load makes them.
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
from rookery.serving.versions import ServedVersion, fresh_memory, memory_width, refuse_other, rows_of


class TooMuch(RookeryError):
    """More is asked than the server takes on."""


class Stopping(RookeryError):
    """The server is about to stop."""


class NotDecided(RookeryError):
    """A policy could not decide because of an internal error; the message has only the id of the error."""


class UnfitQuestion(RookeryError):
    """A question that is understood and cannot be answered: what the policy has to know besides is missing."""


@dataclass(frozen=True)
class ServedActions:
    """What a policy answers.

    Attributes:
        actions: ``[N, ...]`` the environment's own actions.
        version: The checkpoint whose policy has answered.
        started: Whether the session began with it, so that nothing was remembered.
    """

    actions: np.ndarray
    version: str
    started: bool = False


Reply = Callable[[ServedActions | RookeryError], None]
"""Takes the answer, or why there is none; called in the batcher's thread, and must neither wait nor raise."""


@dataclass(eq=False)
class Question:
    """Observations of one client at one moment.

    Attributes:
        policy: Whose action is wanted.
        obs: ``[N, ...]`` by leaf path, types as stored, checked.
        deterministic: Whether the likeliest actions are wanted, and not drawn ones.
        reply: Takes the answer.
        session: Whose memory it is; None for somebody of whom nothing is kept.
        first: ``[N]`` bool, rows where an episode starts; True for all; False for none.
        reward: ``[N]`` what the last action earned, for policies that see it.
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
        """How many observations it has."""
        return rows_of(self.obs)


@dataclass(eq=False)
class Forgetting:
    """A session that is over.

    Attributes:
        session: Which.
        forgotten: Is told whether there was one; called in the batcher's thread.
        is_answered: Whether `forgotten` was called; set by the batcher.
    """

    session: Hashable
    forgotten: Callable[[bool], None]
    is_answered: bool = False


@dataclass
class Counts:
    """What a batcher has done.

    Attributes:
        questions: Questions answered.
        rows: Observations in them.
        batches: Forward passes.
        largest: Observations in the largest of these.
    """

    questions: int = 0
    rows: int = 0
    batches: int = 0
    largest: int = 0


class Batcher:
    """Answers questions in the order in which they come, many at a time.

    Args:
        version: The policies that answer first.
        max_rows: Observations in a forward pass at most, and in a question.
        max_waiting: Questions that may wait; more are refused.
        max_remembered: Rows of memory that are kept (`SessionMemory`).
        seed: What draws of actions begin with; None = each server draws its own.
        internal_errors: Logs errors of the server and of networks; the thread continues after each.

    Attributes:
        version: The policies that answer now.
        counts: What was done so far.
        sessions: What is remembered; for the batcher's thread alone, but for its numbers.
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
        self._waiting: deque[Question | Forgetting] = deque()
        self._ready = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="policies", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread that answers is alive."""
        return self._thread.is_alive()

    def ask(self, question: Question) -> None:
        """Takes a question; from any thread.

        Raises:
            TooMuch: If it has too many observations, or too many questions wait.
            Stopping: If the server is about to stop.
        """
        if question.rows > self._max_rows:
            raise TooMuch(f"{question.rows:,} observations at a time, where {self._max_rows:,} are the most")
        self._put(question)

    def forget(self, session: Hashable, forgotten: Callable[[bool], None]) -> None:
        """Forgets a session when all it has asked before is answered; from any thread. Errors are those of `ask`."""
        self._put(Forgetting(session, forgotten))

    def swap(self, version: ServedVersion) -> None:
        """Lets other policies answer from the next forward pass on; from any thread. Sessions go on.

        Raises:
            RookeryError: If they cannot take the place of those that answer now.
        """
        refuse_other(version, self.version)
        self.version = version

    def close(self) -> None:
        """Answers all who wait, and stops."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        self._thread.join()

    def _put(self, entry: Question | Forgetting) -> None:
        with self._ready:
            if self._stopping:
                raise Stopping("the server is about to stop")
            if len(self._waiting) >= self._max_waiting:
                raise TooMuch(f"{len(self._waiting):,} questions wait already; ask again later")
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
            taken: list[Question | Forgetting] = []
            try:
                with self._ready:
                    self._take(taken)
                self._answer(taken)
            except BaseException as error:  # the only thread: without it later questions would wait for ever
                self._give_up(taken, self._internal_errors.report(error))

    def _take(self, taken: list[Question | Forgetting]) -> None:
        """Moves waiting entries to `taken`, in order: as many as fit, and one of each session.

        The next question of a session needs the memory after this one.
        """
        kept: list[Question | Forgetting] = []
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

    def _answer(self, taken: list[Question | Forgetting]) -> None:
        """Answers these entries, with one forward pass for each policy."""
        version = self.version  # one for all of them, whatever is swapped meanwhile
        groups: dict[tuple[str, bool], list[Question]] = {}
        for entry in taken:
            if isinstance(entry, Forgetting):
                self._tell(entry, self.sessions.forget(entry.session))
            else:
                groups.setdefault((entry.policy, entry.deterministic), []).append(entry)
        for (name, deterministic), questions in groups.items():
            self._decide(version, version.policies[name], deterministic, questions)

    def _give_up(self, taken: list[Question | Forgetting], problem: str) -> None:
        """Answers the entries without an answer with an error."""
        for entry in taken:
            if not entry.is_answered:
                self._tell(entry, False if isinstance(entry, Forgetting) else NotDecided(problem))

    def _tell(self, entry: Question | Forgetting, answer: Any) -> None:
        """Calls the function that takes an answer; an error in it does not affect other entries."""
        entry.is_answered = True
        try:
            (entry.forgotten if isinstance(entry, Forgetting) else entry.reply)(answer)
        except Exception as error:
            self._internal_errors.report(error)

    def _decide(self, version: ServedVersion, policy: Policy, deterministic: bool, questions: list[Question]) -> None:
        """Answers questions to one policy with one forward pass."""
        remembering = bool(memory_width(policy))
        asked: list[tuple[Question, torch.Tensor | None, bool]] = []
        for question in questions:
            try:
                memory, started = self._recalled(policy, question) if remembering else (None, False)
                asked.append((question, memory, started))
            except RookeryError as error:
                self._tell(question, error)
        if not asked:
            return
        try:
            obs = _joined([question.obs for question, _, _ in asked])
            memory = torch.cat([memory for _, memory, _ in asked if memory is not None]) if remembering else None
            actions = self._acted(policy, obs, memory, deterministic)
        except Exception as error:  # of a network of the user's own
            problem = NotDecided(f"policy {policy.name!r} cannot decide: {self._internal_errors.report(error)}")
            for question, _, _ in asked:
                self._tell(question, problem)
            return
        counts, begin = self.counts, 0
        counts.batches += 1
        counts.questions += len(asked)
        counts.rows += len(actions)
        counts.largest = max(counts.largest, len(actions))
        for question, _, started in asked:
            end = begin + question.rows
            if memory is not None and question.session is not None:
                self.sessions.keep(question.session, memory[begin:end].clone())
            self._tell(question, ServedActions(actions[begin:end], version.name, started))
            begin = end

    def _acted(self, policy: Policy, obs: Tree, memory: torch.Tensor | None, deterministic: bool) -> np.ndarray:
        """Actions for rows; `memory`, ``[N, memory_width]``, changes in place."""
        if memory is None or not deterministic or not policy.exploration_size:
            return policy.env_actions(obs, memory, deterministic, self._rng)
        own = fresh_memory(policy, rows_of(obs), deterministic)  # what exploration carries is not wanted here
        if own is not None:
            own.copy_(memory[:, : policy.memory_size])
        actions = policy.env_actions(obs, own, deterministic, self._rng)
        if own is not None:
            memory[:, : policy.memory_size] = own
        return actions

    def _recalled(self, policy: Policy, question: Question) -> tuple[torch.Tensor, bool]:
        """What is remembered before a question, ``[N, memory_width]``; and whether nothing was."""
        begins, session = question.first is True, question.session
        if begins and session is not None:
            self.sessions.forget(session)
        kept = None if begins or session is None else self.sessions.recall(session)
        if kept is None:
            return torch.zeros(question.rows, memory_width(policy), device=device_of(policy), dtype=torch.float32), True
        if len(kept) != question.rows:
            raise UnfitQuestion(
                f"obs: {question.rows} observations, where this session has shown {len(kept)} at a time so far; name "
                "another session, or begin this one anew with first = true"
            )
        memory = kept.clone()
        if policy.reward_column is not None:
            if question.reward is None:
                raise UnfitQuestion(
                    f"reward: policy {policy.name!r} sees what its last action earned (memory.previous_reward): send it"
                )
            memory[:, policy.reward_column] = torch.as_tensor(question.reward, dtype=torch.float32, device="cpu")
        if not isinstance(question.first, bool):
            memory[torch.from_numpy(np.asarray(question.first, bool))] = 0.0
        return memory, False


def _joined(trees: list[Tree]) -> Tree:
    """Observations of all, one after the other."""
    if len(trees) == 1:
        return trees[0]
    return {path: np.concatenate([tree[path] for tree in trees]) for path in trees[0]}
