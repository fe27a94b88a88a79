"""A stand-in for `dflash serve`: starts a plan, waits until it is ready, then for its end.

`python -m tests.fakes.driver PLAN.json BIN_DIR [--grace S] [--timeout S]`; it prints `ready` on
stdout, passes the engine's output to stderr, and exits with the engine's code or the error's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from dflash_deploy.errors import DFlashError
from dflash_deploy.launch.endings import died
from dflash_deploy.launch.health import wait_ready
from dflash_deploy.launch.process import start
from dflash_deploy.launch.signals import forwarded
from dflash_deploy.launch.signs import signs
from dflash_deploy.plan import Plan
from dflash_deploy.registry import load


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path)
    parser.add_argument("bin_dir", type=Path)
    parser.add_argument("--grace", type=float, default=1.0)
    parser.add_argument("--timeout", type=float, default=20.0)
    args = parser.parse_args()
    plan = msgspec.json.decode(args.plan.read_bytes(), type=Plan)
    try:
        return serve(plan, args)
    except DFlashError as error:
        for text in (error.message, error.hint, error.detail):
            print(text)
        return error.exit_code


def serve(plan: Plan, args: argparse.Namespace) -> int:
    executable = args.bin_dir / plan.argv[0]
    known = signs(load(user=False).engines[plan.engine], plan.version)
    with (
        start(
            plan, executable=executable, output=sys.stderr.buffer, grace=args.grace, signs=known
        ) as process,
        forwarded(process) as came,
    ):
        url = plan.base_url + plan.health_path
        wait_ready(process, url, args.timeout, lambda phase, _: print(f"phase {phase}", flush=True))
        print("ready", flush=True)
        code = process.wait()
        if came:
            return 130
        raise died(plan.engine, code, process.tail, "while it served", known)


if __name__ == "__main__":
    sys.exit(main())
