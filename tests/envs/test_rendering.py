"""Images of environments, in any form, and environments that cannot draw."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv
from PIL import Image

from rookery import Trainer
from rookery.core.errors import EnvError
from rookery.envs.adapters.lane import Breach
from rookery.envs.make import make_env
from rookery.envs.vector.rendering import as_image, drawn
from small_envs import Bad, drawn_as

RED, GREY, DARK, LIGHT = [255, 0, 0], [128, 128, 128], [0, 0, 0], [255, 255, 255]

FORMS = {
    "plain": (RED, GREY),
    "floats to 1": (RED, GREY),
    "floats to 255": (RED, GREY),
    "int64": (RED, GREY),
    "rgba": (RED, GREY),
    "grey": (LIGHT, GREY),
    "grey of one channel": (LIGHT, GREY),
    "flags": (LIGHT, DARK),
    "channels first": (RED, GREY),
    "float channels first": (RED, GREY),
    "list": (RED, GREY),
}
"""Colours above and below by the form in which they are drawn."""

DRAWN = pytest.mark.regression("wrong result", "Images of floats, RGBA, grey or channels first become a right video")
REFUSED = pytest.mark.regression("unclear error", "What render() gives and is no image is named by its type and shape")
RAISES = pytest.mark.regression("unclear error", "A render() that raises is one line beneath its own traceback")


@DRAWN
@pytest.mark.parametrize("form", FORMS)
def test_images_of_every_clear_form_are_converted(form):
    env = make_env(Bad, {"what": form}, (), 1, "serial", render=True)
    image = env.render(0)
    assert image.dtype == np.uint8 and image.shape == (8, 8, 3)
    assert (image[1, 1].tolist(), image[6, 6].tolist()) == FORMS[form]


@DRAWN
def test_a_video_shows_floats_in_their_colours(tmp_path):
    with Trainer(Bad, "ppo", num_envs=1, config={"env.config.what": "floats to 1"}) as trainer:
        trainer.record(tmp_path / "bad.png")
    with Image.open(tmp_path / "bad.png") as video:
        image = np.asarray(video.convert("RGB"))
    assert (image[1, 1].tolist(), image[6, 6].tolist()) == (RED, GREY)


class Floats(SyncVectorEnv):
    """Copies that draw floats, stepped together."""

    def __init__(self, num_envs, render_mode=None):
        super().__init__([lambda: Bad("floats to 1", render_mode)] * num_envs)


@DRAWN
def test_floats_of_vector_environments_and_of_own_classes_are_converted(monkeypatch):
    theirs = make_env(Floats, {}, (), 2, "auto", render=True)
    assert theirs.render(1)[1, 1].tolist() == drawn(theirs, 1)[1, 1].tolist() == RED
    monkeypatch.setattr(type(theirs), "render", lambda self, lane: drawn_as("float channels first"))
    assert drawn(theirs, 1)[1, 1].tolist() == RED
    monkeypatch.setattr(type(theirs), "render", lambda self, lane: 1 / 0)
    with pytest.raises(EnvError, match=r"environment 1: render\(\) raised ZeroDivisionError"):
        drawn(theirs, 1)


@REFUSED
@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("a text", r"render\(\) returned str, expected an image \[height, width, 3\]"),
        ("two channels", r"render\(\) returned ndarray of shape \(8, 8, 2\), expected"),
        ("below 0", r"returned ndarray of shape \(8, 8, 3\) of float64 from -1.0 to 0.0, expected"),
        ("beyond 255", r"returned ndarray of shape \(8, 8, 3\) of int64 from 0 to 510, expected"),
        ("not a number", r"returned ndarray of shape \(8, 8, 3\) of float64 from nan to nan, expected"),
        ("an empty list", r"returned a list of 0, expected"),
    ],
)
def test_what_is_no_image_is_refused_by_its_form(form, told):
    with (
        Trainer(Bad, "ppo", num_envs=1, config={"env.config.what": form}) as trainer,
        pytest.raises(EnvError, match=told),
    ):
        trainer.record("never.png")
    with pytest.raises(Breach):
        as_image({"not": "an image"})


@RAISES
def test_an_error_while_drawing_is_told_with_its_cause():
    with Trainer(Bad, "ppo", num_envs=1, config={"env.config.what": "raises"}) as trainer:
        with pytest.raises(
            EnvError, match=r"Bad: environment 0, .*: render\(\) raised ZeroDivisionError: nothing to"
        ) as caught:
            trainer.record("never.png")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert caught.value.__cause__.__traceback__.tb_frame.f_code.co_name == "render"


@DRAWN
@pytest.mark.parametrize("mode", ["P", "CMYK", "RGBA", "L", "1"])
def test_images_of_pillow_are_drawn_in_their_colours(mode):
    image = Image.new("RGB", (8, 8), (255, 255, 255))
    image.paste((0, 0, 0), (0, 4, 8, 8))
    shown = as_image(image.convert(mode))
    assert (shown[1, 1].tolist(), shown[6, 6].tolist()) == (LIGHT, DARK)


@REFUSED
@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (np.full((8, 8, 3), 1.4), r"of float64 from 1\.4 to 1\.4"),  # too bright, or almost black
        (np.zeros((0, 0, 3), np.uint8), r"shape \(0, 0, 3\)"),
        (
            torch.zeros(8, 8, 3, requires_grad=True),
            r"Tensor of shape \(8, 8, 3\), whose numbers cannot be read: .*grad",
        ),
    ],
)
def test_images_of_an_unclear_form_are_refused(shown, said):
    with pytest.raises(Breach, match=said):
        as_image(shown)
