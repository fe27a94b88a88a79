"""The page as HTTP: what is sent, what it may load, and that it costs the API nothing."""

from __future__ import annotations

import re

import httpx
import pytest

from dflash_deploy.server import page
from tests.unit.server.fakes import running


@pytest.fixture(scope="module")
def client():
    with running(api_key="sesame") as server, httpx.Client(base_url=server.url) as client:
        yield client


PARTS = sorted(path.name for path in page.FOLDER.iterdir())


def test_the_page_is_open_also_where_the_api_asks_for_a_key(client):
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>DFlash chat</title>" in response.text
    assert client.get("/v1/models").status_code == 401


def test_heads_have_headers_alone(client):
    whole, head = client.get("/"), client.head("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize("path", ["/", *(f"/static/{name}" for name in PARTS)])
def test_nothing_from_outside_is_allowed(client, path):
    headers = client.get(path).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) <= {"'self'", "'none'"}
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", PARTS)
def test_nothing_from_outside_is_named(name):
    text = (page.FOLDER / name).read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"""https?:|["'(]//""", text)


def test_all_that_the_page_names_is_there(client):
    named = set(re.findall(r'(?:href|src)="([^"]+)"', client.get("/").text))
    scripts = [name for name in PARTS if name.endswith(".js")]
    for name in scripts:
        imports = re.findall(r'from "\./([^"]+)"', (page.FOLDER / name).read_text())
        named |= {f"static/{imported}" for imported in imports}
    assert named == {f"static/{name}" for name in PARTS if name != "index.html"}
    for name in named:
        response = client.get(f"/{name}")
        assert response.status_code == 200
        assert response.headers["content-type"].split(";")[0] in page.TYPES.values()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("GET", "/static/nothing.js", 404),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/%2e%2e/app.py", 404),
        ("GET", "/static/", 404),
    ],
)
def test_what_is_not_there_is_refused_as_anywhere(client, method, path, status):
    response = client.request(method, path)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
