"""`dflash train`: a draft for a target that has none, or for one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt


def train(
    target: Annotated[str, typer.Argument(help="An alias, a hub id, or a folder with weights.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The run's folder. Default: ./dflash-train-TARGET."),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help='A .jsonl of {"prompt": ...} or {"messages": ...}. Default: our own.'),
    ] = None,
    num_prompts: Annotated[
        int | None,
        typer.Option("--num-prompts", min=2, help="Taken of them. Default: 1,000."),
    ] = None,
    self_prompts: Annotated[
        int | None,
        typer.Option("--self-prompts", min=0, help="More that the target writes. Default: 0."),
    ] = None,
    held_out: Annotated[
        int | None,
        typer.Option(
            "--held-out", min=1, help="Of these, kept to measure acceptance. Default: 16."
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="A server of the target that answers. Default: here.")
    ] = None,
    served_name: Annotated[
        str | None, typer.Option("--served-name", help="The target's name at the URL.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=2, help="Of an answer. Default: 256."),
    ] = None,
    sampled: Annotated[
        float | None,
        typer.Option(min=0, max=1, callback=opt.finite, help="Part drawn at 0.7. Default: 0.4."),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option("--max-length", min=8, help="Of prompt and answer, in tokens. Default: 512."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="A draft to go on with: a folder or id. Default: none.")
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(min=1, max=32, help="Of the draft. Default: 5."),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option("--block-size", min=2, max=64, help="Tokens a block. Default: 8."),
    ] = None,
    selector_rank: Annotated[
        int | None,
        typer.Option("--selector-rank", min=1, help="A DFlash 2 draft. Default: DFlash."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Of training. Default: 2,000."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", min=1, help="Answers a step. Default: 8."),
    ] = None,
    anchors: Annotated[
        int | None,
        typer.Option(min=1, help="Blocks an answer. Default: 64."),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate", min=1e-6, max=1, callback=opt.finite, help="Default: 0.02."
        ),
    ] = None,
    dpace: Annotated[
        bool, typer.Option("--dpace", help="Weigh tokens by the draft's own chances.")
    ] = False,
    mask_token: Annotated[
        int | None, typer.Option("--mask-token", min=0, help="Default: an unused special token.")
    ] = None,
    seed: Annotated[
        int | None,
        # torch's numbers end at 2**63, and a seed is multiplied by a million on its way there
        typer.Option(min=0, max=2**32 - 1, help="Default: 0."),
    ] = None,
    draft_id: Annotated[
        str | None, typer.Option("--id", help="The hub id that the draft will have.")
    ] = None,
    weights: opt.WeightsOpt = None,
    trust_remote_code: opt.TrustOpt = False,
    registry: Annotated[
        Path | None, typer.Option(help="The registry folder for its entry. Default: your own.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it takes; start nothing.")
    ] = False,
    json: opt.JsonOpt = False,
) -> None:
    """Train a DFlash draft for TARGET. The same command goes on with a run that was ended."""
    from dflash_deploy.cli import _training

    _training.train(_training.Wanted(
        target, output, registry, weights, trust_remote_code, draft_id, start, dry_run, json,
        {
            "path": str(prompts.absolute()) if prompts else None, "prompts": num_prompts,
            "self_prompts": self_prompts,
            "held_out": held_out, "url": url, "served_name": served_name,
            "answer_tokens": max_tokens, "sampled": sampled, "length": max_length, "layers": layers,
            "block_size": block_size, "selector_rank": selector_rank, "steps": steps,
            "batch": batch_size, "anchors": anchors, "learning_rate": learning_rate,
            "dpace": dpace, "mask_token_id": mask_token, "seed": seed,
        },
    ))  # fmt: skip
