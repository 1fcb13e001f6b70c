"""Newer checkpoints answer as soon as they are whole; every answer is that of the version it names."""

import threading
import time

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("uvicorn")

from served import PLAIN, Web, checkpoint, policy, serving

from rookery.core.errors import RookeryError
from rookery.core.io.files import FOLDER, FileError
from rookery.serving.versions import load_version
from rookery.serving.watch import CheckpointWatch


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_answers_are_those_of_the_version_they_name_while_versions_change(tmp_path):
    versions = {f"{number:06d}": policy(seed=number, normalize_obs=True) for number in range(1, 7)}
    checkpoint(tmp_path, 1, versions["000001"])
    wrong, seen, stop = [], set(), threading.Event()

    def client(number):
        rng, web = np.random.default_rng(number), Web(server)
        while not stop.is_set():
            obs = rng.uniform(-1, 1, (2, 4)).astype(np.float32)
            status, answer = web.act(obs.tolist())
            seen.add(answer.get("version"))
            expected = versions[answer["version"]].predict(obs)
            if status != 200 or not np.allclose(answer["action"], expected, atol=1e-5):
                wrong.append(answer)

    with serving(tmp_path) as server:
        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for number in range(2, 7):
            path = checkpoint(tmp_path, number, versions[f"{number:06d}"])
            until(lambda path=path: path.name in seen)
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert seen == set(versions)


def test_a_broken_checkpoint_is_told_once_and_the_one_before_stays(tmp_path):
    good, said = policy(seed=1), []
    checkpoint(tmp_path, 1, good)
    with serving(tmp_path, said) as server:
        web = Web(server)
        staged = checkpoint(tmp_path / "elsewhere", 2, policy(seed=2))
        file = staged / "policies.safetensors"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        staged.rename(tmp_path / FOLDER / "000002")
        until(lambda: said)
        time.sleep(0.1)
        assert len(said) == 1 and "000002 is not served, 000001 stays" in said[0] and "SHA-256" in said[0]
        answer = web.act([0.1] * 4)[1]
        assert answer["version"] == "000001"
        other = policy(spaces.Box(-1, 1, (5,), np.float32), seed=3)
        checkpoint(tmp_path, 3, other)
        until(lambda: len(said) == 2)
        assert "the served policy observes" in said[1]
        checkpoint(tmp_path, 4, policy(name="other"))
        until(lambda: len(said) == 3)
        assert "'main' is not one of other" in said[2]
        assert web.act([0.1] * 4)[1]["version"] == "000001"
        checkpoint(tmp_path, 5, policy(seed=5))
        until(lambda: web.act([0.1] * 4)[1]["version"] == "000005")
        assert web.call("GET", "/health")[1]["checkpoints"] == {"swapped": 1, "refused": 3}


def test_numbers_that_are_not_finite_are_not_served(tmp_path):
    bad = policy()
    next(bad.parameters()).data.fill_(float("nan"))
    with pytest.raises(FileError, match="not finite"):
        load_version(checkpoint(tmp_path, 1, bad))


def test_sessions_go_on_when_the_version_changes(tmp_path):
    old, new = (policy(seed=seed, memory={"kind": "lstm", "size": 8}) for seed in (1, 2))
    checkpoint(tmp_path, 1, old)
    with serving(tmp_path) as server:
        web, obs = Web(server), np.full(4, 0.5, np.float32)
        web.act(obs.tolist(), session="s")
        _, memory = old.predict(obs)
        checkpoint(tmp_path, 2, new)
        until(lambda: web.act(obs.tolist(), session="other")[1]["version"] == "000002")
        answer = web.act(obs.tolist(), session="s")[1]
        assert answer["started"] is False
        np.testing.assert_allclose(answer["action"], new.predict(obs, memory)[0], rtol=1e-4, atol=1e-6)


def test_a_run_that_went_back_is_followed(tmp_path):
    for number in (1, 2):
        checkpoint(tmp_path, number, policy(seed=number))
    with serving(tmp_path) as server:
        web = Web(server)
        assert web.act([0.1] * 4)[1]["version"] == "000002"
        (tmp_path / FOLDER / "000002").rename(tmp_path / "gone")
        until(lambda: web.act([0.1] * 4)[1]["version"] == "000001")
        fresh = policy(seed=7)
        checkpoint(tmp_path, 2, fresh)  # of the same name, and another
        until(lambda: web.act([0.1] * 4)[1]["version"] == "000002")
        expected = fresh.predict(np.full(4, 0.1, np.float32))
        np.testing.assert_allclose(web.act([0.1] * 4)[1]["action"], expected, rtol=1e-4, atol=1e-6)


def test_policies_that_cannot_take_anothers_place_are_refused(tmp_path):
    from rookery.serving.versions import check_compatible

    first = load_version(checkpoint(tmp_path, 1, policy()))
    with pytest.raises(RookeryError, match="has a memory of 16 numbers, the served policy of 0"):
        check_compatible(load_version(checkpoint(tmp_path, 2, policy(memory={"kind": "lstm", "size": 8}))), first)
    with pytest.raises(RookeryError, match="acts in"):
        check_compatible(load_version(checkpoint(tmp_path, 3, policy(PLAIN, spaces.Discrete(2)))), first)


def test_a_policy_is_copied_where_weights_alone_differ_and_built_where_more_does(tmp_path):
    first = load_version(checkpoint(tmp_path, 1, policy(seed=1, normalize_obs=True)))
    new = {2: policy(seed=2, normalize_obs=True), 3: policy(seed=3), 4: policy(seed=4, hidden=[16, 16])}
    for number, made in new.items():
        served = load_version(checkpoint(tmp_path, number, made), before=first).policies["main"]
        expected = made.state_dict()
        assert served.state_dict().keys() == expected.keys()
        for name, value in served.state_dict().items():
            assert value.equal(expected[name])
            assert number != 2 or value.data_ptr() != first.policies["main"].state_dict()[name].data_ptr()
        obs = np.linspace(-1, 1, 4).astype(np.float32)
        np.testing.assert_allclose(served.predict(obs), made.predict(obs), rtol=1e-4, atol=1e-6)


def test_a_look_that_fails_in_any_way_is_told_and_others_follow(tmp_path):
    path, said, looks = checkpoint(tmp_path, 1, policy()), [], []

    def newest():
        looks.append(1)
        if len(looks) == 1:
            raise AttributeError("best.json is half written")
        return checkpoint(tmp_path, 2, policy(seed=2)) if len(looks) == 2 else None

    watch = CheckpointWatch(tmp_path, load_version(path), (), False, lambda version: None, said.append, 0.01, newest)
    until(lambda: watch.swapped)
    watch.close()
    assert len(said) == 2 and "cannot be read: best.json is half written" in said[0]
