import asyncio

import pytest

from tests.conformance.forwarder import forwarding

TOKEN = "a-token"  # noqa: S105 -- of this test
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Target:
    """A server that keeps what it gets; `ended` is set when the other side hangs up."""

    def __init__(self, wanted: bytes):
        self.got = b""
        self.wanted = wanted
        self.ended = asyncio.Event()

    async def serve(self, reader, writer):
        while data := await reader.read(1 << 16):
            self.got += data
            if self.got.endswith(self.wanted):
                writer.write(ANSWER)
        writer.close()
        self.ended.set()


async def send(target, request):
    """What comes back for a request through the forwarder, and its port and the target's."""
    server = await asyncio.start_server(target.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, forwarding(port, TOKEN) as before:
        reader, writer = await asyncio.open_connection("127.0.0.1", before)
        writer.write(request.replace(b"PORT", b"%d" % before))
        async with asyncio.timeout(10):
            assert await reader.readexactly(len(ANSWER)) == ANSWER
            writer.close()
            await target.ended.wait()
    return before, port


async def test_a_request_gets_the_token_and_the_address_of_the_workbench():
    target = Target(b"body")
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost:PORT\r\nOrigin: http://localhost:PORT\r\nContent-Length: 4\r\n\r\n"
    _, port = await send(target, head + b"body")
    lines = target.got.split(b"\r\n")
    assert b"Host: localhost:%d" % port in lines
    assert b"Origin: http://localhost:%d" % port in lines
    assert b"Authorization: Bearer a-token" in lines


@pytest.mark.parametrize("host", [b"evil.example.com", b"localhost:1", b"localhost"])
async def test_another_host_stays_as_it_is(host):
    target = Target(b"body")
    await send(target, b"POST /mcp HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 4\r\n\r\nbody")
    assert b"Host: " + host in target.got.split(b"\r\n")


async def test_every_request_of_a_connection_gets_the_token_with_bodies_of_either_kind():
    target = Target(b"last")
    chunked = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    await send(target, chunked + b"POST /b HTTP/1.1\r\nContent-Length: 4\r\n\r\nlast")
    assert target.got.count(b"Authorization: Bearer a-token\r\n") == 2
    assert b"\r\n3\r\nabc\r\n0\r\n\r\nPOST /b" in target.got
