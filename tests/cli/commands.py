"""What commands of the tests have in common."""

import sys

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
