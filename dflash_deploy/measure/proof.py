"""A plan's server, proven to speculate: the check and what it means, in one step."""

from __future__ import annotations

import msgspec

from dflash_deploy.measure.acceptance import Acceptance, check
from dflash_deploy.measure.verdict import Verdict, verdict
from dflash_deploy.plan import Endpoint, Plan

CHECKED_FROM = 192
"""Tokens of context: a prompt of the check and its answer, with a chat template around them."""


class Proof(msgspec.Struct, frozen=True):
    """What was measured, and what it says."""

    acceptance: Acceptance
    verdict: Verdict


def endpoint_of(plan: Plan) -> Endpoint:
    """Where the plan's server answers, once it runs."""
    secret = plan.secrets[0].taken_from if plan.secrets else None
    return Endpoint(plan.base_url, plan.served_names[0], plan.engine, plan.version, secret)


def provable(plan: Plan) -> bool:
    """Whether its context has room for the check."""
    return plan.context >= CHECKED_FROM


def prove(plan: Plan) -> Proof:
    """Ask the server. Raises LaunchError or UsageError where it does not answer."""
    measured = check(endpoint_of(plan), thinking=plan.thinking, thinking_key=plan.thinking_key)
    return Proof(measured, verdict(measured, plan))
