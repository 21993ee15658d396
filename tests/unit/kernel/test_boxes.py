"""What boxes have in common, and what holds them."""

from cellwright_kernel.boxes import around, grown, overlap


def test_boxes_overlap_in_a_box_or_not_at_all():
    assert overlap((0, 0, 10, 10), (5, 6, 10, 10)) == (5, 6, 5, 4)
    assert overlap((0, 0, 10, 10), (10, 0, 5, 5)) is None
    assert overlap(None, (0, 0, 1, 1)) is None


def test_one_box_holds_many():
    assert around([(5, 6, 10, 10), (0, 8, 1, 1), (7, 0, 2, 20)]) == (0, 0, 15, 20)
    assert around([(3, 4, 5, 6)]) == (3, 4, 5, 6)


def test_a_box_grows_on_each_side():
    assert grown((10, 20, 5, 6), 3) == (7, 17, 11, 12)
