"""The Python kernel's cells: values, errors, interrupts and what lasts from one to the next."""

from __future__ import annotations

import os
from ast import literal_eval
from collections.abc import Iterator

import pytest
from tests.python_kernel import PythonKernel, python_kernel, without_underlines


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonKernel]:
    with python_kernel(tmp_path_factory.mktemp("k")) as kernel:
        kernel.run("import asyncio, contextvars, os, sys, time")
        yield kernel


def test_log_is_exactly_the_text_of_a_value(kernel):
    assert kernel.run("log(41 + 1)\nlog('a\\n')\nlog(None)").outputs == [("log", "42"), ("log", "a\n"), ("log", "None")]


def test_the_last_expression_is_shown_and_kept_as_underscore(kernel):
    assert kernel.run("x = 20\nx + 1").outputs == [("result", "21")]
    assert kernel.run("_ * 2").outputs == [("result", "42")]
    assert kernel.run("x;").outputs == []
    assert kernel.run("None").outputs == []


def test_the_namespace_holds_little_that_is_ours(kernel):
    told = kernel.run("sorted(name for name in globals() if name not in ('x', '_'))")
    expected = [
        "__builtins__",
        "__name__",
        "_dh",
        "ask_user",
        "asyncio",
        "contextvars",
        "display",
        "get_ipython",
        "log",
        "os",
        "sys",
        "time",
    ]
    assert literal_eval(told.outputs[0][1]) == expected


def test_an_error_shows_the_models_frames_alone(kernel):
    told = kernel.run("import json\ndef f(text):\n    return json.loads(text)\nf('{')")
    number = len(kernel.cells)
    assert told.status == "error"
    ((kind, text),) = told.outputs
    assert (kind, without_underlines(text)) == (
        "error",
        "Traceback (most recent call last):\n"
        f"  File \"<cell {number}>\", line 4, in <module>\n    f('{{')\n"
        f'  File "<cell {number}>", line 3, in f\n    return json.loads(text)\n'
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    )
    assert "^^^^\n" in text


def test_an_error_shows_frames_in_files_the_model_wrote(kernel):
    kernel.run("open('helper.py', 'w').write('def go():\\n    1 / 0\\n'); sys.path.insert(0, '')")
    text = kernel.run("import helper\nhelper.go()").outputs[0][1]
    assert 'helper.py", line 2, in go\n    1 / 0\n' in text
    assert text.count("File ") == 2


def test_causes_and_groups_are_told(kernel):
    text = kernel.run("try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError('k') from e").outputs[0][1]
    assert "ZeroDivisionError: division by zero\n\nThe above exception was the direct cause" in text
    text = kernel.run("raise ExceptionGroup('both', [ValueError('a'), TypeError('b')])").outputs[0][1]
    assert "ValueError: a" in text
    assert "TypeError: b" in text


def test_a_syntax_error_has_its_line_and_caret_and_nothing_runs(kernel):
    told = kernel.run("log('not me')\nx = 1 +")
    number = len(kernel.cells)
    assert told.outputs == [
        ("error", f'  File "<cell {number}>", line 2\n    x = 1 +\n           ^\nSyntaxError: invalid syntax')
    ]
    told = kernel.run("log('nor me')\nreturn 5")
    number = len(kernel.cells)
    assert told.outputs == [
        (
            "error",
            f"  File \"<cell {number}>\", line 2\n    return 5\n    ^^^^^^^^\nSyntaxError: 'return' outside function",
        )
    ]


def test_endless_recursion_is_told_shortly(kernel):
    text = kernel.run("def r(n): return r(n + 1)\nr(0)").outputs[0][1]
    assert "RecursionError" in text
    assert len(text.splitlines()) < 20


def test_a_value_that_cannot_be_shown_is_an_error_that_says_so(kernel):
    told = kernel.run("class B:\n    def __repr__(self): raise ValueError('boom')\nkept = 1\nB()")
    assert told.status == "error"
    assert told.outputs[0][1].startswith("The value of the last expression could not be shown")
    assert "ValueError: boom" in told.outputs[0][1]
    assert kernel.run("kept").outputs == [("result", "1")]


def test_exit_ends_the_cell_and_not_the_kernel(kernel):
    for code in ("exit()", "quit()", "sys.exit(3)", "raise SystemExit('bye')"):
        told = kernel.run(code)
        assert told.status == "error"
        assert told.outputs[0][1].endswith("The kernel goes on: exit() only ends the cell. Variables are kept.")
    assert kernel.run("1 + 1").outputs == [("result", "2")]


def test_a_failing_shell_line_says_its_exit_status(kernel):
    told = kernel.run("!echo hi; exit 3")
    assert told.outputs == [("stdout", "hi\n"), ("stderr", "[exit status 3: echo hi; exit 3]\n")]
    assert kernel.run("lines = !echo a; echo b\nlist(lines)").outputs == [("result", "['a', 'b']")]


def test_a_magic_that_is_unknown_or_used_wrongly_fails(kernel):
    for code in ("%nothing_like_it", "%timeit -z 1", "%%nothing\nx"):
        told = kernel.run(code)
        assert told.status == "error"
        assert told.outputs[-1][1].startswith("UsageError: ")


def test_magics_that_show_move_and_reset_work(kernel):
    assert "Return the number of items" in kernel.run("len?").text("stdout")
    assert kernel.run("%cd -q /\n%pwd").outputs == [("result", "'/'")]
    assert kernel.run("%cd -q -").status == "ok"
    assert kernel.run("%%time\n1 + 1").outputs[-1] == ("result", "2")
    kernel.run("%reset -f")
    assert kernel.run("log(1); display(2); import asyncio, contextvars, os, sys, time").outputs == [
        ("log", "1"),
        ("display", "2"),
    ]


def test_a_child_forked_by_hand_does_not_become_a_second_kernel(kernel):
    told = kernel.run(
        "import warnings\n"
        "with warnings.catch_warnings(action='ignore'): pid = os.fork()  # Python 3.12 and later warn of the threads\n"
        "if pid == 0: print('child'); log('c')\nelse: os.waitpid(pid, 0); print('parent')"
    )
    assert told.outputs == [("stdout", "child\nc\nparent\n")]
    assert kernel.run("1 + 1").outputs == [("result", "2")]


def test_top_level_await_and_asyncio_run_both_work(kernel):
    kernel.run("async def f():\n    await asyncio.sleep(0); return 5")
    assert kernel.run("await f()").outputs == [("result", "5")]
    assert kernel.run("print(asyncio.run(f())); asyncio.get_event_loop().run_until_complete(f())").outputs == [
        ("stdout", "5\n"),
        ("result", "5"),
    ]
    assert kernel.run("await asyncio.sleep(0)\nprint(asyncio.run(f()))\nawait f()").outputs == [
        ("stdout", "5\n"),
        ("result", "5"),
    ]
    told = kernel.run("async def g():\n    raise ValueError('inside')\nasyncio.run(g())")
    assert "line 3, in <module>" in told.outputs[0][1]
    assert "line 2, in g" in told.outputs[0][1]


def test_a_coroutine_that_was_not_awaited_is_pointed_out(kernel):
    told = kernel.run("f()")
    assert "not awaited" in told.text("result")


def test_context_variables_last_as_variables_do(kernel):
    kernel.run("V = contextvars.ContextVar('V', default='d')")
    kernel.run("await asyncio.sleep(0); V.set('s');")
    assert kernel.run("V.get()").outputs == [("result", "'s'")]


def test_a_background_task_that_fails_unseen_is_told_once_under_its_cell(kernel):
    kernel.run("async def f(): raise ValueError('silent')\nt = asyncio.create_task(f())")
    number = len(kernel.cells)
    told = kernel.run("await asyncio.sleep(0.01)")
    assert [(cell, kind) for cell, kind, _ in told.late] == [(number, "stderr")]
    assert "ValueError: silent" in told.late[0][2]
    assert kernel.run("await asyncio.sleep(0.01)").late == []


def test_a_background_task_that_is_awaited_is_not_told_twice(kernel):
    told = kernel.run("t = asyncio.create_task(f())\ntry: await t\nexcept ValueError: log('seen')")
    assert told.outputs == [("log", "seen")]


def test_a_thread_that_fails_is_told_with_its_own_frames(kernel):
    told = kernel.run("import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T'); t.start(); t.join()")
    assert told.text("stderr").startswith('Thread T failed:\nTraceback (most recent call last):\n  File "<cell')
    assert "threading.py" not in told.text("stderr")


def test_queued_cells_run_after_one_that_failed(kernel):
    kernel.send("1 / 0")
    assert kernel.run("'second'").outputs == [("result", "'second'")]
    kernel.reply_next()


def test_nothing_is_written_to_the_home(kernel, tmp_path_factory):
    del tmp_path_factory
    names = literal_eval(kernel.run("sorted(os.listdir())").outputs[0][1])
    assert [name for name in names if not name.startswith(("s-", "kernel", "helper", "__pycache__"))] == []


def test_the_process_is_the_kernel_alone(kernel):
    assert os.listdir(f"/proc/{kernel.process.pid}/task")  # noqa: PTH208
    told = kernel.run(
        "[m for m in ('matplotlib', 'pandas', 'numpy', 'playwright', 'pyautogui', 'jedi', 'debugpy') if m in sys.modules]"
    )
    assert told.outputs == [("result", "[]")]


def test_a_cell_that_replaces_what_asyncio_offers_keeps_no_other_from_running(tmp_path):
    with python_kernel(tmp_path) as kernel:
        kernel.run(
            "import asyncio\nasyncio.sleep = asyncio.create_task = asyncio.wait_for = asyncio.get_running_loop = None; x = 1"
        )
        assert kernel.run("x").outputs == [("result", "1")]
        assert kernel.run("async def f(): return 2\nawait f()").outputs == [("result", "2")]
