"""What every fake engine process does besides serving: logs, workers, crashes, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from tests.fakes.knobs import Knobs

WORKER = """
import os, signal, sys, time
if sys.argv[1] == "setsid":
    os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 2:
    with open(sys.argv[2], "a") as file:
        file.write(f"{os.getpid()}\\n")
time.sleep(120)
"""
_BAR = "Loading safetensors checkpoint shards: {} Completed | {}/1 [00:00<00:00, 5.53it/s]"
# a progress bar: drawn over itself with a carriage return
SHARDS = (_BAR.format("  0%", 0) + "\r" + _BAR.format("100%", 1),)
OOM = """\
Traceback (most recent call last):
  File "engine/core.py", line 1034, in run_engine_core
    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)
  File "worker/gpu_worker.py", line 312, in load_model
    self.model_runner.load_model(eep_scale_up=eep_scale_up)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 0 has a total \
capacity of 79.11 GiB of which 1.20 GiB is free.
"""


CORE_DIED = "EngineCore encountered an issue. See stack trace (above) for the root cause."
SHUTTING_DOWN = f"""\
RuntimeError: Worker failed with error 'out of memory', please check the stack trace above
(APIServer pid=7) ERROR 11-29 22:01:43 [async_llm.py:906] EngineDeadError: {CORE_DIED}
INFO:     Shutting down
nanobind: leaked 64 types!
 - leaked type "triton._C.libtriton.ir.location"
 - ... skipped remainder
/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There \
appear to be 1 leaked semaphore objects to clean up at shutdown
  warnings.warn('resource_tracker: There appear to be %d '
"""
RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "logs"


def recorded(name: str) -> list[str]:
    """What a real engine said while it started, without its lesser lines."""
    return (RECORDED / name).read_text().splitlines()


def log(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def begin(knobs: Knobs, argv: Sequence[str]) -> None:
    """Leave the traces a test looks for, start the workers, arm the crash and the signals."""
    _record_pid(knobs)
    if knobs.echo:
        Path(knobs.echo).write_text(json.dumps({"argv": list(argv), "env": dict(os.environ)}))
    # as setproctitle does, which both engines name their processes with
    environ = dict(os.environ) if os.environ.get("SPT_NOENV") else {}
    for index in range(knobs.workers + knobs.setsid_worker):
        kind = "setsid" if index == knobs.workers else "plain"
        extra = [knobs.pids] if knobs.pids else []
        subprocess.Popen([sys.executable, "-I", "-S", "-c", WORKER, kind, *extra], env=environ)
    if knobs.workers + knobs.setsid_worker:
        _until_recorded(knobs)
    if knobs.crash_after is not None:
        timer = threading.Timer(knobs.crash_after, crash, [knobs])
        timer.daemon = True
        timer.start()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if knobs.ignore_sigterm else _shut_down)


def start_up(knobs: Knobs, lines: Sequence[str], ready: Callable[[], None]) -> None:
    """Print the phases of a start; call `ready` at the end, or wait for ever."""
    for line in lines:
        time.sleep(knobs.phase_delay)
        log(line)
        if knobs.crash_at and knobs.crash_at in line:
            crash(knobs)
        while knobs.hang_at and knobs.hang_at in line:
            time.sleep(0.1)
    while knobs.never_ready:
        time.sleep(0.1)
    held(knobs.hold_start)
    ready()
    flood = knobs.stderr_flood
    while flood > 0:
        log("x" * 1023)
        flood -= 1024


def held(file: str | None) -> None:
    """Wait until the test has made the file."""
    while file and not Path(file).exists():
        time.sleep(0.02)


def crash(knobs: Knobs) -> None:
    if knobs.die_by_signal is not None:
        os.kill(os.getpid(), knobs.die_by_signal)
    sys.stderr.write(OOM if knobs.last_words is None else knobs.last_words + "\n")
    sys.stderr.flush()
    if knobs.linger:
        log(SHUTTING_DOWN)
        # vLLM's API server shuts down in good order, and calls that a success
        threading.Timer(knobs.linger, os._exit, [0]).start()
    else:
        os._exit(knobs.exit_code)


def _shut_down(number: int, frame: FrameType | None) -> None:
    log("INFO:     Shutting down")
    # as uvicorn under a handled SIGTERM: the workers are left to whoever started the tree
    os._exit(0)


def _record_pid(knobs: Knobs) -> None:
    if knobs.pids:
        with Path(knobs.pids).open("a") as file:
            file.write(f"{os.getpid()}\n")


def _until_recorded(knobs: Knobs) -> None:
    wanted = 1 + knobs.workers + knobs.setsid_worker
    while knobs.pids and len(Path(knobs.pids).read_text().split()) < wanted:
        time.sleep(0.01)
