"""A pretended player at its connection: decisions, ends, ids, groups, parameters, faults; sessions as files."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

from pretended import Pretended, free_port

from rookery.core.spaces.arrays import obs_spec
from rookery.envs.async_copies.step_message import Answer
from rookery.envs.samplers import UniformSampler
from rookery_mlagents.link import side_channel_codec as side_channels
from rookery_mlagents.link.grpc_server import PARTING, Closed, Greeting, Hello, Mailbox, Output, PlayerLink
from rookery_mlagents.link.messages import UnityMessageProto
from rookery_mlagents.link.protobuf_wire import from_bytes
from rookery_mlagents.testing import Recorder, read_session, write_player
from rookery_mlagents.testing.recorder import replay
from rookery_mlagents.testing.sensors import unity_names


@pytest.fixture(autouse=True)
def here(monkeypatch, request):
    monkeypatch.syspath_prepend(request.path.parent)


class Trainer:
    """A trainer that answers one player with zeros."""

    def __init__(self, port=0, hello=None):
        self.mailbox = Mailbox()
        self.link = PlayerLink(0, self.mailbox, port, hello or Hello(seed=3))
        self.port = self.link.port
        self.greeting = None
        self.heard = []

    def next(self):
        """Returns the next message of the player; greetings are kept, first messages answered with a reset."""
        while True:
            if not self.heard:
                self.heard += [said for _, said in self.mailbox.take(10)]
                assert self.heard, "nothing comes"
            said = self.heard.pop(0)
            if isinstance(said, Greeting):
                self.greeting = said
            elif isinstance(said, Output) and said.first:
                self.link.answer({}, side_channel=self.told, reset=True)
            else:
                return said

    told = b""

    def answer(self, said, choose=None, **more):
        answers = {}
        for name, asking in said.asking.items():
            action = self.link.layouts[name].action
            actions = np.zeros((len(asking.ids), *action.shape), action.dtype)
            if choose is not None:
                actions[:] = choose
            answers[name] = Answer(asking.ids, action.to_env(actions))
        self.link.answer(answers, **more)

    def play(self, messages, choose=None):
        """So many messages, each answered at once."""
        found = []
        for _ in range(messages):
            said = self.next()
            found.append(said)
            if isinstance(said, Closed):
                break
            self.answer(said, choose)
        return found


@pytest.fixture
def meet(tmp_path):
    """Connects a player to a trainer."""
    trainers, players = [], []

    def begin(*arguments, told=b"", hello=None):
        trainer = Trainer(hello=hello)
        trainer.told = told
        trainer.log = tmp_path / "Player.log"
        player = Pretended(trainer.port, str(trainer.log), *arguments)
        trainers.append(trainer)
        players.append(player)
        player.start()
        trainer.player = player
        return trainer

    yield begin
    for trainer in trainers:
        trainer.link.close(PARTING if trainer.player.status is None else 0)
    for player in players:
        player.join()


SENSES = ("all_senses:AllSenses", "--env-args", "senses=few")


def test_an_agent_that_ends_asks_in_the_same_message_with_its_id_or_a_new_one(meet):
    for kept, arguments in ((True, ()), (False, ("--ids", "new"))):
        trainer = meet(*SENSES, "--num-areas", "2", *arguments)
        *_, last = trainer.play(5)
        (name,) = last.asking
        ended, asking = last.ended[name], last.asking[name]
        assert len(ended.ids) == 2
        assert list(ended.ids) == list(range(2))
        assert (list(asking.ids) == list(ended.ids)) is kept
        assert ended.obs["obs"][:, 0].tolist() == [3, 3]  # of who has ended for good: what it saw at its last step
        assert ended.reward.tolist() == [11, 11]  # the first action that the mask allows
        assert not asking.reward.any()
        assert not ended.truncated.any()
        *_, later = trainer.play(4)
        assert later.ended[name].truncated.all()
        assert later.ended[name].obs["obs"][:, 0].tolist() == [4, 4]
        assert (list(later.ended[name].ids) == list(ended.ids)) is kept


def test_agents_act_on_between_decisions_and_ends_are_told_at_once(meet):
    trainer = meet("all_senses:AllSenses", "--env-args", "senses=few", "actions=numbers", "--decision-period", "3")
    said = trainer.play(6, choose=1.0)
    (name,) = said[0].asking
    seen = [
        (
            [*map(float, one.asking[name].obs["obs"][:, 0])] if name in one.asking else [],
            [*map(float, one.asking[name].reward)] if name in one.asking else [],
            [*map(float, one.ended[name].reward)] if name in one.ended else [],
        )
        for one in said
    ]
    # decisions at steps 0, 3, 6, 9; episodes end at 4 and 8, each beginning with nothing held
    assert seen == [
        ([0.0], [0.0], []),
        ([3.0], [33.0], []),
        ([], [], [11.0]),
        ([2.0], [20.0], []),
        ([], [], [22.0]),
        ([1.0], [10.0], []),
    ]


def test_agents_may_decide_at_different_steps(meet):
    trainer = meet(*SENSES, "--num-areas", "3", "--decision-period", "3", "--stagger")
    said = trainer.play(4)
    assert [list(one.asking["AllSenses"].ids) for one in said[:3]] == [[0], [2], [1]]


def test_a_behaviour_may_appear_late(meet):
    trainer = meet("rookery.tasks:LineSoccer", "--behavior", "red*=Red?team=1", "--behavior", "*=Blue", "--late",
                   "Red?team=1:5")  # fmt: skip
    said = trainer.play(8)
    first = next(number for number, one in enumerate(said) if "Red?team=1" in one.new)
    assert "Blue" in said[0].new
    assert "Red?team=1" not in said[0].asking
    assert first > 0
    assert "Red?team=1" in said[first].asking


def test_members_of_a_group_may_end_before_it_and_earn_together(meet):
    trainer = meet("rookery.tasks:Sacrifice", "--num-areas", "2", "--behavior", "*=Team")
    rng = np.random.default_rng(0)
    gone_first, group_rewards = 0, set()
    for _ in range(150):
        said = trainer.next()
        (name,) = {*said.asking, *said.ended}
        if asking := said.asking.get(name):
            assert {1, 2} >= set(asking.groups)
        if ended := said.ended.get(name):
            of_group = {group: list(ended.groups).count(group) for group in ended.groups}
            gone_first += any(number == 1 for number in of_group.values())
            if ended.group_reward is not None:
                group_rewards |= {*ended.group_reward.tolist()}
        trainer.answer(said, rng.integers(3, size=len(asking.ids)) if asking else None)
    assert gone_first
    assert group_rewards - {0.0}


def test_parameters_and_settings_of_the_engine_reach_the_game(meet):
    told = [
        *side_channels.engine(time_scale=7.0),
        side_channels.parameter("gravity", 4.0),
        side_channels.parameter("mass", UniformSampler(0.5, 0.6)),
        side_channels.parameter("weather", 1.0),
    ]
    trainer = meet("rookery.tasks:BallPlate", told=side_channels.pack(told), hello=Hello(num_areas=2))
    said = trainer.play(3)
    log = trainer.log.read_text()
    assert "engine time_scale 7" in log
    assert "parameter gravity 4" in log
    assert "parameter mass UniformSampler(" in log
    assert "parameter weather: the environment has none of that name" in log
    assert len(next(iter(said[0].asking.values())).ids) == 2
    assert trainer.greeting.communication_version == "1.5.0"


def test_a_reset_begins_anew_and_nobody_has_ended(meet):
    trainer = meet(*SENSES)
    said = trainer.play(2)
    trainer.answer(trainer.next(), reset=True)
    after = trainer.next()
    assert said[1].asking["AllSenses"].obs["obs"][0, 0] == 1
    assert after.asking["AllSenses"].obs["obs"][0, 0] == 0
    assert not after.ended
    assert after.asking["AllSenses"].reward.tolist() == [0]


def test_statistics_are_told(meet):
    trainer = meet(*SENSES, "--stats")
    last = trainer.play(5)[-1]
    inbox = side_channels.Inbox()
    inbox.receive(last.side_channel)
    taken = inbox.take_statistics()
    assert taken["Player/Steps"] == ("most_recent", [4.0])
    assert taken["Player/Episodes"] == ("sum", [1.0])
    assert taken["Player/Last Rewards"] == ("histogram", [11.0])


def test_messages_may_be_long(meet):
    trainer = meet(*SENSES, "--ballast", str(6 * 2**20))
    said = trainer.play(2)
    assert len(said[1].side_channel) > 6 * 2**20


def test_a_player_can_say_goodbye_send_garbage_and_numbers_that_are_none(meet):
    said = meet(*SENSES, "--close-at", "3").play(9)
    assert isinstance(said[-1], Closed)
    assert len(said) == 4
    assert "goodbye" in said[-1].reason
    said = meet(*SENSES, "--garbage-at", "2").play(9)
    assert isinstance(said[-1], Closed)
    assert said[-1].refused
    said = meet(*SENSES, "--nan-at", "2", "--nan-sensor", "speed").play(3)
    assert [np.isnan(one.asking["AllSenses"].obs["obs"]).any() for one in said] == [False, False, True]
    said = meet(*SENSES, "--garbage-channel-at", "1").play(2)
    assert side_channels.Inbox().receive(said[1].side_channel)


def test_a_player_that_is_launched_again_counts_and_may_host_something_else(meet, tmp_path):
    again = (*SENSES, "--close-at", "2", "--only-run", "1", "--count-file", str(tmp_path / "count"))
    again = (*again, "--next-env", "CartPole-v1")
    said = meet(*again).play(9)
    assert isinstance(said[-1], Closed)
    trainer = meet("CartPole-v1", *again[1:2], *again[3:])
    assert "CartPole-v1" in trainer.play(5)[0].asking
    assert len((tmp_path / "count").read_text().splitlines()) == 2


def test_an_editor_connects_again_after_its_goodbye(meet):
    trainer = meet(*SENSES, "--close-at", "2", "--sessions", "2")
    kinds = [type(one).__name__ for one in trainer.play(3) + trainer.play(3)]
    assert kinds == ["Output", "Output", "Closed"] * 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("rookery.tasks:Baisc",), "Baisc"),
        (("all_senses:AllSenses", "--env-args", "actions=both", "--api", "1.2.0"), "no actions of both sorts"),
        (("CartPole-v1", "--late", "Cart:5"), "no behaviour Cart"),
    ],
)
def test_what_a_player_cannot_do_stands_in_its_log(meet, arguments, expected):
    trainer = meet(*arguments)
    while trainer.player.status is None:
        for _, said in trainer.mailbox.take(0.1):
            if isinstance(said, Output) and said.first:
                trainer.link.answer({}, reset=True)
    assert trainer.player.status == 1
    assert expected in trainer.log.read_text()


def test_a_session_that_was_recorded_is_repeated_message_by_message(tmp_path):
    trainer = Trainer()
    file, log = tmp_path / "session", str(tmp_path / "Player.log")
    recorder = Recorder(str(file), trainer.port)
    player = Pretended(recorder.port, log, *SENSES, "--num-areas", "2", "--close-at", "6")
    player.start()
    then = trainer.play(20)
    player.join()
    recorder.close()
    trainer.link.close()
    messages = read_session(file)
    assert [one.speaker for one in messages[:-2]] == ["player", "trainer"] * (len(messages) // 2 - 1)
    assert all(a.seconds <= b.seconds for a, b in zip(messages, messages[1:], strict=False))
    assert from_bytes(UnityMessageProto, messages[0].content).unity_output.rl_initialization_output.name == "Rookery"

    trainer = Trainer(free_port())
    arguments = [str(file), "--mlagents-port", str(trainer.port), "-logFile", log]
    statuses = []
    repeating = threading.Thread(target=lambda: statuses.append(replay(arguments)))
    repeating.start()
    now = trainer.play(20)
    repeating.join(10)
    trainer.link.close()
    assert statuses == [0]
    assert len(now) == len(then) == 7
    for one, other in zip(now[:-1], then[:-1], strict=True):
        assert one.asking["AllSenses"].obs["obs"].tolist() == other.asking["AllSenses"].obs["obs"].tolist()


UNITYS = ["BufferSensor", "CameraSensor", "VectorSensor_size2", "VectorSensor_size3"]


@pytest.mark.parametrize(
    ("options", "behavior", "sensors"),
    [
        ([], "AllSenses", ["camera", "goal", "speed", "things"]),
        (["--unity-names"], "AllSenses?team=0", UNITYS),
        (["--unity-names", "--behavior", "*=Red?team=1"], "Red?team=1", UNITYS),
    ],
)
def test_names_are_unitys_only_where_they_are_asked_for(meet, options, behavior, sensors):
    trainer = meet("all_senses:AllSenses", *options)
    assert list(trainer.next().asking) == [behavior]
    assert [sensor.name for sensor in trainer.link.layouts[behavior].sensors] == sensors


def test_written_players_ask_for_names_of_unity_unless_they_repeat_a_session(tmp_path):
    assert "Basic --unity-names --stats" in write_player(tmp_path / "a", "Basic", ["--stats"]).read_text()
    assert "unity-names" not in write_player(tmp_path / "b", "replay", ["session.bin"]).read_text()


def test_equal_sensors_have_numbers_behind_their_names():
    seen = {name: spaces.Box(-1, 1, (3,)) for name in "abc"} | {"rays": spaces.Box(0, 1, (4,))}
    seen |= {"stack": spaces.Box(0, 1, (2, 5)), "view": spaces.Box(0, 255, (4, 4, 3), np.uint8)}
    leaves = obs_spec(spaces.Dict(seen), spaces.Discrete(2)).leaves
    assert unity_names(leaves) == [
        "VectorSensor_size3", "VectorSensor_size3_1", "VectorSensor_size3_2", "RayPerceptionSensor",
        "StackingSensor_size2_VectorSensor_size5", "CameraSensor",
    ]  # fmt: skip


def test_agents_switch_behaviours_as_by_set_model(tmp_path):
    """All begin with their own behaviour; a switch ends an episode."""
    words = ["--behavior", "*=Small", "--set-model", "Big:6:0.5", "--num-areas", "3", "--env-args", "max_steps=4"]
    trainer = Trainer()
    player = Pretended(trainer.port, str(tmp_path / "log"), "rookery_mlagents.testing.wall_jump:WallJump", *words)
    player.start()
    heard = trainer.play(60, choose=0)
    first, second = heard[:2]
    assert list(first.asking) == ["Small"] and len(first.asking["Small"].ids) == 3
    assert set(second.asking) == {"Small", "Big"} and sorted(second.ended) == ["Small"]
    assert list(second.ended["Small"].ids) == list(second.asking["Big"].ids)
    owner, switches = {}, 0
    for said in heard[1:]:
        ended = {one: name for name, told in said.ended.items() for one in told.ids}
        for one, name in ended.items():
            assert owner.get(one, "Small") == name, "an episode ends under the behaviour that it has"
        for name, told in said.asking.items():
            for one, obs in zip(told.ids, next(iter(told.obs.values())), strict=True):
                assert (obs[6] >= 0.5) == (name == "Big")
                switches += owner.get(one, name) != name
                assert owner.get(one, name) == name or one in ended
                owner[one] = name
    assert switches > 4
    trainer.link.quit()
    trainer.link.close()
    player.join()
