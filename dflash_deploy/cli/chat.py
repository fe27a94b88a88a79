"""`dflash chat`: a conversation in the terminal, with a model it starts or a server that runs."""

from __future__ import annotations

from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli.serve import EngineEnvOpt, TimeoutOpt


def chat(
    model: Annotated[str, typer.Argument(metavar="MODEL-or-URL", help="A model, or a server.")],
    engine_args: opt.EngineArgs = None,
    *,
    ask: Annotated[str | None, typer.Option(help="Ask this one question and leave.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Answer again without DFlash, and compare speeds.")
    ] = False,
    thinking: Annotated[
        bool | None, typer.Option("--thinking/--no-thinking", help="Default: the entry's mode.")
    ] = None,
    reasoning_effort: Annotated[
        str | None, typer.Option(help="low, medium, high: gpt-oss.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2, callback=opt.finite)] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of one answer.")] = 512,
    served_name: Annotated[
        str | None, typer.Option("--served-name", help="The model's name at a URL.")
    ] = None,
    engine: opt.EngineOpt = None,
    engine_env: EngineEnvOpt = None,
    port: opt.PortOpt = None,
    weights: opt.WeightsOpt = None,
    trust_remote_code: opt.TrustOpt = False,
    registry: opt.RegistryOpt = None,
    timeout: TimeoutOpt = None,
) -> None:
    """Chat with MODEL, started for it, or with the server at a URL.

    Ctrl-C ends an answer, Ctrl-D the chat. A paste of several lines is one question.
    """
    from dflash_deploy.cli import _conversation as talk
    from dflash_deploy.cli._one_answer import Style
    from dflash_deploy.cli._planning import Wanted

    style = Style(ask, compare, thinking, reasoning_effort, temperature, max_tokens)
    if model.startswith(("http://", "https://")):
        endpoint = talk.endpoint_at(model, served_name)
        key = talk.thinking_key_of(registry, endpoint.model)
        talk.converse(endpoint, style, thinking_key=key)
        return
    wanted = Wanted(
        model, engine, port=port, weights=weights, trust_remote_code=trust_remote_code,
        registry=registry, engine_args=opt.engine_words(engine_args),
    )  # fmt: skip
    talk.with_server(wanted, style, engine_env=engine_env, timeout=timeout)
