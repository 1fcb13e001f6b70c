"""Players of every version, with images in every form, through the line and the rows of an environment."""

from __future__ import annotations

from itertools import product
from time import monotonic, sleep

import numpy as np
import pytest

pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

from all_senses import CHANNELS, LENGTH, mask, picture, things
from pretended import played

from rookery.envs.random_play import random_answers
from rookery_mlagents.testing.player_options import API_VERSIONS
from selection import slow_except

ENV = "all_senses:AllSenses"
STEPS = 12

ALL = [
    case
    for case in product(API_VERSIONS, ("hwc", "chw"), ("float", "png", "png_each"), ("kept", "new"))
    if case[0] == "1.5.0" or case[1] == "hwc"  # package 3 is of the last version
]
FAST = [
    ("0.15.0", "hwc", "float", "kept"),
    ("1.0.0", "hwc", "png", "kept"),
    ("1.2.0", "hwc", "png_each", "new"),
    ("1.3.0", "hwc", "png", "new"),
    ("1.5.0", "hwc", "png", "kept"),
    ("1.5.0", "chw", "png_each", "new"),
    ("1.5.0", "chw", "float", "kept"),
]


def told(step, env):
    """Returns the observations of a step by their sensor: the first row, with the channels last."""
    (rows,) = step.rows
    names = [leaf.path for leaf in env.kinds[0].obs.leaves]
    values = {name: rows.obs[name][0] for name in names}
    if "obs_0" in names:  # old players say no names; sensors come in the order of those
        known = ("camera", "goal", "speed", "things", "action_mask")
        values = dict(zip(known[: len(values)], values.values(), strict=True))
    camera = values["camera"]
    if camera.dtype != np.uint8:
        camera = np.rint(camera * 255).astype(np.uint8)
    if camera.shape[0] == CHANNELS:
        camera = np.moveaxis(camera, 0, 2)
    return {**values, "camera": camera}


def play(tmp_path, api, layout, pictures, ids, actions, areas=1):
    """Plays some steps and compares all that comes with what the environment shows."""
    log = tmp_path / "Player.log"
    options = ["--api", api, "--layout", layout, "--pictures", pictures, "--ids", ids, "--num-areas", str(areas)]
    # messages to a player of 1.x are checked by the player itself
    with played(str(log), ENV, *options, "--env-args", f"actions={actions}", package_version="") as (env, _):
        step = env.reset(lambda lane, episode: episode)
        rng, time, episode = np.random.default_rng(0), 0, 0
        while step.stepped is None or not step.stepped.any():
            step = env.step([np.zeros(0, dtype=np.int64)] * len(env.kinds))
        for _ in range(STEPS):
            (rows,) = step.rows
            assert rows.waiting.sum() == areas
            seen = told(step, env)
            width = len(seen.get("action_mask", ()))
            assert np.array_equal(seen["camera"], picture(time))
            assert seen["goal"].tolist() == np.eye(3)[time % 3].tolist()
            assert seen["speed"].tolist() == [time, -0.5 * time]
            table = seen["things"]
            if api == "1.5.0":  # before, no sensor of that sort was known
                assert table.shape == (LENGTH + 1, 3)
                assert np.array_equal(table[:time, 1:], things(time))
                assert table[:, 0].tolist() == [1.0] * time + [0.0] * (LENGTH + 1 - time)
            if width:
                assert seen["action_mask"].tolist() == mask(time, width).astype(bool).tolist()
            acts = random_answers(env, step, rng)
            first = acts[0][0]
            first = first["discrete"] if isinstance(first, dict) else np.ravel(first)[0]
            step = env.step(acts)
            while not step.stepped.any():
                step = env.step([np.zeros(0, dtype=np.int64)])
            (rows,) = step.rows
            assert rows.reward[0] == pytest.approx(10.0 + float(np.ravel(first)[0]), abs=1e-5)
            time += 1
            over = time == LENGTH
            assert bool(rows.terminated[0]) is (over and episode % 2 == 0)
            assert bool(rows.truncated[0]) is (over and episode % 2 == 1)
            if rows.truncated[0]:
                last = rows.final_obs[[leaf.path for leaf in env.kinds[0].obs.leaves][2]][0]
                assert last.tolist() == [LENGTH, -0.5 * LENGTH]
            if over:
                time, episode = 0, episode + 1
    deadline = monotonic() + 10.0  # the player writes it in its own time
    while not ("goodbye" in log.read_text() or "gone" in log.read_text()):
        assert monotonic() < deadline, log.read_text()
        sleep(0.02)


@pytest.fixture(autouse=True)
def here(monkeypatch, request):
    monkeypatch.syspath_prepend(request.path.parent)


@pytest.mark.parametrize(
    ("api", "layout", "pictures", "ids"), slow_except(*(case for case in FAST if case[:2] != ("1.5.0", "hwc")), of=FAST)
)
def test_players_of_several_versions_are_understood(tmp_path, api, layout, pictures, ids):
    play(tmp_path, api, layout, pictures, ids, "choices")


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["choice", "choices", "numbers", "both"])
@pytest.mark.parametrize(("api", "layout", "pictures", "ids"), ALL)
def test_players_of_every_version_are_understood(tmp_path, api, layout, pictures, ids, actions):
    if actions == "both" and api < "1.3.0":
        pytest.skip("there are no such actions before 1.3.0")
    play(tmp_path, api, layout, pictures, ids, actions, areas=2)
