"""The rules by name: severity, meaning, causes and remedies. Pages of the documentation are made from this table.

What a rule looks for is in the other files of this folder, and, for rules that play or look at the machine, in
`rookery.doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rookery.report.finding import ORDER, Finding, Severity

MAIN = "main"
"""Name of the policy of a run that names none; its settings are those of the section ``algorithm``."""


@dataclass(frozen=True)
class RuleText:
    """Texts of a rule.

    Attributes:
        severity: Usual severity of its findings.
        source: What it reads: ``rows``, ``play`` (of a checkpoint or an environment), ``env`` (an environment alone),
            ``files`` or ``machine``.
        means: Its meaning, and where it is silent.
        causes: Likely causes, the most likely first.
        remedies: What to try, in this order: settings as ``path=value``, where ``{at}`` is the section of the policy,
            or commands.
    """

    severity: Severity
    source: str
    means: str
    causes: tuple[str, ...]
    remedies: tuple[str, ...]


CHECK_ENV = "rookery doctor ENV"

RULES: dict[str, RuleText] = {
    # --- the policy ---------------------------------------------------------------------------------------------------
    "entropy-collapsed": RuleText(
        "warning",
        "rows",
        "The policy chooses nearly always the same action, although its return has not improved: it no longer "
        "explores, so it cannot find anything better. Where the return has "
        "improved, a low entropy is the result of learning.",
        ("updates are too large: the first ones decided for one action", "rewards are so large that noise decides",
         "the entropy bonus is too small for a sparse reward"),
        ("{at}.lr=3e-4", "{at}.entropy_coef=0.01", "{at}.clip=0.1"),
    ),
    "entropy-stuck": RuleText(
        "warning",
        "rows",
        "The action distribution is as random as at the start after many updates, and the return has not improved: the "
        "policy does not learn.",
        ("the reward does not depend on the actions, or is constant", "the learning rate is too small",
         "observations do not show what the actions change", "the entropy bonus is too large for the rewards"),
        (CHECK_ENV, "{at}.lr=3e-4", "{at}.entropy_coef=0.0"),
    ),
    "entropy-dominates": RuleText(
        "warning",
        "rows",
        "The entropy bonus is many times larger than the rest of the policy's loss, and the entropy has hardly fallen: "
        "the policy is paid for acting at random, so that it stays far below what its most likely actions reach.",
        ("the entropy bonus is too large", "rewards are very small beside the bonus"),
        ("{at}.entropy_coef=0.01", "{at}.entropy_coef={start: 0.01, end: 0}", "rookery evaluate RUN"),
    ),
    "kl-out-of-range": RuleText(
        "warning",
        "rows",
        "Updates move the policy much too far, or not at all, over at least ten iterations, and the return does not "
        "improve. Small values at the end of a schedule, or while all returns are equal, are expected.",
        ("too large: the learning rate or the number of epochs is too large",
         "too small: the learning rate is too small, or no action is better than another"),
        ("{at}.lr=3e-4", "{at}.epochs=4", "{at}.target_kl=0.03"),
    ),
    "clip-fraction-out-of-range": RuleText(
        "warning",
        "rows",
        "Most decisions leave the clip range in an update: the later epochs learn from hardly anything.",
        ("too many epochs on the same batch", "the learning rate is too large", "the clip range is too small"),
        ("{at}.epochs=4", "{at}.lr=1e-4", "{at}.clip=0.2"),
    ),
    "gradient-clipped": RuleText(
        "warning",
        "rows",
        "Gradients are many times longer than `max_grad_norm` in every update, and the return does not improve: every "
        "step has the same length, whatever the data say.",
        ("rewards or observations are very large", "the learning rate is too large, and the networks have diverged"),
        ("{at}.model.normalize_obs=true", "{at}.lr=3e-4"),
    ),
    "steps-skipped": RuleText(
        "error",
        "rows",
        "Gradients were not finite, so these steps were skipped.",
        ("rewards or observations are so large that numbers overflow", "the environment divides by zero",
         "the learning rate is so large that the networks have diverged"),
        (CHECK_ENV, "{at}.model.normalize_obs=true", "{at}.lr=1e-4"),
    ),
    "dead-units": RuleText(
        "warning",
        "play",
        "Most hidden units of the policy have the same output for all observations of an episode: little of the "
        "network is left to learn with.",
        ("the learning rate is too large", "observations are very large", "rewards are very large"),
        ("{at}.lr=1e-4", "{at}.model.normalize_obs=true", "{at}.model.layer_norm=true"),
    ),
    "rows-mixed": RuleText(
        "error",
        "play",
        "The network's output for an observation changes with the other observations of its batch: the policy acts by "
        "other environments, and learns from other probabilities than those it acted by.",
        ("a custom model reshapes or transposes an axis into the batch, or normalizes over it",),
        ("transpose, or keep the first axis in reshape and flatten", "torch.nn.LayerNorm in place of own statistics"),
    ),
    "model-random": RuleText(
        "error",
        "play",
        "Two passes of the same observations through the network differ: the policy learns from other probabilities "
        "than those it acted by.",
        ("a custom model draws random numbers in forward",),
        ("remove them, or draw them with torch.nn.Dropout, which is off when the policy acts",),
    ),
    "weights-without-gradient": RuleText(
        "warning",
        "play",
        "Weights of a custom network get no gradient from its features, so they stay as they were made: most of them "
        "are a warning, some a note. Weights with `requires_grad=False` are meant to stay, and are left out.",
        ("forward detaches a tensor, converts it to NumPy, or runs under torch.no_grad",
         "a layer is made and not used in forward", "activations are 0 or saturated for all observations"),
        ("remove detach, item, numpy and torch.no_grad from forward", "{at}.model.module=null"),
    ),
    "loss-mixes-rows": RuleText(
        "error",
        "play",
        "In an own loss a row of the batch gets the targets of other rows: another target of one row changes the "
        "gradients of the other rows as much as its own. A warning where torch warns about two shapes, and nothing "
        "more was seen. Statistics of the batch, as of normalized advantages, do not count, and losses of the library "
        "are left out.",
        ("values [N] minus targets [N, 1] are [N, N]: each value is drawn to the mean of all targets",
         "log-probabilities [N] times advantages [N, 1] are [N, N]"),
        ("compare arrays of the same shape: outputs.value and batch.value_target are both [N, 1]",
         "assert value.shape == target.shape, in the loss"),
    ),
    "loss-ignores-column": RuleText(
        "error",
        "play",
        "An own loss of a subclass of PPO uses a column of the batch, such as the advantages, and its gradients are "
        "the same for other values of the column, while the gradients of the loss that it replaces change. A warning "
        "for old log-probabilities on which neither the gradients nor the reported kl depend, with more than one "
        "epoch. A loss that leaves out advantages or value targets, as behaviour cloning does, does not count.",
        ("the old log-probabilities are computed by the network in training, so the ratio is always 1",
         "detach, item or torch.no_grad around the log-probabilities or the values"),
        ("log_ratio = outputs.distribution.log_prob(batch.action) - batch.logp",
         "remove detach, item and torch.no_grad from the loss; only metrics need them"),
    ),
    "values-bounded": RuleText(
        "error",
        "play",
        "An own network of action values cannot give the returns of the task: for random weights, small and large, its "
        "values stay in a range, and the discounted returns that were played are outside. A warning where the values "
        "of all actions only sum to the same number. Silent for values that are rescaled, for distributions of "
        "returns, and for networks that compute features.",
        ("the network ends with a softmax, a sigmoid, a tanh or a ReLU", "values are normalized over the actions, and "
         "the value of the state is lost"),
        ("end the network with a linear layer: action values are returns, and no probabilities",
         "{at}.model.output=features, so that the library adds the last layer"),
    ),
    "network-blind": RuleText(
        "warning",
        "play",
        "A custom network gives equal features for many observations that differ, before training as after it, while "
        "the outputs of a standard network differ: the policy cannot react to what is lost. Silent for networks with "
        "memory.",
        ("the model averages or takes the maximum over the axes of an image or a board, and with them where things "
         "are", "the model reads a part of the observation only, or rounds it"),
        ("flatten in place of pooling over the whole board", "{at}.model.module=null"),
    ),
    "action-constant": RuleText(
        "warning",
        "play",
        "The most likely action of the policy is the same for all observations of random play, although these differ, "
        "and the return has not improved.",
        ("updates are so large that the policy has collapsed", "observations are far too large, or too small",
         "the reward does not depend on the observation", "the training was too short"),
        ("{at}.lr=1e-4", "{at}.model.normalize_obs=true", CHECK_ENV),
    ),
    "actions-saturated": RuleText(
        "warning",
        "play",
        "Continuous actions are at the limits of their space nearly always, although the return has not improved.",
        ("the learning rate is too large", "observations or rewards are very large",
         "the limits of the action space are too narrow"),
        ("{at}.lr=3e-4", "{at}.model.normalize_obs=true"),
    ),
    "actions-without-effect": RuleText(
        "error",
        "play",
        "Different actions from the same state and seed lead to the same observations, rewards and ends.",
        ("the environment ignores its action, or reads another agent's", "the action is overwritten by a wrapper",
         "the effect appears later than this rule looks"),
        (CHECK_ENV,),
    ),
    "mask-inverted": RuleText(
        "warning",
        "play",
        "From equal states and seeds, actions that the mask forbids earn clearly more than every action that it "
        "allows, in three of four states; or allowed actions have no effect, and forbidden ones have. Silent where an "
        "environment refuses forbidden actions or penalizes them.",
        ("the mask is inverted: True means that an action is allowed", "the mask is that of another step or agent"),
        ("return the mask with True or 1 for allowed actions", CHECK_ENV),
    ),
    "mask-changed": RuleText(
        "warning",
        "play",
        "A wrapper does not pass on the action mask of the level below it, inverts it, or passes on that of the step "
        "before.",
        ("a wrapper makes a new info, or keeps the last one", "a wrapper has the other meaning of True"),
        ("return the info of the level below, with its mask", CHECK_ENV),
    ),
    "actions-changed": RuleText(
        "warning",
        "play",
        "Actions that differ above a wrapper are equal below it: it ignores them, cuts off or rounds continuous ones, "
        "or makes two discrete ones the same; or they are those of the step before.",
        ("a wrapper scales the action twice, or clips it to limits that are too narrow",
         "a wrapper converts a continuous action to an integer", "a wrapper plays the action that it has kept"),
        ("pass on the action, scaled to the limits of the space", CHECK_ENV),
    ),
    "actions-alike": RuleText(
        "warning",
        "play",
        "Two discrete actions have the same effect from the same state and seed, in every state that was tried, "
        "although they change something. Actions that change nothing, and games with a fixed set of buttons, are left "
        "out: for images it is a note.",
        ("a table of moves has an entry twice, so that another move is missing",
         "the index of an action is off by one, clipped, or cut to fewer actions"),
        (CHECK_ENV,),
    ),
    "actions-weak": RuleText(
        "warning",
        "play",
        "The lowest and the highest continuous action differ from the middle one by less than 1 % of the usual "
        "spread of observations and rewards after a step, and by less than a fifth of it however long they are held.",
        ("the action is scaled twice, or in another unit: degrees and radians, percent and shares",
         "the limits of the action space are far too narrow", "the time step of the simulation is too short: repeat "
         "each action for several steps"),
        (CHECK_ENV,),
    ),
    "actions-wide": RuleText(
        "warning",
        "play",
        "A tenth of the range of the continuous actions has the same effect as the whole range, in both directions and "
        "from every state that was tried: nine tenths of the range are lost.",
        ("the limits of the action space are far wider than what the environment clips to",
         "only the sign of the action counts: then a discrete action space fits better"),
        (CHECK_ENV, "gymnasium.wrappers.RescaleAction, or limits of the space as they are used"),
    ),
    # --- values -------------------------------------------------------------------------------------------------------
    "critic-explains-nothing": RuleText(
        "warning",
        "rows",
        "The values explain no part of the variance of their targets over many updates, while the return does not "
        "improve and is not at its best. A solved task has such values too, because nothing is left to explain.",
        ("returns do not depend on the observations", "observations are not normalized",
         "the learning rate is too small or too large", "the task needs memory"),
        ("{at}.model.normalize_obs=true", "{at}.lr=3e-4", "{at}.model.memory.kind=lstm"),
    ),
    "reward-scale": RuleText(
        "warning",
        "rows",
        "Values are far from the range that the networks learn, and the return does not improve.",
        ("rewards are very large, or very small, and their scaling is off",
         "the range of a categorical value distribution does not contain the returns"),
        ("{at}.normalize_values=true", "{at}.values.kind=mean", "{at}.scale_rewards=true"),
    ),
    "q-diverging": RuleText(
        "error",
        "rows",
        "Action values grow beyond any return that the rewards allow.",
        ("the learning rate is too large", "the target network is copied too often",
         "gamma is 1 or nearly so, in episodes without end"),
        ("{at}.lr=1e-4", "{at}.target.every=1000", "{at}.gamma=0.99"),
    ),
    "gamma-zero": RuleText(
        "warning",
        "rows",
        "Rewards after the next few steps count for nothing, in episodes of many steps.",
        ("gamma is the discount of the future, not a learning rate",),
        ("{at}.gamma=0.99",),
    ),
    "horizon-beyond-gamma": RuleText(
        "warning",
        "rows",
        "Episodes are far longer than 1/(1 - gamma) steps, and the return does not improve: what happens at their end "
        "counts for nothing at their beginning.",
        ("gamma is too small for the length of the episodes", "the environment makes a decision too often"),
        ("{at}.gamma=0.999",),
    ),
    "gamma-short": RuleText(
        "warning",
        "play",
        "A constant action or random play earns clearly more than the policy, but its discounted return is lower: with "
        "this gamma the policy is right to do something else.",
        ("gamma is too small for the delay between an effort and its reward",),
        ("{at}.gamma=0.99",),
    ),
    "gamma-one": RuleText(
        "warning",
        "rows",
        "Nothing is discounted in long episodes, and the return does not improve: values are sums over all of the "
        "remaining steps, so their targets are large and noisy.",
        ("gamma is 1",),
        ("{at}.gamma=0.99",),
    ),
    "temperature-growing": RuleText(
        "warning",
        "rows",
        "The temperature of the entropy grows without end: the entropy that is aimed at cannot be reached, and drowns "
        "the rewards.",
        ("actions hardly change anything", "the target entropy is too high for this action space"),
        ("{at}.target_entropy=null", CHECK_ENV),
    ),
    "target-entropy-unreachable": RuleText(
        "warning",
        "rows",
        "The entropy that the temperature aims at is above, or nearly, the largest one that the actions can have: n "
        "ln 2 for n continuous actions on [-1, 1], ln A for A discrete ones. So the temperature rises without end, and "
        "the policy is paid for acting at random. During training it is found where the entropy has always been below "
        "`target_entropy` while the temperature has only risen.",
        ("the target entropy of continuous actions has lost its minus sign: minus one per action is usual",
         "the target entropy is that of another action space"),
        ("{at}.target_entropy=null",),
    ),
    # --- rewards ------------------------------------------------------------------------------------------------------
    "reward-constant": RuleText(
        "warning",
        "rows",
        "All episodes have the same return: no behaviour was better than another, so there is nothing to learn from. "
        "`rookery doctor RUN` leaves it out where random play or a constant action earns more than the policy.",
        ("the reward is a constant, or does not depend on the actions", "the goal was never reached by chance"),
        (CHECK_ENV, "'{at}.signals.rnd={}'", "--preset auto"),
    ),
    "reward-missing": RuleText(
        "warning",
        "rows",
        "No episode has had any reward.",
        (
            "the goal was never reached by chance",
            "the time limit is shorter than the way to the goal",
            "the environment returns the reward in another place, or as 0",
        ),
        (CHECK_ENV, "'{at}.signals.rnd={}'"),
    ),
    "limit-before-reward": RuleText(
        "warning",
        "play",
        "A time limit cuts off every episode before anything has been rewarded, and random play without it is "
        "rewarded, or ends, later than the limit. Other limits than gymnasium's TimeLimit cannot be left out: then "
        "it is a warning for episodes of up to 50 steps, and else a note.",
        ("the time limit is shorter than the way to the reward",),
        ("make the limit longer: env.config.max_episode_steps=1000, or that of the wrapper", CHECK_ENV),
    ),
    "rewards-swapped": RuleText(
        "error",
        "play",
        "From the same states and seeds, other actions of an agent change the rewards of others and never its own, "
        "and its own reward changes by the actions of others: this holds for two agents or more.",
        ("rewards are assigned to agents in another order than the agents are listed in",
         "agents are to work for each other: then give them a reward in common"),
        ("make the dict of rewards by the names of the agents", CHECK_ENV),
    ),
    "reward-unexplained-by-obs": RuleText(
        "warning",
        "play",
        "The reward of random play depends on something that is drawn for each episode and that the observation does "
        "not show: most of the variance of rewards lies between episodes, and regressions on observation and action "
        "do not explain it. Silent for policies with memory, for sparse rewards and for images.",
        ("a goal, a target or a parameter of the episode is missing in the observation",
         "the policy can find it out in the course of the episode: then it needs memory"),
        ("add it to the observation", "{at}.model.memory.kind=lstm"),
    ),
    "rewards-merged": RuleText(
        "warning",
        "play",
        "Wrappers pass on clearly different rewards of the environment as equal ones: their sign, a clipped value or a "
        "constant. It is a warning where two behaviours, such as the policy, random play and constant actions, have "
        "the opposite order by the return of the environment itself, or where all rewards become equal and no episode "
        "is terminated; else a note.",
        ("a wrapper takes the sign of rewards or clips them, so that small ones count as much as large ones",
         "a wrapper replaces the reward"),
        ("remove the wrapper", "{at}.normalize_values=true", "{at}.scale_rewards=true"),
    ),
    "rewards-lost": RuleText(
        "warning",
        "play",
        "The rewards that a wrapper returns are not the sums of those of the level below it, but for a constant "
        "factor: some are 0 above it, or only the last of several steps is returned, or they are a step late. A note "
        "where the sums of all episodes are equal.",
        ("a wrapper that repeats actions returns the last reward in place of the sum",
         "a wrapper drops rewards: those of the end, of the first step, or of a sign",
         "a wrapper returns the reward that it has kept from the step before"),
        ("total += reward for each step below, and return total", CHECK_ENV),
    ),
    "rewards-reordered": RuleText(
        "warning",
        "play",
        "Behaviours such as the policy, random play and constant actions have another order by the return that "
        "wrappers pass on than by that of the environment itself, and the intervals of these returns do not overlap.",
        ("a wrapper changes the reward so that another behaviour pays",
         "a bonus for progress is larger than the reward of the task"),
        ("remove the wrapper", "pay progress as a difference: gamma * potential(after) - potential(before)"),
    ),
    "waiting-pays": RuleText(
        "warning",
        "play",
        "Hardly any step costs anything while a behaviour waits, many pay, and episodes that end with a bonus earn "
        "less than those that last until their limit: to end costs return. A note where the policy ends its episodes "
        "all the same. Tasks whose ends have no bonus, such as a fall, are left out: there, to last is the task.",
        ("progress or closeness pays in every step, so that to wait in front of the goal pays more than the goal",
         "the bonus of the end is smaller than the rewards of the remaining steps"),
        ("pay progress as a difference: gamma * potential(after) - potential(before)",
         "pay more for success than all remaining steps together, or make each step cost a little"),
    ),
    "reward-late": RuleText(
        "warning",
        "play",
        "Long episodes have a reward in their last step only, and the policy is no better than random play.",
        ("the reward is given for the result alone",),
        ("{at}.gamma=0.999", "{at}.gae_lambda=0.98", "'{at}.signals.rnd={}'"),
    ),
    "reward-after-end": RuleText(
        "warning",
        "play",
        "The reward for the end comes a step too late, and so is never paid: the environment is stepped once more "
        "after it has terminated, and this step pays far more than all steps before it, in several episodes, and with "
        "each of several actions. Silent where an environment does not allow such a step, and for several agents.",
        ("the reward is computed from the state before the step", "a flag is set after the reward is computed"),
        ("compute the reward after the state has changed, in the step that returns terminated=True",),
    ),
    "return-falling": RuleText(
        "warning",
        "rows",
        "The return has fallen far below its best, or below its beginning, and stays there.",
        ("the learning rate is too large, or does not fall", "the replay buffer has lost the good episodes",
         "exploration ended too early"),
        ("{at}.lr={start: 3e-4, end: 0}", "{at}.replay.capacity=100000", "rookery evaluate RUN --checkpoint best"),
    ),
    "no-better-than-random": RuleText(
        "warning",
        "play",
        "The trained policy is no better than random play: the 95 % intervals of their returns overlap, or the gain is "
        "below a tenth of random play's mean return and below half of the range of its returns. A policy that plays "
        "several agents is named among the causes.",
        ("the training was too short", "the settings do not fit the environment",
         "the reward does not depend on the actions, or has the wrong sign"),
        ("--preset auto", "rookery resume RUN --stop env_steps=N", CHECK_ENV),
    ),
    "no-better-than-constant": RuleText(
        "warning",
        "play",
        "The best constant action, of each discrete one or of the middle and the ends of a box, earns as much as the "
        "trained policy, or more. A note where the policy is clearly better than random play or the return has risen, "
        "because the best behaviour may be a constant one; but a warning in any case where the constant action's lead "
        "over the policy is larger than the policy's lead over random play.",
        ("the observation lacks what the task needs", "the reward does not depend on the actions",
         "learning has stopped early, at the first reward that was found",
         "exploration ended early: epsilon falls within few steps, or the entropy has collapsed"),
        (CHECK_ENV, "rookery resume RUN --stop env_steps=N", "{at}.entropy_coef=0.01"),
    ),
    "return-without-success": RuleText(
        "warning",
        "play",
        "The policy earns far more than random play, but its episodes end with `is_success` or `success` in the last "
        "info no more often, and seldom: what is paid is not the task.",
        ("staying until the time limit earns more than success, which ends the episode",
         "steps cost, and an end without success costs less: the penalty or the reward of the end is missing",
         "a reward for progress can be earned again and again"),
        ("pay progress as a difference, so that it cannot be earned twice",
         "pay more for success than all steps together"),
    ),
    "worse-than-random": RuleText(
        "error",
        "play",
        "The trained policy is worse than random play, and their 95 % intervals do not overlap: the training has made "
        "it worse. A warning while there are few iterations, if the return of training rises, or if drawn actions of "
        "the policy are better than random play. Causes are those for which the run has evidence: drawn actions, the "
        "return of training, the learning rate and the divergence of updates.",
        ("the policy needs its random actions: most likely actions run in circles, and drawn ones earn more",
         "observations or rewards of evaluations differ from those of training, which earns more",
         "updates are too large: a large learning rate or KL divergence, or a return of training that has fallen",
         "training has never been better: the reward has the wrong sign, is paid late or in the next episode"),
        ("evaluation.deterministic=false", "rookery evaluate RUN --stochastic", "{at}.lr=1e-4", CHECK_ENV),
    ),
    "reward-cycle": RuleText(
        "warning",
        "play",
        "The policy goes back and forth between two observations and is paid for it, in at least half of its steps, "
        "until its episodes are cut off. A note where no behaviour has ended an episode with a bonus: the cycle may be "
        "the task. A reward that every step has, as for staying alive, does not count. For environments with one "
        "agent and observations that repeat.",
        ("progress is paid, and steps back cost nothing, so the same way is paid again and again",
         "an event is paid each time: a checkpoint, a coin or a button that can be used without end"),
        ("pay progress as a difference: gamma * potential(after) - potential(before)",
         "pay each event once in an episode, and show in the observation that it is used up", CHECK_ENV),
    ),
    "early-end-pays": RuleText(
        "warning",
        "play",
        "Nearly all steps cost a reward, and the policy earns more than random play by shorter episodes that it "
        "terminates: with a penalty, or without the bonus at the end that random play or a constant action reaches. "
        "Tasks whose steps cost until a goal is reached are left out: they have no better end.",
        ("all steps to the goal cost more than its reward",
         "an end without success, such as a fall, costs less than the steps that it saves"),
        ("make steps cheaper, or the reward of the goal larger than all steps to it",
         "make the penalty of an end without success larger than the cost of all remaining steps",
         "'{at}.signals.rnd={}'"),
    ),
    # --- episodes -----------------------------------------------------------------------------------------------------
    "episodes-shrink": RuleText(
        "warning",
        "rows",
        "Episodes have become very short, one or two steps, and the return has not improved.",
        ("a counter of steps, or another condition of the end, is not set back in reset",
         "the policy ends episodes to escape a negative reward"),
        (CHECK_ENV,),
    ),
    "episodes-short": RuleText(
        "warning",
        "rows",
        "Every episode is over after one to three decisions, and the return has hardly improved, or the time limit of "
        "the environment is far longer. Tasks of a single decision in which the policy learns are left out.",
        ("a wrapper repeats each action so often that the episode ends meanwhile",
         "step returns True for terminated or truncated at once", "the time limit is too short"),
        ("repeat actions less often", CHECK_ENV, "env.config.max_episode_steps=1000"),
    ),
    "state-survives-reset": RuleText(
        "warning",
        "play",
        "An environment that has played other episodes plays other steps than a new one, from the same seed and with "
        "the same actions, while new ones agree with each other: something of an earlier episode survives reset.",
        ("reset does not set back an attribute of the environment or of a wrapper",
         "the environment becomes harder by itself: then it is meant, and `doctor.ignore` leaves this out"),
        (CHECK_ENV,),
    ),
    "episodes-endless": RuleText(
        "warning",
        "rows",
        "No episode has ended, after thousands of steps of each environment.",
        ("the environment has no time limit", "its end is returned in another place"),
        ("env.config.max_episode_steps=1000", CHECK_ENV),
    ),
    "env-fails": RuleText(
        "error",
        "play",
        "The environment raised, or broke its contract, while it was played.",
        ("an error in the environment",),
        (CHECK_ENV, "env.on_error=restart"),
    ),
    "time-limit-as-termination": RuleText(
        "warning",
        "play",
        "All episodes end as terminated after exactly the same number of steps, from different states: the environment "
        "seems to return its time limit as a termination, so that values at the end count as 0.",
        ("step returns True in place of terminated when the time is up",),
        ("return terminated=False and truncated=True at the time limit", CHECK_ENV),
    ),
    "state-shared": RuleText(
        "error",
        "play",
        "Environments of one process change each other: one alone repeats its steps, and several at a time do not.",
        ("an array or another object of the class or module is changed in place", "a file that all of them write"),
        (CHECK_ENV, "make the object in __init__ or reset"),
    ),
    "steps-after-end": RuleText(
        "warning",
        "play",
        "A wrapper steps the environment below it again after that has reported `terminated` or `truncated`, without a "
        "reset: what follows belongs to no episode, and the end is lost or late.",
        ("a wrapper that repeats actions does not stop at the end of an episode",
         "reset of a wrapper does not reset the environment below it"),
        ("if terminated or truncated: break, in the loop over steps", CHECK_ENV),
    ),
    "ends-changed": RuleText(
        "warning",
        "play",
        "A wrapper hides ends of the level below it, or reports a termination as a truncation or the other way round. "
        "Ends that a wrapper adds, such as a time limit, are left out.",
        ("a wrapper returns the flags of another step, or constants",
         "a wrapper exchanges terminated and truncated, or joins them into one flag"),
        ("return terminated and truncated as the level below returns them", CHECK_ENV),
    ),
    "starts-alike": RuleText(
        "warning",
        "play",
        "Episodes with different seeds are all the same one, in which something shows that they were not meant to be: "
        "`reset` makes a generator from a constant, episodes without a seed differ, new environments differ, or an "
        "element of the observation that is no limit of its space has one value only. Silent for environments that "
        "always start in the same state and show none of it.",
        ("reset makes its random generator from a constant, or sets the seed of numpy or random to one",
         "what should be drawn in reset is drawn in __init__, or not at all"),
        ("super().reset(seed=seed) in reset, and draw from self.np_random", CHECK_ENV),
    ),
    "termination-as-truncation": RuleText(
        "warning",
        "play",
        "All episodes end as truncated, after very different lengths: ends that the policy causes seem to be returned "
        "as truncations, so that values after them still count.",
        ("step returns True in place of truncated when the episode is over",),
        ("return terminated=True where the episode is over by its own rules", CHECK_ENV),
    ),
    # --- observations -------------------------------------------------------------------------------------------------
    "obs-constant": RuleText(
        "error",
        "play",
        "Observations do not change.",
        ("reset and step return the same array, which is changed later, or never",
         "the observation lacks what the actions change"),
        (CHECK_ENV,),
    ),
    "obs-late": RuleText(
        "warning",
        "play",
        "The second observation of every episode repeats the first one, and later ones change: observations seem late "
        "by a step.",
        ("step returns the observation before the action", "a wrapper keeps the last observation"),
        (CHECK_ENV,),
    ),
    "obs-merged": RuleText(
        "warning",
        "play",
        "A wrapper loses what rewards or ends depend on: regressions explain them from the observations below it, and "
        "less than half as well from those above it; or each observation is scaled by itself, so that all have the "
        "same minimum and maximum, mean and deviation, length or sum. Policies with memory are left out, but for the "
        "scale.",
        ("a wrapper scales each observation by its own minimum, maximum, mean or length",
         "a wrapper rounds, clips or leaves out elements, or reads the wrong ones"),
        ("divide by the limits of the space, or by constants", "{at}.model.normalize_obs=true", CHECK_ENV),
    ),
    "obs-not-finite": RuleText(
        "error",
        "play",
        "Observations or rewards are not finite: NaN or infinite.",
        ("a division by zero", "a simulation that has diverged"),
        (CHECK_ENV,),
    ),
    "obs-out-of-space": RuleText(
        "warning",
        "play",
        "Observations are outside the limits of their space.",
        ("the limits of the space are wrong", "observations are not clipped"),
        (CHECK_ENV,),
    ),
    "obs-unnormalized": RuleText(
        "warning",
        "play",
        "Observations are far from 1, above 10 or below 0.01, and are not normalized.",
        ("normalization is switched off", "of images: they are returned as floats from 0 to 255"),
        ("{at}.model.normalize_obs=true",),
    ),
    "obs-clipped": RuleText(
        "warning",
        "play",
        "Most continuous elements of the observation often lie exactly at a limit of their space, which they reach by "
        "steps as large as others. Elements that jump there, as 0 for what is absent, are left out.",
        ("observations are clipped to limits that are too narrow, such as 0 to 1 for values that can be negative",
         "sensors end at a distance that is usually exceeded"),
        (CHECK_ENV,),
    ),
    "obs-rounded": RuleText(
        "warning",
        "play",
        "A vector of continuous values holds integers only, although limits of its space are fractions; or at least "
        "half of its elements have fractions in attributes of the environment, or in the observation below a "
        "wrapper, of which a few integers are left; or a space of integers has values with fractions. A note for a "
        "space without limits where actions are continuous; integer limits, as of grids, counts and one-hot vectors, "
        "are left out.",
        ("observations are written into an array of integers, as of np.zeros(n, dtype=int) or np.array([0, 0])",
         "the space of observations has a type of integers, as Box(0, 1, (2,), int), or a wrapper rounds"),
        ("np.zeros(n, dtype=np.float32)", CHECK_ENV),
    ),
    "obs-reordered": RuleText(
        "warning",
        "play",
        "Elements of the observation keep their range of values within an episode and have another one in the next: "
        "they seem to be listed in another order in each episode.",
        ("the order of the features, or of a set or dict that they are read from, is drawn in reset",
         "each episode shows equal objects in another order: then it is meant; sort them, or use model.entities"),
        (CHECK_ENV, "list the features in the same order in every episode"),
    ),
    "obs-duplicated": RuleText(
        "note",
        "play",
        "Parts of the observation are equal all the time. A warning for whole blocks, such as the frames of a stack.",
        ("the same quantity is observed twice",
         "a frame stack holds the same array several times: reset and step return one buffer, changed in place"),
        (CHECK_ENV,),
    ),
    "images-are-categories": RuleText(
        "warning",
        "play",
        "An image has a few small whole numbers only, which are read as brightness: they seem to be categories.",
        ("a grid world that numbers its objects",),
        ("{at}.model.categorical_images=null",),
    ),
    "not-deterministic": RuleText(
        "warning",
        "env",
        "Equal seeds and actions lead to different steps, so runs cannot repeat. In `rookery doctor RUN` it is a note: "
        "learning does not need it.",
        ("random numbers are not from self.np_random", "a reward or an end depends on the clock",
         "state of an earlier episode survives reset"),
        (CHECK_ENV,),
    ),
    "env-check": RuleText(
        "warning",
        "env",
        "The environment breaks the interface: a shape, a type, a missing value, an agent without a space.",
        ("the message has the place",),
        ("rookery envs check ENV",),
    ),
    # --- replay and exploration ---------------------------------------------------------------------------------------
    "replay-young": RuleText(
        "warning",
        "rows",
        "No gradient step has been made, after a large part of the run.",
        ("learning_starts is as large as the run",),
        ("{at}.learning_starts=1000", "rookery resume RUN --stop env_steps=N"),
    ),
    "replay-small": RuleText(
        "warning",
        "rows",
        "The replay buffer holds only the last moments of the run, and the return does not improve.",
        ("replay.capacity is too small",),
        ("{at}.replay.capacity=100000",),
    ),
    "epsilon-stuck": RuleText(
        "warning",
        "rows",
        "Random actions are still as frequent as at the start late in the run, or were never made.",
        ("the schedule of epsilon is longer than the run, or does not fall",),
        ("{at}.exploration.epsilon={start: 1.0, end: 0.05, steps: 10000}",),
    ),
    # --- evaluation ---------------------------------------------------------------------------------------------------
    "evaluation-below-training": RuleText(
        "warning",
        "rows",
        "Evaluations are far below training, again and again. `rookery doctor RUN` also plays drawn actions: it is a "
        "note where these earn as much as training, because then training works, and only the most likely actions of a "
        "policy that is still random are poor.",
        ("the policy needs its random actions: most likely actions run in circles",
         "the environment of the evaluation differs: another wrapper, normalizer or parameter"),
        ("rookery evaluate RUN --stochastic", "evaluation.deterministic=false", "{at}.entropy_coef=0.0"),
    ),
    "statistics-not-shared": RuleText(
        "warning",
        "play",
        "A wrapper normalizes observations or rewards by running statistics of its own, such as gymnasium's "
        "NormalizeObservation and NormalizeReward: each environment has others, those of evaluations begin anew, and "
        "checkpoints have none. A note where the policy plays well in new environments.",
        ("the statistics belong to the environment, and not to the policy",),
        ("{at}.model.normalize_obs=true", "{at}.normalize_values=true", "{at}.scale_rewards=true"),
    ),
    "evaluation-above-training": RuleText(
        "note",
        "rows",
        "Evaluations are better than the best episodes of training, again and again.",
        ("exploration is so strong that training hardly shows what was learned",),
        ("{at}.exploration.epsilon={start: 1.0, end: 0.05, steps: 10000}", "{at}.entropy_coef=0.0"),
    ),
    "seeds-disagree": RuleText(
        "warning",
        "files",
        "Runs that differ only in their seed have very different returns.",
        ("the training is unstable: chance decides",),
        ("{at}.lr=1e-4", "sampling.num_envs=16", "rookery tune ENV tune.repeats=5"),
    ),
    # --- agents -------------------------------------------------------------------------------------------------------
    "policy-unmapped": RuleText(
        "warning",
        "rows",
        "A policy has never made a decision: no agent is mapped to it.",
        ("policy_mapping does not name it, or names agents that the environment does not have",),
        ("policy_mapping={agent: policy}",),
    ),
    "policy-shared": RuleText(
        "warning",
        "play",
        "One policy plays agents whose rewards have opposite signs for the same observation and action: what one of "
        "them learns, the other one unlearns.",
        ("agents with different tasks share a policy", "the observation does not show which agent it is of"),
        ("policy_mapping={agent: policy}", "add the agent's role to its observation"),
    ),
    "agent-idle": RuleText(
        "warning",
        "play",
        "An agent has never acted.",
        ("step does not return an observation for it", "its name differs from that in possible_agents"),
        (CHECK_ENV,),
    ),
    # --- settings -----------------------------------------------------------------------------------------------------
    "few-updates": RuleText(
        "warning",
        "rows",
        "The budget of the run is enough for a few updates of the policy only: fewer than ten, or a hundred gradient "
        "steps on replayed experience. Runs of fewer than 10,000 env steps are left out.",
        ("fragment_length times sampling.num_envs is nearly as large as the budget", "train_every is very large, or "
         "updates_per_step very small"),
        ("{at}.fragment_length=128", "{at}.train_every=64", "rookery resume RUN --stop env_steps=N"),
    ),
    "setting-out-of-range": RuleText(
        "warning",
        "rows",
        "A setting has a value at which these algorithms hardly learn, and the return does not improve: the decay of "
        "advantages, the weight of the critic or of the entropy, the limit of gradients, the clip range, the size of "
        "minibatches or of layers.",
        ("a typing error in the setting", "a value from a system in which the setting has another meaning"),
        ("{at}.gae_lambda=0.95", "{at}.value_coef=0.5", "{at}.entropy_coef=0.01"),
    ),
    "target-stays": RuleText(
        "warning",
        "rows",
        "The target network is as at the start, late in the run: action values do not reach further than a step.",
        ("target.every is larger than the number of gradient steps", "tau is nearly 0"),
        ("{at}.target.every=250", "{at}.tau=0.005"),
    ),
    "minibatch-misfit": RuleText(
        "warning",
        "rows",
        "A minibatch is larger than the whole batch, so an epoch is a single gradient step on fewer decisions.",
        ("minibatch_size is larger than sampling.num_envs times fragment_length",),
        ("{at}.minibatch_size=128", "{at}.fragment_length=128"),
    ),
    "schedule-short": RuleText(
        "warning",
        "rows",
        "A setting with a schedule reaches its end long before the run does: a learning rate or a clip range near 0 "
        "for a fifth of the run or more, or another setting, such as epsilon, within a hundredth of the run or before "
        "the first update. `steps` are env steps, or decisions of the policy with `by: decisions`.",
        ("steps of the schedule are given in updates, iterations or episodes, and not in env steps",
         "the schedule is that of a shorter run"),
        ("leave out steps: then the schedule lasts as long as the run",),
    ),
    "lr-exhausted": RuleText(
        "warning",
        "rows",
        "The learning rate has reached 0, and the run continues without learning.",
        ("the schedule is shorter than the run",),
        ("rookery resume RUN --stop env_steps=N", "{at}.lr=3e-4"),
    ),
    "lr-out-of-range": RuleText(
        "warning",
        "rows",
        "The learning rate is far outside the range in which these algorithms learn, and the return does not improve.",
        ("a typing error in the setting",),
        ("{at}.lr=3e-4",),
    ),
    # --- files and machine --------------------------------------------------------------------------------------------
    "env-slow": RuleText(
        "note",
        "files",
        "Most of the time is spent in the environment, while other cores of the machine are idle.",
        ("environments are stepped in one process",),
        ("sampling.env_processes=null", "rookery bench ENV"),
    ),
    "disk-full": RuleText(
        "warning",
        "files",
        "The disk of the run is nearly full.",
        ("checkpoints with replay buffers", "other files"),
        ("checkpoint.keep_last=1", "{at}.replay.save=false"),
    ),
    "checkpoint-old": RuleText(
        "note",
        "files",
        "The newest checkpoint is much older than the last row: a stop now would lose that work.",
        ("checkpoint.every is large", "writing checkpoints fails"),
        ("checkpoint.every_seconds=300",),
    ),
    "kernels-missing": RuleText(
        "warning",
        "machine",
        "Small networks run in PyTorch, or on slower kernels than this machine could use.",
        ("the package was built without a C++ compiler", "its files are damaged, or of another version"),
        ("python setup.py build_ext --inplace",),
    ),
    "gpu-unused": RuleText(
        "note",
        "machine",
        "The machine has a GPU, and the installed PyTorch cannot use it. Small networks are faster on the CPU anyway.",
        ("this build of PyTorch is for the CPU", "the driver is older than the build needs"),
        ("pip install --force-reinstall torch",),
    ),
    "cores-limited": RuleText(
        "note",
        "machine",
        "The container may use fewer cores than it shows.",
        ("a quota of the container",),
        ("sampling.env_processes=null",),
    ),
    "cores-busy": RuleText(
        "note",
        "machine",
        "Other programs use the cores: trainings and measurements of speed are slower than usual.",
        ("another training", "processes of a training that has ended"),
        ("top",),
    ),
}  # fmt: skip
"""All rules, in the order in which findings of equal severity are shown."""


SYMPTOMS = frozenset(
    ("worse-than-random", "no-better-than-random", "no-better-than-constant", "return-falling", "q-diverging",
     "critic-explains-nothing", "gradient-clipped", "kl-out-of-range", "clip-fraction-out-of-range", "dead-units",
     "entropy-collapsed", "entropy-stuck", "action-constant", "actions-saturated", "temperature-growing")
)  # fmt: skip
"""Rules whose findings often follow from another finding; they are shown after it."""

EXPLAINING = frozenset(("limit-before-reward", "gamma-short", "rewards-swapped", "network-blind",
                        "statistics-not-shared", "target-entropy-unreachable", "mask-inverted",
                        "rewards-merged", "rewards-lost", "steps-after-end", "ends-changed", "obs-merged",
                        "mask-changed", "actions-changed", "starts-alike", "schedule-short", "loss-mixes-rows",
                        "loss-ignores-column", "values-bounded", "reward-after-end", "obs-rounded",
                        "waiting-pays"))  # fmt: skip
"""Rules that try out a fault, so that their findings explain others of equal rank."""


def causes_first(findings: Iterable[Finding]) -> list[Finding]:
    """Returns findings in the order in which to look at them: notes last, symptoms after causes, errors first."""
    return sorted(
        findings,
        key=lambda one: (
            not one.counts,
            one.rule in SYMPTOMS,
            one.rule not in EXPLAINING,
            ORDER.index(one.severity),
        ),
    )


def finding(
    rule: str,
    message: str,
    *evidence: str,
    subject: str = "",
    policy: str = "",
    severity: Severity | None = None,
    iterations: tuple[int, int] | None = None,
    curve: Sequence[float] = (),
    causes: Sequence[str] | None = None,
    remedies: Sequence[str] | None = None,
    column: str = "",
) -> Finding:
    """Returns a finding of a rule, with the causes and remedies of the table.

    Args:
        rule: Name of the rule.
        message: The finding in one sentence.
        evidence: Measured facts.
        subject: Agent or part of an observation; the policy by default.
        policy: The policy whose settings are the remedy.
        severity: Severity; None = that of the table.
        iterations: First and last iteration of the evidence.
        curve: Values over these iterations.
        causes: Likely causes; None = those of the table.
        remedies: What to try; None = that of the table.
        column: Column of the policy that is unusual.
    """
    text = RULES[rule]
    at = f"policies.{policy}" if policy not in ("", MAIN) else "algorithm"
    tried = tuple(one.replace("{at}", at) for one in (text.remedies if remedies is None else remedies))
    return Finding(rule, severity or text.severity, subject or policy, message, evidence, iterations, tuple(curve),
                   tuple(text.causes if causes is None else causes), tried, page_of(rule), column)  # fmt: skip


def page_of(rule: str) -> str:
    """Returns the page of a rule in the documentation."""
    return f"docs/troubleshooting/{rule}.md"
