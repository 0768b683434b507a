"""The tree of errors. Each class has a stable code, says whether a retry may help, and hints at the next step.

    WorkbenchError                 code, hint, retryable
    ├── ConfigError                the configuration is invalid; has file, line, column and path
    ├── RequestError               the request is invalid; nothing was started or contacted
    │   ├── InvalidToolIdentifier
    │   ├── InvalidParameters
    │   ├── ToolboxNotFound
    │   ├── ServerNotFound
    │   ├── ToolNotFound
    │   ├── SessionNotFound        an HTTP session that ended, or belongs to another token
    │   ├── ToolsNotFound          no server of the toolbox has the tools that `tools` names
    │   └── UnknownToolName        a tools/call of a name that this surface does not offer
    ├── ConnectFailed              a server can't be started or reached; wraps a Fault
    ├── ToolboxFailed              every server of a toolbox failed
    ├── CallFailed                 a server failed during a call; wraps a Fault
    ├── (command_errors.py)        failures that end a command
    └── Fault                      a failure of one connection, which does not know its server
        ├── SpawnFailed            the command can't be run
        ├── StartupTimeout         the server did not answer the greeting in time
        ├── StillStarting          the open deadline passed; the server goes on starting
        ├── NegotiationFailed      the server answered, but not with an MCP version that we speak
        ├── ListTimeout            the server did not answer tools/list in time
        ├── ListTooLarge           the list exceeds its limits
        ├── VariableMissing        a ${VAR} of the server's configuration is not set
        ├── NeedsLogin             a remote server requires a login
        ├── ClientRefused          a remote server refused the configured client credentials
        ├── ServerExited           the server exited while it was in use
        ├── ServerResting          the server failed repeatedly and is not started for a while
        ├── Unresponsive           the server runs, but does not respond at all
        ├── ProtocolViolation      the server sent something that is not MCP
        ├── MessageTooLarge        the server sent a message over the limit
        ├── CallTimeout            no answer within the idle or the hard deadline
        ├── ServerRefused          the server answered with a JSON-RPC error
        ├── InputUnavailable       the server asked for input that its client can't provide
        ├── Overloaded             too many calls wait for the server
        ├── ServerUnauthorized     a remote server refused our credentials, or requires some
        ├── ServerUnavailable      a remote server can't be reached, or does not speak MCP
        ├── InsecureTransport      credentials would be sent unencrypted
        └── ShuttingDown           the workbench is closing

`str(error)` says what is wrong and `error.hint` what to do next, in one line or empty. docs/errors.md lists every
`error.code`. `surfaces/failures.py` turns errors into results and JSON-RPC errors, `cli/terminal.py` into terminal
text.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from mcp_workbench.text.sanitize import NAMES_SHOWN, escape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from mcp_workbench.identity import ToolIdentifier

OVERLOADED_RETRY_SECONDS = 5.0
"""The `retry_after` of such a call. Most calls take a few seconds."""


class WorkbenchError(Exception):
    """The base of all errors that the workbench raises."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    hint: str = ""
    retry_after: float | None = None
    """Seconds after which a retry makes sense, if known."""
    toolbox: str = ""
    server: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint

    def __setattr__(self, name: str, value: object) -> None:
        """Errors are immutable after they were raised, since several callers may hold the same one."""
        if self.__traceback__ is not None and not name.startswith("__"):
            raise AttributeError(f"{type(self).__name__}.{name} can't be set after it was raised; use copy_with")
        super().__setattr__(name, value)

    def copy_with(self, **changes: object) -> Self:
        """A copy of the error with some attributes changed, for one caller."""
        own = type(self).__new__(type(self), *self.args)
        own.__dict__.update(self.__dict__, **changes)
        return own

    @property
    def where(self) -> dict[str, str]:
        """The known parts of the identifier: toolbox, server, tool."""
        return {part: value for part, value in (("toolbox", self.toolbox), ("server", self.server)) if value}

    @property
    def wire_code(self) -> str:
        """The code that programs see. A wrapper has the code of the error that it wraps."""
        return self.code


class ConfigError(WorkbenchError):
    """The configuration can't be used. The message has its position; commands exit with status 2."""

    code = "config_invalid"

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        column: int | None = None,
        path: str = "",
        hint: str = "",
    ) -> None:
        place = str(file) if file is not None else ""
        if line is not None and column is not None:
            place += f":{line}:{column}"
        super().__init__(": ".join(part for part in (place, path, problem) if part), hint=hint)
        self.problem = problem
        self.file = file
        self.line = line
        self.column = column
        self.path = path


class RequestError(WorkbenchError):
    """The request is invalid. Nothing was started or contacted."""

    code = "invalid_request"


class InvalidToolIdentifier(RequestError, ValueError):
    """`tool` is not an object with three non-empty strings."""

    code = "invalid_tool_identifier"

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(f"Invalid tool identifier: {problem}", hint=hint)


class InvalidParameters(RequestError):
    """A meta-tool got invalid arguments."""

    code = "invalid_parameters"

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(f"Invalid parameters: {problem}", hint=hint)
        self.problem = problem


class ToolboxNotFound(RequestError):
    code = "toolbox_not_found"

    def __init__(self, toolbox: str, *, hint: str = "") -> None:
        super().__init__(f"Toolbox '{escape(toolbox)}' not found", hint=hint)
        self.toolbox = toolbox


class ServerNotFound(RequestError):
    code = "server_not_found"

    def __init__(self, toolbox: str, server: str, *, hint: str = "") -> None:
        super().__init__(f"Server '{escape(server)}' not found in toolbox '{escape(toolbox)}'", hint=hint)
        self.toolbox = toolbox
        self.server = server


class ToolNotFound(RequestError):
    code = "tool_not_found"

    def __init__(self, identifier: ToolIdentifier, *, hint: str = "") -> None:
        toolbox, server, tool = (escape(part) for part in identifier.parts())
        super().__init__(f"Tool '{tool}' not found in server '{server}' (toolbox '{toolbox}')", hint=hint)
        self.identifier = identifier

    @property
    def where(self) -> dict[str, str]:
        return self.identifier.params()


class ToolsNotFound(RequestError):
    """No server of the toolbox has the tools that were requested by name."""

    code = "tools_not_found"

    def __init__(self, toolbox: str, tools: Sequence[str], *, hint: str = "") -> None:
        named = ", ".join(f"'{escape(tool)}'" for tool in tools[:NAMES_SHOWN])
        what = "Tool" if len(tools) == 1 else "Tools"
        super().__init__(f"{what} {named} not found in toolbox '{escape(toolbox)}'", hint=hint)
        self.toolbox = toolbox


class SessionNotFound(RequestError):
    """A request names a session that does not exist, or belongs to another client."""

    code = "session_not_found"

    def __init__(self) -> None:
        super().__init__("Session not found", hint="Start a new one with initialize.")


class UnknownToolName(RequestError):
    """`tools/call` named a tool that this surface does not offer."""

    code = "unknown_tool_name"


class Fault(WorkbenchError):
    """A failure of one connection. It does not know which server it belongs to."""

    code = "fault"
    retryable = True
    counts: bool = True
    """Whether it counts against the server's health."""

    @property
    def reason(self) -> str:
        """What is wrong, for texts without a hint; if only a person can fix it, also how."""
        return str(self)


class SpawnFailed(Fault):
    code = "spawn_failed"
    retryable = False


class StartupTimeout(Fault):
    code = "startup_timeout"
    hint = (
        "The first start may have to download the server: try again. If it never answers, run 'mcp-workbench doctor' "
        "to see its output, or set a longer startupTimeout."
    )


class StillStarting(Fault):
    code = "still_starting"
    hint = "Open the toolbox again to get its tools."


class NegotiationFailed(Fault):
    code = "negotiation_failed"
    retryable = False


class ListTimeout(Fault):
    code = "list_timeout"
    hint = "It hangs while it lists its tools. Try again later, or run 'mcp-workbench doctor' to see its output."


class ListTooLarge(Fault):
    code = "list_too_large"
    retryable = False


class VariableMissing(Fault):
    code = "variable_missing"
    retryable = False


class NeedsLogin(Fault):
    """A remote server requires a login, which a person does at a terminal, never while serving."""

    code = "needs_auth"
    retryable = False
    counts = False

    def __init__(self, toolbox: str, server: str, why: str = "the server needs a login") -> None:
        super().__init__(why, hint=f"Run in a terminal: {login_command(toolbox, server)}")

    @property
    def reason(self) -> str:
        return f"{self}. {self.hint}"


class ClientRefused(Fault):
    """A remote server refused the client credentials of its configuration."""

    code = "client_refused"
    retryable = False
    hint = "Check clientId, clientSecret or privateKey, and scopes in its oauth configuration."


class ServerExited(Fault):
    code = "server_exited"
    hint = "The next call starts it again."


class ServerResting(Fault):
    """A server failed repeatedly and is not started for a while."""

    code = "server_resting"

    def __init__(self, failures: int, last: Fault, seconds: float) -> None:
        times = "once" if failures == 1 else f"{failures} times in a row"
        hint = "Start its command in a terminal to see what is wrong with it."
        super().__init__(
            f"it failed {times} and will be tried again in {math.ceil(seconds)} s; the last failure: {last}",
            hint=hint if isinstance(last, ServerExited | Unresponsive) else last.hint or hint,
        )
        self.failures = failures
        self.last = last
        self.retry_after = seconds


class Unresponsive(Fault):
    code = "unresponsive"
    hint = "The next call starts it again."


class ProtocolViolation(Fault):
    code = "protocol_violation"


class MessageTooLarge(Fault):
    code = "message_too_large"
    retryable = False
    hint = "Ask for less at once, or set a larger maxMessageSize for the server."


class CallTimeout(Fault):
    code = "call_timeout"


class ServerRefused(Fault):
    """A JSON-RPC error from the server."""

    code = "server_refused"
    retryable = False

    def __init__(self, message: str, *, rpc_code: int = 0, data: bytes = b"", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rpc_code = rpc_code
        self.data = data


class InputUnavailable(Fault):
    code = "input_unavailable"
    retryable = False
    hint = "Use a client that supports elicitation, and answer the prompt."


class Overloaded(Fault):
    code = "overloaded"
    retry_after: float | None = OVERLOADED_RETRY_SECONDS
    hint = "Try again in a few seconds, with fewer calls at once, or set a larger maxConcurrent for the server."


class ServerUnauthorized(Fault):
    """A remote server answered 401 or 403. The rest of its response is dropped, since it may repeat a token."""

    code = "server_unauthorized"
    retryable = False
    counts = False
    hint = "Check its headers in the configuration: a token may be missing, wrong or expired."

    def __init__(self, status: int, scheme: str = "") -> None:
        wanted = f"; it wants {scheme}" if scheme else ""
        said = "it requires credentials" if status == 401 else "it denies access"  # noqa: PLR2004 -- the status
        super().__init__(f"{said} (HTTP {status}{wanted})")
        self.status = status
        self.scheme = scheme


class ServerUnavailable(Fault):
    """A remote server can't be reached, or is not an MCP server."""

    code = "server_unavailable"

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        retry_after: float | None = None,
        counts: bool = True,
        hint: str = "",
    ) -> None:
        """`kind` is stable: see docs/errors.md."""
        super().__init__(message, hint=hint)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.counts = counts


class InsecureTransport(Fault):
    code = "insecure_transport"
    retryable = False
    counts = False
    hint = 'Use https, or set "allowInsecure": true for the server if you trust the whole network in between.'


class ShuttingDown(Fault):
    code = "shutting_down"


def login_command(toolbox: str, server: str) -> str:
    """The command with which a person logs in to a server."""
    from shlex import quote  # noqa: PLC0415 -- only where somebody must type a name

    return f"mcp-workbench auth {quote(escape(toolbox))} {quote(escape(server))}"


class ConnectFailed(WorkbenchError):
    """A server can't be started or reached."""

    code = "connect_failed"

    def __init__(self, toolbox: str, server: str, fault: Fault) -> None:
        super().__init__(
            f"Failed to connect to server '{escape(server)}' in toolbox '{escape(toolbox)}': {fault}", hint=fault.hint
        )
        self.toolbox = toolbox
        self.server = server
        self.fault = fault
        self.retry_after = fault.retry_after

    @property
    def wire_code(self) -> str:
        return self.fault.code


class ToolboxFailed(WorkbenchError):
    """Every server of a toolbox failed."""

    code = "toolbox_failed"
    retryable = True

    def __init__(self, toolbox: str, failures: Sequence[ConnectFailed]) -> None:
        lines = [f"Toolbox '{escape(toolbox)}' could not be opened"]
        lines += [f"- {escape(one.server)}: {' | '.join(str(one.fault).splitlines())}" for one in failures]
        hints = {failure.fault.hint for failure in failures}
        super().__init__("\n".join(lines), hint=hints.pop() if len(hints) == 1 else "")
        self.toolbox = toolbox
        self.failures = tuple(failures)
        waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
        if len(waits) == len(failures):
            self.retry_after = min(waits, default=None)


class CallFailed(WorkbenchError):
    """A server failed during a call."""

    code = "call_failed"

    def __init__(self, identifier: ToolIdentifier, fault: Fault, refusal: ServerRefused | None = None) -> None:
        """`refusal` is the server's own JSON-RPC error, if it answered with one."""
        toolbox, server, tool = (escape(part) for part in identifier.parts())
        super().__init__(f"Tool '{tool}' in server '{server}' (toolbox '{toolbox}') failed: {fault}", hint=fault.hint)
        self.identifier = identifier
        self.fault = fault
        self.refusal = refusal
        self.retry_after = fault.retry_after

    @property
    def where(self) -> dict[str, str]:
        return self.identifier.params()

    @property
    def wire_code(self) -> str:
        return self.fault.code
