"""Both kernels as Jupyter's own conformance tests see them, over TCP and from a stock client.

A module for unittest, which `test_jupyter.py` runs in a process of its own: the stock client leaves its sockets and its
event loop to the collector. What makes no sense here is left out: nobody pages, and no history is kept, since the journal
has it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, ClassVar

import jupyter_kernel_test

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAEUlEQVR4nGP4z8DwH4QZYAwAR8oH+Rq28akAAAAASUVORK5CYII="


class Conformance(jupyter_kernel_test.KernelTests):
    """What both have in common."""

    _folder: ClassVar[tempfile.TemporaryDirectory[str]]
    _jupyter_path: ClassVar[str | None]
    code_endless = ""
    code_kept = ""

    @classmethod
    def setUpClass(cls) -> None:
        """Let the stock client find the kernel by its name."""
        cls._folder = tempfile.TemporaryDirectory()
        kernel = Path(cls._folder.name) / "kernels" / cls.kernel_name
        kernel.mkdir(parents=True)
        argv = [sys.executable, "-P", "-m", f"cellwright_kernel.{cls.language_name}", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": cls.kernel_name, "language": cls.language_name}
        (kernel / "kernel.json").write_text(json.dumps(spec))
        cls._jupyter_path = os.environ.get("JUPYTER_PATH")
        os.environ["JUPYTER_PATH"] = cls._folder.name
        super().setUpClass()

    @classmethod
    def tearDownClass(cls) -> None:
        """End the kernel, and forget the folder."""
        super().tearDownClass()
        del os.environ["JUPYTER_PATH"]
        if cls._jupyter_path is not None:
            os.environ["JUPYTER_PATH"] = cls._jupyter_path
        cls._folder.cleanup()

    def test_interrupt_keeps_variables(self) -> None:
        """An interrupt by the stock manager ends the cell, and what it had set is there."""
        self.flush_channels()
        interrupting = threading.Timer(0.5, self.km.interrupt_kernel)
        interrupting.start()
        reply, outputs = self.execute_helper(self.code_endless)
        interrupting.join()
        assert reply["content"]["status"] == "error"
        assert [message["msg_type"] for message in outputs] == ["error"]
        reply, outputs = self.execute_helper(self.code_kept)
        assert outputs[0]["content"]["data"]["text/plain"] == "7"

    def test_odd_metadata_is_no_obstacle(self) -> None:
        """Whatever another client says where the kernel host names the cell, its request is answered, and idle is said."""
        for note in (1, None, [], {"cell": "x"}):
            self.flush_channels()
            content = {
                "code": "1",
                "silent": False,
                "store_history": False,
                "user_expressions": {},
                "allow_stdin": False,
            }
            request = self.kc.session.msg("execute_request", content, metadata={"cellwright": note})
            self.kc.shell_channel.send(request)
            reply = self.kc.get_shell_msg(timeout=30)
            assert (reply["parent_header"]["msg_id"], reply["content"]["status"]) == (request["header"]["msg_id"], "ok")
            states = []
            while "idle" not in states:
                message = self.kc.get_iopub_msg(timeout=30)
                states.append(message["content"].get("execution_state", message["msg_type"]))
            assert states[0] == "busy"


class Python(Conformance):
    kernel_name = "cellwright-python"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples: ClassVar[list[dict[str, Any]]] = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples: ClassVar[list[str]] = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples: ClassVar[list[str]] = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples: ClassVar[list[str]] = ["import = 7q"]
    code_generate_error = "raise"
    code_execute_result: ClassVar[list[dict[str, str]]] = [{"code": "1+2+3", "result": "6"}]
    code_display_data: ClassVar[list[dict[str, str]]] = [
        {"code": f"display('{PNG}')", "mime": "image/png"},
        {"code": "log(1)", "mime": "text/plain"},
    ]
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_endless = "kept = 7\nwhile True: pass"
    code_kept = "kept"


class JavaScript(Conformance):
    kernel_name = "cellwright-javascript"
    language_name = "javascript"
    file_extension = ".js"
    code_hello_world = "process.stdout.write('hello, world\\n'); undefined"
    code_stderr = "process.stderr.write('test'); undefined"
    completion_samples: ClassVar[list[dict[str, Any]]] = [
        {"text": "Array.isA", "matches": {"Array.isArray"}},
        {"text": "consol", "matches": {"console"}},
        {"text": "[1].le", "matches": set()},
    ]
    complete_code_samples: ClassVar[list[str]] = [
        "1",
        "function f() {\n  return 1\n}",
        "await 1",
        "import fs from 'fs'",
    ]
    incomplete_code_samples: ClassVar[list[str]] = ["function f() {", "`open", "[1, 2,", "/* open"]
    invalid_code_samples: ClassVar[list[str]] = ["let = = 1", "if (x}"]
    code_generate_error = "throw new Error('x')"
    code_execute_result: ClassVar[list[dict[str, str]]] = [
        {"code": "1+2+3", "result": "6"},
        {"code": "({ a: [1] })", "result": "{ a: [ 1 ] }"},
    ]
    code_display_data: ClassVar[list[dict[str, str]]] = [
        {"code": f"display('{PNG}')", "mime": "image/png"},
        {"code": "console.log(1)", "mime": "text/plain"},
    ]
    code_endless = "let kept = 7\nwhile (true);"
    code_kept = "kept"
