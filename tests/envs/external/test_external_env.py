import random
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from clients import ONE, TOKEN, CuttingProxy, Played, made, wait_until
from clients import answers as answers_of

from rookery.core.errors import EnvError
from rookery.envs.external import listener
from rookery.envs.external.client import Client, EpisodeLost, ExternalError, TrainingOver, pack, proof, unpack
from rookery.envs.external.env import ExternalEnv, find_token
from rookery.envs.external.episode_server import EpisodeServer
from rookery.envs.external.spaces import read_spaces
from rookery.envs.make import env_name, make_env
from rookery.envs.schemes import code_of

TWO = {
    "agents": {
        "left": {"obs": {"box": [2]}, "action": {"discrete": 3}},
        "ball": {"obs": {"box": [1]}, "action": {"box": [2], "low": -1, "high": 1}},
        "right": {"obs": {"box": [2]}, "action": {"discrete": 3}},
        "bird#": {"obs": {"discrete": 5}, "action": {"discrete": 2}},
    }
}


def client(env, **options):
    return Client("{}:{}".format(*env.address), TOKEN, quiet=True, **options)


def episode(player, length, start=0):
    name = player.start_episode()
    for step in range(start, start + length):
        assert player.get_action(name, np.array([step, 1.0])) == (step + 1) % 3
        player.log_returns(name, 0.25)
        player.log_returns(name, 0.25)
    player.end_episode(name, np.zeros(2))
    return name


def test_clients_get_the_actions_for_what_they_saw_and_every_reward_counts():
    with Played(env := made(lanes=2)) as played:
        clients = [client(env) for _ in range(4)]
        threads = [
            threading.Thread(target=lambda c=c, n=n: [episode(c, 1 + (n + k) % 4, n) for k in range(20)])
            for n, c in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lengths = [1 + (n + k) % 4 for n in range(4) for k in range(20)]
    assert (played.ends, played.steps, played.reward, played.lost) == (80, sum(lengths), sum(lengths) / 2, 0)
    assert sum(c.queued for c in clients) > 0, "four clients had two lanes"
    assert env.counters == {}


def test_the_lowest_lane_that_is_free_plays_and_the_others_do_not_step():
    env = made(lanes=3)
    step = env.reset(lambda lane, number: 100 * lane + number)
    assert not step.rows[0].waiting.any() and not step.stepped.any()
    player = client(env)
    answers, free = [], threading.Event()

    def play():
        answers.append(episode(player, 2))
        free.wait(60)  # until the lane in which it was played knows that it is over
        answers.append(player.start_episode())

    thread = threading.Thread(target=play)
    thread.start()
    shown = []
    while len(answers) < 2:
        over = step.ended.any()
        step = env.step([answers_of(step.rows[0])])
        if over:
            free.set()
        shown.append((step.rows[0].waiting.tolist(), step.stepped.tolist(), step.ended.tolist()))
    thread.join(60)
    told = [line for line in shown if any(line[0]) or any(line[1]) or any(line[2])]
    none = [False] * 3
    first = [True, False, False]
    assert told == [(first, none, none), (first, first, none), (none, first, first)]
    assert env.episode.tolist() == [1, 0, 0] and player.plan(answers[1])["seed"] == 1
    env.close()


def test_agents_have_names_and_end_when_their_client_says_so():
    env = make_env("external:0", {"spaces": TWO, "token": TOKEN}, (), 1, "auto")
    assert [kind.agents for kind in env.kinds] == [("left", "right"), ("ball",), ("bird#0",)]
    found, done = [], threading.Event()

    def play():
        with client(env) as player:
            name = player.start_episode("game")
            found.append(player.get_action(name, {"left": [1, 0], "right": [2, 0], "ball": [0.5], "bird#x": 4}))
            player.log_returns(
                name, {"left": 1.0, "right": 2.0, "bird#x": 3.0}, ended={"right": True, "bird#x": "truncated"}
            )
            found.append(player.get_action(name, {"left": np.array([3, 0]), "bird#y": 2}))
            player.log_returns(name, {"left": 4.0, "ball": 5.0})
            player.end_episode(name, {"left": [9, 9], "ball": [0.25], "bird#y": 0}, truncated=True)
        done.set()

    threading.Thread(target=play).start()
    step, log = env.reset(lambda lane, number: 0), []
    while not done.is_set() or step.stepped.any():
        acts = [np.ones(int(rows.waiting.sum()), np.int64) for rows in step.rows]
        acts[1] = np.full((len(acts[1]), 2), 0.5, np.float32)
        step = env.step(acts)
        if any(rows.waiting.any() or rows.terminated.any() or rows.truncated.any() for rows in step.rows):
            log.append(
                [
                    (r.waiting.tolist(), r.reward.tolist(), r.terminated.tolist(), r.truncated.tolist())
                    for r in step.rows
                ]
            )
            finals = [{path: array.tolist() for path, array in rows.final_obs.items()} for rows in step.rows]
    no = [False]
    assert found[0]["left"] == found[0]["right"] == found[0]["bird#x"] == 1 and found[0]["ball"].tolist() == [0.5, 0.5]
    assert found[1] == {"left": 1, "bird#y": 1}
    assert log[0] == [([True, True], [0, 0], no * 2, no * 2), ([True], [0], no, no), ([True], [0], no, no)]
    assert log[1] == [([True, False], [1, 2], [False, True], no * 2), (no, [0], no, no), ([True], [3], no, [True])]
    assert log[2] == [(no * 2, [4, 0], no * 2, [True, False]), (no, [5], no, [True]), (no, [0], no, [True])]
    assert finals == [{"obs": [[9, 9]]}, {"obs": [[0.25]]}, {"obs": [0]}]
    env.close()


def test_a_client_refuses_misspelt_agents_before_anything_is_noted():
    with Played(env := made(lanes=1, spaces=TWO)), client(env) as player:
        name = player.start_episode()
        for rewards, ended, words in (
            ({"left": 1.0, "lfet": 1.0}, None, "reward of agent 'lfet', which is unknown; did you mean left?"),
            ({"left": 1.0}, {"rihgt": True}, "ended of agent 'rihgt', which is unknown; did you mean right?"),
            ({"bird#": 1.0}, None, "reward of agent 'bird#', which is unknown"),
            ({"brid#x": 1.0}, None, "reward of agent 'brid#x', which is unknown; did you mean bird#?"),
        ):
            with pytest.raises(ValueError, match=words):
                player.log_returns(name, rewards, ended=ended)
        assert not player._running[name].rewards and not player._running[name].ended
        player.log_returns(name, {"bird#x": 1.0, "left": 2.0}, ended={"__all__": False})
        player._running[name].ended["lfet"] = "terminated"
        with pytest.raises(ExternalError, match="agent 'lfet' is unknown; did you mean 'left'"):
            player.get_action(name, {"left": [0, 0]})
        player._running[name].ended.clear()
        assert list(player.get_action(name, {"left": [0, 0]})) == ["left"]
        player.end_episode(name)


def test_what_a_client_says_wrong_is_told_and_its_episode_goes_on():
    with Played(env := made(lanes=1)) as played, client(env) as player:
        name = player.start_episode()
        for wrong, words in (
            ([1.0], r"shape \(1,\) where the space says \(2,\)"),
            ([np.nan, 0], "non-finite observation"),
            ({"a": 1}, "observation"),
            ("text", "observation"),
            (None, "observation"),
        ):
            with pytest.raises(ExternalError, match=words):
                player.get_action(name, wrong)
        with pytest.raises(ValueError, match="reward inf: expected a finite number"):
            player.log_returns(name, np.inf)
        with pytest.raises(ValueError, match="type object cannot be sent"):
            player.log_returns(name, 1.0, info={"what": object()})
        with pytest.raises(ExternalError, match="1,048,576 are the limit; send long lists as arrays"):
            player.get_action(name, [0.123456789] * 100_000)
        player._running[name].rewards[""] = np.inf
        with pytest.raises(ExternalError, match="reward inf: expected a finite number"):
            player.get_action(name, [0, 0])
        player._running[name].rewards.clear()
        with pytest.raises(ExternalError, match=f"episode {name} is running"):
            player.start_episode(name)
        with pytest.raises(ExternalError, match="op 'dance' is unknown"):
            player._ask({"op": "dance", "episode": name})
        with pytest.raises(ExternalError, match="expected a name"):
            player._ask({"op": "start_episode", "episode": "x" * 300})
        player.get_action(name, [0, 0])
        with pytest.raises(ExternalError, match="needs the last observation"):
            player.end_episode(name, None, truncated=True)
        player.log_returns(name, 2.0)
        player.end_episode(name, [1, 1], truncated=True)
        with pytest.raises(ValueError, match="was not started by this client, or is over"):
            player.get_action(name, [0, 0])
        with pytest.raises(EpisodeLost, match="is not running here"):
            player._ask({"op": "get_action", "episode": name, "obs": [0, 0]})
        episode(player, 1)
    assert (played.ends, played.reward) == (2, 2.5)


def test_no_message_of_a_client_stops_the_training():
    rng = random.Random(0)
    values = [None, True, -1, 3, 10**30, 1e999, float("nan"), "x", "\ud800", [], [[]], [0, 0], [1, "a"], {},
              {"left": 1}, {"left": [0, 0], "right": [1, 1]}, {"bird#": 1}, {"bird#z": 1}, {"left": {"a": []}},
              {"": 1.0}, {"left": "terminated"}, {"left": 10**400}, np.zeros((2, 2)), (1, 2), [[[[0]]]],
              {"ball": [0.5]}]  # fmt: skip
    keys = ["obs", "action", "reward", "ended", "info", "truncated", "episode"]
    for spaces in (ONE, TWO):
        env = made(lanes=1, spaces=spaces)
        said = Counter()
        with Played(env) as played, client(env) as player:
            for number in range(400):
                if "game" not in player._running:
                    player.start_episode("game")
                request = {"op": rng.choice(["get_action", "log_action", "end_episode", "start_episode", 3, None, "x"])}
                request |= {key: rng.choice(values) for key in keys if rng.random() < 0.4}
                request["episode"] = rng.choice(["game", "game", "game", request.get("episode", "game")])
                try:
                    player._ask(request)
                    said["ok"] += 1
                    if request["op"] == "end_episode":
                        player._running.pop("game", None)
                    if request["op"] == "start_episode" and request["episode"] != "game":
                        player._ask({"op": "end_episode", "episode": request["episode"]})
                except EpisodeLost:
                    player._running.pop("game", None)
                except ExternalError as error:
                    said["refused"] += len(str(error)) < 1000
        assert played.error is None and said["refused"] > 100 and said["ok"] > 10, said


def with_client(env, play, errors):
    try:
        with client(env) as player:
            play(player)
    except Exception as error:
        errors.append(error)


def shown(env, play):
    """Yields the rows of a kind while `play` plays: (observation, reward, own action or None, whether it ended)."""
    done, log, errors = threading.Event(), [], []
    thread = threading.Thread(target=lambda: (with_client(env, play, errors), done.set()))
    thread.start()
    step = env.reset(lambda lane, number: 0)
    while not done.is_set() or step.stepped.any():
        step = env.step([np.zeros(int(rows.waiting.sum()), np.int64) for rows in step.rows])
        rows = step.rows[0]
        if rows.waiting.any() or step.ended.any():
            own = rows.own_action.tolist() if len(rows.own_index) else None
            log.append((float(rows.obs["obs"][0, 0]), float(rows.reward[0]), own, bool(rows.terminated[0])))
    thread.join()
    env.close()
    assert errors == []
    return log


def test_an_action_of_ones_own_is_shown_beside_what_was_seen():
    def play(player):
        name = player.start_episode()
        player.log_action(name, [0, 0], 1)
        player.log_returns(name, 100.0)
        assert player.get_action(name, [1, 0]) == 0
        player.log_returns(name, 1.0)
        player.log_action(name, [2, 0], 2)
        player.log_returns(name, 50.0)
        player.end_episode(name, [3, 0])

    log = shown(env := made(lanes=1), play)
    assert log == [(0, 0, [1], False), (1, 100, None, False), (2, 1, [2], False), (2, 50, None, True)]
    assert env.counters == {}


MASKED = {
    "obs": {"dict": {"obs": {"box": [1]}, "action_mask": {"multi_binary": 3}}},
    "action": {"discrete": 3},
}


@pytest.mark.parametrize(
    ("spaces", "obs", "action", "told"),
    [
        (ONE, [0, 0], 7, r"agent agent, action: 7, which is not in Discrete\(3\)"),
        (ONE, [0, 0], 0.5, r"agent agent, action: 0.5, which is not in Discrete\(3\)"),
        (ONE, [0, 0], [1, 2], r"agent agent, action: actions have shape \(2,\) where Discrete\(3\) says \(\)"),
        (ONE, [0, 0], None, "agent agent, action: actions have the type object"),
        (ONE, [0, float("nan")], 1, "agent agent, observation: .*nan"),
        ({"obs": {"box": [2]}, "action": {"box": [2]}}, [0, 0], [0.0, float("nan")], "action: .*nan.*not in Box"),
        ({"obs": {"box": [2]}, "action": {"box": [2]}}, [0, 0], [0.0], r"action: actions have shape \(1,\)"),
        (MASKED, {"obs": [0.0], "action_mask": [1, 1, 0]}, 2, "action: it takes 2 of 3, which its mask forbids"),
        (TWO, {"left": [0, 0]}, {"right": 1}, "expected an action for each of left and found right"),
        (TWO, {"left": [0, 0]}, 1, "expected an action for each of left and found 1"),
        (TWO, {}, {}, "log_action: no agent has acted"),
    ],
)
def test_an_action_that_cannot_be_is_refused_by_its_agent_and_the_episode_goes_on(spaces, obs, action, told):
    right = {"left": [0, 0]}, {"left": 1}
    if spaces is not TWO:
        space = spaces["action"]
        right = (obs if spaces is MASKED else [0, 0]), (1 if "discrete" in space else [0.5, 0.5])

    def play(player):
        name = player.start_episode()
        with pytest.raises(ExternalError, match=told):
            player.log_action(name, obs, action)
        player.log_action(name, *right)
        player.end_episode(name)

    log = []
    env, done = made(lanes=1, spaces=spaces), threading.Event()
    thread = threading.Thread(target=lambda: (with_client(env, play, log), done.set()))
    thread.start()
    step, own = env.reset(lambda lane, number: 0), 0
    while not done.is_set() or step.stepped.any():
        step = env.step([kind.action.to_env(np.zeros((int(rows.waiting.sum()), *kind.action.shape), kind.action.dtype))
                         for kind, rows in zip(env.kinds, step.rows, strict=True)])  # fmt: skip
        own += sum(len(rows.own_index) for rows in step.rows)
    thread.join()
    env.close()
    assert log == [] and own == 1


def test_an_episode_whose_client_does_not_come_back_is_lost_and_one_that_comes_back_goes_on():
    with Played(env := made(lanes=2, patience=1.0)) as played:
        gone, back = client(env), client(env)
        names = [gone.start_episode(), back.start_episode()]
        for player, name in zip((gone, back), names, strict=True):
            player.get_action(name, [0, 0])
            player._drop()
        back.log_returns(names[1], 1.0)
        assert back.get_action(names[1], [1, 0]) == 1
        assert back.reconnected == 0  # it had let go itself
        wait_until(lambda: played.lost)
        assert played.lost == 1 and env.counters == {"episodes_lost": 1}
        with pytest.raises(EpisodeLost):
            gone.get_action(names[0], [0, 0])
        back.end_episode(names[1])
        never = client(env)
        never.start_episode()
        never.close()
        episode(gone, 3)
    assert (played.ends, played.lost, played.reward) == (2, 1, 2.5)
    assert env.counters == {"episodes_lost": 2}, "the one of which the training has never heard, too"


def test_a_client_that_says_nothing_is_given_up():
    with Played(env := made(lanes=1, silence=1.0)) as played, client(env) as player:
        name = player.start_episode()
        for _ in range(3):
            player.get_action(name, [0, 0])
            time.sleep(0.4)
        assert played.lost == 0, "what it says begins the time anew"
        wait_until(lambda: played.lost)
        assert played.lost == 1
        with pytest.raises(EpisodeLost):
            player.get_action(name, [0, 0])
        episode(player, 1)


@pytest.mark.parametrize("many", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_episodes_over_a_link_that_is_cut_at_random_count_once_each(many):
    with Played(env := made(lanes=8)) as played:
        link = CuttingProxy(env.address, mean=3000)
        counts, names = [0] * 8, [[] for _ in range(8)]

        def play(number):
            with Client("{}:{}".format(*link.address), TOKEN, quiet=True) as player:
                for k in range(many // 8 + (number < many % 8)):
                    names[number].append(episode(player, 1 + k % 3))
                counts[number] = player.reconnected

        threads = [threading.Thread(target=play, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        link.close()
    steps = sum(1 + k % 3 for number in range(8) for k in range(many // 8 + (number < many % 8)))
    assert len({name for mine in names for name in mine}) == many
    assert (played.ends, played.steps, played.reward, played.lost) == (many, steps, steps / 2, 0)
    assert min(counts) > 0 and link.cuts > many / 10 and env.counters == {}


# -- who is let in -------------------------------------------------------------------------------------------------


def raw(env):
    sock = socket.create_connection(env.address, timeout=10)
    return sock, read(sock)


def read(sock):
    size = struct.unpack("<Q", exactly(sock, 8))[0]
    return unpack(exactly(sock, size))


def exactly(sock, size):
    found = b""
    while len(found) < size:
        piece = sock.recv(size - len(found))
        if not piece:
            raise ConnectionError
        found += piece
    return found


def enter(env, sock, challenge, token=TOKEN):
    shown = {"protocol": 1, "client": "c" * 32, "proof": proof(token, "client", challenge), "challenge": "x" * 8}
    sock.sendall(pack(shown))
    return read(sock)


def test_who_does_not_know_the_token_is_told_and_shut_out():
    with Played(env := made()) as played:
        with pytest.raises(TrainingOver, match="wrong token"):
            Client("{}:{}".format(*env.address), "another token")
        sock, hello = raw(env)
        assert hello["rookery"] == "external" and len(hello["challenge"]) == 32
        assert raw(env)[1]["challenge"] != hello["challenge"]
        for shown in (
            {"proof": "\ud800", "client": "c" * 32, "challenge": "x" * 8, "protocol": 1},
            {"proof": 3, "client": "c" * 32, "challenge": "x" * 8, "protocol": 1},
            {"op": "start_episode", "episode": "e", "seq": 1},
            {"proof": proof(TOKEN, "client", "f" * 32), "client": "c" * 32, "challenge": "x" * 8, "protocol": 1},
            {"proof": "x", "client": "c" * 32, "challenge": "x" * 8, "protocol": 2},
        ):
            sock, hello = raw(env)
            sock.sendall(pack(shown))
            assert "closed" in read(sock)
            assert sock.recv(1) == b""
        sock, _ = raw(env)
        text = b'{"arrays":[["uint8",[0,140737488355327,140737488355327]]]}'  # nothing, of a shape that is too large
        sock.sendall(struct.pack("<QI", 4 + len(text), len(text)) + text)
        assert "an array of shape" in read(sock)["closed"]
        sock, hello = raw(env)
        assert enter(env, sock, hello["challenge"])["proof"] == proof(TOKEN, "training", "x" * 8)
        with client(env) as player:
            episode(player, 2)
    assert played.ends == 1 and env.counters["connections_refused"] == 7


def test_a_false_training_is_not_told_anything():
    false = socket.create_server(("127.0.0.1", 0))
    heard = []

    def answer():
        sock, _ = false.accept()
        sock.sendall(pack({"rookery": "external", "challenge": "f" * 32}))
        heard.append(read(sock))
        sock.sendall(pack({"proof": "no idea"}))

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(TrainingOver, match="does not know the token"):
        Client(f"127.0.0.1:{false.getsockname()[1]}", TOKEN)
    thread.join()
    false.close()
    assert TOKEN not in repr(heard)


def test_lengths_garbage_and_slow_bytes_are_refused_while_others_play(monkeypatch):
    monkeypatch.setattr("rookery.envs.external.listener.ConnectionLimits.message_seconds", 0.5)
    env = made(lanes=2, max_message_bytes=10_000)
    slow = [raw(env)[0] for _ in range(3)]
    with Played(env) as played, client(env) as player:
        sock, _ = raw(env)
        sock.sendall(struct.pack("<Q", 2**40))
        assert "1,099,511,627,776 bytes, where 4,096" in read(sock)["closed"]
        sock, hello = raw(env)
        enter(env, sock, hello["challenge"])
        sock.sendall(struct.pack("<Q", 2**40))
        assert "where 10,000 are the limit" in read(sock)["closed"]
        sock, _ = raw(env)
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert "closed" in read(sock)
        begun = time.monotonic()
        for _ in range(40):
            if not slow:
                break
            for sock in list(slow):
                try:
                    sock.sendall(b"\0")
                    sock.settimeout(0.01)
                    if sock.recv(1000) or True:
                        slow.remove(sock)
                except TimeoutError:
                    pass
                except OSError:
                    slow.remove(sock)
            episode(player, 1)
            time.sleep(0.02)
        assert not slow and time.monotonic() - begun < 30
        with pytest.raises(ExternalError, match=r"takes 10,000 at most"):
            player.get_action(player.start_episode(), np.zeros(5000))
    assert played.lost == 0 and played.ends >= 5


def test_more_connections_than_there_may_be_are_refused_but_strangers_give_way():
    with Played(env := made(lanes=2, max_connections=3)):
        strangers = [raw(env)[0] for _ in range(3)]
        players = [client(env) for _ in range(3)]
        for sock in strangers:
            assert sock.recv(10) == b""
        with pytest.raises(TrainingOver, match="there are 3 clients, which is the limit"):
            client(env)
        players[0].close()
        newcomers = []

        def comes():
            with suppress(TrainingOver):
                newcomers.append(client(env))
            return newcomers

        wait_until(comes)  # the training may hear of the farewell a little later
        episode(newcomers[0], 1)


@pytest.mark.regression("exhausted memory or time", "Connections without the token shut out no client that has it")
def test_strangers_take_only_some_of_the_files_that_the_process_may_open(monkeypatch):
    monkeypatch.setattr(listener, "max_unauthenticated", lambda max_connections: 4)
    with Played(env := made(lanes=2)):
        strangers = [raw(env)[0] for _ in range(9)]
        with client(env) as player:
            episode(player, 2)
        for sock in strangers[:5]:
            assert sock.recv(10) == b""


# -- making one ----------------------------------------------------------------------------------------------------


def test_an_evaluation_borrows_the_clients_of_a_training_and_gives_them_back():
    training = made(lanes=2)
    port = training.address[1]
    over, lost = threading.Event(), []

    def play():
        with client(training) as player:
            while not over.is_set():
                try:
                    episode(player, 2)
                except EpisodeLost as error:
                    lost.append(str(error))
                except TrainingOver:
                    return

    thread = threading.Thread(target=play)
    thread.start()
    step = training.reset(lambda lane, number: 1)
    while training.episode.max() < 3 or not step.rows[0].waiting.any():
        step = training.step([answers_of(step.rows[0])])
    beside = ExternalEnv(3, port, ONE, token=TOKEN)
    beside.in_turn = True
    shown = beside.reset(lambda lane, number: 2)
    while beside.episode.min() < 1:
        shown = beside.step([answers_of(shown.rows[0])])
    assert beside.episode.max() <= 2, "lanes take turns where episodes are dealt to them"
    before = training.episode.copy()
    step = training.step([np.zeros(int(step.rows[0].waiting.sum()), int)])
    assert step.lost is not None and step.lost.sum() == 1 and not step.rows[0].waiting.any()
    assert training.counters["episodes_interrupted"] >= 1
    while training.episode.sum() < before.sum() + 3:
        step = training.step([answers_of(step.rows[0])])
    beside.close()
    over.set()
    while thread.is_alive():
        step = training.step([answers_of(step.rows[0])])
    training.close()
    assert lost and "an evaluation" in lost[0]
    with pytest.raises(ConnectionError, match=f"no training at 127.0.0.1:{port} for 0.1 seconds"):
        Client(f"127.0.0.1:{port}", TOKEN, timeout=0.1)


def test_what_is_taken_up_later_has_the_same_agents():
    env = made(lanes=2, spaces=TWO)
    env.reset(lambda lane, number: 0)
    agents, state = [kind.agents for kind in env.kinds], env.state_dict()
    env.close()
    again = made(lanes=2, spaces=TWO)
    step, lost = again.load_state_dict(state, lambda lane, number: 10 * lane + number)
    assert [kind.agents for kind in again.kinds] == agents and lost.all() and not step.rows[0].waiting.any()
    with client(again) as player:
        assert player.plan(player.start_episode())["seed"] == 1, "the next episode of its lane"
        assert player.welcome["agents"]["ball"]["action"]["shape"] == [2]
    again.close()


@pytest.mark.regression("unclear error", "A null in a file of spaces is named with its place")
@pytest.mark.parametrize(
    ("spaces", "wanted"),
    [
        ({"obs": None, "action": {"discrete": 2}}, "spaces.obs: None is not a space"),
        ({"obs": {"box": None}, "action": {"discrete": 2}}, "spaces.obs.box: is null"),
        ({"obs": {"box": [2], "low": None}, "action": {"discrete": 2}}, "spaces.obs.low: is null"),
        ({"obs": {"box": [2], "dtype": None}, "action": {"discrete": 2}}, "spaces.obs.dtype: is null"),
        ({"obs": {"box": [2], None: 1}, "action": {"discrete": 2}}, "spaces.obs.None: not known"),
        ({"obs": {"dict": {"a": None}}, "action": {"discrete": 2}}, "spaces.obs.a: None is no space"),
        ({"obs": {"kind": "Box", "shape": None}, "action": {"discrete": 2}}, "spaces.obs: no space: .*kind Box"),
        ({"obs": {"box": [2]}, "action": {"kind": None}}, "spaces.action: a space of unknown kind None"),
        ({"agents": {None: None}}, "spaces.agents.None: expected obs and action"),
        ({"obs": {"box": [2]}, "action": {"discrete": 2}, "parameters": [None]}, "spaces.parameters: expected"),
        (
            {"obs": {"box": [2]}, "action": {"discrete": 2}, "parameters": {"wind": [0.0, -1.0, [1.0]]}},
            r"spaces.parameters: parameters has 'wind'",
        ),
        ({"obs": {"box": [10**6, 10**6]}, "action": {"discrete": 2}}, "spaces.obs: .* product of at most 33,554,432"),
    ],
)
def test_nulls_and_sizes_in_spaces_are_named_with_their_place(spaces, wanted):
    with pytest.raises(EnvError, match=wanted):
        read_spaces(spaces)


@pytest.mark.parametrize(
    ("spaces", "wanted"),
    [
        (None, "are missing: --spaces FILE with obs"),
        ({"obs": {"box": [2]}}, "spaces.action is missing"),
        ({"obs": {"bax": [2]}, "action": {"discrete": 2}}, r"spaces.obs: .*did you mean 'box'"),
        ({"obs": {"box": [2], "hihg": 1}, "action": {"discrete": 2}}, r"spaces.obs.hihg: .*did you mean 'high'"),
        ({"obs": {"box": [-2]}, "action": {"discrete": 2}}, "expected whole numbers"),
        ({"obs": {"box": [2], "low": 1, "high": 0}, "action": {"discrete": 2}}, "low is greater than high"),
        ({"obs": {"box": [2]}, "action": {"discrete": 2}, "acton": 1}, "spaces.acton: .*did you mean 'action'"),
        ({"obs": {"dict": {"a": {"box": 3}}}, "action": {"tuple": []}}, "spaces.action.tuple"),
        ({"agents": {}}, "spaces.agents: expected"),
        ({"agents": {"a#b": {"obs": {"box": 2}, "action": {"discrete": 2}}}}, "spaces.agents.a#b: names of agents"),
        (
            {"agents": {name: {"obs": {"box": 2}, "action": {"discrete": 2}} for name in ("a", "a#")}},
            "spaces.agents.a: a is given with and without",
        ),
        ({"agents": {"a": {"obs": {"box": 2}}}}, "spaces.agents.a.action is missing"),
        ({"agents": {"a": {"obs": {"box": 2}, "action": {"discrete": 2}}}, "obs": 3}, "are given for each agent"),
    ],
)
def test_spaces_that_cannot_be_used_are_refused_with_their_place(spaces, wanted):
    with pytest.raises(EnvError, match=wanted):
        made(spaces=spaces)


def test_ports_that_are_taken_and_names_that_are_no_ports_are_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(EnvError, match="cannot listen at 127.0.0.1:.*another port"):
            ExternalEnv(1, taken.getsockname()[1], ONE, token=TOKEN)
    for name in ("external:", "external:x", "external:70000", "external:-1"):
        with pytest.raises(EnvError, match="is not a port; write external:9900"):
            make_env(name, {"spaces": ONE}, (), 1, "auto")
    assert env_name("external:9900") == "external" and code_of("external:9900") == ""
    with pytest.raises(EnvError, match="env.config has 'spcaes', unknown to it; did you mean 'spaces'"):
        make_env("external:0", {"spcaes": ONE}, (), 1, "auto")
    one = made()
    with pytest.raises(EnvError, match="with other spaces, is there"):
        ExternalEnv(1, one.address[1], {**ONE, "action": {"discrete": 4}}, token=TOKEN)
    one.close()


def test_a_token_is_read_or_made_and_kept_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("ROOKERY_TOKEN", raising=False)
    file = tmp_path / "token"
    token, where = find_token(None, str(file))
    assert len(token) == 32 and where == str(file) and file.stat().st_mode & 0o777 == 0o600
    assert find_token(None, str(file)) == (token, where) and find_token("long enough", str(file))[0] == "long enough"
    made_up, told = find_token(None, None)
    assert made_up in told and made_up != find_token(None, None)[0]
    monkeypatch.setenv("ROOKERY_TOKEN", "of the environment")
    assert find_token(None, str(file))[0] == "of the environment"
    with pytest.raises(EnvError, match="8 characters at least"):
        find_token("short", None)
    monkeypatch.delenv("ROOKERY_TOKEN")
    with pytest.raises(EnvError, match="set ROOKERY_TOKEN instead"):
        find_token(None, str(tmp_path / "none" / "token"))


@pytest.mark.regression(
    "unclear error",
    "A client of a server is given the id of an internal error, and the log has the id with the traceback",
)
def test_an_internal_error_is_an_id_to_the_client_and_the_training_goes_on(monkeypatch, capsys):
    with Played(env := made(lanes=1)) as played, client(env) as player:
        name = player.start_episode()
        monkeypatch.setattr(EpisodeServer, "_observed", lambda *_: {}["/home/user/secret"])
        with pytest.raises(ExternalError, match=rf"^episode {name}: internal error [0-9a-f]{{8}}$") as caught:
            player.get_action(name, [0, 0])
        monkeypatch.undo()
        player.get_action(name, [0, 0])
        player.end_episode(name)
    logged = capsys.readouterr().err
    assert str(caught.value).rpartition(": ")[2] in logged and "KeyError: '/home/user/secret'" in logged
    assert played.error is None


@pytest.mark.regression("unclear error", "An external environment that cannot be made frees its port")
def test_an_environment_that_cannot_be_made_frees_its_port(monkeypatch):
    monkeypatch.setattr("rookery.envs.async_copies.async_env.AsyncCopiesEnv.__init__", lambda *_: 1 / 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ZeroDivisionError):
        ExternalEnv(1, port, ONE, token=TOKEN)
    with socket.socket() as again:
        again.bind(("127.0.0.1", port))
