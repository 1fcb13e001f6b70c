"""Tasks that need memory: their rules, redone by hand, and twins that play them to the last bit."""

import functools

import gymnasium
import numpy as np
import pytest

from rookery.core.errors import EnvError
from rookery.core.io.encoding import decode, encode
from rookery.envs.adapters.bundled import OURS
from rookery.envs.adapters.classic import BatchedCartPole
from rookery.envs.adapters.snapshot import can_capture, capture, restore
from rookery.envs.base import VectorEnv
from rookery.envs.check import check_env
from rookery.envs.make import make_env
from rookery.tasks.memory_tasks import (
    Autoencode,
    BatchedStatelessCartPole,
    CountRecall,
    CueCorridor,
    RepeatAfterMe,
    RepeatPrevious,
    StatelessCartPole,
    TwoCues,
)
from selection import slow

LEFT, RIGHT = 0, 1

TASKS = {
    "repeat": (RepeatAfterMe, {"delay": 2, "max_episode_steps": 7}),
    "repeat at once": (RepeatAfterMe, {"delay": 0, "max_episode_steps": 1}),
    "repeat nothing but zeros": (RepeatAfterMe, {"delay": 9, "max_episode_steps": 5}),
    "previous": (RepeatPrevious, {}),
    "previous of two decks": (RepeatPrevious, {"num_decks": 2, "k": 32}),
    "autoencode": (Autoencode, {}),
    "count": (CountRecall, {}),
    "corridor": (CueCorridor, {"length": 4}),
    "corridors of many lengths": (CueCorridor, {"length": 9, "min_length": 1}),
}

NAMES = [
    "StatelessCartPole",
    "RepeatAfterMe",
    "RepeatPrevious",
    "Autoencode",
    "CountRecall",
    "CueCorridor",
    "TwoCues",
]


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


def play(env, answer, seed=0):
    """One episode, answered by a function of all observations so far; gives these, the rewards and both ends."""
    obs, _ = env.reset(seed=seed)
    seen, rewards = [obs], []
    while True:
        obs, reward, terminated, truncated, _ = env.step(answer(seen))
        rewards.append(reward)
        if terminated or truncated:
            return seen, rewards, terminated, truncated
        seen.append(obs)


def mean_return(env, answer, episodes=200):
    return np.mean([sum(play(env, answer, seed)[1]) for seed in range(episodes)])


def guess(num):
    rng = np.random.default_rng(0)
    return lambda seen: int(rng.integers(num))


# --- rules --------------------------------------------------------------------------------------------------------


def test_repeating_pays_one_for_what_was_shown_delay_steps_ago_and_zero_before_that():
    env = RepeatAfterMe(delay=2)
    seen, rewards, terminated, truncated = play(env, lambda seen: 1)
    assert rewards == [1.0 if shown == 1 else -1.0 for shown in [0, 0, *seen[:-2]]]
    assert len(rewards) == 100 and truncated and not terminated


@pytest.mark.parametrize("delay", [0, 1, 2, 5])
def test_whoever_remembers_repeats_without_a_mistake(delay):
    env = RepeatAfterMe(delay)
    assert mean_return(env, lambda seen: ([0] * delay + seen)[len(seen) - 1], 20) == 100


@pytest.mark.parametrize("answer", [lambda seen: 0, lambda seen: 1, lambda seen: seen[-1], lambda seen: 1 - seen[-1]])
def test_whoever_sees_the_present_only_cannot_repeat(answer):
    assert abs(mean_return(RepeatAfterMe(delay=2), answer)) < 5


def test_the_present_card_is_the_first_last_one():
    seen, rewards, terminated, truncated = play(RepeatPrevious(k=4), lambda seen: seen[max(len(seen) - 4, 0)])
    # 52 cards, the last of which is shown after the last step: 51 steps; 3 of them before there is a fourth last card.
    assert len(rewards) == 51 and truncated and not terminated
    assert rewards[:3] == [0.0] * 3 and rewards[3:] == [1 / 48] * 48


def test_previous_cards_are_guessed_at_minus_a_half():
    # Right in 1 of 4 cases: 1/4 - 3/4.
    assert mean_return(RepeatPrevious(), guess(4)) == pytest.approx(-0.5, abs=0.03)


def test_a_deck_has_thirteen_cards_of_each_suit():
    env = RepeatPrevious(num_decks=2, k=1)
    obs, _ = env.reset(seed=3)
    seen = [obs] + [env.step(0)[0] for _ in range(103)]
    assert np.bincount(seen).tolist() == [26] * 4


def test_a_deck_is_recited_backwards_while_no_suits_are_shown():
    def recite(seen):
        shown = [suit for reciting, suit in seen[:52]]
        return shown[51 - (len(seen) - 52)] if len(seen) >= 52 else 0

    seen, rewards, terminated, truncated = play(Autoencode(), recite)
    assert [reciting for reciting, _ in seen] == [0] * 51 + [1] * 52
    assert rewards[:51] == [0.0] * 51 and rewards[51:] == [1 / 52] * 52
    assert not any(suit for _, suit in seen[52:])
    assert terminated and not truncated
    assert mean_return(Autoencode(), guess(4)) == pytest.approx(-0.5, abs=0.03)


def test_the_card_just_dealt_is_counted():
    def count(seen):
        return sum(dealt == seen[-1][1] for dealt, _ in seen)

    _, rewards, terminated, truncated = play(CountRecall(), count)
    assert rewards == [1 / 51] * 51 and terminated and not truncated


def test_whoever_counts_blindly_is_nearly_always_wrong():
    assert mean_return(CountRecall(), guess(27)) < -0.85


@pytest.mark.parametrize("length", [1, 5, 20])
def test_only_the_turn_at_the_end_of_the_corridor_counts(length):
    env = CueCorridor(length)
    cues = set()
    for seed in range(20):
        seen, rewards, terminated, _ = play(env, lambda seen: RIGHT if seen[0] == 2 else LEFT, seed)
        assert seen[1:] == [0] * (length - 1) + [3]
        assert rewards == [0.0] * length + [1.0] and terminated
        _, wrong, *_ = play(env, lambda seen: LEFT if seen[0] == 2 else RIGHT, seed)
        assert wrong == [0.0] * length + [-1.0]
        cues.add(int(seen[0]))
    assert cues == {1, 2}


def test_neither_the_length_nor_the_actions_tell_the_cue():
    by_cue = {1: [], 2: []}
    for seed in range(400):
        seen, *_ = play(CueCorridor(6, min_length=3), lambda seen: seed % 2, seed)
        by_cue[int(seen[0])].append(len(seen) - 1)
    for lengths in by_cue.values():
        assert set(lengths) == {3, 4, 5, 6}
        assert np.mean(lengths) == pytest.approx(4.5, abs=0.25)


def test_a_cart_pole_without_velocities_is_gymnasiums_in_all_else():
    env, whole = StatelessCartPole(), gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(0)
    for seed in range(10):
        (obs, _), (full, _) = env.reset(seed=seed), whole.reset(seed=seed)
        over = False
        while not over:
            assert obs.tolist() == full[::2].tolist() and env.observation_space.contains(obs)
            action = int(rng.integers(2))
            obs, *outcome, _ = env.step(action)
            full, *expected, _ = whole.step(action)
            assert outcome == expected
            over = outcome[1] or outcome[2]


# --- two agents in turns ------------------------------------------------------------------------------------------


def test_agents_walk_in_turns_and_the_last_one_alone():
    env = TwoCues(length=6, min_length=1)
    orders = set()
    for seed in range(30):
        obs, _ = env.reset(seed=seed)
        order, seen, earned = [], {"agent1": [], "agent2": []}, {"agent1": 0.0, "agent2": 0.0}
        while obs:
            ((agent, shown),) = obs.items()
            order.append(agent)
            seen[agent].append(int(shown))
            obs, rewards, terminateds, truncateds, _ = env.step({agent: RIGHT if seen[agent][0] == 2 else LEFT})
            assert set(rewards) == {agent} and not any(truncateds.values())
            assert terminateds[agent] == (shown == 3) and terminateds["__all__"] == (not obs)
            earned[agent] += rewards[agent]
        for walked in seen.values():
            assert walked[0] in (1, 2) and walked[1:] == [0] * (len(walked) - 2) + [3]
        both = 2 * min(map(len, seen.values()))
        assert order[:both] == ["agent1", "agent2"] * (both // 2)
        assert len(set(order[both:])) <= 1
        assert earned == {"agent1": 1.0, "agent2": 1.0}
        orders.add((len(seen["agent1"]) > len(seen["agent2"]), seen["agent1"][0], seen["agent2"][0]))
    assert len(orders) == 8  # either may arrive first, and all pairs of cues occur


def test_an_action_of_the_agent_that_is_not_on_turn_is_an_error():
    env = TwoCues()
    env.step({"agent1": 0})
    for actions in ({"agent1": 0}, {"agent1": 0, "agent2": 0}, {}, {"agent2": 2}):
        with pytest.raises(EnvError, match="expected 0 or 1 of agent2, whose turn it is"):
            env.step(actions)


# --- twins --------------------------------------------------------------------------------------------------------


def play_beside_single_copies(task, settings, lanes=5, steps=160):
    """Plays the twin and single copies with the same seeds and actions, comparing all they show."""
    batched = make_env(task, settings, (), lanes, "batched")
    assert isinstance(batched, VectorEnv) and batched.exact
    rows = batched.reset(plan).rows[0]
    single = [task(**settings) for _ in range(lanes)]
    obs = [env.reset(seed=plan(lane, 0))[0] for lane, env in enumerate(single)]
    episode, num_actions = [0] * lanes, batched.kinds[0].action.sizes[0]
    rng = np.random.default_rng(0)
    for step in range(steps):
        assert rows.obs["obs"].tolist() == np.array(obs).tolist()
        actions = rng.integers(0, num_actions, lanes)
        shown = batched.step((actions,))
        final = {}
        for lane, env in enumerate(single):
            obs[lane], reward, terminated, truncated, _ = env.step(int(actions[lane]))
            assert (reward, terminated, truncated) == (rows.reward[lane], rows.terminated[lane], rows.truncated[lane])
            assert shown.ended[lane] == (terminated or truncated)
            if truncated:
                final[lane] = obs[lane]
            if terminated or truncated:
                episode[lane] += 1
                obs[lane], _ = env.reset(seed=plan(lane, episode[lane]))
        assert shown.any_end == shown.ended.any()
        assert rows.final_index.tolist() == list(final)
        assert rows.final_obs["obs"].tolist() == [np.asarray(last).tolist() for last in final.values()]
        assert batched.episode.tolist() == episode
        if step % 40 == 0:
            assert np.array_equal(batched.render(lanes - 1), single[-1].render())
    assert min(episode) >= 1


@pytest.mark.parametrize("name", TASKS)
def test_the_batched_twin_is_bit_equal(name):
    task, settings = TASKS[name]
    play_beside_single_copies(task, settings, steps=max(160, 3 * task(**settings).max_steps))


@pytest.mark.parametrize("max_episode_steps", [500, 12])
def test_cart_poles_without_velocities_are_bit_equal_to_single_ones(max_episode_steps):
    settings = {"max_episode_steps": max_episode_steps, "sutton_barto_reward": max_episode_steps == 12}
    batched = BatchedStatelessCartPole(6, **settings)
    rows = batched.reset(plan).rows[0]
    single = [StatelessCartPole(**settings) for _ in range(6)]
    obs = [env.reset(seed=plan(lane, 0))[0] for lane, env in enumerate(single)]
    episode, rng = [0] * 6, np.random.default_rng(0)
    for _ in range(400):
        assert np.array_equal(rows.obs["obs"], obs)
        actions = rng.integers(0, 2, 6)
        batched.step((actions,))
        for lane, env in enumerate(single):
            obs[lane], *outcome, _ = env.step(int(actions[lane]))
            assert outcome == [rows.reward[lane], rows.terminated[lane], rows.truncated[lane]]
            if outcome[1] or outcome[2]:
                episode[lane] += 1
                last = obs[lane]
                if outcome[2] and not outcome[1]:
                    assert np.array_equal(rows.final_obs["obs"][rows.final_index.tolist().index(lane)], last)
                obs[lane], _ = env.reset(seed=plan(lane, episode[lane]))
    assert min(episode) > 5


def test_the_twin_without_velocities_has_the_spaces_of_a_single_one():
    (kind,) = BatchedStatelessCartPole(2).kinds
    assert kind.obs.space == StatelessCartPole().observation_space
    assert BatchedCartPole(2).kinds[0].obs.leaves[0].shape == (4,)


@pytest.mark.parametrize(
    "name",
    ["previous", "corridors of many lengths", slow("autoencode")],
)
def test_a_saved_twin_goes_on_as_if_nothing_had_happened(name):
    task, settings = TASKS[name]
    one, other = (make_env(task, settings, (), 4, "batched") for _ in range(2))
    rng = np.random.default_rng(0)
    one.reset(plan)
    for _ in range(23):
        one.step((rng.integers(0, 2, 4),))
    other.reset(lambda lane, episode: 5)
    shown, lost = other.load_state_dict(decode(*encode(one.state_dict())), plan)
    assert not lost.any() and shown.rows[0].waiting.all()
    for step in range(150):
        assert step % 30 or np.array_equal(one.render(2), other.render(2))
        actions = rng.integers(0, 2, 4)
        expected, found = one.step((actions,)).rows[0], other.step((actions,)).rows[0]
        for field in ("reward", "terminated", "truncated"):
            assert np.array_equal(getattr(expected, field), getattr(found, field))
        assert np.array_equal(expected.obs["obs"], found.obs["obs"])


def test_a_saved_twin_of_other_settings_is_refused():
    state = make_env(CueCorridor, {"length": 5}, (), 2, "batched").state_dict()
    with pytest.raises(EnvError, match="another environment"):
        make_env(CueCorridor, {"length": 6}, (), 2, "batched").load_state_dict(state, plan)


# --- single copies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        *(functools.partial(task, **settings) for task, settings in TASKS.values()),
        StatelessCartPole,
        functools.partial(StatelessCartPole, max_episode_steps=9),
    ],
)
def test_a_copy_put_back_where_another_was_goes_on_like_it(make):
    one, other = make(), make()
    assert can_capture(one)
    rng = np.random.default_rng(0)
    one.reset(seed=1)
    other.reset(seed=2)
    for _ in range(30):
        if any(one.step(int(rng.integers(2)))[2:4]):
            one.reset()
    restore(other, decode(*encode(capture(one))))
    for _ in range(200):
        action = int(rng.integers(2))
        (obs, *outcome), (obs_again, *outcome_again) = one.step(action), other.step(action)
        assert np.array_equal(obs, obs_again) and outcome == outcome_again
        if any(outcome[1:3]):
            assert np.array_equal(one.reset()[0], other.reset()[0])


def test_turns_are_taken_up_again_after_a_restart():
    def act(env, shown):
        return env.step([rng.integers(0, 2, int(rows.waiting.sum())) for rows in shown.rows])

    one, other = (make_env("TwoCues", {"length": 8, "min_length": 2}, (), 3, "serial") for _ in range(2))
    rng = np.random.default_rng(0)
    shown = one.reset(plan)
    for _ in range(21):
        shown = act(one, shown)
    again, lost = other.load_state_dict(decode(*encode(one.state_dict())), plan)
    assert not lost.any() and other.exact
    for _ in range(60):
        assert [rows.waiting.tolist() for rows in shown.rows] == [rows.waiting.tolist() for rows in again.rows]
        actions = [rng.integers(0, 2, int(rows.waiting.sum())) for rows in shown.rows]
        shown, again = one.step(actions), other.step(actions)
        for rows, found in zip(shown.rows, again.rows, strict=True):
            assert np.array_equal(rows.reward, found.reward) and np.array_equal(rows.terminated, found.terminated)
            assert np.array_equal(rows.obs["obs"][rows.waiting], found.obs["obs"][found.waiting])


@pytest.mark.parametrize("name", NAMES)
def test_each_is_known_by_its_name_and_keeps_the_contract(name):
    assert OURS[name] == f"rookery.tasks.memory_tasks:{name}"
    assert not [finding for finding in check_env(name, {}, (), episodes=3, max_steps=600, seed=0)
                if finding.severity == "error"]  # fmt: skip
    assert (make_env(name, None, (), 2, "auto").name.endswith(("batched", "in C"))) == (name != "TwoCues")


@pytest.mark.parametrize("name", NAMES)
def test_each_draws_pictures_with_even_sides_that_change(name):
    env = make_env(name, None, (), 1, "serial", render=True)
    shown = env.reset(plan)
    first = env.render(0)
    assert first.dtype == np.uint8 and first.shape[0] % 2 == 0 and first.shape[1] % 2 == 0
    for _ in range(5):
        shown = env.step([np.zeros(int(rows.waiting.sum()), dtype=int) for rows in shown.rows])
    assert env.render(0).shape == first.shape and not np.array_equal(env.render(0), first)


def test_a_step_without_an_episode_and_a_wrong_answer_are_errors():
    env = CueCorridor(1)
    with pytest.raises(EnvError, match=r"no episode is under way; call reset\(\) first"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"step 0: action 2 is not in Discrete\(2\)"):
        env.step(2)
    env.step(0)
    env.step(0)
    with pytest.raises(EnvError, match="no episode is under way"):
        env.step(0)
