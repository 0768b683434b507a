"""Claude Code, Codex and Gemini CLI from npm, as a person uses them in a terminal."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tests.support.reference import node_program, npm_program
from tests.support.scripted_model import TOOL, scripted_model

Json = dict[str, Any]

RUN_SECONDS = 120.0
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
"""Nothing but loopback is reached. A person needs none of this."""
PATIENT = {"MCP_CONNECT_TIMEOUT_MS": "60000"}
"""A session without a person asks its model after 5 s, with the tools that it has: too early on a busy machine."""


class Terminal(NamedTuple):
    """A terminal in a project folder of a home folder."""

    home: Path
    project: Path
    environ: Mapping[str, str]

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program, which must succeed."""
        done = subprocess.run(
            command,
            env={**self.environ, **variables},
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


class Host:
    """What the three have in common: a JSON file with `mcpServers`, and a command line to add servers."""

    key: ClassVar[str]
    file: ClassVar[str]
    program: ClassVar[tuple[str, str]]
    """The package, and the script in it."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.command = (node_program(), str(npm_program("npm-hosts", *self.program)))

    @property
    def path(self) -> Path:
        return self.terminal.home / self.file

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.terminal.run(*self.command, *arguments, **variables)

    def servers(self) -> Json:
        """The servers in its file."""
        return json.loads(self.path.read_text(encoding="utf-8"))["mcpServers"]


class ClaudeCode(Host):
    key = "claude-code"
    file = ".claude.json"
    program = ("@anthropic-ai/claude-code", "cli-wrapper.cjs")

    def add(self, name: str, command: Sequence[str], scope: str = "user", **env: str) -> None:
        self.run("mcp", "add", "--scope", scope, name, *_options("-e", env), "--", *command, **QUIET)

    def servers(self) -> Json:
        """Those for all projects, and those for this one."""
        document = json.loads(self.path.read_text(encoding="utf-8"))
        local = document.get("projects", {}).get(str(self.terminal.project), {})
        return {**document["mcpServers"], **local.get("mcpServers", {})}

    def listed(self) -> list[str]:
        """The servers that it reached."""
        lines = self.run("mcp", "list", **QUIET).stdout.splitlines()
        return [line.partition(":")[0] for line in lines if "✔ Connected" in line]

    def call(self, calls: Sequence[Json]) -> list[str]:
        with scripted_model(calls) as model:
            variables = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-scripted", **QUIET, **PATIENT}
            self.run("-p", "Call them", "--allowedTools", f"mcp__workbench__{TOOL}", **variables)
        return model.results


class Gemini(Host):
    key = "gemini"
    file = ".gemini/settings.json"
    program = ("@google/gemini-cli", "bundle/gemini.js")

    def add(self, name: str, command: Sequence[str], **env: str) -> None:
        self.run("mcp", "add", "--scope", "user", name, *command, *_options("-e", env))

    def listed(self) -> list[str]:
        """The servers that it reached; it prints them on stderr."""
        lines = self.run("mcp", "list").stderr.splitlines()
        return [line.partition(":")[0].removeprefix("✓ ") for line in lines if line.endswith("- Connected")]

    def call(self, calls: Sequence[Json]) -> list[str]:
        with scripted_model(calls) as model:
            variables = {"GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_API_KEY": "scripted"}
            self.run("-p", "Call them", "--yolo", "--model", "gemini-2.5-flash", **variables)
        return model.results


class Codex(Host):
    key = "codex"
    file = ".codex/config.toml"
    program = ("@openai/codex", "bin/codex.js")

    def add(self, name: str, command: Sequence[str], **env: str) -> None:
        self.run("mcp", "add", name, *_options("--env", env), "--", *command)

    def servers(self) -> Json:
        return tomllib.loads(self.path.read_text(encoding="utf-8"))["mcp_servers"]

    def listed(self) -> list[str]:
        """The servers that are enabled: Codex does not start them for a list."""
        return [one["name"] for one in json.loads(self.run("mcp", "list", "--json").stdout) if one["enabled"]]

    def call(self, calls: Sequence[Json]) -> list[str]:
        """Its app server calls tools without a model."""
        with subprocess.Popen(
            [*self.command, "app-server"],
            env=self.terminal.environ,
            cwd=self.terminal.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            ask = AppServer(process)
            ask("initialize", {"clientInfo": {"name": "first-hour", "version": "1"}})
            thread = ask("thread/start", {"ephemeral": True})["thread"]["id"]
            named = {"threadId": thread, "server": "workbench", "tool": TOOL}
            results = [ask("mcpServer/tool/call", {**named, "arguments": call}) for call in calls]
        return ["".join(block.get("text", "") for block in result["content"]) for result in results]


def _options(option: str, env: Mapping[str, str]) -> list[str]:
    return [word for item in env.items() for word in (option, "=".join(item))]


class AppServer:
    """Codex's own protocol: a JSON message per line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._sent, self._lines = process.stdin, process.stdout
        self._number = 0

    def __call__(self, method: str, params: Json) -> Json:
        self._number += 1
        self._sent.write(json.dumps({"id": self._number, "method": method, "params": params}) + "\n")
        self._sent.flush()
        for line in self._lines:
            message = json.loads(line)
            if message.get("id") == self._number and "method" not in message:
                assert "result" in message, message
                return message["result"]
        raise AssertionError(f"{method}: no answer")
