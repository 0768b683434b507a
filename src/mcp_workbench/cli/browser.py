"""Opening an address that somebody else wrote: checked, by a program of the system, never through a shell."""

from __future__ import annotations

import asyncio
import re
import threading
import webbrowser

from mcp_workbench.command_errors import LoginFailed

_ADDRESS = r"https?://[A-Za-z0-9\-._~:/?\[\]@!$&()*+,;=%]+"
"""What RFC 3986 allows, without quotes and fragments: nothing in it means anything to a program that is given it."""


def checked(address: str) -> str:
    """The address, if a browser may be given it. Raises `LoginFailed`."""
    if not re.fullmatch(_ADDRESS, address):
        raise LoginFailed("the authorization server's address is none that a browser may be given")
    return address


async def opened(address: str) -> bool:
    """Have the system's browser (or `$BROWSER`) show an address; False where there is none."""
    address = checked(address)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def tell(succeeded: bool) -> None:  # noqa: FBT001 -- the outcome
        if not done.done():
            done.set_result(succeeded)

    def show() -> None:
        try:
            succeeded = webbrowser.open(address)
        except Exception:  # noqa: BLE001 -- $BROWSER may hold anything; the address is printed instead
            succeeded = False
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, succeeded)

    # Some browsers are waited for until they are closed, and nobody waits for this thread.
    threading.Thread(target=show, daemon=True, name="browser").start()
    return await done
