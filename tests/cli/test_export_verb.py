"""rookery export writes what equals the policies of a run; rookery check-onnx says what a file is."""

import numpy as np
import onnxruntime

from rookery import load_policy


def test_export_writes_each_policy_of_a_run_and_check_onnx_accepts_it(rookery, runs):
    code, out, err = rookery("export", "arena", "--unity")
    assert (code, err) == (0, "")
    files = [runs / "arena" / f"{name}.onnx" for name in ("pol1", "pol2")]
    for line, file in zip(out.splitlines(), files, strict=True):
        assert line.startswith(f"runs/arena/{file.name}: policy {file.stem}, opset 9, ")
        assert "on 64 observations of the run" in line
        code, table, _ = rookery("check-onnx", file)
        assert code == 0
        assert "no problems" in table
        assert "for Unity, model version 3" in table


def test_what_is_exported_for_anybody_acts_as_the_policy_does(rookery, runs):
    code, out, _ = rookery("export", "cart", "--onnx", "--out", "here/mine.onnx", "--opset", 12)
    assert code == 0, out
    policy = load_policy(runs / "cart")
    seen = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession("here/mine.onnx", providers=["CPUExecutionProvider"])
    (action,) = session.run(["action"], {"obs": seen})
    assert (action == policy.predict(seen)).all()


def test_a_run_without_checkpoints_has_nothing_to_export(rookery, runs):
    for checkpoint in (runs / "cart" / "checkpoints").iterdir():
        checkpoint.rename(runs / checkpoint.name)
    code, _, err = rookery("export", "cart", "--unity")
    assert code == 2
    assert "has no checkpoint yet" in err


def test_where_the_environment_is_gone_random_observations_do(rookery, runs, monkeypatch):
    from rookery.core.errors import EnvError
    from rookery.run.evaluate import observed

    def gone(*args):
        raise EnvError("no player listens on port 5004")

    monkeypatch.setattr(observed, "played_observations", gone)
    code, out, err = rookery("export", "cart", "--unity")
    assert code == 0
    assert "on 64 random observations" in out
    assert "no player listens on port 5004" in err


def test_check_onnx_says_what_is_wrong_and_ends_with_1(rookery, runs):
    code, out, _ = rookery("check-onnx", "runs/cart/config.yaml")
    assert code == 1
    assert "problem: It is not an ONNX file" in out
    assert "1 problem\n" in out
