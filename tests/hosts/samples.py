"""The files of hosts as people have them, one or two for each, with what hosts and people put into them."""

# ruff: noqa: UP031, E501, S105 -- texts as people have them, with braces of their own

from __future__ import annotations

from typing import NamedTuple

CANARY = "ghp_CanaryCanaryCanaryCanaryCanary01"
"""A secret that must not be seen again."""
PASSWORD = "c4nary-pa55word"
HEADER = "canary-header-5e1f0c"
SECRETS = (CANARY, PASSWORD, HEADER)


class Sample(NamedTuple):
    """A file of a host."""

    host: str
    path: str
    """Below the home folder, or below the project."""
    text: str
    servers: tuple[str, ...]
    """The servers in it that can be taken."""
    project: bool = False

    @property
    def data(self) -> bytes:
        return self.text.encode()


CLAUDE_CODE = Sample(
    "claude-code",
    ".claude.json",
    """{
  "numStartups": 41,
  "installMethod": "unknown",
  "tipsHistory": {
    "new-user-warmup": 1
  },
  "projects": {
    "/home/zoë/Projekte/größe": {
      "allowedTools": [],
      "mcpServers": {
        "local-db": {
          "type": "stdio",
          "command": "./bin/db",
          "args": ["--dsn", "postgresql://me:%(password)s@localhost/db"],
          "env": {}
        }
      },
      "lastCost": 0.1234567890123456789
    }
  },
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-github"
      ],
      "env": {
        "GITHUB_PERSONAL_ACCESS_TOKEN": "%(canary)s"
      }
    },
    "sentry": {
      "type": "http",
      "url": "https://mcp.sentry.dev/mcp",
      "headers": {
        "Authorization": "Bearer ${SENTRY_TOKEN}",
        "X-Api-Key": "%(header)s"
      }
    }
  },
  "userID": "0"
}"""
    % {"canary": CANARY, "password": PASSWORD, "header": HEADER},
    ("github", "sentry"),
)
CLAUDE_CODE_PROJECT = Sample(
    "claude-code",
    ".mcp.json",
    '{"mcpServers":{"files":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","."],'
    '"env":{"LEVEL":"${LEVEL:-info}"}}}}\n',
    ("files",),
    project=True,
)
CLAUDE_DESKTOP = Sample(
    "claude-desktop",
    ".config/Claude/claude_desktop_config.json",
    '\ufeff{\r\n\t"mcpServers": {\r\n\t\t"memory": {\r\n\t\t\t"command": "npx",\r\n\t\t\t"args": ["-y", '
    '"@modelcontextprotocol/server-memory", "--api-key=%s"]\r\n\t\t}\r\n\t},\r\n\t"globalShortcut": ""\r\n}\r\n'
    % CANARY,
    ("memory",),
)
CURSOR = Sample(
    "cursor",
    ".cursor/mcp.json",
    """{
    // servers of mine
    "mcpServers": {
        /* the one for pull requests */
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "%(canary)s" } // from the settings of GitHub
        },
        "linear": { "url": "https://mcp.linear.app/sse", "type": "sse", "headers": { "Authorization": "Bearer ${env:LINEAR}" } },
    },
}
"""
    % {"canary": CANARY},
    ("github", "linear"),
)
CURSOR_PROJECT = Sample(
    "cursor",
    ".cursor/mcp.json",
    '{ "mcpServers": { "here": { "command": "${workspaceFolder}/run", "gallery": "x" } } }',
    ("here",),
    project=True,
)
VSCODE = Sample(
    "vscode",
    ".config/Code/User/mcp.json",
    """{
	"inputs": [
		{ "type": "promptString", "id": "perplexity-key", "description": "Key", "password": true }
	],
	"servers": {
		// https://github.com/ppl-ai/modelcontextprotocol
		"perplexity": {
			"type": "stdio",
			"command": "npx",
			"args": ["-y", "server-perplexity-ask"],
			"env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}" },
			"gallery": true,
			"somethingNew": 7
		}
	}
}
""",
    ("perplexity",),
)
VSCODE_PROJECT = Sample(
    "vscode",
    ".vscode/mcp.json",
    '{\n  "servers": {\n    "api": {"type": "http", "url": "https://me:%s@api.example.com/mcp"}\n  }\n}' % PASSWORD,
    ("api",),
    project=True,
)
VSCODE_OLD = Sample(
    "vscode",
    ".config/Code/User/settings.json",
    '{\n  "editor.fontSize": 14, // large\n  "mcp": { "servers": { "fetch": { "command": "uvx", "args": ["mcp-server-fetch"] } } }\n}\n',
    ("fetch",),
)
WINDSURF = Sample(
    "windsurf",
    ".codeium/windsurf/mcp_config.json",
    """{
  "mcpServers": {
    "zapier": {
      "serverUrl": "https://actions.zapier.com/mcp/%(canary)s/sse",
      "disabled": false,
      "disabledTools": ["delete_zap"]
    }
  }
}
"""
    % {"canary": CANARY},
    ("zapier",),
)
CODEX = Sample(
    "codex",
    ".codex/config.toml",
    """# how I like it
model = "gpt-5.2-codex" # the large one
approval_policy = "on-request"

# files
[mcp_servers.files]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/home/zoë"]
startup_timeout_sec = 20

[mcp_servers.files.env]
FILES_TOKEN = "%(canary)s"

# design
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Figma-Key" = "%(header)s" }
enabled_tools = ["get_design"]

[profiles.fast]
model = "gpt-5.2-codex-mini"
"""
    % {"canary": CANARY, "header": HEADER},
    ("files", "figma"),
)
CODEX_PROJECT = Sample(
    "codex",
    ".codex/config.toml",
    'mcp_servers = { time = { command = "uvx", args = ["mcp-server-time"] } }\r\nmodel = "o3"\r\n',
    ("time",),
    project=True,
)
GEMINI = Sample(
    "gemini",
    ".gemini/settings.json",
    """{
  "theme": "Dracula",
  "mcpServers": {
    "git": { "command": "uvx", "args": ["mcp-server-git"], "env": { "GIT_TOKEN": "$GIT_TOKEN" }, "trust": true, "timeout": 5000 },
    "maps": { "httpUrl": "https://maps.example.com/mcp", "headers": { "Authorization": "%(header)s" } },
    "events": { "url": "https://events.example.com/stream", "includeTools": ["list_events"], "excludeTools": ["drop"] }
  }
}
"""
    % {"header": HEADER},
    ("git", "maps", "events"),
)
GEMINI_PROJECT = Sample("gemini", ".gemini/settings.json", '{"theme":"GitHub"}', (), project=True)
ZED = Sample(
    "zed",
    ".config/zed/settings.json",
    """// Zed settings
//
// For information on how to configure Zed, see the documentation.
{
  "ui_font_size": 16,
  "context_servers": {
    "mine": {
      "source": "custom",
      "command": "some-command",
      "args": ["--token", "%(canary)s"],
      "env": {},
    },
    "older": {
      "command": { "path": "/opt/öl/server", "args": ["run"], "env": { "DATABASE_URL": "mysql://root:%(password)s@db/x" } },
      "settings": {},
    },
    "remote": {
      "url": "https://mcp.example.com/mcp",
      "headers": { "Authorization": "Bearer %(header)s" },
      "oauth": { "client_id": "me", "client_secret": "%(canary)s" },
      "timeout": 60,
    },
    "postgres-context-server": {
      "source": "extension",
      "settings": { "database_url": "postgresql://postgres@localhost/db" },
    },
  },
  // the theme
  "theme": "One Dark",
}
"""
    % {"canary": CANARY, "password": PASSWORD, "header": HEADER},
    ("mine", "older", "remote"),
)
ZED_PROJECT = Sample("zed", ".zed/settings.json", "// only a comment\n{\n}\n", (), project=True)

SAMPLES = (
    CLAUDE_CODE,
    CLAUDE_CODE_PROJECT,
    CLAUDE_DESKTOP,
    CURSOR,
    CURSOR_PROJECT,
    VSCODE,
    VSCODE_PROJECT,
    VSCODE_OLD,
    WINDSURF,
    CODEX,
    CODEX_PROJECT,
    GEMINI,
    GEMINI_PROJECT,
    ZED,
    ZED_PROJECT,
)
WRITTEN = tuple(sample for sample in SAMPLES if sample is not VSCODE_OLD)
"""Those that `install` writes to."""


def name_of(sample: Sample) -> str:
    return f"{sample.host}{'-project' if sample.project else ''}"
