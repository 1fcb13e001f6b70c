"""A way for tests to come in between the vector steps of a worker."""

from rookery.rollout.loops.helper_process import fragment_player


def after_each_step(worker, function):
    """Lets `function` be called with the worker after each of its vector steps."""
    step = worker._vector_step

    def stepped():
        step()
        function(worker)

    worker._vector_step = stepped
    worker.fragments = None  # which makes many steps in a call


def as_ever(worker):
    """Lets nothing come in between the vector steps of a worker any more."""
    vars(worker).pop("_vector_step")
    worker.fragments = fragment_player(worker.env)
