"""A team member's MCP client: `python3 client.py NAME [NOTE]` adds a note, if there is one, and lists all notes."""

import asyncio
import sys
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = "http://127.0.0.1:8300/mcp"


def token_of(member: str) -> str:
    """A member's token, from the file that the server reads."""
    lines = Path("tokens").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ") for line in lines)[member]


def call(tool: str, **arguments: str) -> dict[str, object]:
    return {"tool": {"toolbox": "writing", "server": "notes", "tool": tool}, "arguments": arguments}


async def main(member: str, *notes: str) -> None:
    headers = {"Authorization": f"Bearer {token_of(member)}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(URL, http_client=http)) as client,
    ):
        for note in notes:
            await client.call_tool("use_tool", call("add_note", title=note, text=note))
        listed = await client.call_tool("use_tool", call("list_notes"))
        print(f"{member}'s notes:", [note["title"] for note in listed.structured_content["notes"]])


asyncio.run(main(*sys.argv[1:]))
