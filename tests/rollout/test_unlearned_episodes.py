"""Episodes of clients that are played and not learned from, beside others in the same lanes."""

import itertools
import threading
from collections import Counter

import numpy as np
import pytest
from playing import play, taken

from rookery.envs.external.client import Client, EpisodeLost, TrainingOver
from rookery.envs.external.env import ExternalEnv
from selection import slow_repeats

TOKEN = "a token for tests"
LEARNED, SHOWN = 1.0, 7.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    """Steps without any message return soon, so that tests end soon."""
    monkeypatch.setattr("rookery.envs.async_copies.async_env.PATIENCE", 0.05)


def show_and_learn(address, played, errors):
    """Plays episodes of 1 to 4 decisions; every second one is not learned from. Decision n of an episode earns n."""
    try:
        with Client("{}:{}".format(*address), TOKEN, quiet=True) as client:
            for number in range(10**6):
                learned = number % 2 == 0
                name = client.start_episode(learned=learned)
                length = 1 + number % 4 if learned else 3
                for n in range(length):
                    seen = [LEARNED if learned else SHOWN, n]
                    if not learned and n == 1:
                        client.log_action(name, seen, 2)
                    else:
                        assert 0 <= client.get_action(name, seen) < 3
                    client.log_returns(name, float(n) if learned else 1000.0)
                client.end_episode(name)
                played[learned, length] += 1
    except (TrainingOver, EpisodeLost):
        pass
    except Exception as error:
        errors.append(error)


@pytest.mark.parametrize(("lanes", "any_actions"), slow_repeats(of=itertools.product([1, 3], [False, True])))
def test_nothing_of_them_is_kept_counted_or_mixed_with_others(lanes, any_actions):
    env = ExternalEnv(lanes, 0, {"obs": {"box": [2]}, "action": {"discrete": 3}}, token=TOKEN)
    played, errors = Counter(), []
    clients = [
        threading.Thread(target=show_and_learn, args=(env.address, played, errors), daemon=True) for _ in range(lanes)
    ]
    worker = play(env, T=5, decisions=24, any_actions=any_actions)
    for client in clients:
        client.start()
    try:
        found = taken(worker, 8)
    finally:
        env.close()
        for client in clients:
            client.join(60)
    assert not errors and not any(client.is_alive() for client in clients)
    assert len(found) >= 100
    for one in found:
        assert one.obs[0] == LEARNED and one.reward == one.obs[1]
        assert one.first == (one.obs[1] == 0)
        assert one.terminated or tuple(one.next) == (LEARNED, one.obs[1] + 1)
        assert not one.truncated
    assert {one.length for one in worker.finished} <= {1, 2, 3, 4} and len(worker.finished) > 20
    assert all(one.total == sum(range(one.length)) for one in worker.finished)
    shown = env.counters["episodes_not_learned"]
    assert shown > 15 and "episodes_lost" not in env.counters and "actions_not_learned" not in worker.counters()
    decided = sum(one.length for one in worker.finished)
    assert decided <= worker.env_steps <= decided + 4 * lanes, "steps of what is shown are not counted"
    assert np.all(worker.lengths <= 4)
