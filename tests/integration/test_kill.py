"""Fifty servers, each with something of it killed at a random moment: no orphan, no lost state."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest

from tests.integration.test_cli_detach import Machine, until
from tests.integration.test_cli_detach import machine as machine  # noqa: PLC0414 - a fixture

UNTIL_READY = 2.0
"""Seconds a launch takes here, about: the moments lie before and after it."""


def parts(machine: Machine, command: subprocess.Popen[str]) -> list[int]:
    """Every process of the server at this moment: command, keeper, guard, engine."""
    roots = {command.pid} if command.poll() is None else set()
    with suppress(OSError, ValueError):
        roots.add(machine.record()["pid"])
    found = set(roots) | set(machine.living())
    for pid in roots:
        with suppress(psutil.NoSuchProcess):
            found |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    return sorted(pid for pid in found if psutil.pid_exists(pid))


@pytest.mark.parametrize("moment", range(50))
def test_whatever_is_killed_whenever_all_goes_or_all_stays(machine, moment):
    chance = random.Random(moment)
    detached = chance.random() < 0.5
    words = machine.words() if detached else tuple(w for w in machine.words() if w != "--detach")
    command = machine.dflash.start(*words, env=machine.env({}))
    time.sleep(chance.uniform(0, UNTIL_READY))
    found = parts(machine, command)
    assert found, command.communicate()

    victim = chance.choice(found)
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)

    def gone() -> bool:
        return command.poll() is not None and not machine.living()

    if victim == command.pid and not detached:
        assert until(gone, 20)
    else:
        # what died may have been a process that had done its work
        assert until(lambda: gone() or ready(machine), 30)
    assert not (gone() and shown_ready(machine))
    assert machine.dflash.run("stop", "--all").code == 0
    command.wait(20)
    assert machine.nothing_left()
    assert machine.ps() == []


def ready(machine: Machine) -> bool:
    """Its record is looked at first: each `ps` is a process of its own."""
    with suppress(OSError, ValueError):
        return bool(machine.record()["ready"]) and shown_ready(machine)
    return False


def shown_ready(machine: Machine) -> bool:
    return [seen["state"] for seen in machine.ps()] == ["ready"]


def test_a_foreground_server_whose_engine_is_killed_says_so(machine):
    words = tuple(w for w in machine.words() if w != "--detach")
    command = machine.dflash.start(*words, "--json", env=machine.env({}))
    assert command.stdout.readline()  # said once the server has proven itself

    os.kill(machine.living()[0], signal.SIGKILL)

    _, err = command.communicate(timeout=20)
    assert command.returncode == 128 + signal.SIGKILL  # passed on, as the README says
    assert "SIGKILL" in err
    assert machine.nothing_left()
