import numpy as np
import pytest

from rookery.core.errors import EnvError
from rookery.envs.base import VectorEnv
from rookery.envs.make import make_env
from rookery.envs.vector.serial import SerialEnv
from rookery.tasks.games.arena import BatchedArena, MultiAgentArena

UP, RIGHT, DOWN, LEFT = range(4)


def act(action1, action2):
    return {"agent1": action1, "agent2": action2}


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 17) % 2**31


def agent1_leads(seed, max_timesteps=100):
    return np.random.default_rng(seed).random(max_timesteps) > 0.5


def seed_whose_coins_begin(*wanted):
    return next(seed for seed in range(100) if tuple(agent1_leads(seed)[: len(wanted)]) == wanted)


def test_agents_start_in_opposite_corners_and_see_their_own_tile_first():
    obs, infos = MultiAgentArena(width=4, height=3).reset(seed=0)
    assert obs["agent1"].tolist() == [0, 11] and obs["agent2"].tolist() == [11, 0]
    assert obs["agent1"].dtype == np.int64
    assert infos == {"agent1": {}, "agent2": {}}


def test_moves_are_up_right_down_left_and_stop_at_walls():
    env = MultiAgentArena(width=3, height=3)  # tiles 0 1 2 / 3 4 5 / 6 7 8
    seen = [env.step(act(move, DOWN))[0]["agent1"][0] for move in (RIGHT, DOWN, LEFT, LEFT, UP, UP, RIGHT)]
    assert seen == [1, 4, 3, 3, 0, 0, 1]


def test_the_start_tile_is_new_until_a_step_ends_there():
    env = MultiAgentArena()
    assert env.step(act(UP, DOWN))[1] == {
        "agent1": 1.0,
        "agent2": -0.1,
    }  # stopped by the wall, on a tile not yet covered
    assert env.step(act(UP, DOWN))[1] == {"agent1": -0.5, "agent2": -0.1}
    assert env.step(act(RIGHT, DOWN))[1] == {"agent1": 1.0, "agent2": -0.1}
    assert env.step(act(LEFT, DOWN))[1] == {"agent1": -0.5, "agent2": -0.1}


@pytest.mark.parametrize(("action1", "action2"), [(RIGHT, UP), (UP, LEFT), (RIGHT, LEFT)])
def test_a_collision_pays_the_blocker_whoever_ran_into_whom(action1, action2):
    env = MultiAgentArena(width=2, height=1)
    obs, rewards, *_ = env.step(act(action1, action2))
    assert rewards == {"agent1": -1.0, "agent2": 1.0}
    assert obs["agent1"].tolist() == [0, 1]


@pytest.mark.parametrize("agent1_first", [True, False])
def test_the_agent_that_moves_first_gets_the_tile_both_want(agent1_first):
    env = MultiAgentArena(width=3, height=1)
    env.reset(seed=seed_whose_coins_begin(agent1_first))
    obs, rewards, *_ = env.step(act(RIGHT, LEFT))
    assert obs["agent1"].tolist() == ([1, 2] if agent1_first else [0, 1])
    assert rewards == {"agent1": -1.0, "agent2": 1.0}
    # A tile covered in the step of a collision is covered: staying on tile 1 earns nothing, staying on tile 0 is new.
    assert env.step(act(UP, UP))[1]["agent1"] == (-0.5 if agent1_first else 1.0)


@pytest.mark.parametrize("agent1_first", [True, False])
def test_an_agent_can_follow_one_that_left_only_if_that_one_moved_first(agent1_first):
    env = MultiAgentArena(width=3, height=2)  # tiles 0 1 2 / 3 4 5
    env.reset(seed=seed_whose_coins_begin(True, agent1_first))
    assert env.step(act(RIGHT, UP))[0]["agent1"].tolist() == [1, 2]
    obs, rewards, *_ = env.step(act(RIGHT, DOWN))
    assert obs["agent1"].tolist() == ([1, 5] if agent1_first else [2, 5])
    assert rewards == ({"agent1": -1.0, "agent2": 1.0} if agent1_first else {"agent1": 1.0, "agent2": -0.1})


def test_the_time_limit_truncates_and_never_terminates():
    env = MultiAgentArena(max_timesteps=2)
    *_, terminated, truncated, _ = env.step(act(UP, UP))
    assert truncated == {"agent1": False, "agent2": False, "__all__": False} and env.agents == ["agent1", "agent2"]
    *_, terminated, truncated, _ = env.step(act(UP, UP))
    assert truncated == {"agent1": True, "agent2": True, "__all__": True} and env.agents == []
    assert terminated == {"agent1": False, "agent2": False, "__all__": False}
    with pytest.raises(EnvError, match=r"ended after 2 steps; call reset\(\) first"):
        env.step(act(UP, UP))
    env.reset()
    env.step(act(UP, UP))


def test_coins_are_one_block_of_the_seed_and_go_on_without_one():
    env = MultiAgentArena(width=3, height=1, max_timesteps=30)
    rng = np.random.default_rng(11)
    for seed in (11, None, None):
        leads = rng.random(30) > 0.5
        obs, _ = env.reset(seed=seed)
        for lead in leads:
            before = obs["agent1"].tolist()
            # From the ends both go for the middle; else both step back to the ends, where the coin does not matter.
            together = before == [0, 2]
            obs, *_ = env.step(act(RIGHT, LEFT) if together else act(LEFT, RIGHT))
            assert obs["agent1"].tolist() == (([1, 2] if lead else [0, 1]) if together else [0, 2])


def test_the_tutorials_config_dict_is_taken_by_name_or_alone():
    for env in (MultiAgentArena(config={"width": 4, "height": 2}), MultiAgentArena({"width": 4, "height": 2})):
        assert (env.width, env.height, env.max_timesteps) == (4, 2, 100)
        assert env.observation_spaces["agent1"].nvec.tolist() == [8, 8]
        assert env.action_spaces["agent2"].n == 4
    assert MultiAgentArena(config=None).width == 10
    assert BatchedArena(2, config={"width": 4}).settings.width == 4


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"agent1": 0}, "step 1: no action for agent2; got ['agent1']"),
        (act(0, 4), "step 1: action 4 of agent2 is not 0, 1, 2 or 3"),
        (act(1.5, 0), "step 1: action 1.5 of agent1 is not"),
        (act(0, np.zeros(4)), "of agent2 is not"),
    ],
)
def test_wrong_actions_are_named(actions, message):
    env = MultiAgentArena()
    env.step(act(0, np.int64(3)))
    with pytest.raises(EnvError) as error:
        env.step(actions)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("width", "height", "max_timesteps", "num_lanes"),
    [(10, 10, 100, 7), (3, 3, 40, 16), (2, 2, 9, 5), (1, 4, 13, 6), (5, 1, 13, 6), (2, 1, 1, 3), (3, 7, 30, 1)],
)
def test_the_batched_twin_is_bit_equal(width, height, max_timesteps, num_lanes):
    batched = BatchedArena(num_lanes, width, height, max_timesteps)
    single = [MultiAgentArena(width, height, max_timesteps) for _ in range(num_lanes)]
    rows = batched.reset(plan).rows[0]
    obs = [env.reset(seed=plan(lane, 0))[0] for lane, env in enumerate(single)]
    rng = np.random.default_rng(width + 100 * height)
    episode = 0
    for step in range(max(3 * max_timesteps + 5, 200)):
        expected = [o[agent] for o in obs for agent in ("agent1", "agent2")]
        assert np.array_equal(rows.obs["obs"], expected)
        actions = rng.integers(0, 4, 2 * num_lanes)
        result = batched.step((actions,))
        played = [env.step(act(*actions[2 * lane : 2 * lane + 2])) for lane, env in enumerate(single)]
        obs = [p[0] for p in played]
        assert rows.reward.tolist() == [p[1][agent] for p in played for agent in ("agent1", "agent2")]
        assert rows.terminated.tolist() == [p[2][agent] for p in played for agent in ("agent1", "agent2")]
        assert rows.truncated.tolist() == [p[3][agent] for p in played for agent in ("agent1", "agent2")]
        assert result.ended.tolist() == [p[3]["__all__"] for p in played]
        if result.ended.any():
            episode += 1
            final = [o[agent] for o in obs for agent in ("agent1", "agent2")]
            assert rows.final_index.tolist() == list(range(2 * num_lanes))
            assert np.array_equal(rows.final_obs["obs"], final)
            obs = [env.reset(seed=plan(lane, episode))[0] for lane, env in enumerate(single)]
        else:
            assert rows.final_index.size == 0 and rows.final_obs["obs"].shape == (0, 2)
        assert batched.episode.tolist() == [episode] * num_lanes
        if step % 50 == 0:
            assert np.array_equal(batched.render(num_lanes - 1), single[-1].render())
    assert episode >= 2


def test_a_reset_begins_again_at_episode_0():
    env = BatchedArena(3, max_timesteps=5)
    actions = np.random.default_rng(0).integers(0, 4, (12, 6))

    def play():
        rows = env.reset(plan).rows[0]
        assert not rows.truncated.any() and not rows.reward.any() and rows.waiting.all() and rows.final_index.size == 0
        return [(env.step((a,)).rows[0].reward.tolist(), rows.obs["obs"].tolist()) for a in actions]

    assert play() == play()


def test_the_slab_is_written_in_place_and_never_read_back():
    env, twin = BatchedArena(4), BatchedArena(4)
    rows, clean = env.reset(plan).rows[0], twin.reset(plan).rows[0]
    arrays = (rows.obs["obs"], rows.reward, rows.truncated)
    for actions in np.random.default_rng(0).integers(0, 4, (210, 8)):
        rows.obs["obs"][:] = -7
        rows.reward[:] = -7
        assert env.step((actions,)).rows[0] is rows
        twin.step((actions,))
        assert np.array_equal(rows.obs["obs"], clean.obs["obs"]) and np.array_equal(rows.reward, clean.reward)
    assert all(a is b for a, b in zip(arrays, (rows.obs["obs"], rows.reward, rows.truncated), strict=True))


def test_the_batched_arena_is_a_vector_env_of_one_kind():
    env = BatchedArena(2, width=4, height=3)
    assert isinstance(env, VectorEnv) and env.exact and env.layout == 0 and env.notes == ()
    (kind,) = env.kinds
    assert kind.agents == ("agent1", "agent2")
    assert kind.obs.leaves[0].sizes == (12, 12) and kind.action.sizes == (4,)


@pytest.mark.usefixtures("no_twins_in_c")
def test_a_subclass_has_no_twin_unless_it_names_one():
    class OtherRules(MultiAgentArena):
        pass

    class SameRules(MultiAgentArena):
        batched = BatchedArena

    made = {rules: type(make_env(rules, None, (), 2, "auto")) for rules in (MultiAgentArena, OtherRules, SameRules)}
    assert made == {MultiAgentArena: BatchedArena, OtherRules: SerialEnv, SameRules: BatchedArena}


@pytest.mark.parametrize(("width", "height"), [(10, 10), (1, 9), (9, 1), (14, 5), (2, 1), (150, 3), (3, 500)])
def test_pictures_have_even_sides_and_do_not_disturb_the_arena(width, height):
    env = MultiAgentArena(width, height, render_mode="rgb_array")
    env.reset(seed=1)
    first = env.render()
    assert first.dtype == np.uint8 and first.shape[2] == 3
    assert first.shape[0] % 2 == 0 and first.shape[1] % 2 == 0
    assert np.array_equal(first, env.render())
    env.step(act(RIGHT, UP))
    assert env.render().shape == first.shape and not np.array_equal(env.render(), first)


def test_a_covered_tile_turns_green_and_the_agents_are_discs_on_theirs():
    env = MultiAgentArena()  # 44 pixels a tile from pixel 20 on
    env.reset(seed=1)
    env.step(act(RIGHT, UP))
    env.step(act(RIGHT, UP))
    picture = env.render().astype(int)

    def corner(row, column):
        red, green, _ = picture[20 + 44 * row + 5, 20 + 44 * column + 5]
        return green - red

    assert corner(0, 1) > 20 and corner(0, 2) > 20 and corner(0, 0) < 5 and corner(5, 5) < 5
    red, green, _ = picture[20 + 22, 20 + 44 * 2 + 10]
    assert green > red + 50  # agent1 on row 0, column 2
    red, green, _ = picture[20 + 44 * 7 + 22, 20 + 44 * 9 + 10]
    assert red > green + 50  # agent2 on row 7, column 9
