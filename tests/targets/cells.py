"""A process that runs cells as the kernel would: JSON strings of code come in, one a line; JSON replies go out.

First argument: the display. A reply has `error` (type and message, or null) and `value` (what the code left in `value`).
"""

import json
import sys
import traceback

from cellwright_kernel.python.desktop_input import prepare, release_all

names: dict[str, object] = {"pyautogui": prepare(sys.argv[1]), "release_all": release_all}
print(json.dumps("ready"), flush=True)
while True:
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:  # it came too late for the cell
        continue
    if not line:
        break
    names["value"] = None
    error = None
    try:
        exec(json.loads(line), names)  # noqa: S102
    except BaseException as raised:
        error = "".join(traceback.format_exception_only(raised)).strip()
    print(json.dumps({"error": error, "value": names["value"]}), flush=True)
