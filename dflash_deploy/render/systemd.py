"""A plan as a unit of the user's systemd: `systemctl --user` runs it without root."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.plan import Plan
from dflash_deploy.service import search_path, service_name, start_seconds


def render(plan: Plan) -> str:
    """The unit. It counts as started when the server answers, and its secrets are in a file."""
    sections = {"Unit": _unit(plan), "Service": _service(plan), "Install": _install()}
    return "\n\n".join(
        "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in lines)])
        for name, lines in sections.items()
    )


def _unit(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "Description", _specifiers(f"{plan.model} with DFlash on {plan.engine} {plan.version}")
    # a server that cannot start is not tried for ever
    yield "StartLimitIntervalSec", str(5 * start_seconds(plan))
    yield "StartLimitBurst", "4"


def _service(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "Type", "exec"
    yield "Environment", _quoted(f"PATH={_path(plan)}", specifiers=True)
    for name, value in plan.env.items():
        yield "Environment", _quoted(f"{name}={value}")
    # with a key, a start without the file fails: the server would be open to all
    yield "EnvironmentFile", ("" if plan.secrets else "-") + secret_file(plan)
    yield "ExecStartPre", " ".join(["/bin/sh", "-c", _quoted(_refusal(plan), specifiers=True)])
    # systemd looks for programs in its own path: env looks in the one above
    yield "ExecStart", " ".join(["/usr/bin/env", *map(word, plan.argv)])
    yield "ExecStartPost", " ".join(["/bin/sh", "-c", word(_wait(plan))])
    yield "TimeoutStartSec", str(start_seconds(plan))
    yield "TimeoutStopSec", "60"
    yield "Restart", "on-failure"
    yield "RestartSec", "10"
    yield "NoNewPrivileges", "yes"


def _install() -> Iterator[tuple[str, str]]:
    yield "WantedBy", "default.target"


def secret_file(plan: Plan) -> str:
    """`%E` is the user's configuration folder."""
    return f"%E/dflash/{service_name(plan)}.env"


def _refusal(plan: Plan) -> str:
    """Stops a start whose secrets others on the machine can read, and says what mends it."""
    file = f"'{secret_file(plan)}'"
    read_by_others = f'"$$(find -L {file} -perm /077 2>/dev/null)"'
    said = f'echo "others can read the secrets: chmod 600 "{file} >&2'
    return f"test -z {read_by_others} || {{ {said}; exit 1; }}"


def _path(plan: Plan) -> str:
    return f"{search_path(plan, '%h/.local/share')}:%h/.local/bin:/usr/local/bin:/usr/bin:/bin"


def _wait(plan: Plan) -> str:
    """Until the server answers, or is gone."""
    asked = f"curl --silent --fail --output /dev/null '{plan.base_url}{plan.health_path}'"
    # without curl nothing is waited for: it would look for ever, and a good server would be ended
    loop = f'until {asked}; do kill -0 "$MAINPID" || exit 1; sleep 2; done'
    return f"command -v curl >/dev/null || exit 0; {loop}"


def word(text: str) -> str:
    """A word of a command line: systemd fills in `%x` and `$X`, unless they are doubled."""
    return _quoted(text.replace("$", "$$"))


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str, *, specifiers: bool = False) -> str:
    """In quotes, as systemd reads them; a dollar sign means nothing there but in commands."""
    plain = text if specifiers else _specifiers(text)
    for character, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        plain = plain.replace(character, written)
    return f'"{plain}"'
