"""Runs one engine and ends its whole process tree, however the program that asked for it ends.

Started as `python -I -S guard.py GRACE [--remove FILE]... -- ARGV...` with a pipe as its standard
input: a `T` in it asks the engine to stop, a `K` kills it, and its end, which comes however the
other side dies, means the same as `T`. Nothing but the standard library: it is a file to be run,
and it must be ready in milliseconds. Its exit code is the engine's, 128 + N after signal N.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SETTLE = 0.5
"""Seconds the engine's helpers get to leave after it, and again once they are told to."""
ASK, KILL = b"T", b"K"


def main(arguments: list[str]) -> int:
    split = arguments.index("--")
    grace, removed = float(arguments[0]), arguments[2:split:2]
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        return _run(arguments[split + 1 :], grace)
    finally:
        for path in removed:
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - pathlib costs a third of the start


def _run(argv: list[str], grace: float) -> int:
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    requests: list[bytes] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: requests.append(KILL if requests else ASK))
    engine = spawn(argv)
    code = _watch(engine, wake, requests, grace)
    end_tree(engine, at_once=KILL in requests)
    return code


def spawn(argv: list[str]) -> int:
    """The engine, in a process group of its own, with no standard input; its process id."""
    guard = os.getpid()
    handled = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
    # until the handlers inherited from here are gone, they would swallow a signal to the engine
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    engine = os.fork()
    if engine:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return engine
    try:
        os.setpgid(0, 0)
        # should this guard itself be killed: the kernel then ends the engine
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _watch(engine: int, wake: int, requests: list[bytes], grace: float) -> int:
    """Wait for the engine, passing on what is asked; its exit code."""
    sources = [wake, 0]
    deadline: float | None = None
    killed = False
    while (code := reap(engine)) is None:
        now = time.monotonic()
        if requests and deadline is None:
            deadline = now + grace
            if KILL not in requests:
                _signal(engine, signal.SIGTERM)
        if deadline is not None and not killed and (now >= deadline or KILL in requests):
            killed = True
            _signal(engine, signal.SIGKILL)
        left = None if deadline is None or killed else deadline - now
        readable, _, _ = select.select(sources, [], [], left)
        if wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 512)
        if 0 in readable:
            asked = os.read(0, 16)
            requests += [asked[i : i + 1] for i in range(len(asked))] or [ASK]
            sources = [wake, 0] if asked else [wake]
    return code


def reap(engine: int) -> int | None:
    """Collect every dead child, adopted ones too; the engine's exit code if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == engine:
                code = os.waitstatus_to_exitcode(ended[1])
                found = code if code >= 0 else 128 - code
    return found


def end_tree(engine: int, *, at_once: bool) -> None:
    """End what the engine left behind, those in other sessions included."""
    if not at_once:
        # helpers that clean up after the engine (shared memory, say) leave by themselves
        if _gone(engine, SETTLE):
            return
        for pid in remaining(engine):
            _signal(pid, signal.SIGTERM)
        if _gone(engine, SETTLE):
            return
    for _ in range(100):
        # again and again: a process may have forked while it was being killed
        for pid in remaining(engine):
            _signal(pid, signal.SIGKILL)
        if _gone(engine, 0.05):
            return


def _gone(engine: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        reap(engine)
        if not list(remaining(engine)):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)


def remaining(engine: int) -> Iterator[int]:
    """Living descendants of this process; where /proc is missing, the engine's process group."""
    try:
        parents = dict(_parents())
    except OSError:
        with contextlib.suppress(OSError):
            os.killpg(engine, 0)
            yield -engine
        return
    family = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= new
    yield from family - {os.getpid()}


def _parents() -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            # the name in parentheses may hold anything, so count from its end
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                yield int(name), int(parent)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if pid < 0:
            os.killpg(-pid, number)
        else:
            os.kill(pid, number)


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere nothing happens, and the process group alone is ended."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, int(value), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
