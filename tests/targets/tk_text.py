"""A Tk text field; its content is written to the file named by the first argument, once it has the focus and on each change.

A window can have the X server's focus before Tk has given it to the field, and Tk drops the keys of that moment.
"""

import sys
import tkinter
from pathlib import Path

target = Path(sys.argv[1])
root = tkinter.Tk()
root.title("tk text")
text = tkinter.Text(root, width=100, height=40)
text.pack()
text.focus_set()


def write_down(_event: object) -> None:
    """Replace the file in one piece, so that no reader sees half of it."""
    text.edit_modified(False)  # else the next change is not told
    new = target.with_suffix(".new")
    new.write_text(text.get("1.0", "end-1c"), encoding="utf-8", errors="surrogatepass")
    new.replace(target)


text.bind("<<Modified>>", write_down)
text.bind("<FocusIn>", write_down)
root.mainloop()
