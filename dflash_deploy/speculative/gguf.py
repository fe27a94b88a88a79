"""GGUF to a transformers folder, once: `python -m dflash_deploy.speculative.gguf SOURCE DEST`.

The folder is what `load_target` and transformers read: config.json, model.safetensors in float32,
the tokenizer and its chat template. Weights stay as the GGUF rounded them: nothing is restored.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from dflash_deploy.errors import DFlashError, DownloadError, UsageError

MAGIC = b"GGUF"


def convert(source: Path, destination: Path) -> None:
    """Write `destination`; it appears complete or not at all. Raises DownloadError, UsageError."""
    if destination.exists():
        raise UsageError(f"{destination} exists already", hint=f"rm -r {destination}")
    _check_gguf(source)
    destination.parent.mkdir(parents=True, exist_ok=True)
    # a sibling, so that the last step is a rename inside one file system
    partial = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", dir=destination.parent))
    try:
        _write(source, partial)
        partial.chmod(0o755)
        partial.rename(destination)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _check_gguf(source: Path) -> None:
    try:
        with source.open("rb") as stream:
            magic = stream.read(len(MAGIC))
    except OSError as error:
        raise DownloadError(f"{source} cannot be read: {error.strerror}") from error
    if magic != MAGIC:
        raise DownloadError(f"{source} is not a GGUF file: it starts with {magic!r}")


def _write(source: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": source.name, "local_files_only": True}
    try:
        model = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **where)
        tokenizer = AutoTokenizer.from_pretrained(source.parent, **where)
    except (ValueError, KeyError, RuntimeError, OSError, NotImplementedError) as error:
        raise DownloadError(
            f"{source} could not be converted: the file is damaged or its architecture unknown",
            detail=str(error),
        ) from error
    _agree_on_end(model, tokenizer)
    _forget_quantization(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for written in folder.iterdir():
        written.chmod(0o644)


def _forget_quantization(model: Any) -> None:
    """The tensors are plain float32 now: an engine told "gguf" would look for packed ones."""
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


def _agree_on_end(model: Any, tokenizer: Any) -> None:
    """Take the end-of-text token from the model's metadata: the tokenizer's is a guess there."""
    end = model.config.eos_token_id
    if isinstance(end, int):
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)


def main(arguments: list[str]) -> int:
    """Return the exit code; print nothing on success."""
    try:
        match arguments:
            case [source, destination]:
                convert(Path(source), Path(destination))
            case _:
                raise UsageError(
                    "two paths are needed: the GGUF file and the folder to write",
                    hint="python -m dflash_deploy.speculative.gguf SOURCE.gguf DEST_DIR",
                )
    except DFlashError as error:
        lines = (error.message, error.detail, error.hint)
        sys.stderr.write("\n".join(line for line in lines if line) + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
