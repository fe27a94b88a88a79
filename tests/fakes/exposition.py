"""Prometheus' text format as prometheus_client writes it, by hand: an engine that is a process of its own."""

from __future__ import annotations

Labels = dict[str, str]
TTFT, TPOT = 0.2, 0.01
"""Seconds that every request of a fake took."""
_BOUNDS = (0.005, 0.02, 0.1, 0.5, 2.5)


def family(name: str, kind: str, *samples: tuple[Labels, float]) -> str:
    """A counter's samples end with `_total`, and each has a `_created` beside it."""
    full = f"{name}_total" if kind == "counter" else name
    lines = [f"# HELP {full} {name}.", f"# TYPE {full} {kind}"]
    lines += [f"{full}{_written(labels)} {float(value)}" for labels, value in samples]
    if kind == "counter":
        lines += [f"# HELP {name}_created {name}.", f"# TYPE {name}_created gauge"]
        lines += [f"{name}_created{_written(labels)} 1.764e+09" for labels, _ in samples]
    return "\n".join(lines) + "\n"


def histogram(name: str, labels: Labels, each: float, count: int) -> str:
    """`count` observations, all of the same size."""
    lines = [f"# HELP {name} {name}.", f"# TYPE {name} histogram"]
    for bound in (*_BOUNDS, "+Inf"):
        below = count if bound == "+Inf" or each <= float(bound) else 0
        lines.append(f"{name}_bucket{_written(labels | {'le': str(bound)})} {float(below)}")
    lines.append(f"{name}_count{_written(labels)} {float(count)}")
    lines.append(f"{name}_sum{_written(labels)} {each * count}")
    return "\n".join(lines) + "\n"


def _written(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"
