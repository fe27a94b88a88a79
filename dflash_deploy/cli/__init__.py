"""The commands: one file each, a few lines over the core. Errors are caught here and only here."""

from __future__ import annotations

import signal
from itertools import pairwise
from types import FrameType
from typing import NoReturn

import typer

from dflash_deploy.cli import (
    _output,
    _ranks,
    bench,
    chat,
    doctor,
    engine,
    explain,
    logs,
    plan,
    ps,
    pull,
    registry,
    report,
    serve,
    show,
    stop,
    top,
    train,
    tune,
    verify,
)
from dflash_deploy.cli import list as list_command
from dflash_deploy.cli._repeated import registry_said
from dflash_deploy.errors import DFlashError, Interrupted

app = typer.Typer(
    name="dflash",
    help="Serve large language models with DFlash speculative decoding on vLLM, SGLang or a CPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(list_command.list_models)
app.command("show")(show.show)
app.command("doctor")(doctor.doctor)
app.command("plan")(plan.plan)
app.command("pull")(pull.pull)
app.command("serve")(serve.serve)
app.command("ps")(ps.ps)
app.command("top")(top.top)
app.command("logs")(logs.logs)
app.command("stop")(stop.stop)
app.command("report")(report.report)
app.command("explain")(explain.explain)
app.command("chat")(chat.chat)
app.command("bench")(bench.bench)
app.command("tune")(tune.tune)
app.command("verify")(verify.verify)
app.command("train")(train.train)
app.add_typer(engine.app, name="engine")
app.add_typer(registry.app, name="registry")


@app.callback()
def _root(
    *, version: bool = typer.Option(False, "--version", help="Show the version and exit.")
) -> None:
    if version:
        from dflash_deploy import __version__

        _output.text(f"dflash {__version__}")
        raise typer.Exit


def main(argv: list[str]) -> int:
    """Run one command line. Returns the exit code; prints the error, if there is one."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)  # so that what is half done is cleared away
    _output.spell_out()
    if rank := _ranks.number(argv):
        return _ranks.quietly(rank, lambda: _run(argv))
    return _run(argv)


def _run(argv: list[str]) -> int:
    _output.repeat_registry(registry_said(argv))
    try:
        code = app(argv, prog_name="dflash", standalone_mode=True)
    except SystemExit as stop:
        if _by_ctrl_c(stop):
            return _report(Interrupted("interrupted"), argv)
        return _code(stop)
    except KeyboardInterrupt:  # outside a command
        return _report(Interrupted("interrupted"), argv)
    except DFlashError as error:
        return _report(error, argv)
    except OSError as error:  # the help of typer, on a disk that is full
        return _report(DFlashError(f"the output cannot be written: {error.strerror}"), argv)
    return int(code or 0)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _by_ctrl_c(stop: SystemExit) -> bool:
    """Whether typer made a silent exit of it."""
    cause = stop.__context__ and stop.__context__.__cause__
    return isinstance(cause, KeyboardInterrupt)


def _code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    return stop.code if isinstance(stop.code, int) else 1


def _report(error: DFlashError, argv: list[str]) -> int:
    own = argv[: argv.index("--")] if "--" in argv else argv
    wants_json = "--json" in own or "--format=json" in own or "json" in _formats(own)
    _output.error(error, as_json=wants_json)
    return error.exit_code


def _formats(argv: list[str]) -> set[str]:
    """What follows `--format` or `-f`."""
    return {value for flag, value in pairwise(argv) if flag in ("--format", "-f")}
