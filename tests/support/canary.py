"""Planted secrets, and the search for them in everything that a run left behind.

`Canaries.new` makes a random secret of a shape and remembers it; `Canaries.found_in` looks for any of them in
artefacts, in every form of `forms`, whole or in part: SHOWN successive characters are enough.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from tests.support.configs import Server

SHOWN = 8
"""Successive characters of a form of a secret that nobody may see. (Of a secret of 6 all 6.)"""
HIDDEN = 6
"""Characters that a secret, or a line of it, must have to be hidden."""
LONG = 256
LONG_STEP = 16
"""Of a longer form every sixteenth place is looked for: a part of it is found that has SHOWN + 15 characters."""

LETTERS = string.ascii_letters + string.digits


def _letters(count: int) -> str:
    return "".join(LETTERS[byte % len(LETTERS)] for byte in secrets.token_bytes(count))


def _with(*marks: str, runs: int = 4, length: int = 9) -> str:
    """Runs of random letters with marks between them."""
    return _letters(length) + "".join(marks[run % len(marks)] + _letters(length) for run in range(runs))


SHAPES: dict[str, Callable[[], str]] = {
    "token": lambda: f"sk-{_letters(36)}",
    "spaces": lambda: _with(" ", "  "),
    "edges": lambda: f" {_letters(20)} ",
    "quotes": lambda: _with("'", '"'),
    "apostrophe": lambda: _with("'"),
    "backslashes": lambda: _with("\\", "\\n", "\\\\"),
    "slashes": lambda: _with("/", "//", "?"),
    "percent": lambda: _with("%", "%20", "%%"),
    "base64": lambda: _with("+", "/", "=") + "==",
    "markup": lambda: _with("&", "<", ">", "!", "(", ")", "*", "~", runs=8),
    "accents": lambda: _with("ä", "ß", "日本", "🙂", "\u200b"),
    "lines": lambda: "\n".join((_letters(14), _letters(12), _letters(9), "")),
    "windows_lines": lambda: "\r\n".join((_letters(14), _letters(12))),
    "control": lambda: _with("\t", "\x1b", "\x7f"),
    "latin": lambda: _with("\udce4", "\udcff", "\udcc3"),
    "json": lambda: json.dumps({_letters(9): [_letters(9), {_letters(9): 1}]}),
    "url": lambda: f"pg://{_letters(9)}:{_letters(12)}@{_letters(9)}/{_letters(9)}?{_letters(9)}=%2F#{_letters(9)}",
    "six": lambda: _letters(6),
    "long": lambda: _letters(4096),
}
WRITTEN = tuple(shape for shape in SHAPES if shape != "latin")
"""Shapes that a file can hold: the other one is not UTF-8, and comes from the environment."""
HEADERS = tuple(shape for shape in WRITTEN if shape not in {"lines", "windows_lines", "control"})
"""Shapes that a header can carry."""


# -- the forms in which a secret may turn up

ESCAPES = "!'()*", ";,/?:@&=+$-_.!~*'()#", "/", "", "~-_."
"""What encoders of URLs leave as it is: encodeURIComponent, encodeURI, Python's quote, all, RFC 3986."""


def base64_inside(raw: bytes) -> Iterator[str]:
    """The characters that `raw` alone decides, wherever it stands in a longer text that is encoded."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw + b"\0" * 3).decode()
        inside = encoded[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield inside
        yield inside.translate(str.maketrans("+/", "-_"))


def url_encoded(raw: bytes) -> Iterator[str]:
    for safe in ESCAPES:
        for form in (quote(raw, safe=safe), quote_plus(raw, safe=safe)):
            yield form
            yield re.sub("%..", lambda match: match[0].lower(), form)
    yield "".join(f"%{byte:02X}" for byte in raw)


def json_escaped(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        form = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield form
        yield form.replace("/", "\\/")
        yield re.sub("[&<>]", lambda match: f"\\u{ord(match[0]):04x}", form)
        yield re.sub("[&<>'+`]", lambda match: f"\\u{ord(match[0]):04X}", form)


def python_quoted(text: str) -> Iterator[str]:
    for form in (repr(text)[1:-1], ascii(text)[1:-1], repr(os.fsencode(text))[2:-1]):
        yield form
        yield form.replace("\\'", "'").replace("'", "\\'")


def forms(secret: str) -> dict[str, str]:
    """Every form of a secret, with its name; also of its lines, and without the white space around it."""
    found: dict[str, str] = {}
    parts = {secret.strip(), *secret.splitlines(), *secret.split("\n")}
    for part in [secret, *(part for part in parts if len(part) >= HIDDEN)]:
        raw = os.fsencode(part)
        kinds: dict[str, Iterable[str]] = {
            "plain": (part, raw.decode("utf-8", "replace")),
            "base64": base64_inside(raw),
            "URL": url_encoded(raw),
            "JSON": json_escaped(part),
            "Python": python_quoted(part),
            "hex": (raw.hex(), raw.hex().upper()),
        }
        found |= {form: kind for kind, some in kinds.items() for form in some if form not in found}
    return found


class Canaries:
    """The secrets of one test."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        """By where they were planted."""

    def new(self, place: str, shape: str = "token") -> str:
        return self.plant(place, SHAPES[shape]())

    def plant(self, place: str, value: str) -> str:
        """Remember a secret that the test made itself."""
        self.values[place] = value
        return value

    def of(self, name: str) -> list[tuple[str, str]]:
        """The secrets of one server that a message can carry, with their places."""
        return [
            (place, value)
            for place, value in self.values.items()
            if place.startswith(f"{name}:") and not place.endswith("latin")
        ]

    def found_in(self, artefacts: Mapping[str, str | bytes]) -> list[str]:
        """What was found, for people: where, of which secret, in which form, and the text around it."""
        fragments = self._fragments()
        lengths = {len(fragment) for fragment in fragments}
        found: dict[str, str] = {}
        for name, artefact in artefacts.items():
            text = artefact if isinstance(artefact, str) else artefact.decode("utf-8", "replace")
            for length in lengths:
                for at in range(len(text) - length + 1):
                    if (what := fragments.get(text[at : at + length])) is not None:
                        found.setdefault(f"{name}: {what}", f"{text[max(at - 80, 0) : at + 80]!r}")
        return [f"{what}: …{around}…" for what, around in found.items()]

    def _fragments(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for place, value in self.values.items():
            for form, kind in forms(value).items():
                if len(form) < min(SHOWN, len(value)):
                    continue
                what, step = f"{kind} of the secret of {place}", LONG_STEP if len(form) > LONG else 1
                for at in range(0, max(len(form) - SHOWN, 0) + 1, step):
                    fragment = form[at : at + SHOWN]
                    if fragment not in found and sum(map(str.isalnum, fragment)) >= SHOWN // 2:
                        found[fragment] = what
        return found


# -- planting

AMBIENT = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "DATABASE_URL", "SSH_AUTH_SOCK", "LD_CANARY")
"""Variables of the person who starts the workbench; nobody refers to them."""


def ambient(canaries: Canaries) -> dict[str, str]:
    """The environment of the workbench, full of secrets that are nobody's business."""
    return {name: canaries.new(f"the workbench's {name}") for name in AMBIENT}


def planted(
    canaries: Canaries, name: str, server: Server, shapes: Iterable[str] = SHAPES
) -> tuple[Server, dict[str, str]]:
    """The entry of a local server with secrets of every shape in its `env`, and the variables that it refers to.

    Written out, brought in by a variable, as part of a longer text or of each other, as a default, and inherited.
    """
    env: dict[str, str] = dict(server.get("env", {}))
    environ: dict[str, str] = {}
    for shape in shapes:
        variable = f"SOURCE_{name}_{shape}".upper()
        environ[variable] = canaries.new(f"{name}: ${{VAR}} in env, {shape}", shape)
        env[f"CANARY_VAR_{shape}".upper()] = f"${{{variable}}}"
        if shape in WRITTEN:
            env[f"CANARY_{shape}".upper()] = canaries.new(f"{name}: env, {shape}", shape)
    variable = f"SOURCE_{name}_MIXED".upper()
    environ[variable] = canaries.new(f"{name}: ${{VAR}} inside an env value")
    env["CANARY_MIXED"] = f"Bearer ${{{variable}}}, as always"
    inner = env["CANARY_INNER"] = canaries.new(f"{name}: env, inside another one")
    env["CANARY_OUTER"] = canaries.plant(f"{name}: env, around another one", _letters(9) + inner + _letters(9))
    env["CANARY_OVERLAP"] = canaries.plant(f"{name}: env, half of another one", inner[20:] + _letters(9))
    env["CANARY_DEFAULT"] = f"${{NEVER_SET:-{canaries.new(f'{name}: default in env')}}}"
    inherited = f"INHERITED_{name}".upper()
    environ[inherited] = canaries.new(f"{name}: inheritEnv")
    return {**server, "env": env, "inheritEnv": [*server.get("inheritEnv", []), f"{inherited}*"]}, environ


def planted_url(canaries: Canaries, name: str) -> tuple[Server, dict[str, str]]:
    """The entry of a remote server with secrets in its `url` and its `headers`."""
    environ = {
        f"SOURCE_{name}_PATH".upper(): canaries.new(f"{name}: ${{VAR}} in url"),
        f"SOURCE_{name}_TOKEN".upper(): canaries.new(f"{name}: ${{VAR}} in headers"),
    }
    path, token = (f"${{{variable}}}" for variable in environ)
    headers = {f"X-{shape}": canaries.new(f"{name}: headers, {shape}", shape) for shape in HEADERS}
    headers["Authorization"] = f"Bearer {token}"
    return {"url": f"https://example.invalid/{path}/mcp", "headers": headers}, environ


# -- artefacts


def files_below(*folders: Path) -> dict[str, bytes]:
    """The names and contents of all files in these folders."""
    found: dict[str, bytes] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.exists() else ():
            content = path.read_bytes() if path.is_file() else b""
            found[f"file {path}"] = os.fsencode(path.name) + b"\n" + content
    return found


def our_errors(messages: Iterable[Any]) -> dict[str, str]:
    """Every error that a client was given: of JSON-RPC, of a failed call, of the servers that an open lacks.

    What a tool returned and how a server defines its tools is passed on, and is none.
    """
    found: dict[str, str] = {}
    for number, message in enumerate(messages):
        result = message.get("result") or {}
        if "error" in message:
            text, rest = str(message["error"].get("message")), message["error"].get("data")
        elif "mcp-workbench/error" in result.get("_meta", {}):
            text, rest = _first_text(result), result["_meta"]
        elif "servers_failed" in (answer := _first_text(result)):
            opened = json.loads(answer)
            reasons = [tool["reason"] for tool in opened.get("tools_withheld", [])]
            text, rest = "\n".join([*(one["error"] for one in opened["servers_failed"]), *reasons]), ""
        else:
            continue
        found[f"message {number}"] = f"{text}\n{json.dumps(rest, ensure_ascii=False)}"
    return found


def _first_text(result: Any) -> str:
    content = result.get("content") or [{}]
    return content[0].get("text", "") if isinstance(content[0], dict) else ""
