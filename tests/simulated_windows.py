"""Windows as the packages of `src` would find it, on a POSIX system: a plugin of pytest, or ``install()``.

Only what modules of these packages import is changed, so that Python and its libraries still work: modules of POSIX are
missing, attributes of `os`, `signal`, `select`, `socket` and others too, and some functions refuse what Windows does.
Paths, line ends, and real behaviour of files stay those of this system: nothing here replaces a test on Windows.
"""

import builtins
import ctypes
import errno
import faulthandler
import fcntl
import mmap
import os
import platform
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

PACKAGES = ("rookery", "rookery_rllib", "rookery_mlagents")

ABSENT = {
    "crypt", "curses", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline", "resource", "spwd", "syslog",
    "termios", "tty",
}  # fmt: skip

WITHOUT = {
    os: "fork forkpty register_at_fork killpg getpgid setpgid setsid getsid uname getuid geteuid getgid getegid setuid "
    "sched_getaffinity sched_setaffinity getloadavg sysconf confstr memfd_create posix_fallocate posix_spawn pipe2 "
    "pread pwrite readv writev sendfile wait wait3 wait4 waitid nice getpriority setpriority mkfifo mknod eventfd "
    "pidfd_open statvfs fchmod fchown chown lchown chroot O_NONBLOCK O_NOFOLLOW O_CLOEXEC O_DIRECTORY O_SYNC "
    "RTLD_NOLOAD RTLD_NOW RTLD_LAZY RTLD_GLOBAL WNOHANG WIFSIGNALED WTERMSIG EX_OK ttyname openpty ctermid",
    signal: "SIGHUP SIGKILL SIGQUIT SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGPIPE "
    "SIGWINCH SIGBUS pthread_sigmask pthread_kill setitimer getitimer alarm pause sigwait sigtimedwait siginterrupt "
    "SIG_BLOCK SIG_UNBLOCK SIG_SETMASK",
    select: "poll epoll kqueue POLLIN POLLOUT POLLHUP POLLERR",
    socket: "AF_UNIX send_fds recv_fds SO_REUSEPORT MSG_DONTWAIT CMSG_LEN SCM_RIGHTS",
    faulthandler: "register unregister",
    mmap: "MADV_DONTNEED MADV_RANDOM MAP_SHARED MAP_PRIVATE PROT_READ PROT_WRITE",
}  # fmt: skip

SIGNALS = {signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGINT, signal.SIGSEGV, signal.SIGTERM}

O_BINARY = 1 << 40
"""A flag that no system has."""

_of_text: set[int] = set()
"""File descriptors whose line ends Windows would translate."""


class Changed(ModuleType):
    """A module without some attributes, and with others."""

    def __init__(self, module: ModuleType, without: str = "", **others) -> None:
        self.__dict__.update(_module=module, _without=set(without.split()), _others=others, _before={})

    def __getattr__(self, name):
        if name in self._others:
            return self._others[name]
        if name in self._without:
            raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return getattr(self._module, name)

    def __setattr__(self, name, value):
        self._before.setdefault(name, getattr(self, name))
        if name in self._others:
            self._others[name] = value
        else:
            setattr(self._module, name, value)

    def __delattr__(self, name):  # so pytest's `monkeypatch` restores what was not in ``__dict__``
        setattr(self, name, self._before[name])

    def __dir__(self):
        return sorted({*dir(self._module), *self._others} - self._without)


def _denied(path) -> PermissionError:
    return PermissionError(errno.EACCES, "Access is denied", str(path))


def _is_open(path) -> bool:
    """Whether this process has a file open, or one in a folder."""
    path = Path(path).resolve()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if entry.readlink().is_relative_to(path):
                return True
        except OSError:
            continue
    return False


def _open(path, flags, mode=0o777, **more):
    if os.path.isdir(path):
        raise _denied(path)
    number = os.open(path, flags & ~O_BINARY, mode, **more)
    _of_text.discard(number)
    if not flags & O_BINARY:
        _of_text.add(number)
    return number


def _fdopen(number, *arguments, **more):
    _of_text.discard(number)
    return os.fdopen(number, *arguments, **more)


def _write(number, content):
    assert number not in _of_text or b"\n" not in bytes(content), "Windows would translate the line ends"
    return os.write(number, content)


def _fsync(number):
    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    os.fsync(number)


def _rename(source, target):
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    if _is_open(source):
        raise _denied(source)
    os.rename(source, target)


def _replace(source, target):
    if _is_open(source) or _is_open(target) or os.path.isdir(target):
        raise _denied(target)
    os.replace(source, target)


def _kill(process, number):
    assert number in (signal.SIGTERM,), f"on Windows os.kill(..., {number}) ends the process"
    os.kill(process, number)


def _signal(number, handler):
    if number not in SIGNALS:
        raise ValueError("invalid signal value")
    return signal.signal(number, handler)


def _getsignal(number):
    if number not in SIGNALS:
        raise ValueError("invalid signal value")
    return signal.getsignal(number)


def _select(read, write, failed, timeout=None):
    for each in (*read, *write, *failed):
        if not isinstance(each, socket.socket):
            raise OSError(10038, "an operation was attempted on something that is not a socket")
    return select.select(read, write, failed, timeout)


class _Popen(subprocess.Popen):
    def __init__(self, *arguments, pass_fds=(), preexec_fn=None, **more) -> None:
        assert not pass_fds, "pass_fds not supported on Windows."
        if preexec_fn is not None:
            raise ValueError("preexec_fn is not supported on Windows platforms")
        super().__init__(*arguments, **more)


def _library(name, *arguments, **more):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    return ctypes.CDLL(name, *arguments, **more)


def _locking(number, mode, count):
    assert mode == 2 and count == 1
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _denied(number) from None


def _open_process(rights, inherit, number):
    try:
        os.kill(number, 0)
    except PermissionError:
        return number
    except (ProcessLookupError, OverflowError):
        return 0
    return number


KERNEL = SimpleNamespace(
    OpenProcess=_open_process, WaitForSingleObject=lambda handle, time: 0x102, CloseHandle=lambda handle: 1
)

FUNCTIONS = {
    os: {
        "name": "nt", "O_BINARY": O_BINARY, "open": _open, "fdopen": _fdopen, "write": _write, "fsync": _fsync,
        "rename": _rename, "replace": _replace, "kill": _kill,
    },
    signal: {"signal": _signal, "getsignal": _getsignal},
    select: {"select": _select},
    subprocess: {"Popen": _Popen},
    ctypes: {"CDLL": _library, "windll": SimpleNamespace(kernel32=KERNEL)},
    platform: {"system": lambda: "Windows"},
    sys: {"platform": "win32"},
}  # fmt: skip

CHANGED = {
    module.__name__: Changed(module, WITHOUT.get(module, ""), **FUNCTIONS.get(module, {}))
    for module in {**WITHOUT, **FUNCTIONS}
} | {"msvcrt": Changed(ModuleType("msvcrt"), locking=_locking, LK_NBLCK=2)}


def install() -> None:
    """Changes what is imported from now on; before, no module of the packages may have been imported."""
    assert not any(name.partition(".")[0] in PACKAGES for name in sys.modules)
    imported = builtins.__import__

    def change(name, globals=None, locals=None, fromlist=(), level=0):
        importer = str((globals or {}).get("__name__", "")).partition(".")[0]
        if level or importer not in PACKAGES:
            return imported(name, globals, locals, fromlist, level)
        if name in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return CHANGED.get(name) or imported(name, globals, locals, fromlist, level)

    builtins.__import__ = change


if __name__ == "simulated_windows" and "PYTEST_PLUGINS" in os.environ:
    install()
