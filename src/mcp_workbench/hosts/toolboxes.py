"""Proposes a toolbox for each server of an import, by what the servers are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mcp_workbench.doctor.services import OTHER, Service

FEW: Final = 3
"""As many servers as share one toolbox, whatever they are for: an agent gains nothing from choosing between them."""
MAIN: Final = "main"
"""The toolbox of few servers that are for different things."""

Services = Sequence[Service | None]
"""What each of some servers is for; None for one that was not recognized."""


def by_purpose(new: Services, existing: Mapping[str, Services]) -> list[str]:
    """A toolbox for each new server; `existing` are the servers of the configuration, by toolbox.

    Servers that are for the same thing share a toolbox. A toolbox of the configuration that holds nothing else, however
    it is called, gets the new ones too.
    """
    number = len(new) + sum(map(len, existing.values()))
    if number <= FEW and len(existing) <= 1:
        return [next(iter(existing), _common(new))] * len(new)
    homes = {purpose: name for name, services in existing.items() if (purpose := _common(services)) != MAIN}
    wanted = [service.toolbox if service is not None else OTHER for service in new]
    return [name if name in existing else homes.get(name, name) for name in wanted]


def _common(services: Services) -> str:
    """The toolbox that is proposed for all of them alone, or `MAIN`."""
    purposes = {service.toolbox if service is not None else OTHER for service in services}
    return purposes.pop() if len(purposes) == 1 and OTHER not in purposes else MAIN
