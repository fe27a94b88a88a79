"""`vllm serve` command lines, judged by vLLM's own parser and config classes, without a card.

Runs inside a release's environment (tools/engine_env.py): one JSON case a line on stdin, one
verdict a line on stdout. The card is faked, case by case; the compiled kernels, which no check
calls, are answered for. A target or draft is a folder with a config.json: nothing is fetched,
and no weights are loaded.
"""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from verdicts import Case, answer, judge

KERNELS = (
    "vllm._C", "vllm._moe_C", "vllm._C_stable_libtorch", "vllm._moe_C_stable_libtorch",
    "vllm.vllm_flash_attn._vllm_fa2_C", "vllm.vllm_flash_attn._vllm_fa3_C",
)  # fmt: skip
CLI = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
"""Where the server's parser is: 0.33, 0.30, and up to 0.28."""
CARD = SimpleNamespace(capability=(9, 0), memory_gib=80, cards=1)
"""The card that the platform answers for."""


class Absent:
    """An operator that was not compiled: any part of it is as absent, and a question gets no."""

    def __call__(self, *args: Any, **named: Any) -> bool:
        return False

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


ABSENT = Absent()


def stub_kernels() -> None:
    """Compiled modules exist and hold nothing; asked whether a kernel is there, they say no."""
    import torch

    for name in KERNELS:
        sys.modules[name] = ModuleType(name)
    namespace: Any = type(torch.ops.aten)
    find = namespace.__getattr__

    def lookup(self: Any, name: str) -> Any:
        try:
            return find(self, name)
        except AttributeError:
            if name.startswith("__") or not ("vllm" in self.name or self.name.startswith("_")):
                raise
            return ABSENT

    namespace.__getattr__ = lookup
    register = torch.library.register_fake

    def lenient(op: Any, func: Any = None, /, **named: Any) -> Any:
        if func is None:
            return lambda later: lenient(op, later, **named)
        try:
            return register(op, func, **named)
        except RuntimeError:  # an operator of a kernel that is not here
            return func

    torch.library.register_fake = lenient


def fake_platform() -> None:
    """A CUDA platform whose answers come from CARD."""
    platforms: Any = importlib.import_module("vllm.platforms")
    cuda = importlib.import_module("vllm.platforms.cuda")
    capability = importlib.import_module("vllm.platforms.interface").DeviceCapability

    class Platform(cuda.CudaPlatformBase):  # type: ignore[misc, name-defined]
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return capability(*CARD.capability)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return f"NVIDIA SM {CARD.capability[0]}{CARD.capability[1]}"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return int(CARD.memory_gib) << 30

        @classmethod
        def is_fully_connected(cls, ids: list[int]) -> bool:
            return True

        @classmethod
        def device_count(cls) -> int:
            return int(CARD.cards)

        @classmethod
        def num_compute_units(cls, device_id: int = 0) -> int:
            return 132

    platforms._current_platform = Platform()


def insert(case: dict[str, Any]) -> None:
    """Put in the card of a case."""
    major, _, minor = str(case.get("compute_capability", "9.0")).partition(".")
    CARD.capability = (int(major), int(minor or 0))
    CARD.memory_gib = case.get("memory_gib", 80)
    CARD.cards = case.get("cards", 1)


def forget() -> None:
    """Empty what vLLM remembers within a process: it takes every process to serve one model."""
    for memory in memories(len(sys.modules)):
        memory.cache_clear()


@functools.lru_cache(maxsize=1)
def memories(_modules: int) -> list[Any]:
    """Every cache of a function in vLLM, but what it read of its own model classes."""
    return [
        memory
        for memory in gc.get_objects()
        if type(memory) is functools._lru_cache_wrapper
        and str(memory.__module__).startswith("vllm.")
        and memory.__module__ != "vllm.model_executor.models.registry"
    ]


class Release:
    """The parts of one installed vLLM that a check needs, wherever this release keeps them."""

    def __init__(self) -> None:
        stub_kernels()
        fake_platform()
        config: Any = importlib.import_module("vllm.config.vllm")
        config.HAS_TRITON = True  # else the V1 runner
        inspection: Any = importlib.import_module("vllm.model_executor.models.registry")
        inspection._run_in_subprocess = lambda inspect: inspect()  # nothing here touches CUDA
        cli = next(module for name in CLI if (module := maybe(name)))
        arguments = importlib.import_module("vllm.utils.argparse_utils")
        self.validate = cli.validate_parsed_serve_args
        self.parser = cli.make_arg_parser(arguments.FlexibleArgumentParser(prog="vllm serve"))
        self.engine_args = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
        usage = importlib.import_module("vllm.usage.usage_lib").UsageContext
        self.context = usage.OPENAI_API_SERVER
        importlib.import_module("stand_ins").stand_in()  # flashinfer, which every vLLM has
        self.tools = importlib.import_module("vllm.tool_parsers").ToolParserManager
        self.reasoning = importlib.import_module("vllm.reasoning").ReasoningParserManager

    def parse(self, argv: list[str]) -> Any:
        args = self.parser.parse_args(argv)
        if getattr(args, "model_tag", None):
            args.model = args.model_tag
        self.validate(args)
        for kind, name, known in (
            ("tool", args.tool_call_parser, self.tools),
            ("reasoning", args.reasoning_parser, self.reasoning),
        ):
            if name and name not in known.list_registered():
                raise ValueError(f"no {kind} parser `{name}`")
        return args

    def configure(self, args: Any) -> dict[str, Any]:
        """The engine's whole configuration, as far as it is made before weights are loaded."""
        if args.reasoning_parser:
            args.reasoning_parser = ""  # its class asks for a tokenizer; its name was checked
        args.skip_tokenizer_init = True
        made = self.engine_args.from_cli_args(args)
        config = made.create_engine_config(usage_context=self.context)
        return resolved(config) | backends(config)


def maybe(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def resolved(config: Any) -> dict[str, Any]:
    """What the engine made of the command, in the words of this project."""
    draft, batches = config.speculative_config, config.scheduler_config
    said: dict[str, Any] = {
        "architecture": config.model_config.architecture,
        "context": config.model_config.max_model_len,
        "quantization": config.model_config.quantization,
        "tensor_parallel": config.parallel_config.tensor_parallel_size,
        "batched_tokens": batches.max_num_batched_tokens,
        "concurrency": batches.max_num_seqs,
        "active": getattr(batches, "max_num_active_seqs", None),
        "prefix_caching": config.cache_config.enable_prefix_caching,
        "kv_dtype": config.cache_config.cache_dtype,
        "v2_runner": config.use_v2_model_runner,
    }
    if draft:
        said |= {
            "method": draft.method,
            "draft_tokens": draft.num_speculative_tokens,
            "draft_architecture": draft.draft_model_config.architectures,
        }
    return said


def backends(config: Any) -> dict[str, str]:
    """What runs attention, chosen as for the layers; a backend that cannot do it raises.

    vLLM asks this only while it loads the weights: its configuration takes any name that exists.
    The target's is asked where the command names one; the draft's always, by its own settings.
    """
    target, chosen = config.model_config, {}
    if config.attention_config.backend:
        sinks = target.architecture == "GptOssForCausalLM"
        kv_dtype = config.cache_config.cache_dtype
        chosen["attention_backend"] = backend(
            config, target, kv_dtype, use_mla=target.use_mla, has_sink=sinks
        )
    if speculation := config.speculative_config:
        draft = speculation.draft_model_config
        models = importlib.import_module("vllm.model_executor.models.qwen3_dflash")
        config.attention_config.backend = speculation.attention_backend
        # before 0.25 every layer of a draft looks both ways, and its cache has the target's dtype
        both_ways = getattr(models, "dflash_has_any_non_causal", lambda config: True)
        config.attention_config.use_non_causal = both_ways(draft.hf_config)
        own = getattr(speculation, "kv_cache_dtype", None)
        kv_dtype = own or config.cache_config.cache_dtype
        window = getattr(draft.hf_config, "sliding_window", None)
        layers = {"has_sliding_window": True} if window else {}
        chosen["draft_attention_backend"] = backend(config, draft, kv_dtype, **layers)
    return chosen


def backend(config: Any, model: Any, kv_dtype: str, **layers: bool) -> str:
    selector = importlib.import_module("vllm.v1.attention.selector")
    with importlib.import_module("vllm.config").set_current_vllm_config(config):
        chosen = selector.get_attn_backend(model.get_head_size(), model.dtype, kv_dtype, **layers)
    return str(chosen.get_name())


def judging() -> Callable[[Case], Case]:
    """What judges a case; whatever vLLM raises is its message."""
    release = Release()

    def parse(case: Case) -> Any:
        insert(case)
        forget()
        return release.parse(case["argv"])

    return lambda case: judge(case, lambda: parse(case), release.configure)


if __name__ == "__main__":
    answer(judging)
