from cellwright_kernel.ceilings import ITEM_CHARS, Allowance, LongText


def long_text(*pieces, allowance=None):
    text = LongText(allowance or Allowance())
    for piece in pieces:
        text.write(piece)
    return text


def cut(text):
    return long_text(text).shown()


def test_a_text_at_the_ceiling_is_whole():
    assert cut("x" * ITEM_CHARS) == ("x" * ITEM_CHARS, 0)


def test_one_character_more_is_cut_in_the_middle_and_fits():
    shown, missing = cut("a" * 6000 + "b" + "c" * 6000)
    assert len(shown) <= ITEM_CHARS
    assert shown.startswith("aaa")
    assert shown.endswith("ccc")
    assert f"{missing:,} of 12,001 characters are left out here" in shown


def test_what_is_missing_is_counted_exactly():
    text = "".join(f"line {number}\n" for number in range(5000))
    shown, missing = cut(text)
    head, _, rest = shown.partition("\n[... ")
    tail = rest.partition("...]\n")[2]
    assert len(head) + 1 + missing + len(tail) == len(text)


def test_a_cut_is_made_on_the_borders_of_lines():
    shown, _ = cut("".join(f"line {number:05}\n" for number in range(5000)))
    lines = shown.splitlines()
    marks = [line for line in lines if line.startswith("[...")]
    assert len(marks) == 1
    assert all(len(line) == 10 for line in lines if line not in marks)


def test_a_line_without_borders_is_cut_at_characters():
    shown, missing = cut("x" * 100_000)
    assert len(shown) > ITEM_CHARS - 500
    assert missing == 100_000 - shown.count("x") + shown.count("x", shown.index("[..."), shown.index("...]"))


def test_grown_in_pieces_is_cut_as_in_one():
    text = "".join(f"{number} é\n" for number in range(9000))
    grown = long_text(*(text[at : at + 7] for at in range(0, len(text), 7)))
    assert grown.shown() == cut(text)
    assert grown.whole() == text


def test_beyond_the_allowance_only_the_end_is_kept_and_the_rest_counted():
    text = long_text("a" * 50_000, "b" * 50_000, "the end", allowance=Allowance(60_000))
    shown, missing = text.shown()
    assert text.whole() == "a" * 50_000 + "b" * 10_000
    assert text.chars == 100_007
    assert shown.startswith("aaa")
    assert shown.endswith("bbbthe end")
    assert missing > 100_007 - ITEM_CHARS


def test_characters_of_several_bytes_are_never_halved():
    text = long_text("é" * 100, allowance=Allowance(11))
    assert text.whole() == "é" * 5
    assert text.shown() == ("é" * 100, 0)


def test_what_was_left_out_at_the_source_counts_as_missing():
    text = long_text("start\n" * 2000)
    text.skip(1_000_000)
    text.write("the end")
    shown, missing = text.shown()
    assert shown.startswith("start")
    assert shown.endswith("the end")
    assert missing > 1_000_000


def test_a_short_text_with_a_gap_is_marked():
    text = long_text("start")
    text.skip(5)
    text.write("end")
    shown, missing = text.shown()
    assert missing == 5
    assert shown.startswith("start\n[... 5 of 13 characters are left out")


def test_released_text_gives_its_allowance_back():
    allowance = Allowance(100)
    text = long_text("x" * 80, allowance=allowance)
    assert allowance.left_bytes == 20
    text.release()
    assert allowance.left_bytes == 100


def test_only_what_came_late_is_said_to_have_been_slowed():
    slowed = "a process that its cell left running waits where it writes more than 2 MiB a second."
    late, own = (long_text("x" * 20_000).shown(is_late=is_late)[0] for is_late in (True, False))
    assert (late.count(slowed), own.count(slowed)) == (1, 0)
    assert (late.count("the code ran as if nothing was"), own.count("the code ran as if nothing was")) == (0, 1)
    assert len(late) <= ITEM_CHARS
