import time

import pytest

from cellwright_kernel.terminal import Terminal, bare, plain, plain_ends, without_surrogates


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("one\ntwo", "one\ntwo"),
        ("  0%\r 50%\r100%\ndone", "100%\ndone"),
        ("long line\rshort", "shortline"),
        ("long line\r\x1b[Kshort", "short"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;32;48;5;7mfine\x1b[m print", "fine print"),
        ("a\bb", "b"),
        ("\b\bx", "x"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("bell\x07 nul\x00 end", "bell nul end"),
        ("tab\tstays", "tab\tstays"),
        ("\x1b[2Jcleared\x1b[?25l", "cleared"),
        ("日本語\r本", "本本語"),
        ("", ""),
    ],
)
def test_text_is_what_a_terminal_would_show(written, shown):
    assert plain(written) == shown


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_sequence_may_arrive_in_two_pieces(cut):
    written = "a\x1b[31mb\rc\n\x1b[0md"
    terminal = Terminal()
    shown = terminal.write(written[:cut]) + terminal.write(written[cut:]) + terminal.rest()
    assert shown == "cb\nd"


def test_finished_lines_are_given_out_at_once_and_the_current_line_is_kept():
    terminal = Terminal()
    assert terminal.write("one\ntwo\nthr") == "one\ntwo\n"
    assert terminal.write("ee") == ""
    assert terminal.rest() == "three"


def test_a_line_without_end_is_given_out_in_parts():
    terminal = Terminal()
    given = "".join(terminal.write("x" * 1000) for _ in range(1000))
    assert len(given) > 900_000
    assert len(given + terminal.rest()) == 1_000_000


def test_an_unfinished_sequence_at_the_end_is_dropped():
    assert plain("text\x1b[3") == "text"


def test_live_text_keeps_returns_and_loses_escapes():
    assert bare("\x1b[31m 50%\r100%\x07\n") == " 50%\r100%\n"


def test_lone_surrogates_are_replaced_and_pairs_joined():
    assert without_surrogates("a\ud800b") == "a\ufffdb"
    assert without_surrogates("\ud83d\ude00") == "\U0001f600"
    assert without_surrogates("plain é") == "plain é"


@pytest.mark.parametrize(
    ("line", "control"),
    [
        ("", "a\b"),
        ("", "a\r"),
        ("", "a\x07"),
        ("", "\x1b[A"),
        ("", "\x1b]"),
        ("", "\x1b"),
        ("x", "a\b"),
        ("x", "\x1b[2K"),
        ("x\r", "a\x1b[1K"),
        ("x", "\ba\x1b[2K"),
        ("x", "\b\x1b[K"),
    ],
)
def test_a_mass_of_control_characters_costs_what_its_length_costs(line, control):
    text = line.replace("x", "x" * 60_000) + control * 20_000
    began = time.process_time()
    plain(text)
    assert time.process_time() - began < 0.5  # 0.04 s measured; 5 s and more where each of them costs the line's length


def test_an_endless_sequence_costs_what_its_length_costs():
    terminal = Terminal()
    began = time.process_time()
    for piece in ("\x1b[", *["0" * 20_000] * 200):
        terminal.write(piece)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("abc\b\x1b[1KX", "  X"),
        ("abc\x1b[2Kd", "   d"),
        ("abcd\rx\x1b[1Ky\x1b[1Kz", "  zd"),
        ("ab\x1b[1K\b\bc\x1b[2Kd", " d"),
    ],
)
def test_what_was_erased_is_blank(written, shown):
    assert plain(written) == shown


def test_of_a_text_too_long_to_be_cleaned_both_ends_are_cleaned_and_the_middle_is_counted():
    text = "first\rFirst\n" + ("a" * 39 + "\r") * 50_000 + "\nlost\rlast"
    shown, (at, missing) = plain_ends(text)
    assert (shown[:6], shown[-5:]) == ("First\n", "\nlast")
    assert shown[:at] == "First\n" + "a" * 39
    assert missing == len(text) - 512 * 1024


def test_a_long_text_without_control_characters_is_whole():
    text = "x" * 2_000_000
    assert plain_ends(text) == (text, (0, 0))


def test_what_was_left_out_before_stays_between_the_same_characters():
    assert plain_ends("\x1b[31ma" + "bcd\r.", (6, 7)) == ("a.cd", (1, 7))
