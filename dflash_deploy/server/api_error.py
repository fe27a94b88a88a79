"""A request that is refused or has failed, in the shape OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INVALID = "invalid_request_error"
SERVER = "server_error"


class ApiError(Exception):
    """One failed request: its HTTP status and OpenAI's error object."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = headers

    def body(self) -> dict[str, Any]:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}


def invalid(message: str, param: str | None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def unsupported(message: str, param: str) -> ApiError:
    return ApiError(400, message, param=param, code="unsupported_parameter")


def model_not_found(asked: str, names: tuple[str, ...]) -> ApiError:
    served = ", ".join(names)
    return ApiError(
        404,
        f"the model `{asked}` is not served here; this server answers to: {served}",
        param="model",
        code="model_not_found",
    )


def too_long(prompt: int, answer: int, limit: int, param: str) -> ApiError:
    asked = f"{prompt} tokens of prompt" + (f" and {answer} of answer" if answer else "")
    return invalid(
        f"this model's maximum context length is {limit} tokens, but {asked} were asked for",
        param,
        "context_length_exceeded",
    )


def queue_full(waiting: int) -> ApiError:
    return ApiError(
        429,
        f"{waiting} requests are waiting already; try again later",
        kind="rate_limit_error",
        code="queue_full",
        headers={"Retry-After": "1"},
    )


def decoding_failed() -> ApiError:
    return ApiError(
        500, "decoding this request failed; the server's log says why", kind=SERVER, code="internal"
    )


def shutting_down() -> ApiError:
    return ApiError(503, "the server is shutting down", kind=SERVER, code="shutting_down")
