"""A way for tests to come in between the vector steps of a worker."""


def after_each_step(worker, function):
    """Lets `function` be called with the worker after each of its vector steps."""
    step = worker._vector_step

    def stepped():
        step()
        function(worker)

    worker._vector_step = stepped
    worker.fragments = None  # which makes many steps in a call
