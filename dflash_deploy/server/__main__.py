"""`python -m dflash_deploy.server`: the errors of a start become one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dflash_deploy.errors import DFlashError, EngineError
from dflash_deploy.server.console import set_up_logging
from dflash_deploy.server.settings import Settings, parse


def main(argv: Sequence[str] | None = None) -> int:
    settings = parse(argv)
    _shorten_spinning()
    try:
        return _run(settings)
    except DFlashError as error:
        lines = [f"error: {error.message}", error.detail, error.hint and f"hint: {error.hint}"]
        sys.stderr.write("\n".join(line for line in lines if line) + "\n")
        return error.exit_code
    except KeyboardInterrupt:  # while loading; later the server handles it
        return 130


def _shorten_spinning() -> None:
    """Let OpenMP's threads sleep sooner when they wait; read once, when torch is loaded.

    libgomp spins 300,000 times before it sleeps. On cores shared with another program that made
    decoding 4 to 20 times slower; 10,000 outlast the pauses between two operations, and on idle
    cores cost nothing that could be measured.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _run(settings: Settings) -> int:
    try:
        from dflash_deploy.server.run import run
    except ModuleNotFoundError as error:
        raise EngineError(
            f"the embedded engine needs {error.name}", hint="pip install 'dflash-deploy[local]'"
        ) from None
    set_up_logging(settings.log_level)
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
