"""Put the reference servers and clients of the end-to-end tests under `.cache/e2e/` of the repository.

Safe to run again: what is there in the pinned versions is left alone. `python tests/e2e/install.py`, and with `matrix`
or `firsthour` also what only those need. Without Node what comes from npm is left out, and its tests say so. The
conformance suite is left to who asks for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "e2e"
CONSTRAINTS = ROOT / "tests" / "constraints"
INSPECTOR_NODE = (22, 19)
CONFORMANCE_NODE = (22, 0)
NODE_PLATFORMS = {"linux-x64", "linux-arm64", "darwin-x64"}


def pins(file: str) -> list[str]:
    """The lines of a constraints file that name a package."""
    lines = (line.strip() for line in (CONSTRAINTS / file).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def is_current(folder: Path, wanted: str) -> bool:
    stamp = folder / ".stamp"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == fingerprint(wanted)


def set_current(folder: Path, wanted: str) -> None:
    (folder / ".stamp").write_text(fingerprint(wanted), encoding="utf-8")


def fingerprint(wanted: str) -> str:
    """What a folder was made for: the packages, and the Python that its environments rest on."""
    return hashlib.sha256(f"{wanted}\n{sys.base_prefix}\n{sys.version}".encode()).hexdigest()


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def install_npm(name: str, packages: list[str]) -> None:
    """Packages of npm, in a folder of their own."""
    folder = CACHE / name
    if is_current(folder, " ".join(packages)):
        return
    npm = shutil.which("npm")
    if npm is None:
        print(f"npm is not installed: the tests that need {', '.join(packages)} will be skipped", file=sys.stderr)
        return
    options = ["--no-package-lock", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    subprocess.run([npm, "install", "--prefix", str(fresh(folder)), *options, *packages], check=True)
    set_current(folder, " ".join(packages))


def install_node(oldest: tuple[int, int]) -> None:
    """A newer Node, where the machine's own is older than this."""
    node = shutil.which("node")
    if node is None:
        return
    version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout
    major, minor, _ = version.removeprefix("v").split(".", 2)
    if (int(major), int(minor)) >= oldest:
        return
    script = "process.stdout.write(process.platform + '-' + process.arch)"
    platform = subprocess.run([node, "-e", script], check=True, capture_output=True, text=True).stdout
    if platform not in NODE_PLATFORMS:
        print(f"npm has no newer Node for {platform}: the Inspector is tried with Node {version}", file=sys.stderr)
        return
    install_npm("npm-node", [pin.replace("node@", f"node-{platform}@") for pin in pins("e2e-npm-node.txt")])


def newer_node() -> Path | None:
    """The Node that `install_node` put here, if it did."""
    return next((CACHE / "npm-node" / "node_modules").glob("node-*/bin/node"), None)


def conformance() -> tuple[Path, Path]:
    """The Node and the script of the conformance suite, which are installed where they are missing."""
    CACHE.mkdir(parents=True, exist_ok=True)
    install_npm("npm-conformance", pins("e2e-npm-conformance.txt"))
    install_npm("npm-servers", pins("e2e-npm-servers.txt"))
    install_node(CONFORMANCE_NODE)
    node = newer_node() or shutil.which("node")
    folder = CACHE / "npm-conformance" / "node_modules" / "@modelcontextprotocol" / "conformance"
    if node is None or not folder.is_dir():
        sys.exit("The conformance suite needs Node and npm.")
    return Path(node), folder / "dist" / "index.js"


def install_pypi(pin: str) -> None:
    """A package of PyPI, in a virtualenv of its own that has the name of the package."""
    folder = CACHE / pin.partition("==")[0].partition("[")[0]
    if is_current(folder, pin):
        return
    subprocess.run([sys.executable, "-m", "venv", str(fresh(folder))], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, pin], check=True, env=environment)
    set_current(folder, pin)


def main() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    install_npm("npm", pins("e2e-npm.txt"))
    install_npm("npm-clients", pins("e2e-npm-clients.txt"))
    install_npm("npm-inspector", pins("e2e-npm-inspector.txt"))
    install_npm("npm-remote", pins("e2e-npm-remote.txt"))
    install_node(INSPECTOR_NODE)
    for pin in pins("e2e-pypi.txt"):
        install_pypi(pin)
    if "matrix" in sys.argv[1:]:
        install_npm("npm-servers", pins("e2e-npm-servers.txt"))
        for pin in pins("e2e-pypi-clients.txt"):
            install_pypi(pin)
    if "firsthour" in sys.argv[1:]:
        install_npm("npm-hosts", pins("e2e-npm-hosts.txt"))
        install_npm("npm-first-hour", pins("e2e-npm-first-hour.txt"))


if __name__ == "__main__":
    main()
