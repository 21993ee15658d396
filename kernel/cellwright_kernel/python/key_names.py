"""What may be typed: PyAutoGUI's key names and the characters of Unicode, each as an X keysym.

Flows in: a key's name or a text. Flows out: keysyms, or a `ValueError` that names what comes near.
Decided here: which names exist, and what newlines, carriage returns, surrogates and control characters mean.
"""

from __future__ import annotations

import difflib
import unicodedata

_CONTROL = {"\n": 0xFF0D, "\r": 0xFF0D, "\t": 0xFF09, "\b": 0xFF08, "\x1b": 0xFF1B, "\x7f": 0xFFFF}

NAMED: dict[str, int] = {
    "alt": 0xFFE9,
    "altleft": 0xFFE9,
    "altright": 0xFFEA,
    "apps": 0xFF67,
    "backspace": 0xFF08,
    "capslock": 0xFFE5,
    "clear": 0xFF0B,
    "command": 0xFFEB,
    "ctrl": 0xFFE3,
    "ctrlleft": 0xFFE3,
    "ctrlright": 0xFFE4,
    "del": 0xFFFF,
    "delete": 0xFFFF,
    "down": 0xFF54,
    "end": 0xFF57,
    "enter": 0xFF0D,
    "esc": 0xFF1B,
    "escape": 0xFF1B,
    "execute": 0xFF62,
    "help": 0xFF6A,
    "home": 0xFF50,
    "insert": 0xFF63,
    "left": 0xFF51,
    "numlock": 0xFF7F,
    "option": 0xFFE9,
    "optionleft": 0xFFE9,
    "optionright": 0xFFEA,
    "pagedown": 0xFF56,
    "pageup": 0xFF55,
    "pause": 0xFF13,
    "pgdn": 0xFF56,
    "pgup": 0xFF55,
    "print": 0xFF61,
    "printscreen": 0xFF61,
    "prntscrn": 0xFF61,
    "prtsc": 0xFF61,
    "prtscr": 0xFF61,
    "return": 0xFF0D,
    "right": 0xFF53,
    "scrolllock": 0xFF14,
    "select": 0xFF60,
    "shift": 0xFFE1,
    "shiftleft": 0xFFE1,
    "shiftright": 0xFFE2,
    "space": 0x20,
    "tab": 0xFF09,
    "up": 0xFF52,
    "win": 0xFFEB,
    "winleft": 0xFFEB,
    "winright": 0xFFEC,
    "yen": 0xA5,
    # the keypad
    "add": 0xFFAB,
    "decimal": 0xFFAE,
    "divide": 0xFFAF,
    "multiply": 0xFFAA,
    "separator": 0xFFAC,
    "subtract": 0xFFAD,
    **{f"num{digit}": 0xFFB0 + digit for digit in range(10)},
    **{f"f{number}": 0xFFBD + number for number in range(1, 25)},
    # East Asian keyboards
    "convert": 0xFF23,
    "hanguel": 0xFF31,
    "hangul": 0xFF31,
    "hanja": 0xFF34,
    "junja": 0xFF38,
    "kana": 0xFF2D,
    "kanji": 0xFF21,
    "modechange": 0xFF7E,
    "nonconvert": 0xFF22,
    # media keys
    "browserback": 0x1008FF26,
    "browserfavorites": 0x1008FF30,
    "browserforward": 0x1008FF27,
    "browserhome": 0x1008FF18,
    "browserrefresh": 0x1008FF29,
    "browsersearch": 0x1008FF1B,
    "browserstop": 0x1008FF28,
    "launchapp1": 0x1008FF33,
    "launchapp2": 0x1008FF1D,
    "launchmail": 0x1008FF19,
    "launchmediaselect": 0x1008FF32,
    "nexttrack": 0x1008FF17,
    "playpause": 0x1008FF14,
    "prevtrack": 0x1008FF16,
    "sleep": 0x1008FF2F,
    "stop": 0x1008FF15,
    "volumedown": 0x1008FF11,
    "volumemute": 0x1008FF12,
    "volumeup": 0x1008FF13,
}
"""PyAutoGUI's names that X has a key for. It also lists `accept`, `final` and `fn`, which X does not have."""

_MEANT = {
    "control": "ctrl",
    "cmd": "command",
    "meta": "win",
    "super": "win",
    "windows": "win",
    "menu": "apps",
    "return": "enter",
    "newline": "enter",
    "page_up": "pageup",
    "page_down": "pagedown",
    "arrowup": "up",
    "arrowdown": "down",
    "arrowleft": "left",
    "arrowright": "right",
    "spacebar": "space",
}


def keysym_of(key: str) -> int:
    """Return the keysym of a key's name (`enter`, `f5`) or of one character (`a`, `€`).

    Raises:
        TypeError: it is no text.
        ValueError: no such key; the message lists near names.
    """
    if not isinstance(key, str):
        raise TypeError(f"A key is given by its name or its character, a str, not {type(key).__name__}: {key!r}")
    if key in NAMED:
        return NAMED[key]
    characters = _joined_surrogates(key)
    if len(characters) == 1:
        return keysym_of_character(characters)
    if key.lower() in NAMED:
        return NAMED[key.lower()]
    if "+" in key:
        keys = ", ".join(repr(part.strip()) for part in key.split("+"))
        raise ValueError(f"There is no key named {key!r}. Keys that go together are given one by one: hotkey({keys}).")
    raise ValueError(
        f"There is no key named {key!r}, so no key was pressed. Near names: {', '.join(_near(key.lower()))}. "
        "All names are in pyautogui.KEYBOARD_KEYS; a text is typed with pyautogui.write()."
    )


def keysym_of_character(character: str) -> int:
    """Return the keysym that stands for one character.

    Raises:
        ValueError: a control character or half of a surrogate pair, which no key stands for.
    """
    if character in _CONTROL:
        return _CONTROL[character]
    point = ord(character)
    if unicodedata.category(character) in ("Cc", "Cs"):
        raise ValueError(
            f"The character U+{point:04X} cannot be typed: no key stands for a control character or half of a "
            "surrogate pair. Nothing was typed. Take it out, or use hotkey(), as in hotkey('ctrl', 'c')."
        )
    return point if point < 0x100 else 0x01000000 | point


def keysyms_of(text: str) -> list[int]:
    """Return one keysym for each character of a text; a CR LF pair counts as one newline.

    Raises:
        ValueError: a character that no key stands for; nothing of the text was typed.
    """
    return [keysym_of_character(character) for character in _joined_surrogates(text.replace("\r\n", "\n"))]


def _joined_surrogates(text: str) -> str:
    # JSON decoded carelessly holds emoji as two halves.
    if any("\ud800" <= character <= "\udfff" for character in text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _near(key: str) -> list[str]:
    plain = key.replace("_", "").replace("-", "").replace(" ", "").removesuffix("key")
    names = [_MEANT[word] for word in (key, plain) if word in _MEANT]
    names += [name for name in NAMED if len(name) > 2 and (name in plain or (len(plain) > 2 and plain in name))]
    names += difflib.get_close_matches(plain, NAMED, n=4, cutoff=0.6)
    return list(dict.fromkeys(names))[:6] or ["enter", "esc", "tab", "ctrl", "alt", "shift"]
