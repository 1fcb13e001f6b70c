"""Bundled environments; those that play many copies can be named from here, as ``rookery.tasks:TicTacToe``.

They are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "TicTacToe": "rookery.tasks.board_games",
    "ConnectFour": "rookery.tasks.board_games",
    "LineSoccer": "rookery.tasks.line_soccer",
    "CarryTogether": "rookery.tasks.carry_together",
    "Sacrifice": "rookery.tasks.sacrifice",
    "MatrixGame": "rookery.tasks.matrix_game",
    "Basic": "rookery.tasks.basic",
    "BallPlate": "rookery.tasks.ball_plate",
    "GoalGrid": "rookery.tasks.goal_grid",
    "PushBlock": "rookery.tasks.push_block",
    "FoodCollector": "rookery.tasks.food_collector",
    "Match3": "rookery.tasks.match3",
}

__all__ = [*_HOME]

if TYPE_CHECKING:
    from rookery.tasks.ball_plate import BallPlate as BallPlate
    from rookery.tasks.basic import Basic as Basic
    from rookery.tasks.board_games import ConnectFour as ConnectFour
    from rookery.tasks.board_games import TicTacToe as TicTacToe
    from rookery.tasks.carry_together import CarryTogether as CarryTogether
    from rookery.tasks.food_collector import FoodCollector as FoodCollector
    from rookery.tasks.goal_grid import GoalGrid as GoalGrid
    from rookery.tasks.line_soccer import LineSoccer as LineSoccer
    from rookery.tasks.match3 import Match3 as Match3
    from rookery.tasks.matrix_game import MatrixGame as MatrixGame
    from rookery.tasks.push_block import PushBlock as PushBlock
    from rookery.tasks.sacrifice import Sacrifice as Sacrifice


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
