"""Calls in several threads at once, of which a failed one ends the test though another still waits for it."""

import queue
import threading


def in_threads(call, number):
    """Returns ``[call(0), ..., call(number - 1)]``, each called in a thread of its own.

    The first error is raised as soon as it occurs. Threads that still wait are left to themselves: a thread pool would
    wait for them, beyond the timeout of the test and the end of the program.
    """
    answers: queue.SimpleQueue = queue.SimpleQueue()

    def answer(index):
        try:
            answers.put((index, call(index), None))
        except BaseException as error:
            answers.put((index, None, error))

    for index in range(number):
        threading.Thread(target=answer, args=(index,), daemon=True).start()
    found = {}
    while len(found) < number:
        index, value, error = answers.get()
        if error is not None:
            raise error
        found[index] = value
    return [found[index] for index in range(number)]
