"""`rookery rllib run script.py`: as `python script.py`, with the old names."""

import json
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from rookery.cli.main import app
from rookery.core.errors import ConfigError
from rookery.script.runner import run_script
from rookery_rllib.script.run_script import run
from selection import slow


def write(folder, text: str, name: str = "script.py"):
    (folder / name).write_text(text)
    return folder / name


def ran(path, *arguments: str, verb=("rookery", "rllib")):
    program = [sys.executable, "-m", *verb, "run", str(path), *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_a_script_finds_itself_as_python_runs_it(tmp_path):
    (tmp_path / "beside.py").write_text("from gym.spaces import Discrete\n")
    script = write(
        tmp_path,
        "import sys, os, __main__, beside\n"
        "assert __name__ == '__main__' and __main__.__file__ == __file__ == os.path.abspath(sys.argv[0])\n"
        "assert sys.path[0] == os.path.dirname(os.path.realpath(__file__))\n"
        "print(sys.argv[1:], beside.Discrete(2), __doc__)\n"
        "class C: pass\n"
        "import pickle\n"
        "assert type(pickle.loads(pickle.dumps(C()))) is C and sys.modules['__main__'].C is C\n"
        "raise SystemExit(7)\n",
    )
    before = list(sys.path), sys.argv, sys.modules["__main__"]
    done = ran(script, "--stop-iters", "3", "--", "-x")
    assert (done.stdout, done.returncode) == ("['--stop-iters', '3', '--', '-x'] Discrete(2) None\n", 7), done.stderr
    assert ran(script, "--", "--as-test").stdout.startswith("['--as-test']")
    assert ran(script, "--", "-y", verb=("rookery_rllib",)).stdout.startswith("['-y']")
    assert (list(sys.path), sys.argv, sys.modules["__main__"]) == before


@pytest.mark.parametrize(
    ("text", "code", "err"),
    [
        ("", 0, ""),
        ("import sys; sys.exit('that went wrong')", 1, "that went wrong\n"),
        slow("import sys; sys.exit(0)", 0, ""),
        ("import atexit; atexit.register(print, 'bye')", 0, ""),
    ],
)
def test_exit_codes_are_the_scripts(tmp_path, text, code, err):
    done = ran(write(tmp_path, text))
    assert (done.returncode, done.stderr) == (code, err)


def test_a_traceback_begins_with_the_scripts_own_lines(tmp_path, capsys):
    script = write(tmp_path, "def f():\n    return 1 / 0\n\nf()\n")
    assert run(script) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback") and "script.py" in lines[1] and "line 4" in lines[1]
    assert "line 2" in "".join(lines) and lines[-1] == "ZeroDivisionError: division by zero"


def test_what_rookery_refuses_is_said_with_the_scripts_line(tmp_path, capsys):
    script = write(
        tmp_path, "from rookery.core.errors import refuse\ndef ask():\n    refuse(['lr: no', 'gamma: no'])\nask()\n"
    )
    assert run(script) == 2
    err = capsys.readouterr().err
    assert 'script.py", line 4' in err and err.endswith("error: lr: no\nerror: gamma: no\n")
    assert "errors.py" not in err


def test_what_is_not_python_is_refused(tmp_path, capsys):
    assert run(write(tmp_path, "print('a'\n")) == 1
    err = capsys.readouterr().err
    assert "SyntaxError" in err and "line 1" in err and "rookery" not in err
    with pytest.raises(ConfigError, match="there is no script"):
        run_script(tmp_path / "none.py")
    with pytest.raises(ConfigError, match="is a directory"):
        run_script(tmp_path)
    (tmp_path / "picture.py").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(ConfigError, match="not a Python file"):
        run_script(tmp_path / "picture.py")


def test_a_name_that_is_gone_is_said_at_the_scripts_line(tmp_path, capsys):
    assert run(write(tmp_path, "\nimport gym.vector\n")) == 1
    err = capsys.readouterr().err
    assert 'script.py", line 2' in err and "gym.vector is not supported" in err and len(err.splitlines()) <= 4


def test_ctrl_c_ends_a_script_with_its_traceback(tmp_path):
    script = write(tmp_path, "import time\nprint('here', flush=True)\ntime.sleep(30)\n")
    program = [sys.executable, "-m", "rookery", "rllib", "run", str(script)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "here\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=10)[1]
    assert process.returncode == 130
    assert "line 3" in err and err.rstrip().endswith("KeyboardInterrupt") and "rookery" not in err


def test_a_notebook_runs_cell_by_cell(tmp_path, capsys):
    cells = [
        {"cell_type": "markdown", "source": ["not code"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import gym\n", "x = 2"]},
        {"cell_type": "code", "source": "!pip install x\nprint(x, gym.spaces.Discrete(x))\n"},
        {"cell_type": "code", "source": ["%%bash\n", "no python"]},
        {"cell_type": "code", "source": ["print(y)"]},
    ]
    notebook = write(tmp_path, json.dumps({"cells": cells}), "book.ipynb")
    assert run(notebook) == 1
    told = capsys.readouterr()
    assert told.out == "2 Discrete(2)\n" and "code cell 4]" in told.err and "print(y)" in told.err
    assert run(write(tmp_path, "{}", "no.ipynb")) == 2


def test_help_names_the_verb():
    assert "rllib" in CliRunner().invoke(app, ["--help"]).output
    assert "SCRIPT" in CliRunner().invoke(app, ["rllib", "run", "--help"]).output
    done = subprocess.run(
        [sys.executable, "-m", "rookery_rllib", "rollout"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "rookery rllib rollout" in done.stderr
