"""Every key of the configuration file, as data.

The reader's type checks and suggestions and the JSON Schema come from this table. A test checks that
docs/configuration.md describes each key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from mcp_workbench.text.suggest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CATALOG_AGE_MOST_SECONDS = 31_536_000.0
"""The largest `catalog.maxAge`: a year. A larger value was meant as milliseconds."""
OPEN_BUDGET_LEAST_TOKENS = 500
"""The smallest `openBudget`: the text around the tools must fit."""
OPEN_BUDGET_MOST_TOKENS = 1_000_000
"""The largest `openBudget`: the size of the largest context windows."""
OPEN_TIMEOUT_MOST_SECONDS = 600.0
"""The largest `openTimeout`: no host waits longer for an answer."""
TIMEOUT_MOST_SECONDS = 86_400.0
"""The largest of the other times: a day. A larger value was meant as milliseconds."""
IN_FLIGHT_MOST = 1024
"""The largest `maxConcurrent`: above it, the queues of a local server are the limit."""
MEMORY_BYTES_LEAST = 256 * 1024 * 1024
"""The smallest `maxMemory`: a few of the largest messages must fit."""
MEMORY_BYTES_MOST = 64 * 1024 * 1024 * 1024
"""The largest `maxMemory`: more is a mistake in the unit."""
MESSAGE_BYTES_LEAST = 64 * 1024
"""The smallest `maxMessageSize`: the answer to `initialize` must fit."""
MESSAGE_BYTES_MOST = 64 * 1024 * 1024
"""The largest `maxMessageSize`: reading it blocks the event loop for a third of a second."""
CALLBACK_PORT_LEAST = 1024
"""Lower ports belong to the system."""
CALLBACK_PORT_MOST = 65_535
"""The highest port."""

Kind = Literal["text", "boolean", "number", "whole", "strings", "names", "map", "object", "section", "any"]
"""`text` is a non-empty string, `whole` a number without a fraction, `strings` a list of
strings, `names` a list of non-empty strings, `map` an object of strings, `object` an object of objects,
`section` an object with keys of its own."""


class Key(NamedTuple):
    """A key: its name, the kind of its value, and a sentence for people."""

    name: str
    kind: Kind
    about: str
    required: bool = False
    expands: bool = False
    """Whether `${VAR}` is expanded in it."""
    choices: tuple[str, ...] = ()
    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    """The unit of a number, for the hint if it is out of bounds: some hosts write milliseconds."""
    limit: str = ""
    """The field of `Limits` that it sets."""
    filled: str = ""
    """For a list or an object that must not be empty: the hint if it is."""
    inside: tuple[Key, ...] = ()
    """The keys of a section."""
    foreign: tuple[str, ...] = ()
    """Keys that hosts write into a section and that have no effect here."""


TRANSPORTS: Mapping[str, Literal["stdio", "http", "sse"]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
"""The names that hosts use for transports, and what they mean."""

TRANSPORT_KEYS = ("transport", "type", "transportType")
URL_KEYS = ("url", "httpUrl", "serverUrl")

ANNOTATIONS = ("@readOnly", "@destructive", "@idempotent", "@openWorld")
"""The annotations that a tool filter can select."""

SCHEMA_KEY = Key("$schema", "text", "The schema of this file, for editors; it has no other effect.")
TOOLBOXES = Key("toolboxes", "object", "The toolboxes by name: groups of servers that are opened together.")
MCP_SERVERS = Key("mcpServers", "object", "The servers by name, written as every MCP host writes them.")


def _seconds(name: str, limit: str, about: str) -> Key:
    return Key(name, "number", about, above=0, at_most=TIMEOUT_MOST_SECONDS, unit="seconds", limit=limit)


BOUNDS: tuple[Key, ...] = (
    _seconds("startupTimeout", "startup_timeout_seconds", "Seconds that a server may take to start and answer."),
    _seconds(
        "callTimeout",
        "call_idle_timeout_seconds",
        "Seconds that a server may be silent during a call. Each progress report restarts them.",
    ),
    _seconds("maxCallTime", "call_hard_timeout_seconds", "Seconds that a call may last in all, progress or not."),
    _seconds(
        "idleTimeout",
        "idle_timeout_seconds",
        "Seconds without use after which a server is stopped until it is needed again. Default: never.",
    ),
    Key(
        "maxConcurrent",
        "whole",
        "Calls that a server handles at the same time; others wait.",
        at_least=1,
        at_most=IN_FLIGHT_MOST,
        unit="calls",
        limit="in_flight",
    ),
    Key(
        "maxMessageSize",
        "whole",
        "Bytes in the largest message that a server may send.",
        at_least=MESSAGE_BYTES_LEAST,
        at_most=MESSAGE_BYTES_MOST,
        unit="bytes",
        limit="message_bytes",
    ),
)
"""The limits that a file may set: at the top for every server, in an entry for one server."""

CATALOG: tuple[Key, ...] = (
    Key(
        "maxAge",
        "number",
        "Seconds for which a cached list of tools counts as current. An older one is shown and refreshed.",
        at_least=0,
        at_most=CATALOG_AGE_MOST_SECONDS,
        unit="seconds",
        limit="catalog_age_seconds",
    ),
    Key(
        "refresh",
        "text",
        "When to start a server to list its tools again: 'background' (an old list is shown at once and refreshed), "
        "'always' (at every open) or 'never' (only by mcp-workbench refresh).",
        choices=("background", "always", "never"),
    ),
    Key(
        "path",
        "text",
        "The file of the cache, relative to this file's folder; 'none' turns the cache off. $WORKBENCH_CATALOG wins.",
    ),
    Key("semantic", "boolean", "Accepted, but has no effect: search compares words only."),
)
"""The keys of `catalog`."""

ROOT: tuple[Key, ...] = (
    SCHEMA_KEY,
    TOOLBOXES,
    MCP_SERVERS,
    Key(
        "toolMode",
        "text",
        "How tools are offered: 'proxy' (two meta-tools) or 'dynamic' (every tool of an open toolbox by name).",
        choices=("proxy", "dynamic"),
    ),
    Key("strict", "boolean", "Whether a missing environment variable stops the start, not only its own server."),
    Key(
        "openTimeout",
        "number",
        "Seconds after which opening a toolbox answers with the servers that are ready.",
        above=0,
        at_most=OPEN_TIMEOUT_MOST_SECONDS,
        unit="seconds",
        limit="open_timeout_seconds",
    ),
    Key(
        "openBudget",
        "whole",
        "Tokens that an answer of open_toolbox may cost, unless the call asks for full definitions.",
        at_least=OPEN_BUDGET_LEAST_TOKENS,
        at_most=OPEN_BUDGET_MOST_TOKENS,
        unit="tokens",
        limit="open_budget_tokens",
    ),
    Key(
        "openDetail",
        "text",
        "How open_toolbox shows tools if a call has no detail: 'auto' (as much as fits into openBudget), 'full' "
        "(definitions) or 'signature', both without a limit.",
        choices=("auto", "full", "signature"),
    ),
    Key(
        "maxMemory",
        "whole",
        "Bytes of memory that the workbench itself may use, without its servers.",
        at_least=MEMORY_BYTES_LEAST,
        at_most=MEMORY_BYTES_MOST,
        unit="bytes",
        limit="memory_bytes",
    ),
    Key("catalog", "section", "How the lists of servers are cached, so that servers need not run.", inside=CATALOG),
    Key(
        "record",
        "text",
        "What is recorded for mcp-workbench status and logs: 'off', 'calls' (the tools, without arguments) or 'full' "
        "(also arguments and results, without the secrets of this file).",
        choices=("off", "calls", "full"),
    ),
    Key(
        "inheritEnv",
        "names",
        "Variables of your environment that every server with a command also gets, by name or glob.",
    ),
    *BOUNDS,
    Key("inputs", "any", "Prompts of a host for secrets. They have no effect: set environment variables."),
)

TOOLBOX: tuple[Key, ...] = (
    Key("description", "text", "A sentence that tells an agent what the toolbox is for.", required=True),
    MCP_SERVERS._replace(required=True, filled="Add a server."),
)

ROOT_ONLY = ("openTimeout", "openBudget", "openDetail", "maxMemory", "catalog", "record", "toolMode", "strict")
"""Keys of the top of the file that people try to write into a server."""

AUTHORIZATION_CODE = "authorization_code"
CLIENT_CREDENTIALS = "client_credentials"

OAUTH: tuple[Key, ...] = (
    Key(
        "grantType",
        "text",
        "Who logs in: a person in a browser (authorization_code, the default), or the workbench with its own client "
        "(client_credentials).",
        choices=(AUTHORIZATION_CODE, CLIENT_CREDENTIALS),
    ),
    Key("clientId", "text", "The id of a registered client; without it, the workbench registers one.", expands=True),
    Key("clientSecret", "text", "The secret of that client, if it has one.", expands=True),
    Key(
        "issuer",
        "text",
        "For client_credentials: the authorization server of the client. Only this server gets its secret.",
        expands=True,
    ),
    Key(
        "privateKey",
        "text",
        "For client_credentials: a private key in PEM form that authenticates the client, instead of a secret.",
        expands=True,
    ),
    Key(
        "signingAlgorithm",
        "text",
        "The signing algorithm for privateKey; RS256 by default.",
        choices=("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"),
    ),
    Key(
        "scopes",
        "names",
        "The scopes to request, if not those that the server names.",
        filled="Leave it out for the usual.",
    ),
    Key(
        "callbackPort",
        "whole",
        "The port of the redirect URI on this machine, if the client is bound to one; any by default.",
        at_least=CALLBACK_PORT_LEAST,
        at_most=CALLBACK_PORT_MOST,
    ),
)
"""The keys of `oauth`."""

OAUTH_OF_HOSTS = (
    "audiences",
    "authServerMetadataUrl",
    "authorizationUrl",
    "enabled",
    "redirectUri",
    "registrationUrl",
    "scope",
    "tokenParamName",
    "tokenUrl",
)
"""Keys of `oauth` that other hosts write. They have no effect: the server itself names its authorization server."""

SERVER: tuple[Key, ...] = (
    Key("command", "text", "The program of the server: a name on PATH, or a path.", expands=True),
    Key("args", "strings", "The arguments of the command, one string each. No shell interprets them.", expands=True),
    Key("env", "map", "Environment variables of the server.", expands=True),
    Key("cwd", "text", "The folder in which the server runs, relative to this file's folder.", expands=True),
    Key("inheritEnv", "names", "Variables of your environment that the server gets too, by name or glob."),
    Key("url", "text", "The address of a remote server, http or https.", expands=True),
    Key("httpUrl", "text", "Another name for url, as some hosts write it.", expands=True),
    Key("serverUrl", "text", "Another name for url, as some hosts write it.", expands=True),
    Key("headers", "map", "HTTP headers for a remote server.", expands=True),
    Key("allowInsecure", "boolean", "Whether headers and logins may be sent to a remote server over plain http."),
    Key(
        "oauth",
        "section",
        "How to log in to a remote server. Most need nothing here.",
        inside=OAUTH,
        foreign=OAUTH_OF_HOSTS,
    ),
    Key("transport", "text", "The transport of the server: stdio, http or sse.", choices=tuple(TRANSPORTS)),
    Key("type", "text", "Another name for transport.", choices=tuple(TRANSPORTS)),
    Key("transportType", "text", "Another name for transport, as some hosts write it.", choices=tuple(TRANSPORTS)),
    Key(
        "toolFilters",
        "names",
        "Which tools are offered: names, globs, ! to exclude, @annotations.",
        filled="Leave it out for all tools.",
    ),
    *BOUNDS,
    Key("disabled", "boolean", "Whether the server is turned off."),
    Key("enabled", "boolean", "The opposite of disabled, as some hosts write it."),
)

_FILTER_ADVICE = "has no effect here: use toolFilters to choose the tools"
_APPROVAL_ADVICE = "has no effect here: approving calls is up to the host"
_AUTH_ADVICE = "has no effect here: send what the server needs in headers"
_LABEL_ADVICE = "has no effect here"

HOST_KEYS: Mapping[str, str] = {
    "autoApprove": _APPROVAL_ADVICE,
    "alwaysAllow": _APPROVAL_ADVICE,
    "trust": _APPROVAL_ADVICE,
    "disabledTools": _FILTER_ADVICE,
    "enabledTools": _FILTER_ADVICE,
    "includeTools": _FILTER_ADVICE,
    "excludeTools": _FILTER_ADVICE,
    "tools": _FILTER_ADVICE,
    "envFile": "is not read, its variables are not set: write them in env, or name them in inheritEnv",
    "inputs": "have no effect here: set environment variables and write ${NAME}",
    "auth": _AUTH_ADVICE,
    "authProviderType": _AUTH_ADVICE,
    "targetAudience": _AUTH_ADVICE,
    "targetServiceAccount": _AUTH_ADVICE,
    "headersHelper": "is not run, its headers are not sent: write them in headers",
    "sandbox": "has no effect here: the server runs without it",
    "sandboxEnabled": "has no effect here: the server runs without a sandbox",
    "timeout": "has no effect here: use callTimeout, in seconds",
    "alwaysLoad": _LABEL_ADVICE,
    "description": "has no effect here: the description of the toolbox is what agents see",
    "dev": _LABEL_ADVICE,
    "extensionName": _LABEL_ADVICE,
    "gallery": _LABEL_ADVICE,
    "icon": _LABEL_ADVICE,
    "metadata": _LABEL_ADVICE,
    "name": "has no effect here: the server's key is its name",
    "remoteConfigured": _LABEL_ADVICE,
    "settings": _LABEL_ADVICE,
    "source": _LABEL_ADVICE,
    "version": _LABEL_ADVICE,
    "watchPaths": _LABEL_ADVICE,
}
"""Keys of server entries that only hosts use: accepted, with the warning of `check` for each."""

ELSEWHERE: Mapping[str, str] = {"servers": "mcpServers", "context_servers": "mcpServers", "mcp_servers": "mcpServers"}
"""The keys of other hosts for `mcpServers`, and the name to use here."""


def is_comment(name: str) -> bool:
    """Whether a key is a comment. Not for maps with names of the user: there a name can start with `_`."""
    return name.startswith("_")


def did_you_mean(name: str, known: Iterable[str], default: str = "") -> str:
    """The hint for a name that does not exist."""
    suggestion = nearest(name, known)
    return f"Did you mean '{suggestion}'?" if suggestion else default
