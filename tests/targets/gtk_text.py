"""A GTK 3 text field, made through ctypes; its content is written to the file named by its argument, at focus and change.

Chromium brings GTK's library with it; the Python binding would be one more package, for this test alone.
"""

import ctypes
import sys
from pathlib import Path

target = Path(sys.argv[1])
waiting: list[int] = []
"""What will write the content down, while it is still to come."""
gtk = ctypes.CDLL("libgtk-3.so.0")
gobject = ctypes.CDLL("libgobject-2.0.so.0")
gtk.gtk_window_new.restype = gtk.gtk_text_view_new.restype = gtk.gtk_text_view_get_buffer.restype = ctypes.c_void_p
gtk.gtk_text_buffer_get_text.restype = ctypes.c_void_p
gtk.gtk_text_view_get_buffer.argtypes = gtk.gtk_widget_show_all.argtypes = [ctypes.c_void_p]
gtk.gtk_container_add.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
gtk.gtk_window_set_default_size.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
gtk.gtk_window_set_title.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
gtk.gtk_text_buffer_get_bounds.argtypes = [ctypes.c_void_p] * 3
gtk.g_idle_add.argtypes = [ctypes.c_void_p] * 2
gtk.gtk_text_buffer_get_text.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int]
gobject.g_signal_connect_data.argtypes = [ctypes.c_void_p, ctypes.c_char_p] + [ctypes.c_void_p] * 3 + [ctypes.c_int]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def write_down(buffer: int) -> int:
    """Replace the file in one piece, so that no reader sees half of it."""
    waiting.clear()
    start, end = ctypes.create_string_buffer(128), ctypes.create_string_buffer(128)  # a GtkTextIter has 80 bytes
    gtk.gtk_text_buffer_get_bounds(buffer, start, end)
    text = ctypes.string_at(gtk.gtk_text_buffer_get_text(buffer, start, end, 1))
    new = target.with_suffix(".new")
    new.write_bytes(text)
    new.replace(target)
    return 0  # not again until the next change


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def changed(buffer: int, _data: int) -> None:
    """Write the content down when the keys that have come were taken: a long text at each of its keys takes longer than they do."""
    if not waiting:
        waiting.append(gtk.g_idle_add(write_down, buffer))


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def focused(view: int, _event: int, _data: int) -> int:
    """Write the content down, and let GTK go on with the event."""
    write_down(gtk.gtk_text_view_get_buffer(view))
    return 0


gtk.gtk_init(None, None)
window = gtk.gtk_window_new(0)
view = gtk.gtk_text_view_new()
gobject.g_signal_connect_data(gtk.gtk_text_view_get_buffer(view), b"changed", changed, None, None, 0)
gobject.g_signal_connect_data(view, b"focus-in-event", focused, None, None, 0)
gtk.gtk_container_add(window, view)
gtk.gtk_window_set_title(window, b"gtk text")
gtk.gtk_window_set_default_size(window, 700, 500)
gtk.gtk_widget_show_all(window)
gtk.gtk_main()
