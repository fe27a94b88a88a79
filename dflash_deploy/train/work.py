"""The stages of a run, one after another; each leaves a file, and is skipped where that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.plan import Endpoint
from dflash_deploy.speculative.config import DraftConfig, parse_config
from dflash_deploy.speculative.decoder import check_fit
from dflash_deploy.speculative.load import load_config, load_model
from dflash_deploy.speculative.target import shape_of
from dflash_deploy.train import acceptance, answers, asking, prompts, recipe, start
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.chat import Chat
from dflash_deploy.train.events import Event, Stage
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.gpus import Devices, devices
from dflash_deploy.train.loop import Point, train
from dflash_deploy.train.prompts import Asked
from dflash_deploy.train.recipe import Recipe
from dflash_deploy.train.save import config_json, save

Say = Callable[[Event], None]


class Work:
    """One run in its folder. `stop` is asked between two answers, steps or prompts."""

    def __init__(
        self, folder: Path, say: Say, stop: Callable[[], bool], api_key_env: str | None
    ) -> None:
        plan = recipe.read(folder)
        if plan is None:
            raise UsageError(f"{folder} holds no run", hint="dflash train TARGET")
        self._folder, self._plan, self._say, self._stop = folder, plan, say, stop
        self._draft = recipe.draft_folder(folder, plan)
        self._key = api_key_env
        self._model: Any = None
        self._copies: Devices | None = None
        self._reach = ""

    def run(self) -> None:
        plan = self._plan
        asked = prompts.write(self._folder, plan)
        if (self._folder / recipe.MEASURED).exists():
            return
        chat = Chat(plan)
        # what cannot be trained is refused before thousands of answers are written for it
        config = None if self._draft.exists() else self._config(chat)
        for each in asked:
            chat.rendered(each.messages)
        more = asking.write(
            self._folder, plan, chat, self._devices, self._ends(chat), self._told("prompts")
        ) if plan.self_prompts else []  # fmt: skip
        said = self._answers(plan, chat, [*prompts.trained(asked, plan), *more], answers.FILE)
        greedy = msgspec.structs.replace(plan, sampled=0.0)
        held_out = self._answers(greedy, chat, prompts.held_out(asked, plan), answers.HELD_OUT)
        self._copies = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # the other GPUs' memory is not needed again
        if config is not None:
            self._train(config, said, held_out)
        acceptance.measure(
            self._folder, self._draft, plan, self._ends(chat), self._loaded(), held_out,
            {each.id: each.kind for each in asked}, self._told("acceptance"), self._stop,
        )  # fmt: skip

    def _ends(self, chat: Chat) -> frozenset[int]:
        return chat.ends(self._loaded())

    def _devices(self) -> Devices:
        if self._copies is None:
            self._copies = Devices(self._loaded())
        return self._copies

    def _loaded(self) -> Any:
        """The target, once it is needed: while a server answers, it needs the memory."""
        if self._model is None:
            plan, gpu = self._plan, torch.cuda.is_available()
            self._say(Event("load", said=plan.model))
            # it looks for a plan for every new shape, which training has many of
            torch.backends.cuda.enable_cudnn_sdp(enabled=False)
            self._model = load_model(
                plan.model,
                revision=plan.revision,
                dtype=torch.bfloat16 if gpu else torch.float32,
                device="cuda" if gpu else "cpu",
                trust_remote_code=plan.trust_remote_code,
            )
        return self._model

    def _answers(self, plan: Recipe, chat: Chat, asked: Sequence[Asked], name: str) -> list[Answer]:
        file = self._folder / name
        answered = self._answered(plan, chat) if not file.exists() else answers.none
        said = answers.regenerate(file, asked, answered, self._told("answers"), self._stop)
        found = answers.usable(said)
        if not found:
            raise UsageError(
                f"none of the {len(said)} answers has two tokens: the prompts may be longer than"
                f" {plan.length} tokens",
                hint="--max-length, and another --output",
            )
        if len(found) < len(said):
            self._say(Event(said=(
                f"{len(said) - len(found)} of {len(said)} prompts are left out: their answers have"
                f" fewer than two tokens, prompt and answer at most {plan.length} (--max-length)"
            )))  # fmt: skip
        return found

    def _answered(self, plan: Recipe, chat: Chat) -> answers.Answered:
        if plan.url is not None:
            endpoint = Endpoint(plan.url, plan.served_name or "", "vllm", None, self._key)
            return answers.side_by_side(answers.from_server(plan, chat, endpoint), self._stop)
        if self._loaded().device.type == "cuda":
            return answers.on_gpus(plan, chat, self._devices(), self._ends(chat))
        return answers.in_turn(answers.from_here(plan, chat, self._loaded()))

    def _config(self, chat: Chat) -> DraftConfig:
        """The draft's. Of the target its config alone is read: a server may need the memory."""
        plan = self._plan
        target = load_config(plan.model, plan.revision, trust_remote_code=plan.trust_remote_code)
        shape, text = shape_of(target), target.get_text_config()
        heads, kv_heads = (
            getattr(text, name, 0) for name in ("num_attention_heads", "num_key_value_heads")
        )
        if not (heads and kv_heads) or heads % kv_heads:
            raise Unsupported(f"{plan.target} has attention heads of a kind unknown here")
        if plan.start is not None:
            config = start.shape(Path(plan.start))
        else:
            mask = chat.mask_token(plan.mask_token_id, shape.vocab_size)
            config = parse_config(config_json(target, plan, mask), "the draft's config")
        check_fit(config, shape)
        return config

    def _train(
        self, config: DraftConfig, said: Sequence[Answer], held_out: Sequence[Answer]
    ) -> None:
        plan, model = self._plan, self._loaded()
        target = Frozen(model, config.target_layer_ids)
        state = train(
            self._folder, plan, config, target, said, held_out, self._step, self._stop, devices()
        )  # fmt: skip
        save(self._draft, config, state.tensors, state.scales)

    def _step(self, point: Point) -> None:
        said = f"loss {point.loss:.3f}, first token right {point.accuracy:.0%}"
        if point.acceptance_length is not None:
            self._reach = f", {point.acceptance_length:.2f} tokens a step on held-out prompts"
        said += self._reach
        self._say(Event("train", point.step, self._plan.steps, said))

    def _told(self, stage: Stage) -> Callable[[int, int], None]:
        return lambda done, total: self._say(Event(stage, done, total))
