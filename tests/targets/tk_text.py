"""A Tk text field; its content is written to the file named by the first argument whenever it changes."""

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
    text.edit_modified(False)
    new = target.with_suffix(".new")
    new.write_text(text.get("1.0", "end-1c"), encoding="utf-8", errors="surrogatepass")
    new.replace(target)


text.bind("<<Modified>>", write_down)
root.after_idle(lambda: target.write_text(""))
root.mainloop()
