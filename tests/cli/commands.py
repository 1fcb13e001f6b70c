"""Shared parts of commands of the tests."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from rookery.cli.main import main

TINY = ["algorithm.fragment_length=8", "algorithm.epochs=1", "sampling.num_envs=2", "--preset", "none"]


def train_into(folder, *runs):
    """Makes runs in a folder that tests of a whole session share, one for each list of words; gives the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        for words in runs:
            patch.setattr(sys, "argv", ["rookery", "train", *words, "--quiet", "--run-dir", str(folder)])
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code
    return folder


def command(folder, *words):
    """Runs a command in a folder; gives its exit code, stdout and stderr."""
    out, error = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(sys, "argv", ["rookery", *words])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    return code, out.getvalue(), error.getvalue()
