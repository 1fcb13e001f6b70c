"""PPO on CartPole-v1 in one file of plain PyTorch: ``compiled_ppo.py WORKLOAD --seconds N``; prints a line of JSON.

One loop without a library, as CleanRL (Huang et al. 2022) has it, on Gymnasium's SyncVectorEnv. It is written here and
runs in the environment of the sb3 peer, with `benchmarks` on PYTHONPATH, as `benchmarks/run.py` does. A gradient step,
from the minibatch to Adam, is one function that `torch.compile` makes one program of, and so is what a fragment is
judged by: values and probabilities of all its actions at once. Compiling needs a C++ compiler, is done anew in each
process, and is part of the first iteration.

Kept, for the time they save: Adam written out, so that no part of a gradient step is left outside the program (half of
its time), and the wrapper in C++ (a twentieth of all). Not kept: compiled acting, which takes longer for 8 rows than
the plain call does; a vector of all parameters.

Time limits are kept apart from falls: a copy that is cut off bootstraps from the value of its final observation.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import deque
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from measure import Meter, seconds_since_start
from torch import Tensor, nn
from torch.func import functional_call, grad
from workloads import MATCHED
from workloads import PPO as Settings

IMPORTED = seconds_since_start()

WORKLOADS = [name for name, settings in MATCHED.items() if settings.env == "CartPole-v1"]

VALUE_COEF, MAX_GRAD_NORM, BETAS, ADAM_EPS = 0.5, 0.5, (0.9, 0.999), 1e-5
"""What `workloads.PPO` does not name, since it is the default of the other libraries."""

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


# --- the learner ----------------------------------------------------------------------------------------------------


def network(settings: Settings, inputs: int, outputs: int, gain: float) -> nn.Sequential:
    """Layers with orthogonal weights, of length `gain` in the last and sqrt(2) in the others; biases are 0."""
    widths = (inputs, *settings.hidden, outputs)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), ACTIVATIONS[settings.activation]()]
    for layer in layers[::2]:
        nn.init.orthogonal_(layer.weight, gain if layer is layers[-2] else 2**0.5)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """Policy and values, each a network of its own."""

    def __init__(self, settings: Settings, inputs: int, actions: int) -> None:
        super().__init__()
        self.policy = network(settings, inputs, actions, gain=0.01)
        self.critic = network(settings, inputs, 1, gain=1.0)
        self.requires_grad_(False)  # gradients are those of functions

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the probabilities ``[N, actions]``, and values ``[N]``."""
        return torch.log_softmax(self.policy(obs), -1), self.critic(obs)[:, 0]

    def act(self, obs: Tensor) -> Tensor:
        """Actions ``[N]``: the largest logit after noise of a Gumbel distribution, which is a draw by the softmax."""
        logits = self.policy(obs)
        return (logits - torch.empty_like(logits).exponential_().log()).argmax(-1)


class Learner:
    """Gradient steps with Adam.

    Args:
        agent: What learns.
        settings: Of the workload.
        compiled: Makes a program of a function.
    """

    def __init__(self, agent: Agent, settings: Settings, compiled: Compile) -> None:
        self.agent = agent
        self.settings = settings
        self.weights = dict(agent.named_parameters())
        self.mean = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        self.square = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        self.count = torch.zeros(())
        self.judge, self.update = compiled(self._judge), compiled(self._update)

    def _judge(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the probabilities of actions, and values, both ``[N]``."""
        logp, value = self.agent(obs)
        return logp.gather(-1, action[:, None])[:, 0], value

    def _loss(
        self, weights: dict[str, Tensor], obs: Tensor, action: Tensor, old_logp: Tensor, advantage: Tensor, goal: Tensor
    ) -> Tensor:
        """Negated eq. 9 of Schulman et al. 2017."""
        every, value = functional_call(self.agent, weights, (obs,))
        ratio = (every.gather(-1, action[:, None])[:, 0] - old_logp).exp()
        clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        if self.settings.entropy_coef:
            gain = gain - self.settings.entropy_coef * (every.exp() * every).sum(-1).mean()
        return VALUE_COEF * (value - goal).square().mean() - gain

    def _update(self, obs: Tensor, action: Tensor, old_logp: Tensor, advantage: Tensor, goal: Tensor) -> None:
        """A step on a minibatch."""
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gradient = grad(self._loss)(self.weights, obs, action, old_logp, advantage, goal)
        length = torch.stack([part.square().sum() for part in gradient.values()]).sum().sqrt()
        scale = (MAX_GRAD_NORM / (length + 1e-6)).clamp(max=1.0)
        self.count.add_(1)
        first, second = (1 - beta**self.count for beta in BETAS)
        for name, weight in self.weights.items():
            part, mean, square = gradient[name] * scale, self.mean[name], self.square[name]
            mean.lerp_(part, 1 - BETAS[0])
            square.lerp_(part.square(), 1 - BETAS[1])
            weight.sub_(self.settings.lr * (mean / first) / ((square / second).sqrt() + ADAM_EPS))


# --- the loop -------------------------------------------------------------------------------------------------------


class Fragment:
    """An iteration as it was played, each ``[T, N]``; `final` is the next observation, before a new episode begins."""

    def __init__(self, length: int, copies: int, inputs: int) -> None:
        self.obs = np.zeros((length, copies, inputs), np.float32)
        self.final = np.zeros_like(self.obs)
        self.action = np.zeros((length, copies), np.int64)
        self.reward = np.zeros((length, copies), np.float32)
        self.fell = np.zeros((length, copies), bool)
        self.ended = np.zeros((length, copies), bool)


def play(envs: SyncVectorEnv, agent: Agent, obs: np.ndarray, fragment: Fragment) -> np.ndarray:
    """Fills the fragment from the observations `obs` on; returns those after it."""
    for step in range(len(fragment.obs)):
        action = agent.act(torch.from_numpy(obs)).numpy()
        fragment.obs[step], fragment.action[step] = obs, action
        obs, fragment.reward[step], fell, cut, info = envs.step(action)
        fragment.fell[step], fragment.ended[step] = fell, fell | cut
        fragment.final[step] = obs
        if "final_obs" in info:
            for lane in np.flatnonzero(fragment.ended[step]):
                fragment.final[step, lane] = info["final_obs"][lane]
    return obs


def advantages(value: np.ndarray, final_value: np.ndarray, fragment: Fragment, settings: Settings) -> np.ndarray:
    """Generalised advantage estimation (Schulman et al. 2016), ``[T, N]``.

    Args:
        value: Of the observations, ``[T, N]``.
        final_value: Of the next ones, ``[T, N]``.
        fragment: What was played.
        settings: Of the workload.
    """
    error = fragment.reward + settings.gamma * np.where(fragment.fell, 0, final_value) - value
    decay = np.where(fragment.ended, 0, settings.gamma * settings.gae_lambda)
    found, later = np.zeros_like(value), np.zeros(value.shape[1], np.float32)
    for step in range(len(value) - 1, -1, -1):
        later = found[step] = error[step] + decay[step] * later
    return found


def judged(learner: Learner, fragment: Fragment, settings: Settings) -> list[Tensor]:
    """Columns that minibatches are taken of, each with a row for every step of every copy."""
    played = (fragment.obs, fragment.final, fragment.action)
    obs, final, action = (torch.from_numpy(part).flatten(0, 1) for part in played)
    logp, value = learner.judge(obs, action)
    _, final_value = learner.judge(final, action)
    shape = fragment.action.shape
    advantage = advantages(value.numpy().reshape(shape), final_value.numpy().reshape(shape), fragment, settings)
    found = torch.from_numpy(advantage).float().flatten()
    return [obs, action, logp, found, found + value]


def returns(fragment: Fragment, running: np.ndarray) -> list[float]:
    """Returns of the episodes that end in the fragment; `running` keeps those of the others."""
    found: list[float] = []
    for reward, ended in zip(fragment.reward, fragment.ended, strict=True):
        running += reward
        if ended.any():
            found += running[ended].tolist()
            running[ended] = 0.0
    return found


def train(settings: Settings, seed: int, meter: Meter, compiled: Compile) -> None:
    """Iterations until the meter has seen enough."""
    torch.manual_seed(seed)
    makers = [lambda: gymnasium.make(settings.env)] * settings.num_envs
    envs = SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)  # `play` copies what it keeps
    obs, _ = envs.reset(seed=seed)
    inputs = obs.shape[-1]
    agent = Agent(settings, inputs, int(envs.single_action_space.n))
    learner = Learner(agent, settings, compiled)
    fragment = Fragment(settings.fragment_length, settings.num_envs, inputs)
    rows = fragment.action.size
    running, episodes = np.zeros(settings.num_envs), deque[float](maxlen=100)
    enough, steps = False, 0
    while not enough:
        obs = play(envs, agent, obs, fragment)
        columns = judged(learner, fragment, settings)
        for _ in range(settings.epochs):
            for chosen in torch.randperm(rows).split(settings.minibatch_size):
                learner.update(*(column[chosen] for column in columns))
        episodes.extend(returns(fragment, running))
        steps += rows
        enough = meter.iteration(steps, sum(episodes) / len(episodes) if episodes else None)
    envs.close()


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--plain", action="store_true", help="do not compile")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    meter = Meter(IMPORTED, args.seconds, None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        compiled = (lambda function: function) if args.plain else partial(torch.compile, options={"cpp_wrapper": True})
        train(MATCHED[args.workload], args.seed, meter, compiled)
        versions = {name: version(name) for name in ("gymnasium", "torch")}
        meter.report(threads=torch.get_num_threads(), versions=versions)


if __name__ == "__main__":
    main()
