"""The tiers of the tests, and how they are shared out among processes; see HACKING.md."""

from __future__ import annotations

import collections
import datetime
import math
import random

import pytest

# Of sampled tests, one in so many of each file is of a tier, drawn by the seed.
APART = {"check": 60, "test": 4, "all": 1}
# Fixtures that run programs in processes of their own.
PROCESSES = {"python", "ok", "plain_user"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=tuple(APART), default="all", help="which tests: a cross-section, most, all")
    group.addoption("--draw", type=int, help="the seed by which samples are drawn (default: the day)")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.draw is None:
        config.option.draw = datetime.date.today().toordinal()


def pytest_report_header(config: pytest.Config) -> str:
    return f"tier: {config.option.tier}, samples drawn by --draw {config.option.draw}"


def _left_out(items: list[pytest.Item], config: pytest.Config) -> set[pytest.Item]:
    """Return the tests that are not of the tier."""
    tier = config.option.tier
    if tier == "all":
        return set()
    out = {i for i in items if i.get_closest_marker("slow")}
    if tier == "check":
        out |= {i for i in items if i.get_closest_marker("longer") or PROCESSES & set(getattr(i, "fixturenames", ()))}
    chance = random.Random(config.option.draw)
    sampled = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") or item.path.parent.name == "ops":
            sampled[item.path].append(item)
    for tests in sampled.values():
        out.update(chance.sample(tests, len(tests) - math.ceil(len(tests) / APART[tier])))
    return out


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out what is not of the tier, and name what a worker runs whole: a file, or all files of a group."""
    out = _left_out(items, config)
    config.hook.pytest_deselected(items=[i for i in items if i in out])
    items[:] = [i for i in items if i not in out]
    items.sort(key=lambda i: i.get_closest_marker("xdist_group") is None)  # the long groups first
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stop a worker whose pytest-xdist shares out single tests: fixtures would be built at the same place twice."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if not item.nodeid.endswith(f"@{item.get_closest_marker('xdist_group').args[0]}"):
                raise pytest.UsageError(f"pytest-xdist puts {item.nodeid} into no group")
