"""Load the models, bind the port, serve until a signal says stop."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from dflash_deploy.errors import LaunchError, PortTaken, Unsupported
from dflash_deploy.server.app import Service, create_app
from dflash_deploy.server.console import say
from dflash_deploy.server.jobs import Intake
from dflash_deploy.server.load import load
from dflash_deploy.server.metrics import Metrics
from dflash_deploy.server.scheduler import Scheduler
from dflash_deploy.server.settings import Settings
from dflash_deploy.server.text import Text
from dflash_deploy.server.worker import Worker
from dflash_deploy.speculative.types import Decoder

GRACE = 1  # second for responses to end after a signal, and again for the cycle that runs


def run(settings: Settings) -> int:
    """Serve; 0 after SIGTERM, 130 after Ctrl-C. Raises DFlashError if it cannot start."""
    # A taken port should not be found out after minutes of loading.
    listener = bind(settings.host, settings.port)
    worker = Worker()
    text, decoder = worker.submit(lambda: load(settings)).result()
    return serve(settings, text, decoder, listener, worker)


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet: until the models are loaded, nobody gets in."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:  # a label that is empty, too long or no text
        why = error.strerror if isinstance(error, OSError) else "no host is called so"
        raise LaunchError(f"--host {ascii(host)[1:-1]} is no address: {why}") from None
    # "localhost" may be both; clients that are told 127.0.0.1 should get in.
    family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _not_bound(error, host, port) from None
    return listener


def serve(
    settings: Settings, text: Text, decoder: Decoder, listener: socket.socket, worker: Worker
) -> int:
    """Run the HTTP server here, and the decoding of one loaded decoder in the worker."""
    metrics = Metrics(settings.names[0], decoder.block_size)
    scheduler = Scheduler(
        decoder, metrics, max_active=settings.max_num_seqs, max_waiting=settings.max_queue
    )
    limit = _context(settings.max_model_len, decoder.max_context)
    intake = Intake(settings.names, limit, text, settings.default_chat_template_kwargs)
    app = create_app(Service(intake, scheduler, metrics, settings.api_key))
    server = Server(app, settings, scheduler, url(settings.host, listener))
    scheduler.start(worker)
    try:
        asyncio.run(server.serve(sockets=[listener]))
    except OSError as error:  # listening is where two programs that bound the same port meet
        raise _not_bound(error, settings.host, settings.port) from None
    finally:
        scheduler.stop()
        ended = scheduler.join(GRACE)
    code = 130 if server.signal == signal.SIGINT else 0
    if not ended:
        # A thread inside torch does not survive the interpreter's end: leave without it.
        say("a decoding step is still running; leaving it")
        sys.stderr.flush()
        os._exit(code)
    return code


class Server(uvicorn.Server):
    """uvicorn, which says when it is ready, ends decoding on a signal, and remembers which."""

    def __init__(
        self, app: Starlette, settings: Settings, scheduler: Scheduler, address: str
    ) -> None:
        debug = settings.log_level == "debug"
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=debug,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self.signal: int | None = None
        self._scheduler = scheduler
        self._address = address

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        say(f"ready on {self._address}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del frame
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        self.signal = sig
        # Not from here: the interrupted code may hold the scheduler's lock.
        self._loop.call_soon_threadsafe(self._scheduler.stop)


def url(host: str, listener: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def _context(asked: int | None, most: int) -> int:
    if asked is None:
        return most
    if asked > most:
        raise Unsupported(f"--max-model-len {asked}: this model's context is {most} tokens")
    return asked


def _not_bound(error: OSError, host: str, port: int) -> LaunchError:
    if error.errno == errno.EADDRINUSE:
        return PortTaken(f"port {port} on {host} is taken by another program", hint="try --port 0")
    return LaunchError(f"cannot listen on {host}:{port}: {error.strerror}")
