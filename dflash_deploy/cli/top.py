"""`dflash top`: what the servers do, refreshed until somebody ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli import _output
from dflash_deploy.cli.ps import NONE as NO_SERVER
from dflash_deploy.cli.ps import document

if TYPE_CHECKING:
    from dflash_deploy.launch.seen import Seen

NONE = f"{NO_SERVER}; one of somebody else: dflash top --url http://HOST:PORT"

IntervalOpt = Annotated[
    float,
    typer.Option(
        "--interval",
        "-i",
        min=0.1,
        max=opt.LONGEST,
        callback=opt.finite,
        help="Seconds between two refreshes.",
    ),
]
CountOpt = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="End after so many refreshes.")
]


UrlsOpt = Annotated[
    list[str] | None,
    typer.Option("--url", help="A server that somebody else started, in place of yours; several."),
]


def top(
    *,
    url: UrlsOpt = None,
    interval: IntervalOpt = 2.0,
    count: CountOpt = None,
    json: opt.JsonOpt = False,
) -> None:
    """Watch the servers: acceptance, speed, latency and load. Of the last 10 s; q ends it."""
    from contextlib import suppress

    with suppress(KeyboardInterrupt):  # the usual end
        looks = _looks(url or [])
        if json:
            _printed(looks, interval, count, _print_json)
        elif _output.draws():
            _drawn(looks, interval, count)
        else:
            _output.text("TIME      " + _heading())
            _printed(looks, interval, count, _print_lines)


def _looks(urls: Sequence[str]) -> Iterator[list[Seen]]:
    """Raises LaunchError or UsageError for a URL that no server answers at."""
    from dflash_deploy.launch import containers, state
    from dflash_deploy.launch.elsewhere import at
    from dflash_deploy.launch.seen import Watch
    from dflash_deploy.registry import load

    engines = load(user=False).engines
    newest = {name: engine.releases[-1].version for name, engine in engines.items()}
    others = [at(url, opt.api_key_env(), newest) for url in dict.fromkeys(urls)]
    watch = Watch(engines)

    def looks() -> Iterator[list[Seen]]:
        while True:
            yield watch.look(others or [*state.every()[0], *containers.reported()])

    return looks()


def _printed(
    looks: Iterator[list[Seen]], interval: float, count: int | None,
    show: Callable[[list[Seen]], None],
) -> None:  # fmt: skip
    """From the second look on: one alone has no difference to show."""
    import time

    if not next(looks) and count is None:
        # nobody reads what says nothing every two seconds
        _output.note(NONE)
        return
    while count is None or count > 0:
        time.sleep(interval)
        show(next(looks))
        count = None if count is None else count - 1


def _drawn(looks: Iterator[list[Seen]], interval: float, count: int | None) -> None:
    from dflash_deploy.cli._frame import lines
    from dflash_deploy.cli._screen import keys, screen

    with screen() as draw, keys() as ended:
        for number, seen in enumerate(looks):
            draw([*lines(seen), *([] if seen else [NONE]), "", "q ends this"])
            if number == count or ended(interval):
                return


def _heading() -> str:
    from dflash_deploy.cli._frame import heading

    return heading()


def _print_lines(seen: list[Seen]) -> None:
    from dflash_deploy.cli._frame import line

    now = datetime.now().astimezone()
    for each in seen:
        _output.text(f"{now:%H:%M:%S}  {line(each)}")
    if not seen:
        _output.note(NONE)


def _print_json(seen: list[Seen]) -> None:
    """A document a line."""
    import msgspec

    made = {
        "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "servers": [document(each) for each in seen],
    }
    _output.text(msgspec.json.encode(made).decode())
