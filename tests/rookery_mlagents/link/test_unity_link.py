"""The connection to a player: messages in both directions, in order, and everything that can come in between."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

grpc = pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

from unity_client import BYE, EMPTY, Client, agents, brain, greeting, output, seen  # noqa: E402

from rookery.core.errors import EnvError  # noqa: E402
from rookery.envs.async_copies.step_message import Answer  # noqa: E402
from rookery_mlagents.link import grpc_server as links  # noqa: E402
from rookery_mlagents.link.grpc_server import Closed, Greeting, Hello, Mailbox, Output, PlayerLink  # noqa: E402
from rookery_mlagents.link.messages import (  # noqa: E402
    GOODBYE,
    OK,
    RESET,
    STEP,
    AgentActionProto,
    AgentInfoProto,
    ObservationProto,
    UnityMessageProto,
)
from rookery_mlagents.link.protobuf_wire import from_bytes, to_bytes  # noqa: E402


class Line:
    """A link, its mailbox and clients of it."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.link = PlayerLink(3, self.mailbox, 0, Hello(seed=5))
        self.clients: list[Client] = []
        self.heard: list = []  # said, not taken by a test yet

    def client(self, host: str = "127.0.0.1") -> Client:
        self.clients.append(Client(self.link.port, host))
        return self.clients[-1]

    def take(self):
        """The next thing that is said; what is said must come in time."""
        self.heard = self.heard or self.mailbox.take(20.0)
        lane, said = self.heard.pop(0)
        assert lane == 3
        return said

    def silent(self, seconds: float = 0.0) -> bool:
        """Returns whether no message comes for so long, and none came before."""
        return not self.heard and not self.mailbox.take(seconds)

    def begin(self) -> Client:
        """A client that has greeted and was reset."""
        client = self.client()
        client.greet()
        assert isinstance(self.take(), Greeting)
        call = client.begin(EMPTY)
        assert self.take().first
        self.link.answer({}, b"hi", reset=True)
        assert told(call).unity_input.rl_input.side_channel == b"hi"
        return client

    def play(self):
        """A client that has shown agents 0 to 2 of a behaviour, and its call, which waits for actions."""
        client = self.begin()
        call = client.begin(output({"A": agents([0, 1, 2])}, [brain("A", 1)]))
        found = self.take()
        assert isinstance(found, Output) and set(found.asking) == {"A"}
        return client, call

    def answer(self, call) -> None:
        """Gives the three agents their actions."""
        self.link.answer({"A": numbers([0, 1, 2], [0, 0, 0])})
        assert told(call).header.status == OK

    def played(self) -> Client:
        """A client whose agents have got their actions once."""
        client, call = self.play()
        self.answer(call)
        return client


@pytest.fixture
def line():
    made = Line()
    yield made
    for client in made.clients:
        client.close()
    made.link.close(patience=0.0)


def told(call) -> UnityMessageProto:
    return from_bytes(UnityMessageProto, call.result())


def numbers(ids, values) -> Answer:
    return Answer(ids, np.array(values, np.float32).reshape(len(ids), -1))


# --- the usual course -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_player_greets_is_reset_and_plays(line, host):
    if host == "::1" and not links._has_ipv6():
        pytest.skip("no IPv6")
    client = line.client(host)
    reply = client.greet()
    start = reply.unity_input.rl_initialization_input
    assert reply.header.status == OK and (start.seed, start.num_areas) == (5, 1)
    assert (start.communication_version, start.package_version) == ("1.5.0", "1.1.0")
    assert start.capabilities.hybrid_actions and start.capabilities.multi_agent_groups
    said = line.take()
    assert said == line.link.greeting and (said.name, said.package_version) == ("Game", "3.0.0")

    call = client.begin(EMPTY)
    assert line.take() == Output(first=True)
    line.link.answer({}, b"parameters", reset=True)
    reply = told(call)
    assert reply.unity_input.rl_input.command == RESET and reply.unity_input.rl_input.side_channel == b"parameters"

    call = client.begin(output({"A?team=1": agents([4, 9], [[1, 2], [3, 4]])}, [brain("A?team=1", 2)], b"news"))
    said = line.take()
    assert list(said.new) == ["A?team=1"] and said.new == line.link.layouts and not said.ended
    assert said.side_channel == b"news" and not said.first and line.link.is_waiting
    asking = said.asking["A?team=1"]
    assert asking.ids == [4, 9] and asking.obs["obs"].tolist() == [[1, 2], [3, 4]]
    line.link.answer({"A?team=1": numbers([9, 4], [[0.5, 1], [0, -1]])})  # in another order
    reply = told(call).unity_input.rl_input
    assert reply.command == STEP and not reply.side_channel and not line.link.is_waiting
    assert [one.continuous_actions for one in reply.agent_actions["A?team=1"].value] == [(0, -1), (0.5, 1)]


def test_agents_end_and_come_back_under_new_ids_and_behaviours_come_late(line):
    client = line.played()
    cut = replace(agents([1], ended={1})[0], max_step_reached=True, reward=2.0)
    late = AgentInfoProto(id=11, observations=(seen([1, 2, 3], "eyes"), seen([4], "nose", observation_type=1)))
    message = output({"A": (*agents([0, 2], ended={0}), cut, *agents([7])), "B": (late,)}, [brain("B", 0, (2, 3))])
    call = client.begin(message)
    said = line.take()
    assert said.ended["A"].ids == [0, 1] and said.ended["A"].truncated.tolist() == [False, True]
    assert said.ended["A"].reward.tolist() == [0.0, 2.0]
    assert said.asking["A"].ids == [2, 7] and list(said.new) == ["B"]
    assert said.asking["B"].obs["nose"].tolist() == [[4]] and said.new["B"].goals == ("nose",)
    assert said.asking["B"].obs["action_mask"].all()
    line.link.answer({"A": numbers([2, 7], [0, 1]), "B": Answer([11], np.array([[1, 2]]))})
    found = told(call).unity_input.rl_input.agent_actions
    assert found["B"].value == (AgentActionProto((1.0, 2.0), 0.0, (), (1, 2)),) and len(found["A"].value) == 2
    call = client.begin(output({"A": agents([2], ended={2})}))  # no agent asks
    said = line.take()
    assert not said.asking and said.ended["A"].ids == [2] and not said.new
    line.link.answer({})
    assert not told(call).unity_input.rl_input.agent_actions


def test_a_behaviour_may_be_told_before_it_has_agents(line):
    client = line.played()
    for infos, new in (({"A": agents([0]), "B": ()}, []), ({"A": agents([0]), "B": agents([8])}, ["B"])):
        call = client.begin(output(infos, [] if new else [brain("B", 1)]))
        assert list(line.take().new) == new
        line.link.answer(
            {name: numbers([info.id for info in some], [0.0] * len(some)) for name, some in infos.items() if some}
        )
        told(call)


def test_a_message_may_be_of_many_megabytes(line):
    client = line.begin()
    values = np.random.default_rng(0).normal(size=(1300, 1000)).astype(np.float32)
    obs = ObservationProto((1300, 1000), float_data=seen(values).float_data)
    call = client.begin(output({"A": (AgentInfoProto(id=1, observations=(obs,)),)}, [brain("A", 1)]))
    np.testing.assert_array_equal(line.take().asking["A"].obs["obs"][0], values)
    line.link.answer({"A": numbers([1], [0])})
    assert told(call).header.status == OK


def test_the_game_may_ask_again_and_again_to_begin_anew(line):
    _, call = line.play()
    line.link.answer({}, reset=True)
    assert told(call).unity_input.rl_input.command == RESET


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "package", "tell", "stand_for"),
    [
        ("0.15.0", "", "0.15.0", "0.20.0"),
        ("0.15.0", "0.15.1-preview", "0.15.0", "0.20.0"),
        ("1.0.0", "", "1.5.0", "0.20.0"),
        ("1.0.0", "1.0.8", "1.5.0", "0.20.0"),
        ("1.2.0", "1.5.0-preview", "1.5.0", "0.20.0"),
        ("1.3.0", "1.7.2-preview", "1.5.0", "0.20.0"),
        ("1.5.0", "1.9.1-preview", "1.5.0", "0.20.0"),
        ("1.5.0", "2.0.1", "1.5.0", "1.1.0"),
        ("1.5.0", "2.3.0-exp.3", "1.5.0", "1.1.0"),
        ("1.5.0", "3.0.0", "1.5.0", "1.1.0"),
        ("1.5.0", "4.0.3", "1.5.0", "1.1.0"),
        ("1.7.0", "5.0.0", "1.5.0", "1.1.0"),
    ],
)
def test_players_are_told_versions_that_they_take(line, version, package, tell, stand_for):
    start = line.client().greet(version, package).unity_input.rl_initialization_input
    assert (start.communication_version, start.package_version) == (tell, stand_for)
    assert line.take().communication_version == version


def test_versions_can_be_given():
    one = Greeting("", "1.0.0", "1.0.0", links.UnityRLCapabilitiesProto(), "")
    told = links.introduction(Hello("0.26.0", "1.4.0", 3, 2), one)
    assert (told.package_version, told.communication_version, told.seed, told.num_areas) == ("0.26.0", "1.4.0", 3, 2)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("API-14", "ML-Agents 0.14"),
        ("API-13", "ML-Agents 0.13"),
        ("0.16.0", "preview"),
        ("2.0.0", "after 23"),
        ("", "(none)"),
        ("tomorrow", "unknown"),
    ],
)
def test_other_versions_are_refused_by_name(line, version, words):
    client = line.client()
    reply = client.greet(version)
    assert reply.header.status == GOODBYE and words in reply.header.message
    said = line.take()
    assert isinstance(said, Closed) and said.refused and words in said.reason and "com.unity.ml-agents" in said.reason
    assert client.send(EMPTY).header.status == GOODBYE and not line.link.is_connected
    client.greet()  # and another one may come
    assert isinstance(line.take(), Greeting)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_player_that_drops_its_call_is_gone_at_once_and_may_come_back(line):
    client, _ = line.play()
    client.close()
    said = line.take()
    assert isinstance(said, Closed) and not said.refused and "broke off" in said.reason
    line.link.answer({"A": numbers([0, 1, 2], [0, 0, 0])})  # too late, and harmless
    line.played()


def test_a_player_that_is_killed_is_gone_at_once(line):
    program = (
        "from unity_client import *; c = Client(int(__import__('sys').argv[1])); c.greet(); "
        "print('here', flush=True); c.send(EMPTY)"
    )
    here = __file__.rpartition("/")[0]
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r}); {program}", str(line.link.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert isinstance(line.take(), Greeting) and line.take().first
        process.kill()
    assert "broke off" in line.take().reason


def test_a_player_says_goodbye(line):
    client, call = line.play()
    call.cancel()
    line.take()
    client.greet()
    line.take()
    assert client.send(BYE).header.status == GOODBYE
    said = line.take()
    assert said == Closed("said goodbye") and not line.link.is_connected


def test_a_player_begins_anew_without_a_goodbye(line):
    client = line.client()
    client.greet()
    assert isinstance(line.take(), Greeting)
    client.greet()
    closed, greeted = line.take(), line.take()
    assert closed == Closed("began anew") and isinstance(greeted, Greeting)


def test_a_second_player_is_refused_while_the_first_waits(line):
    (_, call), second = line.play(), line.client()
    with pytest.raises(grpc.RpcError, match="has a player already"):
        second.greet(name="Other")
    with pytest.raises(grpc.RpcError, match="waits for its answer"):
        second.send(EMPTY)
    assert line.link.num_strange == 2 and line.silent()
    line.answer(call)


def test_a_second_player_waits_while_the_first_plays_and_takes_its_place_when_it_is_silent(line, monkeypatch):
    monkeypatch.setattr(links, "SILENCE", 0.6)
    first, second = line.played(), line.client()
    came = second.begin(greeting())
    time.sleep(0.2)
    call = first.begin(output({"A": agents([0])}))
    assert isinstance(line.take(), Output)
    with pytest.raises(grpc.RpcError, match="has a player already"):
        came.result()
    line.link.answer({"A": numbers([0], [0])})
    told(call)
    second.greet()
    said, greeted = line.take(), line.take()
    assert isinstance(said, Closed) and "silent" in said.reason and isinstance(greeted, Greeting)


def test_somebody_who_does_not_greet_is_no_player(line):
    client = line.client()
    assert client.send(output({"A": agents([1])})).header.status == GOODBYE
    assert client.send(BYE).header.status == GOODBYE
    assert line.silent(0.05) and line.link.num_strange == 1 and "before a greeting" in line.link.strange


@pytest.mark.parametrize(
    "content", [b"\xff" * 40, b"", b"\x0a\x00"[:1], b"GET / HTTP/1.1\r\n\r\n", to_bytes(EMPTY)[:-1]]
)
def test_bytes_that_are_no_message_are_refused_whoever_sends_them(line, content):
    stranger, player = line.client(), line.client()
    with pytest.raises(grpc.RpcError, match="not a message"):
        stranger.send(content)
    assert line.link.num_strange == 1 and line.silent()
    player.greet()
    line.take()
    with pytest.raises(grpc.RpcError, match="not a message"):
        player.send(content)
    said = line.take()
    assert said.refused and "not a message" in said.reason
    player.greet()
    assert isinstance(line.take(), Greeting)


def test_what_speaks_no_grpc_does_no_harm(line):
    with socket.create_connection(("127.0.0.1", line.link.port)) as one:
        one.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(range(256)) * 8)
    line.played()


WRONG = {
    "unknown": (output({"B": agents([1])}), "'B'.*never sent their action space"),
    "fewer sensors": (output({"A": (AgentInfoProto(id=5),)}), "agent 5 has 0 sensors.*the first had 1"),
    "shape": (output({"A": agents([1], np.zeros((1, 3)))}), r"'A'.*'obs' has the shape \(3,\).*at first.*\(2,\)"),
    "too few": (
        output({"A": (AgentInfoProto(observations=(replace(seen([1, 2]), float_data=seen([1]).float_data),)),)}),
        r"'obs' has the shape \(2,\), and sends 1 numbers",
    ),
    "png": (
        output({"A": (AgentInfoProto(observations=(replace(seen([1, 2]), compression_type=1),)),)}),
        "'obs' sends PNG, and at first it sent numbers",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_agent_of_a_behaviour_sends_is_refused_by_name(line, what):
    client = line.played()
    message, words = WRONG[what]
    reply = client.send(message)
    assert reply.header.status == GOODBYE
    said = line.take()
    assert isinstance(said, Closed) and said.refused
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(said.reason)


def test_a_behaviour_must_see_and_decide_something(line):
    for infos, made, words in (
        (agents([0]), brain("A"), "has no actions"),
        ((AgentInfoProto(id=1),), brain("A", 1), "senses nothing"),
    ):
        client = line.begin()
        assert client.send(output({"A": infos}, [made])).header.status == GOODBYE
        assert words in line.take().reason


def test_every_agent_must_get_an_action(line):
    _, call = line.play()
    with pytest.raises(EnvError, match=r"player 3 \(Game\) on port \d+: no actions for 3 agents of behaviour 'A'"):
        line.link.answer({})
    with pytest.raises(EnvError, match="no action for agent 2 of behaviour 'A'"):
        line.link.answer({"A": numbers([0, 1], [0, 0])})
    with pytest.raises(EnvError, match="2 actions for 3 agents"):
        line.link.answer({"A": Answer([0, 1, 2], np.zeros((2, 1), np.float32))})
    line.answer(call)
    with pytest.raises(EnvError, match="waits for no answer"):
        line.link.answer({})


# --- ports and threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_port_that_is_taken_is_named(host):
    if ":" in host and not links._has_ipv6():
        pytest.skip("no IPv6")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.bind((host, 0))
        one.listen()
        port = one.getsockname()[1]
        with pytest.raises(EnvError, match=f"player 2: port {port} is taken.*another base port"):
            PlayerLink(2, Mailbox(), port, Hello())


def test_only_this_machine_is_served(line):
    here = {connection.split()[3] for connection in listening() if f":{line.link.port}" in connection}
    assert here <= {f"127.0.0.1:{line.link.port}", f"[::1]:{line.link.port}"}
    with pytest.raises(EnvError, match="taken"):
        PlayerLink(4, line.mailbox, line.link.port, Hello())


def listening() -> list[str]:
    """Sockets that listen, as /proc has them, in the words of ss."""
    found = []
    for name, width in (("tcp", 8), ("tcp6", 32)):
        try:
            lines = open(f"/proc/net/{name}").read().splitlines()[1:]
        except OSError:
            pytest.skip("no /proc")
        for one in lines:
            _, local, _, state, *_ = one.split()
            if state == "0A":
                address, port = local.split(":")
                known = {
                    "0100007F": "127.0.0.1", "00000000000000000000000001000000": "[::1]",
                    "0000000000000000FFFF00000100007F": "127.0.0.1",
                    "0" * width: "*",
                }  # fmt: skip
                found.append(f"LISTEN 0 0 {known.get(address, address)}:{int(port, 16)}")
    return found


@pytest.mark.parametrize("state", ["nobody", "greeted", "waiting"])
def test_closing_frees_the_port_and_the_threads_and_tells_the_player(state):
    before = set(threading.enumerate())
    line = Line()
    client, call = line.play() if state == "waiting" else (line.client(), None)
    if state == "greeted":
        client.greet()
        line.take()
    start = time.monotonic()
    line.link.close()
    assert time.monotonic() - start < 3.0
    if call is not None:
        assert told(call).header.status == GOODBYE
    assert line.silent()
    again = PlayerLink(3, line.mailbox, line.link.port, Hello())
    again.close()
    client.close()
    ours = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("unity player")]
    assert not ours


def test_who_speaks_after_quit_is_told_goodbye(line):
    client = line.played()
    line.link.quit()
    assert client.send(output({"A": agents([0])})).header.status == GOODBYE


def test_a_player_that_is_not_waiting_is_told_to_quit_when_it_asks_next(line):
    client = line.played()
    closing = threading.Thread(target=line.link.close)
    closing.start()
    time.sleep(0.1)
    assert client.send(output({"A": agents([0])})).header.status == GOODBYE
    closing.join(0.7)
    assert not closing.is_alive()


FORGETFUL = """
import sys
sys.path.insert(0, sys.argv[1])
from unity_client import EMPTY, Client
from rookery_mlagents.link.grpc_server import Hello, Mailbox, Output, PlayerLink
mailbox = Mailbox()
link = PlayerLink(0, mailbox, 0, Hello())
client = Client(link.port)
client.greet()
call = client.begin(EMPTY)
while not any(isinstance(said, Output) for _, said in mailbox.take(9)):
    pass
"""


def test_a_link_that_is_never_closed_does_not_hold_up_a_program():
    done = subprocess.run([sys.executable, "-c", FORGETFUL, __file__.rpartition("/")[0]], timeout=60)
    assert done.returncode == 0


def test_a_mailbox_gives_all_there_is():
    mailbox = Mailbox()
    start = time.monotonic()
    assert mailbox.take(0.1) == [] and 0.05 < time.monotonic() - start < 5.0
    for lane in range(3):
        mailbox.put(lane, Closed("x"))
    assert [lane for lane, _ in mailbox.take(1.0)] == [0, 1, 2] and mailbox.take(0.0) == []
