"""The client of external environments asks a policy server."""

import threading

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("uvicorn")

from served import HYBRID, MANY_SORTS, TOKEN, checkpoint, policy, serving

from rookery.envs.external.client import Client, ExternalError, TrainingOver


def client(server, token=TOKEN):
    host, port = server.socket_address
    return Client(f"{host}:{port}", token, timeout=5.0)


def test_episodes_of_a_client_are_sessions(tmp_path):
    made = policy(memory={"kind": "gru", "size": 8, "previous_reward": True})
    seen = np.random.default_rng(0).uniform(-1, 1, (2, 4, 4)).astype(np.float32)
    with serving(checkpoint(tmp_path, 1, made), socket_port=0) as server, client(server) as asking:
        memories, episodes = [None, None], [asking.start_episode() for _ in range(2)]
        for step in range(4):
            for number, episode in enumerate(episodes):
                reward = None if step == 0 else float(number)
                expected, memories[number] = made.predict(seen[number, step], memories[number], reward=reward)
                np.testing.assert_allclose(
                    asking.get_action(episode, seen[number, step]), expected, rtol=1e-4, atol=1e-6
                )
                asking.log_returns(episode, number)
        for episode in episodes:
            asking.end_episode(episode)
        assert server.health()["sessions"]["kept"] == 0


def test_several_policies_masks_and_sorts(tmp_path):
    blue, red = policy(action=HYBRID, name="blue"), policy(MANY_SORTS, spaces.Discrete(3), name="red")
    MANY_SORTS.seed(0)
    obs = {**MANY_SORTS.sample(), "action_mask": np.array([0, 0, 1], np.int8)}
    with serving(checkpoint(tmp_path, 1, blue, red), socket_port=0) as server, client(server) as asking:
        episode = asking.start_episode()
        plain = np.linspace(-1, 1, 4).astype(np.float32)
        actions = asking.get_action(episode, {"blue": plain, "red": obs})
        expected = blue.predict(plain)
        assert (actions["red"], actions["blue"]["move"]) == (2, expected["move"])
        np.testing.assert_allclose(actions["blue"]["aim"], expected["aim"], rtol=1e-4, atol=1e-6)
        with pytest.raises(ExternalError, match="dict by policy, of blue, red"):
            asking.get_action(episode, plain)


def test_what_a_policy_server_does_not_do_is_said(tmp_path):
    with serving(checkpoint(tmp_path, 1, policy()), socket_port=0) as server:
        with pytest.raises(TrainingOver, match="wrong token"):
            client(server, "another-token")
        with client(server) as asking:
            episode = asking.start_episode("mine")
            with pytest.raises(ExternalError, match=r"obs: shape \(3,\)"):
                asking.get_action(episode, np.zeros(3, np.float32))
            with pytest.raises(ExternalError, match="does not learn"):
                asking.log_action(episode, np.zeros(4, np.float32), np.zeros(2, np.float32))
            with pytest.raises(ExternalError, match="running already"):
                asking.start_episode("mine")
            assert asking.get_action(episode, np.zeros(4, np.float32)).shape == (2,)


def test_clients_on_both_ways_share_a_server(tmp_path):
    made, wrong = policy(), []
    with serving(checkpoint(tmp_path, 1, made), socket_port=0) as server:

        def play(number):
            rng = np.random.default_rng(number)
            with client(server) as asking:
                episode = asking.start_episode()
                for _ in range(10):
                    obs = rng.uniform(-1, 1, 4).astype(np.float32)
                    if not np.allclose(asking.get_action(episode, obs), made.predict(obs), atol=1e-5):
                        wrong.append(obs)

        threads = [threading.Thread(target=play, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.health()["answered"]["questions"] == 80
    assert not wrong


def test_no_number_of_a_client_closes_the_socket_to_others(tmp_path):
    made, said = policy(memory={"kind": "gru", "size": 8, "previous_reward": True}), []
    with serving(checkpoint(tmp_path, 1, made), said, socket_port=0) as server, client(server) as asking:
        game, seen = asking.start_episode("game"), np.zeros(4, np.float32)
        for reward in (10**400, 1e999, float("nan")):
            with pytest.raises(ExternalError, match="reward: expected"):
                asking._ask({"op": "get_action", "episode": game, "obs": seen, "reward": {"": reward}})
        for wrong in ([10**400] * 4, [[[[0]]]], {"a": []}, [True, "x"], np.zeros((0, 4)), None, "\ud800"):
            with pytest.raises(ExternalError, match="obs"):
                asking.get_action(game, wrong)
        assert asking.get_action(game, seen).shape == (2,)
    assert not said
