"""A browser for `$BROWSER`: it asks for the address that it is given, follows where it leads, and writes what it saw.

browser.py LOG URL
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path


def show(log: Path, url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as answer:
            seen = {"asked": url, "status": answer.status, "ended": answer.geturl(), "page": answer.read().decode()}
    except urllib.error.HTTPError as error:
        with error:
            seen = {"asked": url, "status": error.code, "ended": error.geturl(), "page": error.read().decode()}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    show(Path(sys.argv[1]), sys.argv[2])
