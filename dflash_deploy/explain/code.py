"""Options that run code: of a file they name, of a package, or of another repository."""

from __future__ import annotations

RUNS_CODE = frozenset(
    {"--middleware", "--tool-parser-plugin", "--reasoning-parser-plugin", "--worker-cls",
     "--worker-extension-cls", "--scheduler-cls", "--io-processor-plugin", "--code-revision",
     "--tokenizer", "--tokenizer-path", "--tokenizer-revision", "--custom-weight-loader",
     "--speculative-draft-custom-weight-loader", "--forward-hooks", "--logits-processors",
     "--log-config-file", "--custom-sigquit-handler"}
)  # fmt: skip
"""A command from elsewhere does not get them into the right one."""
