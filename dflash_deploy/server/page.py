"""The page at `/`: a small chat that shows which tokens the draft proposed."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

# All of it comes from here and talks to here, and nobody frames it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # a newer release's page, not the one that was here before
}


def routes() -> list[Route]:
    """The page and its parts, read once: they are a few kilobytes."""
    files = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}
    parts = [_route(f"/static/{name}", name, body) for name, body in files.items()]
    return [_route("/", "index.html", files["index.html"]), *parts]


def _route(path: str, name: str, body: bytes) -> Route:
    media_type = TYPES[Path(name).suffix]

    async def send(_: Request) -> Response:
        return Response(body, headers=HEADERS, media_type=media_type)

    return Route(path, send)
