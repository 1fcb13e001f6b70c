"""Bundled environments: import paths by short name, `OURS`."""

TENSORS = {
    "TensorCartPole": "rookery.tensor_envs.classic:TensorCartPole",
    "TensorPendulum": "rookery.tensor_envs.classic:TensorPendulum",
}
"""Tensor environments among `OURS`: importing them loads torch."""

OURS = {
    "MultiAgentArena": "rookery.tasks.games.arena:MultiAgentArena",
    "Atari": "rookery.envs.adapters.atari:Atari",
    "StatelessCartPole": "rookery.tasks.memory_tasks:StatelessCartPole",
    "RepeatAfterMe": "rookery.tasks.memory_tasks:RepeatAfterMe",
    "RepeatPrevious": "rookery.tasks.memory_tasks:RepeatPrevious",
    "Autoencode": "rookery.tasks.memory_tasks:Autoencode",
    "CountRecall": "rookery.tasks.memory_tasks:CountRecall",
    "CueCorridor": "rookery.tasks.memory_tasks:CueCorridor",
    "TwoCues": "rookery.tasks.memory_tasks:TwoCues",
    "Sorter": "rookery.tasks.sorter:Sorter",
    "DeepSea": "rookery.tasks.deep_sea:DeepSea",
    "HazardGrid": "rookery.tasks.hazard_grid:HazardGrid",
    "KeyDoor": "rookery.tasks.key_door:KeyDoor",
    "WallCurriculum": "rookery.tasks.wall_curriculum:WallCurriculum",
    "TicTacToe": "rookery.tasks.games.board_games:TicTacToe",
    "ConnectFour": "rookery.tasks.games.board_games:ConnectFour",
    "LineSoccer": "rookery.tasks.games.line_soccer:LineSoccer",
    "CarryTogether": "rookery.tasks.games.carry_together:CarryTogether",
    "Sacrifice": "rookery.tasks.games.sacrifice:Sacrifice",
    "MatrixGame": "rookery.tasks.games.matrix_game:MatrixGame",
    "Basic": "rookery.tasks.basic:Basic",
    "BallPlate": "rookery.tasks.ball_plate:BallPlate",
    "GoalGrid": "rookery.tasks.goal_grid:GoalGrid",
    "PushBlock": "rookery.tasks.push_block:PushBlock",
    "FoodCollector": "rookery.tasks.games.food_collector:FoodCollector",
    "Match3": "rookery.tasks.match3:Match3",
    "OneDimension": "rookery.tasks.one_dimension:OneDimension",
    "BitFlip": "rookery.tasks.goal_tasks:BitFlip",
    "PointReach": "rookery.tasks.goal_tasks:PointReach",
    "LinearBandit": "rookery.tasks.bandits.drawn_weights:LinearBandit",
    "SharedBandit": "rookery.tasks.bandits.drawn_weights:SharedBandit",
    "QuadraticBandit": "rookery.tasks.bandits.drawn_weights:QuadraticBandit",
    "WheelBandit": "rookery.tasks.bandits.wheel:WheelBandit",
    **TENSORS,
}
"""Import paths of the bundled environments, by short name."""
