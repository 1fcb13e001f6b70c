"""A memory that would not fit is refused before anything is allocated."""

import gc

import numpy as np
import pytest
from gymnasium import spaces
from stories import IS_TRUNCATED, Film, Story

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay import budget
from rookery.replay.buffer import ReplayBuffer, ReplayConfig

ACTION = spaces.Discrete(4)
PICTURE = spaces.Box(0, 255, (84, 84, 3), np.uint8)
NUMBERS = spaces.Box(-1, 1, (100,), np.float32)


def memory_for(space, capacity):
    cfg, rng = ReplayConfig(capacity=capacity), np.random.default_rng(0)
    return ReplayBuffer(obs_spec(space, ACTION), action_spec(ACTION), cfg, rng, memory_size=0, memory_every=1)


@pytest.fixture
def _gigabyte(monkeypatch):
    gc.collect()  # memories of other tests
    monkeypatch.setattr(budget, "bytes_free", lambda: 10**9)
    monkeypatch.setattr(budget, "_promised", type(budget._promised)())


@pytest.mark.usefixtures("_gigabyte")
def test_a_memory_that_is_too_large_is_refused_with_the_capacity_that_fits():
    # 84 * 84 * 3 = 21,168 bytes an observation, 59 for the rest: 1 GB holds 47 thousand of them, less a tenth
    with pytest.raises(ConfigError) as caught:
        memory_for(PICTURE, 1_000_000)
    text = str(caught.value)
    assert text.startswith("replay.capacity = 1,000,000 decisions take 21.2 GB when the buffer is full")
    assert "this process has 1 GB left; use at most replay.capacity = 42,398" in text
    assert memory_for(PICTURE, 42_398).total == 0


@pytest.mark.usefixtures("_gigabyte")
def test_memories_that_are_not_full_yet_are_counted_as_if_they_were():
    first = memory_for(NUMBERS, 1_500_000)
    with pytest.raises(ConfigError, match="has 0.311 GB left besides the 0.689 GB that other buffers will take"):
        memory_for(NUMBERS, 1_500_000)
    del first
    gc.collect()
    assert memory_for(NUMBERS, 1_500_000).total == 0


def test_last_observations_of_truncated_episodes_are_refused_before_they_take_what_is_not_there(monkeypatch):
    story = Story(np.random.default_rng(0), spaces.Box(-np.inf, np.inf, (1000,), np.float32))
    memory = story.memory(capacity=1000)
    monkeypatch.setattr(budget, "bytes_free", lambda: 4_000 * 100 + budget.promised())
    for _ in range(2):
        memory.add(story.play(1, [(slot, [IS_TRUNCATED]) for slot in range(100)]))
    with pytest.raises(ConfigError, match=r"capacity = 1,000: so many episodes were truncated .* need 0.8 MB more"):
        memory.add(story.play(1, [(slot, [IS_TRUNCATED]) for slot in range(100)]))
    film = Film(np.random.default_rng(0))
    monkeypatch.setattr(budget, "bytes_free", lambda: 10**9)
    stacks = film.memory(capacity=1000)
    monkeypatch.setattr(budget, "bytes_free", lambda: 10_000 + budget.promised())  # frames have room of their own
    stacks.add(film.play(1, [(slot, [IS_TRUNCATED]) for slot in range(200)]))
    assert len(stacks) == 200


def test_the_smallest_limit_of_machine_and_control_groups_counts(tmp_path, monkeypatch):
    group = tmp_path / "cgroup" / "outer" / "inner"
    group.mkdir(parents=True)
    monkeypatch.setattr(budget, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(budget, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(budget, "MEMINFO", tmp_path / "meminfo")
    assert budget.bytes_free() is None  # no such files: another system
    (tmp_path / "meminfo").write_text("MemTotal: 16000 kB\nMemAvailable: 8000 kB\n")
    assert budget.bytes_free() == 8000 * 1024
    (tmp_path / "membership").write_text("0::/outer/inner\n")
    assert budget.bytes_free() == 8000 * 1024
    for place, limit, used, cached in ((group, "max", 1, 0), (group.parent, "5000000", 2_000_000, 500_000)):
        (place / "memory.max").write_text(f"{limit}\n")
        (place / "memory.current").write_text(f"{used}\n")
        (place / "memory.stat").write_text(f"anon 3\ninactive_file {cached}\n")
    assert budget.bytes_free() == 5_000_000 - 2_000_000 + 500_000


@pytest.mark.parametrize("space", [PICTURE, NUMBERS, spaces.Box(0, 255, (4, 84, 84), np.uint8)])
@pytest.mark.parametrize("memory_size", [0, 10])
def test_the_bytes_that_are_reckoned_are_those_of_the_arrays(space, memory_size):
    obs, action, cfg = obs_spec(space, ACTION), action_spec(ACTION), ReplayConfig(capacity=1024, kind="prioritized")
    memory = ReplayBuffer(obs, action, cfg, np.random.default_rng(0), memory_size=memory_size, memory_every=4)
    leaf = memory.observations.leaves["obs"]
    arrays = [*vars(memory).values(), *vars(leaf).values(), memory.tree.leaves]
    taken = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    needed = budget.bytes_needed(obs, action, 1024, memory_size=memory_size, memory_every=4, frame_stacks=True)
    assert needed == taken + 1024 // 4 * memory_size * 4  # what is remembered takes room as it comes
