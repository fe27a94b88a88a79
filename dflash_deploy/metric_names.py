"""What a release of an engine calls what it counts. Pure."""

from __future__ import annotations

from packaging.version import Version

from dflash_deploy.engine_schema import Engine, Meaning, MetricName
from dflash_deploy.reach import within

MetricNames = dict[Meaning, MetricName]
"""A meaning that is not there is not counted by the release."""


def metric_names(engine: Engine, version: str) -> MetricNames:
    """The names that hold for a release."""
    release = Version(version)
    return {item.meaning: item for item in engine.metrics if within(item.versions, release)}
