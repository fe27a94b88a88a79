"""The prompt in a request: one text, one list of tokens, or a conversation of text."""

from __future__ import annotations

from dflash_deploy.server.api_error import invalid, unsupported
from dflash_deploy.server.wire import ChatBody, CompletionBody, Message


def prompt_of(body: CompletionBody) -> str | list[int]:
    """The one prompt: text, or token ids (not yet held against the vocabulary)."""
    prompt = body.prompt
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and all(type(item) is int for item in prompt):
        return prompt
    if isinstance(prompt, list) and all(isinstance(item, (str, list)) for item in prompt):
        raise unsupported("one prompt a request; send the others on their own", "prompt")
    raise invalid("`prompt` is a string, a list of token ids, or a list of one of these", "prompt")


def template_messages(body: ChatBody) -> list[dict[str, str]]:
    """The messages as chat templates take them: text only."""
    return [_template_message(message, i) for i, message in enumerate(body.messages)]


def _template_message(message: Message, index: int) -> dict[str, str]:
    where = f"messages[{index}]"
    if message.role not in ("system", "developer", "user", "assistant"):
        raise unsupported(f"the role `{message.role}` is not supported", f"{where}.role")
    if message.tool_calls:
        raise unsupported("tool calls are not supported", f"{where}.tool_calls")
    if message.content is None and message.role != "assistant":
        raise invalid(f"`{where}.content` is missing", f"{where}.content")
    optional = {"name": message.name, "reasoning_content": message.reasoning_content}
    given = {name: value for name, value in optional.items() if value is not None}
    return {"role": message.role, "content": _text(message, where), **given}


def _text(message: Message, where: str) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for i, part in enumerate(message.content):
        if part.type != "text":
            name = f"{where}.content[{i}].type"
            raise unsupported(f"content of type `{part.type}` is not supported, only text", name)
    return "\n".join(part.text for part in message.content)
