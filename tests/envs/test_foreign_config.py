"""Arguments of environments that others have written: honest ones of each suite are taken, what could reach is not."""

import pytest

from rookery.envs.foreign_config import drawn_values, objections_to, objections_to_parameters

HONEST = {
    "CartPole-v1": {"sutton_barto_reward": True, "render_mode": "rgb_array", "max_episode_steps": 100_000},
    "Pendulum-v1": {"g": 9.81},
    "FrozenLake-v1": {"map_name": "8x8", "is_slippery": False, "desc": ["SFFF", "FHFH", "FFFH", "HFFG"]},
    "Taxi-v4": {"is_rainy": True},
    "LunarLander-v3": {"continuous": True, "gravity": -9.0, "enable_wind": True, "wind_power": 15.0},
    "CarRacing-v3": {"lap_complete_percent": 0.9, "domain_randomize": True},
    "Ant-v5": {
        "xml_file": "ant.xml", "frame_skip": 5, "healthy_z_range": [0.2, float("inf")], "main_body": "torso",
        "default_camera_config": {"distance": 4.0, "lookat": [0.0, 0.0, 1.0]}, "width": 1920,
    },
    "Walker2d-v5": {"xml_file": "walker2d_v5.xml"},
    "ALE/Pong-v5": {"obs_type": "ram", "frameskip": [2, 5], "repeat_action_probability": 0.25, "mode": 1},
    "MiniGrid-Empty-8x8-v0": {"size": 16, "agent_start_pos": [1, 1], "max_steps": 5000},
    "MiniGrid-KeyCorridorS3R1-v0": {"obj_type": "key"},
    "pettingzoo.butterfly.knights_archers_zombies_v11": {"obs_method": "vector-masked", "max_cycles": 100_000},
    "pettingzoo.sisl.pursuit_v5": {"n_pursuers": 8, "shared_reward": False, "x_size": 16},
    "pettingzoo.classic.hanabi_v5": {"colors": 2, "observation_type": "minimal"},
    "pettingzoo.classic.connect_four_v3": {"render_mode": "human"},
    "mpe2.simple_spread_v3": {"N": 5, "local_ratio": 0.5, "max_cycles": 50, "continuous_actions": True},
    "envpool:Pong-v5": {"num_threads": 4, "episodic_life": True},
    "NoSuchEnvironment-v0": {"size": 5},
    # Rookery's own
    "MultiAgentArena": {"width": 20, "height": 20, "max_timesteps": 5000, "config": {"width": 12}},
    "DeepSea": {"size": 30, "mapping_seed": 123_456_789, "randomize_actions": False},
    "KeyDoor": {"size": 11, "max_steps": 100_000},
    "Match3": {"rows": 8, "columns": 8, "observation": "visual"},
    "OneDimension": {"numbers": 3, "picture_shape": [40, 40, 3], "play": "group"},
    "GoalGrid": {"observation": "one_hot"},
    "LineSoccer": {"players": 3, "time_cost": 0.001},
    "Atari": {"game": "pong", "frameskip": 4, "episodic_life": True},
    "TensorCartPole": {"device": "cpu"},
    "external:0": {"patience": 30.0, "host": "127.0.0.1", "spaces": {"obs": {"box": [8]}, "action": {"discrete": 3}}},
    "unity:editor": {"no_graphics": True, "width": 128, "time_scale": 20.0, "seed": 7},
}  # fmt: skip

PATH = "theirs/x"


@pytest.mark.regression("foreign code", "Arguments of others reach no path, and honest ones of each suite need no flag")
@pytest.mark.parametrize("name", HONEST)
def test_honest_arguments_of_a_suite_are_taken_and_texts_are_not(name):
    assert list(objections_to(name, HONEST[name])) == []
    for key in ("xml_file", "desc", "rom", "helper", "obs_type", "device"):
        value = PATH if key != "device" else [PATH]
        assert [one.path for one in objections_to(name, {key: value})] == [f"env.config.{key}"], key
    for value in (f"{PATH}.xml", f"../../{PATH}.xml", [PATH], {"a": [PATH]}, {"~object": "a:b"}):
        assert list(objections_to(name, {"helper": value})), value


@pytest.mark.parametrize("name", ["CartPole-v1", "MiniGrid-Empty-8x8-v0", "pettingzoo.sisl.pursuit_v5", "DeepSea"])
def test_numbers_that_could_fill_the_memory_are_not_taken(name):
    for key in ("size", "n_pursuers"):
        assert list(objections_to(name, {key: 10**6})), key
        if name != "DeepSea" or key == "size":
            assert list(objections_to_parameters(name, {key: {"sampler": "uniform", "low": 1, "high": 10**6}}))
            assert list(objections_to_parameters(name, {key: [3, 10**6]}))


def test_parameters_are_numbers_whose_samplers_have_names_and_seeds():
    taken = {"gravity": {"sampler": "uniform", "low": 1.0, "high": 20.0, "seed": 123_456_789}, "masspole": 0.2}
    assert list(objections_to_parameters("CartPole-v1", taken)) == []
    assert list(drawn_values(taken["gravity"])) == [1.0, 20.0]
    assert list(objections_to_parameters("DeepSea", {"size": {"sampler": "choice", "values": [10, 20]}})) == []
    for value in (PATH, {"sampler": "choice", "values": [1, PATH]}, {"sampler": "constant", "value": PATH}, [PATH]):
        assert list(objections_to_parameters("Ant-v5", {"xml_file": value})), value
