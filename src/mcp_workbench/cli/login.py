"""Implements `mcp-workbench auth`: OAuth login in a browser, and logout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import threading
import webbrowser
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import httpx2

from mcp_workbench import logger
from mcp_workbench.catalog.cache.server_cache import ServerCache
from mcp_workbench.cli.config_selection import chosen, log_level
from mcp_workbench.cli.display import is_terminal
from mcp_workbench.cli.terminal import say
from mcp_workbench.command_errors import LoginFailed
from mcp_workbench.config.model import Config, Endpoint, ServerConfig
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.servers.http import login as logins
from mcp_workbench.servers.http.authority import Authority, login_key, origin_text, server_url
from mcp_workbench.servers.http.callback import Callback, LoginRedirect, listening
from mcp_workbench.servers.http.credentials import Credentials, Login, Unusable, open_credentials
from mcp_workbench.text.sanitize import escape, slashed
from mcp_workbench.text.suggest import nearest_or_known
from mcp_workbench.wire.background import in_background

_ADDRESS = r"https?://[A-Za-z0-9\-._~:/?\[\]@!$&()*+,;=%]+"
"""The characters of RFC 3986 without quotes and fragments, so that no shell or browser interprets a part of it."""


def check_address(address: str) -> str:
    """The address, if it is safe to pass to a browser. Raises `LoginFailed`."""
    if not re.fullmatch(_ADDRESS, address):
        raise LoginFailed("the authorization server's address is not safe to open in a browser")
    return address


async def open_browser(address: str) -> bool:
    """Open an address in `$BROWSER` or the system's browser; return False if there is none."""
    address = check_address(address)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def tell(succeeded: bool) -> None:  # noqa: FBT001 -- a callback
        if not done.done():
            done.set_result(succeeded)

    def show() -> None:
        try:
            succeeded = webbrowser.open(address)
        except Exception:  # noqa: BLE001 -- $BROWSER may hold anything; we print the address instead
            succeeded = False
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, succeeded)

    # Some browsers block until they are closed. A daemon thread does not delay the exit.
    threading.Thread(target=show, daemon=True, name="browser").start()
    return await done


class LoginTarget(NamedTuple):
    """A remote server, and the store of its login."""

    server: ServerConfig
    endpoint: Endpoint
    credentials: Credentials
    limits: Limits
    config: Config

    @property
    def name(self) -> str:
        return slashed(self.server.toolbox, self.server.name)

    @property
    def login_key(self) -> str:
        return _login_key(self.endpoint)


def _login_key(endpoint: Endpoint) -> str:
    return login_key(str(server_url(endpoint)), endpoint.oauth)


def run(options: Mapping[str, str]) -> int:
    target = _target(options)
    asyncio.run(log_out(target) if "logout" in options else log_in(target, opens="no_browser" not in options))
    return 0


def _target(options: Mapping[str, str]) -> LoginTarget:
    """The named server. Raises `ConfigError`, or `LoginFailed` if it can't have a login."""
    config, _ = chosen(options)
    logger.log.set_level(log_level(options, default="warning"))
    logger.log.redact.hide(config.secrets)
    toolbox, name = options["toolbox"], options["server"]
    servers = config.toolboxes[toolbox].servers
    if name not in servers:
        problem = f"Server '{escape(name)}' not found in toolbox '{escape(toolbox)}'"
        raise ConfigError(problem, file=config.file, hint=nearest_or_known(name, servers, "servers"))
    server = servers[name]
    if server.missing:
        missing = server.missing[0]
        raise ConfigError(f"${{{missing.variable}}} is not set", file=config.file, path=missing.path)
    if not isinstance(server.target, Endpoint):
        raise LoginFailed(f"'{escape(name)}' is a local program and has no login", hint="Pass its credentials in env.")
    if "logout" not in options:
        _check_logins(name, server.target)
    return LoginTarget(server, server.target, open_credentials(os.environ, DEFAULTS), DEFAULTS, config)


def _check_logins(name: str, endpoint: Endpoint) -> None:
    """Raise `LoginFailed` if a login would be useless or not private."""
    if logins.has_own_credentials(endpoint):
        hint = "Remove it from the configuration to log in instead."
        raise LoginFailed(f"'{escape(name)}' has an Authorization header and needs no login", hint=hint)
    if not logins.is_private(endpoint):
        hint = 'Use https, or set "allowInsecure": true for the server if nobody else uses the network.'
        raise LoginFailed("anyone on the network could read a login over http", hint=hint)


# -- in


async def log_in(target: LoginTarget, *, opens: bool) -> None:
    """Log in and store the login. Raises `LoginFailed`."""
    await logins.load_oauth()
    from mcp_workbench.servers.http import oauth  # noqa: PLC0415 -- large

    client, limits = target.endpoint.oauth, target.limits
    if client.logs_in_itself:
        async with Authority(target.endpoint, limits) as authority:
            token = await oauth.client_token(authority, client, limits)
        granted = f" ({logger.foreign(token.scope)})" if token.scope else ""
        say(f"{target.name}: its client credentials work{granted}. `serve` logs in with them; nothing is stored.")
        return
    async with listening(client.callback_port, limits) as callback, Authority(target.endpoint, limits) as authority:

        async def ask(address: str, state: str) -> oauth.AuthorizationResponse:
            answer = await _open_login(target, check_address(address), state, callback, opens=opens)
            return oauth.AuthorizationResponse(answer.code, answer.iss)

        login = await oauth.log_in(authority, client, callback.uri, ask, limits, before=await _before(target))
    if login is None:
        say(f"{target.name} needs no login.")
        return
    try:
        await target.credentials.replace(login)
    except Unusable as error:
        hint = "Fix that, or name another file in $WORKBENCH_CREDENTIALS, and log in again."
        raise LoginFailed(f"the login can't be stored in {target.credentials.name}: {error}", hint=hint) from None
    _forget_lists(target)
    scope = f" ({logger.foreign(login.scope)})" if login.scope else ""
    say(f"{target.name}: logged in{scope}. The login is stored in {target.credentials.name}.")


async def _before(target: LoginTarget) -> Login | None:
    """The stored login; None also if it can't be read: storing the new one reports that."""
    try:
        return await target.credentials.read(target.login_key)
    except Unusable:
        return None


async def _open_login(
    target: LoginTarget, address: str, state: str, callback: Callback, *, opens: bool
) -> LoginRedirect:
    """Open the login page and wait for the redirect."""
    say(f"{target.name} requires a login at {origin_text(httpx2.URL(address))}.")
    seconds = target.limits.login_wait_seconds
    try:
        with in_background(_show(address, opens=opens)):
            async with asyncio.timeout(seconds):
                answer = await _wait_for_redirect(callback, state)
    except TimeoutError:
        raise LoginFailed(f"nobody logged in within {seconds:g} s", hint="Run the command again.") from None
    answer.check()
    return answer


async def _show(address: str, *, opens: bool) -> None:
    """Open the address in a browser, or print it."""
    if opens:
        say("Opening it in your browser.")
    if not opens or not await open_browser(address):
        say(f"Open this address in a browser:\n\n{address}\n")
    if is_terminal(sys.stdin):
        say("If the browser can't reach this machine, paste the address that it ends at:")


async def _wait_for_redirect(callback: Callback, state: str) -> LoginRedirect:
    """The first redirect: from the browser, or pasted at the terminal."""
    with in_background(callback.answer(state)) as answered:
        if not is_terminal(sys.stdin):
            return await answered
        with in_background(read_pasted(state)) as pasted:
            done, _ = await asyncio.wait((answered, pasted), return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()


async def read_pasted(state: str) -> LoginRedirect:
    """Read a pasted redirect: the whole address, which must have our state, or only the code."""
    while True:
        line = (await _line()).strip()
        if not line:
            continue
        if "code=" not in line and "error=" not in line:
            return LoginRedirect(urlencode({"state": state, "code": line}))
        answer = LoginRedirect(urlsplit(line).query or line)
        if answer.has_state(state):
            return answer
        say("That address belongs to another login. Paste the one that the browser ended at:")


async def _line() -> str:
    """Read one line from the terminal. At the end of input it waits forever."""
    loop = asyncio.get_running_loop()
    read: asyncio.Future[str] = loop.create_future()

    def wait() -> None:
        line = sys.stdin.readline()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            if line:
                loop.call_soon_threadsafe(lambda: None if read.done() else read.set_result(line))

    threading.Thread(target=wait, daemon=True, name="terminal").start()
    return await read


def _forget_lists(target: LoginTarget) -> None:
    """Delete the stored lists of servers with this login: another account may see other tools."""
    memory = ServerCache(target.config, target.limits)
    try:
        for server in target.config.servers():
            if isinstance(server.target, Endpoint) and _login_key(server.target) == target.login_key:
                memory.forget(server)
    finally:
        memory.close()


# -- out


async def log_out(target: LoginTarget) -> None:
    """Delete the stored login and revoke it. Raises `LoginFailed`."""
    try:
        login = await target.credentials.forget(target.login_key)
    except Unusable as error:
        raise LoginFailed(f"the login can't be removed from {target.credentials.name}: {error}") from None
    if login is None:
        say(f"{target.name}: no login is stored in {target.credentials.name}.")
        return
    _forget_lists(target)
    say(f"{target.name}: logged out. {await _revoked(target, login)}")


async def _revoked(target: LoginTarget, login: Login) -> str:
    await logins.load_oauth()
    from mcp_workbench.servers.http import oauth  # noqa: PLC0415 -- large

    if not login.revocation_endpoint:
        return "Its authorization server has no revocation; the login stays valid until it expires."
    try:
        async with Authority(target.endpoint, target.limits) as authority:
            done = await oauth.revoke(authority, login)
    except LoginFailed as error:
        return f"It could not be revoked and stays valid until it expires: {error}"
    return (
        "It was revoked." if done else "Its authorization server did not revoke it, so it stays valid until it expires."
    )
