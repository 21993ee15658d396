"""The Python kernel's streams: everything a cell says, once, in order, under the right cell."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.python_kernel import PythonKernel, python_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonKernel]:
    with python_kernel(tmp_path_factory.mktemp("k")) as kernel:
        kernel.run("import os, subprocess, sys, threading, time")
        yield kernel


def test_prints_and_childrens_output_stay_in_order(kernel):
    told = kernel.run("print(1); os.system('echo 2'); print(3); subprocess.run(['echo', '4']); os.write(1, b'5\\n');")
    assert told.outputs == [("stdout", "1\n2\n3\n4\n5\n")]


def test_the_two_streams_alternate_as_they_were_written(kernel):
    told = kernel.run("for i in range(2):\n    print('o', i); print('e', i, file=sys.stderr)")
    assert told.outputs == [("stdout", "o 0\n"), ("stderr", "e 0\n"), ("stdout", "o 1\n"), ("stderr", "e 1\n")]


def test_log_stands_between_what_was_printed_before_and_after(kernel):
    told = kernel.run("print('a', end=''); log('b'); os.system('echo c'); log('d'); 'e'")
    assert told.outputs == [("stdout", "a"), ("log", "b"), ("stdout", "c\n"), ("log", "d"), ("result", "'e'")]


def test_a_child_may_be_given_our_stdout(kernel):
    assert kernel.run("subprocess.run(['echo', 'x'], stdout=sys.stdout); print('ok')").outputs == [
        ("stdout", "x\nok\n")
    ]


def test_bytes_are_taken_as_utf8(kernel):
    assert kernel.run("sys.stdout.buffer.write('ä€'.encode());").outputs == [("stdout", "ä€")]


def test_a_character_split_over_two_writes_of_a_child_arrives_whole(kernel):
    told = kernel.run("os.write(1, b'\\xc3'); time.sleep(0.05); os.write(1, b'\\xa4');")
    assert told.outputs == [("stdout", "ä")]


def test_children_read_an_empty_stdin(kernel):
    told = kernel.run("""!read -p 'sure? ' a; echo got $a\nprint(subprocess.run('cat', shell=True).returncode)""")
    assert told.outputs == [("stdout", "got\n0\n")]


def test_forked_children_print_whole_lines(kernel):
    told = kernel.run(
        "import multiprocessing\n"
        "def f(i):\n    print('child', i)\n    log(i)\n    return i\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n    pool.map(f, [1, 2])"
    )
    assert sorted(told.text("stdout").splitlines()) == ["1", "2", "child 1", "child 2"]


def test_a_thread_prints_under_the_cell_that_started_it(kernel):
    told = kernel.run(
        "go = threading.Event()\ndef f():\n    go.wait(); print('late'); done.set()\n"
        "done = threading.Event(); threading.Thread(target=f).start()"
    )
    number = len(kernel.cells)
    assert told.outputs == []
    told = kernel.run("print('mine'); go.set(); done.wait(30); print('mine too')")
    assert (told.outputs, told.late) == ([("stdout", "mine\nmine too\n")], [(number, "stdout", "late\n")])


def test_a_leftover_background_task_prints_under_the_cell_that_made_it(kernel):
    kernel.run(
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.05); print('late'); log('later')\nt = asyncio.create_task(f())"
    )
    number = len(kernel.cells)
    told = kernel.run("await t; print('mine')")
    assert told.outputs == [("stdout", "mine\n")]
    assert told.late == [(number, "stdout", "late\n"), (number, "log", "later")]


def test_a_child_that_outlives_its_cell_writes_under_that_cell(kernel):
    kernel.run("r, w = os.pipe(); p = subprocess.Popen(['sh', '-c', 'read x; echo LATE'], stdin=r)")
    number = len(kernel.cells)
    told = kernel.run("os.write(w, b'\\n'); os.close(w); os.close(r); p.wait(); print('mine')")
    assert told.outputs == [("result" if False else "stdout", "mine\n")]
    assert (told.late or kernel.drain().late) == [(number, "stdout", "LATE\n")]


def test_many_small_flushed_writes_are_few_messages(kernel):
    told = kernel.run("for ch in 'ab' * 10000: print(ch, end='', flush=True)\nprint('END')")
    assert told.outputs == [("stdout", "ab" * 10000 + "END\n")]
    assert len(told.messages) < 20


def test_what_is_written_is_sent_while_the_cell_goes_on(kernel):
    told = kernel.run(
        "go = threading.Event()\nprint('so far')\nwhile True: time.sleep(0.01)",
        when=lambda told: told.outputs == [("stdout", "so far\n")],
        do=kernel.interrupt,
    )
    assert told.outputs[0] == ("stdout", "so far\n")


@pytest.mark.slow
def test_a_flood_is_cut_at_the_source_and_its_end_is_kept(kernel):
    told = kernel.run("print('x' * 100_000_000); print('END')")
    text = told.text("stdout")
    missing = sum(message["metadata"]["cellwright"].get("missing_chars", 0) for message in told.messages)
    assert len(text) + missing == 100_000_001 + 4
    assert len(text) < 68_000_000
    assert text.endswith("x\nEND\n")


def test_lone_surrogates_arrive_replaced_and_pairs_joined(kernel):
    told = kernel.run("print('a\\udc00b'); log('\\ud83d\\ude00'); '\\udc00'")
    assert told.outputs == [("stdout", "a\ufffdb\n"), ("log", "😀"), ("result", "'\\udc00'")]


def test_a_lone_surrogate_in_the_code_is_an_error_of_the_cell(kernel):
    assert kernel.run("x = '\ud800'").status == "error"
    assert kernel.run("log(1)").outputs == [("log", "1")]


def test_closing_or_replacing_stdout_does_not_last(kernel):
    kernel.run("sys.stdout.close()")
    assert kernel.run("print(1)").outputs == [("stdout", "1\n")]


def test_input_has_nobody_to_answer_it(kernel):
    for call in ("input('name? ')", "__import__('getpass').getpass()", "breakpoint()"):
        told = kernel.run(call)
        assert told.status == "error"
        assert "this session has no standard input" in told.outputs[-1][1]


@pytest.mark.parametrize(
    ("code", "begins", "missing"),
    [
        ("raise ValueError('é' * (40 << 20))", "ValueError: ééé", "41,935,040"),
        ("raise SystemExit('z' * (100 << 20))", "SystemExit: zzz", "104,849,600"),
        ("e = ValueError(1); e.add_note('n' * (50 << 20)); raise e", "ValueError: 1\nnnn", "52,420,800"),
    ],
)
def test_an_error_that_says_far_too_much_is_cut_before_it_is_told(kernel, code, begins, missing):
    began = time.monotonic()
    ((_, text),) = kernel.run(code).outputs
    assert time.monotonic() - began < 2
    assert begins in text
    assert f"[... {missing} characters left out ...]" in text
    assert len(text) < 12_000


def test_a_pipe_that_two_threads_have_found_ready_is_put_aside_once(kernel):
    """Each write looks into the pipes, as the reading thread does; when that failed, nobody read any more."""
    kernel.run("flood = subprocess.Popen('yes')")
    try:
        told = kernel.run(
            "writer = sys.stdout._writer\n"
            "def look():\n"
            "    pipes = writer._pipes\n"
            "    ready = [fd for fd, pipe in pipes._pipes.items() if not pipe.origin.running]\n"
            "    pipes._pace.spend(1 << 20)\n"
            "    writer._look(ready); writer._look(ready)\n"
            "writer._gate.run(look)\n"
            "time.sleep(1)\n"
            "log('END')"
        )
        assert ("log", "END") in told.outputs
        assert not [text for kind, text in told.outputs if kind in ("error", "stderr")]
    finally:
        kernel.run("flood.kill(); flood.wait();")
