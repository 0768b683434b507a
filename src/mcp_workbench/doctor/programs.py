"""Whether the command of a server is there, as the server's own environment has it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Final, NamedTuple

from mcp_workbench.config.model import Launch
from mcp_workbench.servers.processes import environment

_INSTALL: Final[Mapping[str, str]] = {
    "npx": "Install Node.js, of which npx is a part: https://nodejs.org",
    "npm": "Install Node.js, of which npm is a part: https://nodejs.org",
    "node": "Install Node.js: https://nodejs.org",
    "bun": "Install Bun: https://bun.sh",
    "bunx": "Install Bun, of which bunx is a part: https://bun.sh",
    "pnpm": "Install pnpm: https://pnpm.io",
    "pnpx": "Install pnpm, of which pnpx is a part: https://pnpm.io",
    "yarn": "Install Yarn: https://yarnpkg.com",
    "python": "Write python3, or the full path of a Python: many systems have no program that is called python.",
    "python3": "Install Python: https://www.python.org",
    "uvx": "Install uv, of which uvx is a part: https://docs.astral.sh/uv",
    "uv": "Install uv: https://docs.astral.sh/uv",
    "pipx": "Install pipx: https://pipx.pypa.io",
    "docker": "Install Docker, and start it: https://docs.docker.com/get-docker",
    "podman": "Install Podman: https://podman.io",
    "deno": "Install Deno: https://deno.com",
}
_SPLIT: Final = "Put the program alone into its command, and what follows it, word by word, into its args."


class Program(NamedTuple):
    """Where a command was found, or what to do since it was not."""

    found: str = ""
    advice: str = ""


def find_program(launch: Launch, environ: Mapping[str, str]) -> Program:
    """Where the command of a server is."""
    command = launch.command
    if "/" in command:
        is_there = os.path.isfile(command) and os.access(command, os.X_OK)  # noqa: PTH113 -- as below
        return Program(command) if is_there else Program(advice=_unusable(command))
    search = environment(launch, environ, "").get("PATH", os.defpath)
    if found := shutil.which(command, path=search):
        return Program(found)
    if "PATH" in launch.env and (elsewhere := shutil.which(command, path=environ.get("PATH", os.defpath))):
        return Program(advice=f"Its own PATH does not lead to {elsewhere}: add that folder to env.PATH, or remove it.")
    if blocked := shutil.which(command, mode=os.F_OK, path=search):
        return Program(advice=_unusable(blocked))
    if " " in command:
        return Program(advice=_SPLIT)
    return Program(advice=_INSTALL.get(command, "Install it, or write the full path of the program as its command."))


def _unusable(path: str) -> str:
    if os.path.isdir(path):  # noqa: PTH112 -- a path of the configuration, which Path may refuse
        return "Its command is a folder: write the path of the program in it."
    if os.path.exists(path):  # noqa: PTH110 -- same
        return "Make its command executable: chmod +x"
    return _SPLIT if " " in path else "Correct the path of its command."
