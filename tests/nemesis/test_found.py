"""What runs of the nemesis found, as small tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

from tests.nemesis.scene import SERVER
from tests.nemesis.wires import read_answer
from tests.support.configs import write_config
from tests.support.wire import serving, use_params

FLAP = 0.5
UNLUCKY_ONCE = next(
    seed
    for seed in range(100)
    if [Random(f"{seed}:modern:{start}").random() < FLAP for start in (1, 2, 3)] == [True, False, False]  # noqa: S311 -- the server's own luck
)
"""With this the first start fails, and the next two do not."""


async def test_a_modern_server_that_dies_at_its_first_start_is_not_taken_for_one_that_speaks_no_mcp(tmp_path: Path):
    files = {name: str(tmp_path / name) for name in ("log", "calm", "starts")}
    options = json.dumps({"modern": True, "flap": FLAP, "seed": UNLUCKY_ONCE, **files})
    server = {"command": sys.executable, "args": ["-SE", str(SERVER), "modern", options]}
    async with serving(write_config(tmp_path, {"left": {"modern": server}})) as wire:
        arguments = use_params("left", "modern", "echo", {"nonce": "n_ada_1_"})
        code, _, _ = read_answer(await wire.request("tools/call", {"name": "use_tool", "arguments": arguments}))
    assert code in {"ok", "server_exited"}
