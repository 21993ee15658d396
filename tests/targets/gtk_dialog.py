"""A GTK 3 dialog with a field, a check box and two buttons, made through ctypes.

What was pressed is written to the file named by its argument, with what the field holds. `sleep` in the field makes it sleep
in its main loop, so that it answers nobody. Chromium brings GTK's library with it; the Python binding would be one more package, for this test alone.
"""

import ctypes
import sys
import time
from pathlib import Path

target = Path(sys.argv[1])
gtk = ctypes.CDLL("libgtk-3.so.0")
gobject = ctypes.CDLL("libgobject-2.0.so.0")
pointer = ctypes.c_void_p
for name in ("gtk_dialog_new", "gtk_dialog_get_content_area", "gtk_entry_new", "gtk_check_button_new_with_label"):
    getattr(gtk, name).restype = pointer
gtk.gtk_entry_get_text.restype = ctypes.c_char_p
gtk.gtk_entry_get_text.argtypes = gtk.gtk_dialog_get_content_area.argtypes = gtk.gtk_widget_show_all.argtypes = [
    pointer
]
gtk.gtk_container_add.argtypes = [pointer, pointer]
gtk.gtk_window_set_title.argtypes = gtk.gtk_check_button_new_with_label.argtypes = [pointer, ctypes.c_char_p]
gtk.gtk_check_button_new_with_label.argtypes = [ctypes.c_char_p]
gtk.gtk_dialog_add_button.argtypes = [pointer, ctypes.c_char_p, ctypes.c_int]
gobject.g_signal_connect_data.argtypes = [pointer, ctypes.c_char_p, pointer, pointer, pointer, ctypes.c_int]


@ctypes.CFUNCTYPE(None, pointer, ctypes.c_int, pointer)
def answered(_dialog: int, response: int, _data: int) -> None:
    """Write down what was pressed, in one piece, and end."""
    new = target.with_suffix(".new")
    new.write_text(f"{response} {gtk.gtk_entry_get_text(entry).decode()}")
    new.replace(target)
    gtk.gtk_main_quit()


@ctypes.CFUNCTYPE(None, pointer, pointer)
def changed(_entry: int, _data: int) -> None:
    """Sleep when told to."""
    if gtk.gtk_entry_get_text(entry) == b"sleep":
        time.sleep(5)


gtk.gtk_init(None, None)
dialog, entry = gtk.gtk_dialog_new(), gtk.gtk_entry_new()
area = gtk.gtk_dialog_get_content_area(dialog)
gtk.gtk_container_add(area, entry)
gtk.gtk_container_add(area, gtk.gtk_check_button_new_with_label(b"Remember me"))
gtk.gtk_dialog_add_button(dialog, b"Cancel", 1)
gtk.gtk_dialog_add_button(dialog, b"OK", 2)
gobject.g_signal_connect_data(dialog, b"response", answered, None, None, 0)
gobject.g_signal_connect_data(entry, b"changed", changed, None, None, 0)
gtk.gtk_window_set_title(dialog, b"Save changes")
gtk.gtk_widget_show_all(dialog)
gtk.gtk_main()
