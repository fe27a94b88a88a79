"""`python -m dflash_deploy` and the console scripts. `--version` is answered before any import."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line and exit with its documented code."""
    if sys.argv[1:] == ["--version"]:
        from dflash_deploy import __version__

        sys.stdout.write(f"dflash {__version__}\n")
        sys.exit(0)
    try:
        from dflash_deploy.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
