"""`dflash` for servers that count at once: `python -m tests.fakes.hasty bench ...`.

An engine's counters follow its answers by a logging step, and a fake's are right with each answer:
the pause until two readings must agree is as short as can be, and all else is as it would be.
"""

from __future__ import annotations

from dflash_deploy.__main__ import run
from dflash_deploy.measure import counting

if __name__ == "__main__":
    counting.SETTLED = 0.005
    run()
