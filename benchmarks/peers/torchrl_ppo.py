"""TorchRL trains PPO on CartPole-v1: ``torchrl_ppo.py cartpole-matched --seconds N``; prints a line of JSON.

Run it with the Python that `install.sh` made and with `benchmarks` on PYTHONPATH, as `benchmarks/run.py` does. The
parts are those that the library's documentation puts together for PPO: Collector, GAE, a replay buffer without
replacement and ClipPPOLoss. Settings are those that Rookery has; what they do not name is that of the other libraries.

Gymnasium's vector environment, wrapped, is faster than the library's SerialEnv by half and is the default. With
``--compile`` acting and the gradient step are compiled by `torch.compile`, as the library's own programs can; that is
done anew in each process, needs a C++ compiler and is part of the first iteration.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import deque
from importlib.metadata import version

import gymnasium
import torch
from measure import Meter, seconds_since_start
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import EnvBase, GymEnv, GymWrapper, SerialEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE
from workloads import MATCHED
from workloads import PPO as Settings

IMPORTED = seconds_since_start()

VALUE_COEF, MAX_GRAD_NORM, ADAM_EPS = 0.5, 0.5, 1e-5
"""What `workloads.PPO` does not name, since it is the default of the other libraries."""


def make_env(settings: Settings, vector: str) -> EnvBase:
    """The copies: TorchRL's own in one process, or Gymnasium's vector environment, wrapped."""
    if vector == "serial":
        return SerialEnv(settings.num_envs, lambda: GymEnv(settings.env, categorical_action_encoding=True))
    copies = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make(settings.env)] * settings.num_envs,
        autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED,  # the wrapper resets, which it prefers
    )
    return GymWrapper(copies, categorical_action_encoding=True)


def network(settings: Settings, inputs: int, outputs: int, gain: float) -> MLP:
    """Layers with orthogonal weights, of length `gain` in the last and sqrt(2) in the others."""
    activation = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[settings.activation]
    net = MLP(in_features=inputs, out_features=outputs, num_cells=list(settings.hidden), activation_class=activation)
    layers = [layer for layer in net.modules() if isinstance(layer, torch.nn.Linear)]
    for layer in layers:
        torch.nn.init.orthogonal_(layer.weight, gain if layer is layers[-1] else 2**0.5)
        torch.nn.init.zeros_(layer.bias)
    return net


def returns(data: TensorDictBase, running: torch.Tensor) -> list[float]:
    """Returns of the episodes that end in a batch ``[N, T]``; `running` keeps those of the others."""
    found = []
    for reward, done in zip(data["next", "reward"].unbind(1), data["next", "done"].unbind(1), strict=True):
        running += reward
        found += running[done].tolist()
        running[done] = 0.0
    return found


def train(settings: Settings, vector: str, compiled: bool, seed: int, meter: Meter) -> None:
    """Iterations until the meter has seen enough."""
    torch.manual_seed(seed)
    env = make_env(settings, vector)
    env.set_seed(seed)
    inputs, actions = env.observation_spec["observation"].shape[-1], env.action_spec.space.n
    logits = TensorDictModule(network(settings, inputs, actions, 0.01), ["observation"], ["logits"])
    policy = ProbabilisticActor(
        logits, in_keys=["logits"], spec=env.action_spec, distribution_class=Categorical, return_log_prob=True
    )
    critic = ValueOperator(network(settings, inputs, 1, 1.0), in_keys=["observation"])
    advantage = GAE(gamma=settings.gamma, lmbda=settings.gae_lambda, value_network=critic)
    loss_module = ClipPPOLoss(
        policy,
        critic,
        clip_epsilon=settings.clip,
        entropy_bonus=bool(settings.entropy_coef),
        entropy_coeff=settings.entropy_coef,
        critic_coeff=VALUE_COEF,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=settings.lr, eps=ADAM_EPS)
    batch = settings.num_envs * settings.fragment_length
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(batch), sampler=SamplerWithoutReplacement(), batch_size=settings.minibatch_size
    )
    collector = Collector(
        env,
        policy,
        frames_per_batch=batch,
        total_frames=-1,
        track_traj_ids=False,
        auto_register_policy_transforms=False,
        compile_policy=compiled,
    )

    def plain_update(minibatch: TensorDictBase) -> None:
        losses = loss_module(minibatch)
        sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
        torch.nn.utils.clip_grad_norm_(loss_module.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad()

    update = torch.compile(plain_update) if compiled else plain_update
    running = torch.zeros(settings.num_envs, 1)
    episodes: deque[float] = deque(maxlen=100)
    for number, data in enumerate(collector, 1):
        episodes.extend(returns(data, running))
        with torch.no_grad():
            advantage(data)
        buffer.extend(data.reshape(-1))
        for _ in range(settings.epochs):
            for minibatch in buffer:
                update(minibatch)
        if meter.iteration(number * batch, sum(episodes) / len(episodes) if episodes else None):
            break
    collector.shutdown()


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=("cartpole-matched", "cartpole-64"))
    parser.add_argument("--vector", choices=("serial", "gymnasium"), default="gymnasium")
    parser.add_argument("--compile", action="store_true", help="acting and the gradient step")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    meter = Meter(IMPORTED, args.seconds, None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        train(MATCHED[args.workload], args.vector, args.compile, args.seed, meter)
        names = ("torchrl", "tensordict", "gymnasium", "torch")
        meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})


if __name__ == "__main__":
    main()
