import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report

OVER_HTTP = Path(report.__file__).with_name("over_http.py")


@pytest.fixture
def raw_http(monkeypatch):
    monkeypatch.syspath_prepend(str(OVER_HTTP.parent))
    return __import__("raw_http")


QUICKER = f"""
import sys
sys.path.insert(0, {str(OVER_HTTP.parent)!r})
import over_http
over_http.QUICK = over_http.Plan(rounds=1, starts=1, load_seconds=0.1, warm_up_seconds=0.05)
over_http.main()
"""


def test_the_workbench_is_measured_over_http_in_both_eras(tmp_path):
    written = tmp_path / "results" / "over_http.json"
    command = [sys.executable, "-c", QUICKER, "--quick", "--only", "workbench", "--json", str(written)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(written.read_text())
    assert document["unavailable"] == {}
    ours = document["rows"]["workbench"]
    figures = {f"{era}_per_s_{level}" for era in ("handshake", "modern") for level in (1, 16, 64)}
    assert figures <= set(ours["medians"])
    assert ours["failures"] == 0
    assert ours["problems"] == []
    assert {target["verdict"] for target in document["targets"]} == {"----"}


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(
    "response",
    [
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"id":  1}',
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            b'1b\r\nevent: message\r\ndata: {"id"\r\n9\r\n: 1}\r\n\r\n\r\n\r\n0\r\n\r\n'
        ),
    ],
)
def test_a_response_is_complete_at_its_last_byte_however_it_arrives(raw_http, response, step):
    reading = raw_http.Response()
    pieces = [response[at : at + step] for at in range(0, len(response), step)]
    assert [reading.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert reading.message() == {"id": 1}
