"""Outputs of a hundred megabytes: what is kept of them, and what is said of the rest."""

import base64
import io

import pytest
from PIL import Image as Pillow
from tests.unit.kernel.test_outputs import Gathered, logged, shown, wrote

from cellwright_kernel.ceilings import CELL_BYTES
from cellwright_kernel.wire import Image, Text

pytestmark = pytest.mark.slow


def test_late_output_is_counted_whole_where_it_is_not_kept():
    gathered = Gathered()
    for _ in range(3):
        gathered.outputs.add(wrote("y" * 34_000_000), of_cell=1)
        gathered.outputs.add(logged("own"))
    assert gathered.texts()[-1] == (
        "[2 outputs with 68,000,002 characters that came late from earlier cells are left out here.]"
    )


def test_pictures_beyond_sixteen_mebibytes_lose_their_middle():
    gathered = Gathered()
    noise = io.BytesIO()
    Pillow.effect_noise((1000, 1000), 90).save(noise, "PNG", compress_level=1)
    encoded = base64.b64encode(noise.getvalue()).decode()
    found = gathered.of(*(shown({"image/png": encoded}) for _ in range(40)))
    images = [o for o in found if isinstance(o, Image)]
    assert sum(4 * len(image.data) // 3 for image in images) < CELL_BYTES
    assert len(images) > 8
    (left_out,) = [o.text for o in found if isinstance(o, Text)]
    assert f"{40 - len(images)} images among them" in left_out
