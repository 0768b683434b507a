"""An MCP client that opens a toolbox in dynamic mode and calls one of its tools by its joined name."""

import asyncio

from mcp import Client, StdioServerParameters, stdio_client

WORKBENCH = StdioServerParameters(
    command="mcp-workbench", args=["serve", "--config", "workbench-config.json", "--log-level", "warning"]
)


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def main() -> None:
    # "legacy" is the handshake protocol that most hosts speak today: its tool list may grow.
    async with Client(stdio_client(WORKBENCH), mode="legacy") as client:
        print("before:", *await names(client))
        await client.call_tool("open_toolbox", {"toolbox": "data"})
        print("after: ", *await names(client))
        result = await client.call_tool("data__calculator__evaluate", {"expression": "6 * 7"})
        print("result:", result.structured_content)


asyncio.run(main())
