"""A way for tests to come in between the vector steps of a worker."""

from rookery.rollout.loops.helper_process import fast_loop_of


def after_each_step(worker, function):
    """Calls `function` with the worker after each of its vector steps."""
    play = worker.python_loop.play

    def stepped(state, most):
        play(state, most)
        function(worker)
        return True

    worker.python_loop.play = stepped
    worker.fast_loop = None  # which makes many steps in a call


def as_ever(worker):
    """Removes the call between the vector steps of a worker."""
    vars(worker.python_loop).pop("play")
    worker.fast_loop = fast_loop_of(worker.env)
