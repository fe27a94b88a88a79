"""`dflash` for containers without cards: `python -m tests.fakes.without_gpus serve ... --docker`.

The tests' Docker daemon has no NVIDIA runtime; all else of a container is as it would be. What a fake
engine inside is to do is handed on to it.
"""

from __future__ import annotations

import os

from dflash_deploy import container
from dflash_deploy.__main__ import run

if __name__ == "__main__":
    container.cards = lambda _plan: 0
    container.ENVIRONMENT |= {k: v for k, v in os.environ.items() if k.startswith("FAKE_ENGINE_")}
    run()
