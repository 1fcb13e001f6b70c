"""Claims of AlphaZero with a Gumbel root: tic-tac-toe without a loss, connect four against plain MCTS, and the speed.

``python benchmarks/studies/alphazero.py tictactoe RUN``, ``exploitability RUN`` (with OpenSpiel installed),
``connect-four RUN --simulations 100`` and ``speed RUN``; RUN is a trained run (docs/algorithms/alphazero.md has the
commands). Everything is also measured with untrained weights and the same search. The results are in
`benchmarks/results/alphazero.md`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rookery import AlphaZeroConfig, Trainer
from rookery.core.seeding import Role, Streams
from rookery.policies.policy import Policy
from rookery.rollout.noise import ActionNoise
from rookery.rollout.searching import SearchingPolicy
from rookery.run.opponents.matches import Game, Matches, entrant_of_run, scripted_entrant
from rookery.run.prepare import make_copies
from rookery.search.gumbel import search
from rookery.tasks.games.board_games import BoardGame, TicTacToe

PLAYERS = "rookery.tasks.games.players:"
UCT = "rookery.tasks.games.uct:"
TIC_TAC_TOE = {"random": "random", "perfect": f"{PLAYERS}tic_tac_toe_perfect", "MCTS 500": f"{UCT}tic_tac_toe"}
CONNECT_FOUR = {"one ply": f"{PLAYERS}connect_four_one_ply", "MCTS 500": f"{UCT}connect_four"}


def untrained(run: Trainer) -> Trainer:
    """Returns a run with the same settings and first weights."""
    algorithm = run.config.policies["main"].algorithm
    return Trainer(
        run.config.env.name, algorithm, num_envs=run.config.sampling.num_envs, seed=run.config.seed, console="quiet"
    )


def play(run: Trainer, opponents: Mapping[str, str], games: int, lanes: int, opening: int) -> dict[str, list[Game]]:
    """Plays games against functions, sides alternating, with deterministic searches."""
    config = replace(run.config, env=replace(run.config.env, config={"random_opening": opening}))
    played = {}
    for name, function in opponents.items():
        env = make_copies(config, lanes)
        mine = entrant_of_run(run, env, None, "main")
        other = scripted_entrant(env, function, name, Streams(0))
        matches = Matches(run, env, [mine, other], [("main", name)], games, deterministic=True, seed=0)
        played[name] = matches.play()
    return played


def interval(games: Sequence[Game]) -> tuple[float, float]:
    """Returns the score of games, where draws count half, and half the width of its 95 % interval, as `rookery match`
    does.
    """
    score = sum(game.score for game in games) / len(games)
    varies = (sum((game.score - score) ** 2 for game in games) + 1.0) / (len(games) + 4)
    return score, 1.96 * math.sqrt(varies / (len(games) + 4))


def summary(games: Sequence[Game]) -> str:
    """Returns wins, draws, losses and the score of games, as text."""
    won, drawn, lost = (sum(game.score == score for game in games) for score in (1.0, 0.5, 0.0))
    score, half = interval(games)
    return f"{won} won, {drawn} drawn, {lost} lost: {100 * score:.1f} % ± {100 * half:.1f}"


def searcher(policy: Policy, env: BoardGame) -> SearchingPolicy:
    """Returns the acting side of a policy."""
    noise = ActionNoise(Streams(0), "main", 1, 0, torch.device("cpu"))
    return SearchingPolicy(env, "main", 0, policy, None, noise)


def reachable_losses(policy: Policy) -> tuple[int, int]:
    """Follows a deterministic policy through all games of tic-tac-toe, from both sides, against every reply.

    Returns:
        The number of different positions in which it moves, and of games that it loses.
    """
    env = TicTacToe(1)
    env.reset(Streams(0).episodes(Role.ENV))
    mine = searcher(policy, env)
    positions = losses = 0
    for side in (0, 1):
        states = env.get_state(np.arange(1))
        for ply in range(9):
            if not len(states):
                break
            if ply % 2 == side:
                positions += len(states)
                moved = env.move(states, search(env, mine.evaluate, states, None, mine.spec).action)
            else:
                mask = env.observe(states)["action_mask"]
                rows, action = np.nonzero(mask)
                moved = env.move(states[rows], action)
                losses += int(moved.reward.sum())
            states = np.unique(moved.state[~moved.over], axis=0)
    return positions, losses


def exploitability(policy: Policy) -> float:
    """Returns OpenSpiel's exploitability of a deterministic policy in tic-tac-toe: 0 if no opponent wins more than a
    perfect player allows.
    """
    import pyspiel

    rules = TicTacToe(1)
    rules.reset(Streams(0).episodes(Role.ENV))
    mine = searcher(policy, rules)
    game = pyspiel.load_game("tic_tac_toe")
    histories: dict[tuple[int, int, int], list[str]] = {}

    def walk(state: Any, stones: tuple[int, int], plies: int) -> None:
        if state.is_terminal():
            return
        histories.setdefault((*stones, plies), []).append(state.information_state_string())
        for action in state.legal_actions():
            placed = [*stones]
            placed[plies % 2] |= 1 << action
            walk(state.child(action), (placed[0], placed[1]), plies + 1)

    walk(game.new_initial_state(), (0, 0), 0)
    found = search(rules, mine.evaluate, np.array(list(histories)), None, mine.spec).action.tolist()
    table = {
        name: [(cell, float(cell == action)) for cell in range(9) if not (crosses | noughts) >> cell & 1]
        for ((crosses, noughts, _), names), action in zip(histories.items(), found, strict=True)
        for name in names
    }
    return float(pyspiel.exploitability(game, table))


def openspiel_speed(policy: Policy, simulations: int, moves: int) -> dict[str, float]:
    """Returns decisions and evaluations a second of process time of OpenSpiel's search in Python, in connect four with
    the same network.
    """
    import pyspiel
    from open_spiel.python.algorithms import mcts

    class Network(mcts.Evaluator):
        calls = 0

        def _asked(self, state: Any) -> tuple[Any, Any]:
            self.calls += 1
            planes = np.array(state.observation_tensor()).reshape(3, 6, 7)[:2, ::-1].reshape(1, -1)
            mask = np.zeros((1, 7), np.uint8)
            mask[0, state.legal_actions()] = 1
            obs = {"board": torch.from_numpy(planes.astype(np.uint8)), "action_mask": torch.from_numpy(mask).bool()}
            features = policy.trunk(obs)
            return policy.head.linear(features)[0], policy.head.value(features)[0, 0]

        def evaluate(self, state: Any) -> Any:
            with torch.no_grad():
                value = float(self._asked(state)[1])
            return np.array([value, -value] if state.current_player() == 0 else [-value, value])

        def prior(self, state: Any) -> Any:
            with torch.no_grad():
                odds = torch.softmax(self._asked(state)[0], 0)
            return [(action, float(odds[action])) for action in state.legal_actions()]

    network = Network()
    game = pyspiel.load_game("connect_four")
    bot = mcts.MCTSBot(game, 1.25, simulations, network, solve=False)
    state, began = game.new_initial_state(), time.process_time()
    for _ in range(moves):
        state.apply_action(bot.step(state))
        if state.is_terminal():
            state = game.new_initial_state()
    spent = time.process_time() - began
    return {"decisions": moves / spent, "evaluations": network.calls / spent}


def speed(env: str, lanes: int, seconds: float, algorithm: AlphaZeroConfig) -> dict[str, float]:
    """Returns games, decisions and evaluations a second of process time of a training."""
    run = Trainer(env, algorithm, num_envs=lanes, seed=0, console="quiet")
    steps = run.iterations()
    before = next(steps).episodes
    began, clock, games = time.process_time(), time.perf_counter(), 0
    mine = run._pool.worker.policies["main"]
    first = mine.evaluations, mine.acted
    for result in steps:
        games = result.episodes - before
        if time.perf_counter() - clock > seconds:
            break
    evaluations, decisions = mine.evaluations - first[0], mine.acted - first[1]
    spent = time.process_time() - began
    return {"games": games / spent, "decisions": decisions / spent, "evaluations": evaluations / spent}


def main() -> None:
    """Runs a part of the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("tictactoe", "connect-four", "exploitability", "speed"))
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--simulations", type=int, help="simulations of each search; those of the run by default")
    parser.add_argument("--only", choices=("trained", "untrained"))
    given = parser.parse_args()
    if given.part == "speed":
        for env in ("TicTacToe", "ConnectFour"):
            print(env, json.dumps(speed(env, 128, 60.0, AlphaZeroConfig())), flush=True)
        if given.run is not None:
            policy = Trainer.load(given.run, console="quiet").policies["main"]
            print("OpenSpiel, ConnectFour", json.dumps(openspiel_speed(policy, 32, 60)), flush=True)
        return
    trained = Trainer.load(given.run, console="quiet")
    for label, run in {"trained": trained, "untrained": untrained(trained)}.items():
        if given.only not in (None, label):
            continue
        if given.simulations is not None:
            policy = run.policies["main"]
            policy.head_spec = replace(policy.head_spec, simulations=given.simulations)
        if given.part == "exploitability":
            print(f"{label}: exploitability {exploitability(run.policies['main']):.4f}", flush=True)
            continue
        if given.part == "tictactoe":
            positions, losses = reachable_losses(run.policies["main"])
            print(f"{label}: moves in {positions} positions, loses {losses} of the games that it can reach", flush=True)
        opponents, opening = (TIC_TAC_TOE, 0) if given.part == "tictactoe" else (CONNECT_FOUR, 2)
        for name, games in play(run, opponents, given.games, 100, opening).items():
            print(f"{label} against {name}: {summary(games)}", flush=True)


if __name__ == "__main__":
    main()
