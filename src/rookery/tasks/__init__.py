"""Bundled environments; vectorized ones can be named as ``rookery.tasks:TicTacToe``.

They are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "TicTacToe": "rookery.tasks.games.board_games",
    "ConnectFour": "rookery.tasks.games.board_games",
    "LineSoccer": "rookery.tasks.games.line_soccer",
    "CarryTogether": "rookery.tasks.games.carry_together",
    "Sacrifice": "rookery.tasks.games.sacrifice",
    "MatrixGame": "rookery.tasks.games.matrix_game",
    "Basic": "rookery.tasks.basic",
    "BallPlate": "rookery.tasks.ball_plate",
    "GoalGrid": "rookery.tasks.goal_grid",
    "PushBlock": "rookery.tasks.push_block",
    "FoodCollector": "rookery.tasks.games.food_collector",
    "Match3": "rookery.tasks.match3",
    "OneDimension": "rookery.tasks.one_dimension",
}

__all__ = [*_HOME]

if TYPE_CHECKING:
    from rookery.tasks.ball_plate import BallPlate as BallPlate
    from rookery.tasks.basic import Basic as Basic
    from rookery.tasks.games.board_games import ConnectFour as ConnectFour
    from rookery.tasks.games.board_games import TicTacToe as TicTacToe
    from rookery.tasks.games.carry_together import CarryTogether as CarryTogether
    from rookery.tasks.games.food_collector import FoodCollector as FoodCollector
    from rookery.tasks.games.line_soccer import LineSoccer as LineSoccer
    from rookery.tasks.games.matrix_game import MatrixGame as MatrixGame
    from rookery.tasks.games.sacrifice import Sacrifice as Sacrifice
    from rookery.tasks.goal_grid import GoalGrid as GoalGrid
    from rookery.tasks.match3 import Match3 as Match3
    from rookery.tasks.one_dimension import OneDimension as OneDimension
    from rookery.tasks.push_block import PushBlock as PushBlock


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
