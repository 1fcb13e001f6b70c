"""Tests of the memory of policies for each client: empty at the start, then its own past; and eviction."""

import threading

import numpy as np
import pytest
import torch

pytest.importorskip("uvicorn")

from served import Web, batcher_of, checkpoint, policy, serving

from rookery.serving.batcher import Question
from rookery.serving.sessions import SessionEvicted, SessionMemory
from rookery.serving.versions import load_version

LSTM = {"memory": {"kind": "lstm", "size": 8}}
FRAMES = {"memory": {"frame_stack": 3}}
REWARDED = {"memory": {"kind": "gru", "size": 8, "previous_action": True, "previous_reward": True}}


def walks(episodes, steps, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (episodes, steps, 4)).astype(np.float32)


@pytest.mark.parametrize("model", [LSTM, FRAMES], ids=["lstm", "frames"])
def test_each_session_is_answered_from_its_own_past(tmp_path, model):
    made = policy(**model)
    seen = walks(3, 5)
    with serving(checkpoint(tmp_path, 1, made)) as server:
        web, memories = Web(server), [None] * 3
        for step in range(5):
            for number in range(3):
                expected, memories[number] = made.predict(seen[number, step], memories[number])
                status, answer = web.act(seen[number, step].tolist(), session=f"s{number}")
                assert (status, answer["started"]) == (200, step == 0)
                np.testing.assert_allclose(answer["action"], expected, rtol=1e-4, atol=1e-6)
        again = web.act(seen[0, 0].tolist(), session="s0", first=True)[1]
        np.testing.assert_allclose(again["action"], made.predict(seen[0, 0])[0], rtol=1e-4, atol=1e-6)
        assert again["started"]
        assert web.call("DELETE", "/sessions/s1")[1] == {"session": "s1", "forgotten": True}
        assert web.call("DELETE", "/sessions/s1")[1] == {"session": "s1", "forgotten": False}
        assert web.act(seen[1, 0].tolist(), session="s1")[1]["started"]
        status, answer = web.act(seen[0, 0].tolist())
        assert status == 422 and "name a session" in answer["error"]
        assert web.act(seen[0, 0].tolist(), first=True)[0] == 200  # a first decision needs none


def test_a_session_of_several_rows(tmp_path):
    made = policy(**LSTM)
    seen = walks(3, 4)
    with serving(checkpoint(tmp_path, 1, made)) as server:
        web, memory = Web(server), None
        for step in range(4):
            first = [False, step == 2, False]
            expected, memory = made.predict(seen[:, step], memory, first=np.array(first) if step else None)
            answer = web.act(seen[:, step].tolist(), session="all", first=first)[1]
            np.testing.assert_allclose(answer["action"], expected, rtol=1e-4, atol=1e-6)
        status, answer = web.act(seen[:2, 0].tolist(), session="all")
        assert status == 422 and "this session had 3" in answer["error"]
        assert web.act(seen[:2, 0].tolist(), session="all", first=[True, False, True])[0] == 422
        assert web.act(seen[:2, 0].tolist(), session="all", first=True)[0] == 200


@pytest.mark.regression("wrong result", "A server refuses `first` and `reward` of another length than the observations")
@pytest.mark.parametrize("first", [[True], [True, True, True], [False, True, True]])
def test_first_has_a_value_for_each_observation(tmp_path, first):
    seen = walks(2, 1)[:, 0].tolist()
    for number, model in enumerate((LSTM, {}), 1):
        with serving(checkpoint(tmp_path, number, policy(**model))) as server:
            status, answer = Web(server).act(seen, session="all", first=first)
            assert (status, answer["error"]) == (422, f"first: {len(first)} values for 2 observations")
            status, answer = Web(server).act(seen, session="all", first="yes")
            assert (status, answer["error"]) == (
                422, "first: expected true or false, or a list of them, one for each observation"
            )  # fmt: skip
            assert Web(server).act(seen, session="all", first=[True, True])[0] == 200


@pytest.mark.regression("wrong result", "A server refuses `first` and `reward` of another length than the observations")
def test_rewards_have_a_value_for_each_observation_at_a_beginning_too(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy(**REWARDED))) as server:
        seen = walks(2, 1)[:, 0].tolist()
        status, answer = Web(server).act(seen, session="all", first=True, reward=[1.0, 2.0, 3.0])
        assert (status, answer["error"]) == (422, "reward: shape (3,) for 2 observations")


def test_a_policy_that_sees_rewards_is_told_them(tmp_path):
    made = policy(**REWARDED)
    seen = walks(1, 3)[0]
    with serving(checkpoint(tmp_path, 1, made)) as server:
        web, memory = Web(server), None
        for step, reward in enumerate((None, 0.5, -2.0)):
            expected, memory = made.predict(seen[step], memory, reward=reward)
            answer = web.act(seen[step].tolist(), session="s", reward=reward)[1]
            np.testing.assert_allclose(answer["action"], expected, rtol=1e-4, atol=1e-6)
        status, answer = web.act(seen[0].tolist(), session="s")
        assert status == 422 and answer["error"].startswith("reward: ")
        assert web.act(seen[0].tolist(), session="s", reward=[1, 2])[0] == 422
        assert web.act(seen[0].tolist(), session="s", reward="much")[0] == 422


def test_sessions_without_room_are_forgotten_and_say_so(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy(**LSTM)), max_sessions=2) as server:
        web = Web(server)
        for name in "aba":
            assert web.act([0.0] * 4, session=name)[0] == 200
        assert web.act([0.0] * 4, session="c")[0] == 200  # b was asked for longest ago
        status, answer = web.act([0.0] * 4, session="b")
        assert status == 410 and "--max-sessions" in answer["error"]
        assert web.act([0.0] * 4, session="a")[1]["started"] is False
        assert web.act([0.0] * 4, session="b", first=True)[1]["started"] is True
        assert web.call("GET", "/health")[1]["sessions"] == {"kept": 2, "rows": 2, "evicted": 2}


def test_memory_of_sessions_is_bounded():
    sessions = SessionMemory(10)
    for number in range(1000):
        sessions.keep(number, torch.zeros(3, 4))
    assert (len(sessions), sessions.rows, sessions.evicted) == (3, 9, 997)
    with pytest.raises(SessionEvicted):
        sessions.recall(996)
    assert sessions.recall(1) is None  # too long ago to be known
    assert len(sessions._gone) == 10


def test_questions_of_one_session_are_answered_one_after_the_other(tmp_path):
    made = policy(**LSTM)
    seen, answers, ready = walks(1, 6)[0], [], threading.Event()
    batcher = batcher_of(load_version(checkpoint(tmp_path, 1, made)), max_rows=4)

    def reply(answer):
        answers.append(answer)
        if len(answers) == 12:
            ready.set()

    with batcher._ready:  # all of them wait when the first is taken
        for row in seen:
            for session in ("a", None):
                obs = {"obs": row[None]}
                question = Question("main", obs, True, reply, session, session is None)
                batcher._waiting.append(question)
        batcher._ready.notify()
    assert ready.wait(10)
    batcher.close()
    memory, expected = None, []
    for row in seen:
        action, memory = made.predict(row, memory)
        expected.append(action)
    mine = [answer.actions[0] for answer in answers if not answer.started][-5:]
    np.testing.assert_allclose(mine, expected[1:], rtol=1e-4, atol=1e-6)
    assert batcher.counts.largest <= 4
