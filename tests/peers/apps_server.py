"""A server with MCP Apps and skills on stdio, in both eras or in one. Standard library only.

    apps_server.py NAME [handshake | modern]

Two of them in one toolbox share a UI, which only their tools name, a listed UI, and a skill. NAME stands in all texts.
"""

from __future__ import annotations

import hashlib
import json
import sys

TYPE_CHECKING = False  # as in `typing`, whose import would take as long as all the rest
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]

NAME = sys.argv[1]
GREETING_OF_THE_OTHER_ERA = {"handshake": "server/discover", "modern": "initialize"}.get((*sys.argv, "")[2])
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
BAD_PARAMS, NO_METHOD = -32602, -32601
APP_TYPE = "text/html;profile=mcp-app"
FILES = {
    "ui://widget/main": (APP_TYPE, f"<p>main of {NAME}</p>"),
    "ui://widget/listed": (APP_TYPE, f"<p>listed of {NAME}</p>"),
    f"ui://{NAME}/own": (APP_TYPE, f"<p>own of {NAME}</p>"),
    "skill://team/git/SKILL.md": ("text/markdown", f"---\nname: git\ndescription: of {NAME}\n---\nsee x.md\n"),
    "skill://team/git/x.md": ("text/markdown", f"x of {NAME}\n"),
    f"skill://{NAME}/SKILL.md": ("text/markdown", f"---\nname: {NAME}\ndescription: alone\n---\n"),
}
LISTED = ("ui://widget/listed", "skill://team/git/SKILL.md")
SKILLS = {
    "skill://team/git/SKILL.md": ("git", f"of {NAME}", ("SKILL.md", "x.md")),
    f"skill://{NAME}/SKILL.md": (NAME, "alone", ("SKILL.md",)),
}


class Refused(Exception):
    """An answer that is an error."""


def tool(name: str, uri: str) -> Message:
    meta = {"ui": {"resourceUri": uri, "visibility": ["model", "app"]}, "ui/resourceUri": uri}
    return {"name": f"{name}_{NAME}", "inputSchema": {"type": "object"}, "_meta": meta}


TOOLS = [tool("main", "ui://widget/main"), tool("listed", "ui://widget/listed"), tool("own", f"ui://{NAME}/own")]


def skill(uri: str) -> Message:
    if uri not in SKILLS:
        raise Refused(BAD_PARAMS, f"no skill {uri}")
    name, description, files = SKILLS[uri]
    uris = [uri.removesuffix("SKILL.md") + file for file in files]
    resources = [{"uri": one, "digest": "sha256:" + hashlib.sha256(FILES[one][1].encode()).hexdigest()} for one in uris]
    return {"uri": uri, "frontmatter": {"name": name, "description": description}, "resources": resources}


def read(uri: str) -> Message:
    if uri not in FILES:
        raise Refused(BAD_PARAMS, f"no resource {uri}")
    kind, text = FILES[uri]
    return {"contents": [{"uri": uri, "mimeType": kind, "text": text}]}


def hello(params: Message) -> Message:
    del params
    extensions: Message = {META + "skills": {}, META + "ui": {}}
    return {"capabilities": {"tools": {}, "resources": {}, "extensions": extensions}}


def initialize(params: Message) -> Message:
    versions = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": NAME, "version": "1"}}
    return hello(params) | versions


def discover(params: Message) -> Message:
    return hello(params) | {"supportedVersions": [MODERN]}


METHODS = {
    "initialize": initialize,
    "server/discover": discover,
    "tools/list": lambda _: {"tools": TOOLS},
    "tools/call": lambda params: {"content": [{"type": "text", "text": f"{params['name']} called"}]},
    "resources/list": lambda _: {"resources": [{"uri": uri, "name": uri, "mimeType": FILES[uri][0]} for uri in LISTED]},
    "resources/templates/list": lambda _: {"resourceTemplates": []},
    "resources/read": lambda params: read(params["uri"]),
    "skills/list": lambda _: {"skills": [skill(uri) for uri in SKILLS]},
    "skills/get": lambda params: {"skill": skill(params["uri"])},
}


def answer(message: Message) -> Message:
    params = message.get("params") or {}
    modern = META + "protocolVersion" in params.get("_meta", {})
    if message["method"] not in METHODS or message["method"] == GREETING_OF_THE_OTHER_ERA:
        return {"error": {"code": NO_METHOD, "message": "Method not found"}}
    try:
        result = METHODS[message["method"]](params)
    except Refused as refusal:
        code, text = refusal.args
        return {"error": {"code": code, "message": text}}
    hints = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "private"} if modern else {}
    return {"result": result | hints}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)


if __name__ == "__main__":
    main()
