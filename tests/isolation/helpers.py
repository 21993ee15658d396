"""What the rows of `probes.jsonl` may use; below the line it is the first cell of their sandbox."""
# ruff: noqa

# ---
import base64, binascii, ctypes, errno, hashlib, json, os, re, signal, socket, stat, subprocess, sys, time, warnings

warnings.filterwarnings("ignore", category=DeprecationWarning)  # from Python 3.12 on, of each fork beside threads

libc = ctypes.CDLL(None, use_errno=True)
NEWUSER, NEWNET = 0x10000000, 0x40000000
NUMBERS = {
    "socket": 41,
    "clone": 56,
    "ptrace": 101,
    "syslog": 103,
    "sethostname": 170,
    "setdomainname": 171,
    "uselib": 134,
    "personality": 135,
    "ustat": 136,
    "sysfs": 139,
    "vhangup": 153,
    "modify_ldt": 154,
    "pivot_root": 155,
    "_sysctl": 156,
    "adjtimex": 159,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "lookup_dcookie": 212,
    "remap_file_pages": 216,
    "clock_settime": 227,
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "unshare": 272,
    "vmsplice": 278,
    "move_pages": 279,
    "ioctl": 16,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "fanotify_mark": 301,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "set_mempolicy_home_node": 450,
}


def call(name, *args):
    """Make a system call; 'done', or the name of its error."""
    args = [ctypes.c_long(one) if isinstance(one, int) else one for one in args]
    number = NUMBERS.get(name, name)
    return "done" if libc.syscall(ctypes.c_long(number), *args) >= 0 else errno.errorcode[ctypes.get_errno()]


def tried(act):
    """Return 'done', or 'refused' where the system did not let it happen."""
    try:
        act()
    except (OSError, ValueError) as error:
        assert isinstance(error, OSError) or "limit" in str(error), error
        return "refused"
    return "done"


def read(path):
    """Return a file's bytes; none where it is not there or not to be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def reached(host, port):
    """Return whether something takes a connection there."""
    try:
        socket.create_connection((host, port), 0.5).close()
    except OSError:
        return False
    return True


def in_child(act):
    """Do something in a process of its own; return how that ended."""
    child = os.fork()
    if not child:
        try:
            act()
        finally:
            os._exit(77)
    return os.waitpid(child, 0)[1]


def returned(act):
    """Return what something gives in a process of its own."""
    back, to = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(to, repr(act()).encode())
        except BaseException as error:
            os.write(to, repr(repr(error)).encode())
        finally:
            os._exit(0)
    os.close(to)
    with open(back) as said:
        text = said.read()
    os.waitpid(child, 0)
    return eval(text)


def nested(flags, act):
    """Return what something gives to the root of a user namespace of its own, with all capabilities in it."""

    def as_root():
        own = os.getuid()
        assert call("unshare", flags) == "done", "no user namespace"
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {own} 1"), ("gid_map", f"0 {own} 1")):
            with open("/proc/self/" + name, "w") as file:
                file.write(text)
        assert (
            os.getuid() == 0 and int(re.search(r"CapEff:\t(\w+)", open("/proc/self/status").read())[1], 16) > 2**40 - 1
        )
        return act()

    return returned(as_root)


def cloned(flags):
    """Clone this process with flags; 'done', or the name of the error."""
    child = libc.syscall(ctypes.c_long(NUMBERS["clone"]), ctypes.c_long(flags | signal.SIGCHLD), 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    return "done" if child > 0 else errno.errorcode[ctypes.get_errno()]


def browser_pid():
    """Return the browser's first process."""
    return next(
        int(pid)
        for pid in os.listdir("/proc")
        if pid.isdigit()
        and b"/chromium\0--" in read(f"/proc/{pid}/cmdline")
        and b"--type=" not in read(f"/proc/{pid}/cmdline")
    )


def forms(*turned):
    """Return how values may stand somewhere: as they are, in wide characters (X's keys are), in hexadecimal and base64."""
    values = [one[::-1] for one in turned]
    wide = [one.encode(name) for name in ("utf-8", "utf-16-le", "utf-32-le") for one in values]
    return wide + [form(one) for one in wide[: len(values)] for form in (base64.b64encode, binascii.hexlify)]


def which_have(texts, *turned):
    """Return the keys of those texts that have one of some values; looked for in a child, whose memory alone has them then."""
    return returned(lambda: [key for key, text in texts.items() if any(form in text for form in forms(*turned))])


def told_with(*turned):
    """Return the files of /proc that tell a value."""
    names = ("environ", "cmdline", "comm", "maps", "status", "stat", "mountinfo", "limits", "cgroup")
    paths = [f"/proc/{pid}/{name}" for pid in filter(str.isdigit, os.listdir("/proc")) for name in names]
    paths += [*("/proc/net/unix", "/proc/keys", "/proc/sysvipc/shm", "/proc/cmdline")]
    return which_have({path: read(path) for path in paths}, *turned)


def files_with(*turned):
    """Return the files that have a value in them or in their name, of all that were changed since values were made."""

    def found():
        wanted, made = forms(*turned), []
        for at, folders, names in os.walk("/"):
            folders[:] = [name for name in folders if at != "/" or name not in ("proc", "sys")]
            for path in (os.path.join(at, name) for name in names):
                try:
                    facts = os.lstat(path)
                except OSError:
                    continue
                if facts.st_ctime >= outside["made_at"]:
                    text = os.fsencode(path) + (read(path) if stat.S_ISREG(facts.st_mode) else b"")
                    made += [path] * any(form in text for form in wanted)
        return made

    return returned(found)


def memory_with(*turned):
    """Return the processes in whose memory one of some values is found, and how many let it be read; all but who asks.

    It takes 3 s for three values, with a browser; hexadecimal and base64 are left out for that.
    """

    def found():
        wanted, made, readable = forms(*turned)[: 3 * len(turned)], [], 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            pieces = pieces_of_memory(pid)
            if int(pid) != os.getpid() and next(pieces, None) is not None:
                readable += 1
                made += [int(pid)] * any(form in piece for piece in pieces for form in wanted)
        return made, readable

    return returned(found)


ZEROS = bytes(2**18 + 512)


def pieces_of_memory(pid):
    """Give nothing where it is closed; else an empty piece, and then what is not empty of all memory that could be written to."""
    try:
        memory, places = open(f"/proc/{pid}/mem", "rb", buffering=0), open(f"/proc/{pid}/maps").read()
    except OSError:
        return
    yield b""
    for place in places.splitlines():
        begin, end = (int(one, 16) for one in place.split()[0].split("-"))
        if place.split()[1][0] != "r" or (place.split()[1][1] != "w" and "/" in place) or "[v" in place:
            continue
        for at in range(begin, end, 2**18):
            try:
                memory.seek(at)
                piece = memory.read(min(end - at, len(ZEROS)))
            except OSError:
                break
            if piece != (ZEROS if len(piece) == len(ZEROS) else bytes(len(piece))):
                yield piece


def shown_with(*turned):
    """Return the selections and the windows' properties on the display that have a value."""
    from Xlib.display import Display

    shown = {}
    for name in ("primary", "secondary", "clipboard", "buffer-cut"):
        asked = ["timeout", "2", "xclip", "-o", "-selection", name]
        shown[name] = subprocess.run(asked, capture_output=True).stdout
    own = Display()
    windows = [own.screen().root]
    for window in windows:
        try:
            windows += window.query_tree().children
            for kind in window.list_properties():
                held = window.get_full_property(kind, 0)
                if held is not None:
                    text = held.value if isinstance(held.value, (bytes, str)) else bytes(held.value)
                    shown[hex(window.id), kind] = text.encode() if isinstance(text, str) else text
        except Exception:  # it is gone
            continue
    own.close()
    return which_have(shown, *turned)


def said_by(path, line, silent_s=0.2):
    """Return what a socket says to a line, to its end or until it is silent."""
    said = b""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(silent_s)
        try:
            asking.connect(chr(0) + path[1:] if path[0] == "@" else path)
            asking.sendall(line)
            while more := asking.recv(65536):
                said += more
        except OSError:
            pass
    return said
