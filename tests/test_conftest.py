"""What every test gets: a test that fails leaves nothing open for the tests after it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.conftest import closing_sockets


def test_the_sockets_of_a_test_that_fails_are_closed():
    async def fails() -> None:
        async with await asyncio.start_server(lambda reader, _: reader.read(), "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert writer.is_closing(), "as tests fail"

    with pytest.raises(AssertionError, match="as tests fail"):
        asyncio.run(closing_sockets(fails()))
    gc.collect()  # pytest reports a socket that nobody closed
