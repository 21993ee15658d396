"""What the Python kernel shows: one image or one text each, and nothing that does not decode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.python_kernel import PythonKernel, python_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonKernel]:
    with python_kernel(tmp_path_factory.mktemp("k")) as kernel:
        kernel.run(
            "import base64, io\nfrom pathlib import Path\nfrom PIL import Image\nim = Image.new('RGB', (64, 32))"
        )
        yield kernel


def encoded(form: str) -> str:
    return f"b = io.BytesIO(); im.save(b, format='{form}'); data = b.getvalue()\n"


def test_a_pil_image_is_one_png(kernel):
    assert kernel.run("display(im)").outputs == [("image/png", (64, 32))]
    assert kernel.run("im").outputs == [("image/png", (64, 32))]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "F", "HSV"])
def test_images_of_any_mode_can_be_shown(kernel, mode):
    code = "Image.new('RGBA', (3, 2)).convert('P')" if mode == "P" else f"Image.new('{mode}', (3, 2))"
    assert kernel.run(f"display({code})").outputs == [("image/png", (3, 2))]


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WebP"])
def test_encoded_bytes_are_passed_on_as_they_are(kernel, form):
    told = kernel.run(encoded(form) + "display(data)")
    assert told.outputs == [(f"image/{form.lower()}", (64, 32))]


def test_paths_base64_and_data_urls_are_images(kernel):
    kernel.run("im.save('a.png'); text = base64.b64encode(Path('a.png').read_bytes()).decode()")
    told = kernel.run(
        "display('a.png'); display(Path('a.png')); display(text); display('data:image/png;base64,' + text)"
    )
    assert told.outputs == [("image/png", (64, 32))] * 4


def test_several_values_are_several_outputs(kernel):
    assert kernel.run("display(im, 'text', [1, 2])").outputs == [
        ("image/png", (64, 32)),
        ("display", "'text'"),
        ("display", "[1, 2]"),
    ]


def test_bytes_that_claim_to_be_an_image_and_are_not_are_an_error(kernel):
    told = kernel.run(encoded("PNG") + "display(data[:60])")
    assert told.status == "error"
    assert "do not decode as an image" in told.outputs[0][1]
    assert kernel.run("display('nothing.png'); display(b'abc')").outputs == [
        ("display", "'nothing.png'"),
        ("display", "b'abc'"),
    ]


def test_an_image_repr_that_is_none_falls_back_to_text(kernel):
    told = kernel.run("class B:\n    def _repr_png_(self): return 'notbytes'\n    def __repr__(self): return 'B!'\nB()")
    assert told.outputs[0][0] == "result"
    assert told.outputs[0][1].startswith("B!\n[its image could not be shown")


def test_an_image_repr_is_an_image(kernel):
    told = kernel.run(encoded("PNG") + "class B:\n    def _repr_png_(self): return data\nB()")
    assert told.outputs == [("image/png", (64, 32))]


def test_ipythons_own_display_ends_in_one_form_as_well(kernel):
    told = kernel.run(
        "from IPython.display import display as show, HTML, clear_output\nshow(im); show(HTML('<b>x</b>')); show(5)"
    )
    assert told.outputs == [("image/png", (64, 32)), ("display", "<b>x</b>"), ("display", "5")]


def test_updates_and_clearing_are_passed_on(kernel):
    told = kernel.run("h = show(1, display_id='i'); h.update(2); clear_output(wait=True)")
    assert [message["msg_type"] for message in told.messages] == ["display_data", "update_display_data", "clear_output"]
    assert [message["content"].get("transient") for message in told.messages][:2] == [{"display_id": "i"}] * 2


def test_long_values_are_shown_shortened(kernel):
    text = kernel.run("list(range(100_000))").outputs[0][1]
    assert len(text) < 20_000
    assert text.endswith("...]")


def test_showing_a_screen_takes_one_encoding(kernel):
    told = kernel.run(
        "import os, time\nscreen = Image.frombytes('RGB', (1440, 900), os.urandom(36) * (1440 * 900 // 12))\n"
        "display(screen)"
    )
    assert told.outputs == [("image/png", (1440, 900))]
