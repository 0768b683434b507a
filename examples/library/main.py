"""Query a database and describe the answer, with tools of two servers."""

import asyncio

from mcp_workbench import ToolIdentifier, Workbench, load_config
from mcp_workbench.errors import WorkbenchError

QUERY = ToolIdentifier("data", "database", "query")
EVALUATE = ToolIdentifier("data", "calculator", "evaluate")
STATISTICS = ToolIdentifier("data", "calculator", "statistics")


async def main() -> None:
    async with Workbench(load_config("workbench-config.json")) as workbench:
        # Calls may run at the same time. Each one starts the server that it needs.
        planets, pole = await asyncio.gather(
            workbench.use(QUERY, {"sql": "SELECT name, moons FROM planets WHERE moons > 0"}),
            workbench.use(EVALUATE, {"expression": "40075 / 4"}),
        )
        moons = dict(planets["structuredContent"]["rows"])
        print("moons:", moons)
        print("from the equator to the pole:", pole["structuredContent"]["value"], "km")

        described = await workbench.use(STATISTICS, {"numbers": list(moons.values())})
        print("mean:", described["structuredContent"]["mean"])

        # Every failure is a WorkbenchError with a stable code and a hint.
        try:
            await workbench.use(ToolIdentifier("data", "database", "qurey"), {"sql": "SELECT 1"})
        except WorkbenchError as error:
            print(f"{error.code}: {error}")
            print(error.hint)


asyncio.run(main())
