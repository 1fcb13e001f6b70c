"""The mathematics of returns, as pure functions of time-major tensors ``[T, ...]``. No settings, no defaults."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    reward: Tensor, value: Tensor, next_value: Tensor, ended: Tensor, *, gamma: float | Tensor, gae_lambda: float
) -> Tensor:
    """Computes generalized advantage estimates (Schulman et al. 2016, eq. 16), ``[T, ...]``; plus the value:
    lambda-returns.

    Args:
        reward: ``[T, ...]`` reward of each decision.
        value: ``[T, ...]`` value of the observation decided on.
        next_value: ``[T, ...]`` value of the next observation: 0 where the episode terminated, the value of the final
            observation where it was truncated, else the value of the next observation.
        ended: ``[T, ...]`` bool, where the sum over later errors stops: the last decision of an episode or of a
            fragment. Later rows have no influence, not even a NaN. With a last axis of S reward signals elsewhere, it
            has one of 1, as has `ratio` of `vtrace`.
        gamma: Discount; or ``[S]``, one for each reward signal.
        gae_lambda: Decay of later errors, from 0 (one-step) to 1 (Monte Carlo).
    """
    error = reward + gamma * next_value - value
    decay = gamma * gae_lambda
    decays = torch.full_like(error, decay) if isinstance(decay, float) else decay.expand_as(error).clone()
    return decayed_sums(error, decays.masked_fill_(ended, 0.0))


def decayed_sums(term: Tensor, decay: Tensor) -> Tensor:
    """Returns the sums ``x[t] = term[t] + decay[t] * x[t + 1]``, ``[T, ...]``; in the last row ``x[t] = term[t]``.

    In log2(T) rounds, each of which joins what two halves of a stretch have summed up (Hillis & Steele 1986), in the
    place of a loop over T. Where a decay is 0, later rows have no influence, not even a NaN.

    Args:
        term: ``[T, ...]``.
        decay: ``[T, ...]``; the last row has no effect.
    """
    total, stretch = term.clone(), 1
    while stretch < len(term):
        decay = decay[: len(term) - stretch]  # sums over this number of rows, starting at each
        stops = decay == 0
        total[:-stretch] += (decay * total[stretch:]).masked_fill_(stops, 0.0)
        decay = (decay[:-stretch] * decay[stretch:]).masked_fill_(stops[:-stretch], 0.0)
        stretch *= 2
    return total


def vtrace(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    ended: Tensor,
    ratio: Tensor,
    *,
    gamma: float | Tensor,
    gae_lambda: float,
    rho_bar: float,
    c_bar: float,
) -> tuple[Tensor, Tensor]:
    """Computes advantages and value targets from decisions of another policy (V-trace, Espeholt et al. 2018), ``[T,
    ...]``.

    The targets are eq. 1 of the paper with the decay of its remark 2. An advantage is the reward plus the mix of the
    next value and target, minus the value: only decisions after the given one are corrected. With ratios of 1 both are
    those of `gae`; with `gae_lambda` 1 the advantage is the paper's.

    Args:
        reward: As in `gae`, like the next three.
        value: ``[T, ...]``.
        next_value: ``[T, ...]``.
        ended: ``[T, ...]``.
        ratio: ``[T, ...]`` probability ratio of each action between the learning policy and the policy that acted.
        gamma: As in `gae`.
        gae_lambda: Decay of later errors.
        rho_bar: Limit of an error's weight: clipping shifts the targets towards the policy that acted.
        c_bar: Limit of the factor that carries later errors back: clipping slows learning, without bias.
    """
    error = reward + gamma * next_value - value
    correction = ratio.clamp(max=rho_bar) * error  # of the value, by the target
    trace = gamma * gae_lambda * ratio.clamp(max=c_bar)
    correction = decayed_sums(correction, trace.masked_fill(ended, 0.0))
    after = following(correction, torch.zeros_like(error[-1])).masked_fill_(ended, 0.0)  # one step later in the episode
    return error + gamma * gae_lambda * after, value + correction


def following(value: Tensor, last_value: Tensor) -> Tensor:
    """Returns the value one step later, ``[T, F]``: row t has ``value[t + 1]``, the last row `last_value` ``[F]``."""
    return torch.cat((value[1:], last_value.unsqueeze(0)))


# --- values of actions ------------------------------------------------------------------------------------------------


def lambda_returns(reward: Tensor, next_value: Tensor, ended: Tensor, *, gamma: float, trace_lambda: float) -> Tensor:
    """The returns ``G[t] = reward[t] + gamma * ((1 - lambda) * next_value[t] + lambda * G[t + 1])``, ``[T, ...]``.

    With the largest value of the next observation these are Peng's Q(lambda) (Peng & Williams 1994), which does not
    correct for actions that were not the best ones.

    Args:
        reward: ``[T, ...]`` reward of each decision.
        next_value: ``[T, ...]`` as in `gae`.
        ended: ``[T, ...]`` as in `gae`: there the return is ``reward + gamma * next_value``.
        gamma: Discount.
        trace_lambda: Weight of later rewards, from 0 (one-step) to 1 (Monte Carlo).
    """
    decay = torch.full_like(reward, gamma * trace_lambda).masked_fill_(ended, 0.0)
    decay[-1] = 0.0
    return decayed_sums(reward + (gamma - decay) * next_value, decay)


def n_step(reward: Tensor, ended: Tensor, *, n: int, gamma: float) -> tuple[Tensor, Tensor]:
    """Sums the discounted rewards of the next n decisions, fewer if an episode or the fragment ends before.

    A target is then ``total + gamma ** steps * value`` of the observation after decision ``t + steps - 1``.

    Args:
        reward: ``[T, ...]`` reward of each decision.
        ended: ``[T, ...]`` bool, where a window must stop: nothing after it is looked at, not even a NaN. Windows stop
            at the last row, too.
        n: Decisions in a window, at most.
        gamma: Discount.

    Returns:
        The sums ``[T, ...]``, and their numbers of decisions, int64 ``[T, ...]``.
    """
    total, steps, open_ = reward.clone(), torch.ones_like(ended, dtype=torch.int64), ~ended
    for later in range(1, min(n, len(reward))):
        goes_on = open_[:-later]
        total[:-later] += torch.where(goes_on, gamma**later * reward[later:], 0.0)
        steps[:-later] += goes_on
        open_[:-later] = goes_on & ~ended[later:]
    return total, steps


def project(probs: Tensor, reward: Tensor, discount: Tensor, support: Tensor) -> Tensor:
    """Projects the distribution of ``reward + discount * z`` on the atoms z (Bellemare et al. 2017, Algorithm 1).

    Mass between two atoms is split among them by distance; mass outside is assigned to the outermost.

    Args:
        probs: ``[N, M]`` of the atoms after the decision.
        reward: ``[N]``.
        discount: ``[N]``.
        support: ``[M]`` the atoms, evenly spaced and ascending.

    Returns:
        Probabilities ``[N, M]``, whose sums are those of `probs`.
    """
    low, high, last = support[0], support[-1], len(support) - 1
    moved = torch.addcmul(reward.unsqueeze(1), discount.unsqueeze(1), support)
    place = (moved - low).mul_(last / (high - low)).clamp_(0, last)  # in atoms from the lowest
    below = place.floor()
    share = (place - below).mul_(probs)  # of the atom above; nothing where an atom was met exactly
    index = below.long()
    projected = torch.zeros_like(probs).scatter_add_(1, index, probs - share)
    return projected.scatter_add_(1, (index + 1).clamp_(max=last), share)


def quantile_huber(predicted: Tensor, target: Tensor, *, kappa: float, fraction: Tensor | None = None) -> Tensor:
    """Computes the quantile regression loss of M predicted quantiles on M' targets (Dabney et al. 2018, eq. 10),
    ``[N]``.

    Summed over the predicted, mean over the targets.

    Args:
        predicted: ``[N, M]``.
        target: ``[N, M']``.
        kappa: Errors up to this size count squared, divided by it; 0 = absolute errors.
        fraction: ``[N, M]`` or ``[1, M]`` fractions of the predicted quantiles; None = the midpoints ``(i + 1/2) / M``.
    """
    error, weight = quantile_errors(predicted, target, fraction)
    size = error.abs()
    if kappa:
        size = torch.where(size <= kappa, 0.5 * size.square(), kappa * (size - 0.5 * kappa)) / kappa
    return (weight * size).mean(2).sum(1)


def quantile_errors(predicted: Tensor, target: Tensor, fraction: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Computes the errors of all pairs of a target and a prediction, ``target - predicted`` ``[N, M, M']``, and their
    weights by sign: the fraction of the quantile for targets above the prediction, 1 minus it for those below.
    Arguments as of `quantile_huber`.
    """
    if fraction is None:
        number = predicted.shape[1]
        fraction = (torch.arange(number, dtype=predicted.dtype, device=predicted.device) + 0.5) / number
    error = target.unsqueeze(1) - predicted.unsqueeze(2)
    fraction = fraction.unsqueeze(-1)
    return error, torch.where(error < 0, 1 - fraction, fraction)


def quantile_huber_gradient(predicted: Tensor, target: Tensor, *, kappa: float) -> tuple[Tensor, Tensor]:
    """Computes the gradient of `quantile_huber` at the midpoints with respect to the predicted quantiles, ``[N, M]``,
    and the loss, ``[N]``. Arguments as there; `kappa` is above 0.
    """
    error, weight = quantile_errors(predicted, target)
    pull = error.clamp(-kappa, kappa)
    weighted = weight.mul_(pull)
    gradient = weighted.mean(2).div_(-kappa)
    rows = weighted.mul_(error.sub_(pull, alpha=0.5)).mean(2).sum(1).div_(kappa)
    return gradient, rows


def rescale(value: Tensor, *, eps: float) -> Tensor:
    """``h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x`` (Pohlen et al. 2018, arXiv:1805.11593): transform of large values
    before learning, so that rewards need no clipping.
    """
    return value.sign() * ((value.abs() + 1).sqrt() - 1) + eps * value


def unrescale(value: Tensor, *, eps: float) -> Tensor:
    """Computes the inverse of `rescale`, in a form without subtraction of nearly equal numbers."""
    size = value.abs() + 1 + eps
    root = 2 * size / (1 + (1 + 4 * eps * size).sqrt())
    return value.sign() * (root.square() - 1)
