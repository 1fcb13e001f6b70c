"""Keys of ES and ARS, which play whole episodes with candidates."""

from __future__ import annotations

from rookery_rllib.config.algorithms import EVOLUTION, A
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import by, ignored, refused, to, used
from rookery_rllib.config.sampling_keys import iteration


def generation(reader: Reader) -> Values:
    """Translates the episodes of an update, two for each direction."""
    return {"algorithm.num_directions": _directions(reader.whole("episodes_per_batch", 1))}


def best_directions(reader: Reader) -> Values:
    """Translates ARS's directions, and how many count: those whose better side reaches a quantile of all."""
    rollouts = reader.whole("num_rollouts", 1)
    directions, left_out = _directions(rollouts), rollouts - min(reader.whole("rollouts_used", 1), rollouts)
    return {
        "algorithm.num_directions": directions,
        "algorithm.top_directions": directions - -(-left_out * (directions - 1) // rollouts),
    }


def _directions(episodes: int) -> int:
    """Returns the number of directions with at least as many episodes."""
    return -(-episodes // 2)


def noise(reader: Reader) -> Values:
    """Translates the noise of weights. RLlib's gradient of ES is not divided by it, so that its share of decay, and
    Adam's epsilon, are in units of it.
    """
    std = reader.number("noise_stdev")
    if std <= 0:
        reader.refuse("noise_stdev", "must be above 0")
        std = 1.0
    values: Values = {"algorithm.noise_std": std}
    if reader.algorithm == "ES":
        values |= {"algorithm.weight_decay": reader.number("l2_coeff") / std, "algorithm.adam_eps": 1e-8 / std}
    return values


EVOLUTION_KEYS = [
    by(generation, {"episodes_per_batch": 1000}, f"{A}num_directions",
       "Episodes of an update, two for each direction.", ("ES",)),
    by(iteration, "train_batch_size", "sampling.iteration_steps",
       "Minimum env steps of an iteration. Short episodes make several updates of episodes_per_batch episodes in it, "
       "and one larger update in RLlib.", ("ES",)),
    by(best_directions, {"num_rollouts": 32, "rollouts_used": 32}, f"{A}num_directions {A}top_directions",
       "num_rollouts: episodes of an update, two for each direction. The best directions count: those above the "
       "quantile 1 - rollouts_used / num_rollouts, as in RLlib.", ("ARS",)),
    by(noise, {"noise_stdev": 0.02}, f"{A}noise_std", "Standard deviation of candidates' weights.", EVOLUTION),
    by(noise, {"l2_coeff": 0.005}, f"{A}weight_decay",
       "Weight decay; divided by noise_stdev, as is the gradient here.", ("ES",)),
    to({"stepsize": 0.01}, f"{A}lr", "Learning rate of Adam.", ("ES",)),
    to({"sgd_stepsize": 0.01}, f"{A}lr", "Step size.", ("ARS",)),
    used({"eval_prob": 0.003},
         "Evaluation episodes of the learned weights, whose mean return results report: as many as RLlib plays on "
         "average, and at least one in the first iteration. 0: results report the episodes of candidates.", EVOLUTION),
    used({"report_length": 10}, "Iterations with evaluation episodes whose means results average.", EVOLUTION),
    used({"offset": 0}, "Amount that is subtracted from each reward before learning; results report the original "
         "rewards.", ("ARS",)),
    refused({"return_proc_mode": "centered_rank"}, "RLlib has no other mode; use 'centered_rank'", ("ES",)),
    ignored({"action_noise_std": 0.01}, "candidates act without noise", EVOLUTION),
    ignored({"noise_size": 250_000_000}, "directions are drawn from a seed, not cut from a table", EVOLUTION),
    ignored("rollout_fragment_length batch_mode", "candidates play whole episodes", EVOLUTION),
    ignored("train_batch_size", "an update has num_rollouts episodes", ("ARS",)),
    ignored("gamma", "returns are sums of rewards, without discount", EVOLUTION),
    ignored("lr", "the step size is stepsize (ES) or sgd_stepsize (ARS)", EVOLUTION),
    ignored("sample_async", "an update needs all episodes of the present candidates", EVOLUTION),
]  # fmt: skip
