"""Write docs/accelerators.md from what the vendors' compilers make of the programs: `make aot`.

usage: python -m tests.accelerators [--write]
"""

from __future__ import annotations

import sys
from typing import Any

from .rows import GROUPS, PLATFORMS, REFUSED, ROOT, rows

HEAD = """# Accelerators

Written by `make aot`: do not edit.

The vendors' plugins compile for devices that are absent, see
[ADR 22](adr/0022-programs-are-compiled-for-absent-devices.md). So a program that compiles for an
accelerator is proven on any machine. That it runs there, computes the right values, and how fast,
is not.

* **Proven by running**: the CPU device, by all tests; and on it everything that is above the
  plugin: recording, aliases, donation, saving, SPMD, jobs.
* **Proven by compiling**: the tables below, for an NVIDIA H100 and for a TPU v5e.
* **Not proven**: that programs run on GPUs and TPUs and compute the right values; speed; transfers
  and memory of their clients; collectives between GPUs or TPU chips; the profiler.

Memory is that of one device, in MiB, as the compiler says. *Kept* is what results take over from
donated arguments. *Temporary* is what a run needs besides arguments and results.
"""


def mib(n: int) -> str:
    return f"{n / (1 << 20):.2f}"


def counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name} × {n}" if n > 1 else name for name, n in sorted(found.items()))


def page() -> str:
    parts = [HEAD]
    for platform in PLATFORMS:
        programs: list[dict[str, Any]] = [row for group in GROUPS[:2] for row in rows(platform, group)]
        parts.append(f"\n## {programs[0]['kind']}\n\n")
        parts.append("| program | arguments | kept | temporary | fusions | collectives | calls of libraries |\n")
        parts.append("|---|--:|--:|--:|--:|---|---|\n")
        for row in programs:
            memory = row["memory"]
            figures = " | ".join(mib(memory[name]) for name in ("Argument", "Alias", "Temp"))
            parts.append(
                f"| {row['program']} | {figures} | {row['fusions']} | {counts(row['collectives'])} "
                f"| {counts(row['custom_calls'])} |\n"
            )
        found = rows(platform, "goldens")
        good = sum("error" not in row for row in found)
        parts.append(f"\nOf {len(found)} goldens of the lowerings, {good} compile.")
        if REFUSED[platform]:
            parts.append(" The others, and why:\n\n| golden | reason |\n|---|---|\n")
            parts += [f"| {program} | {why} |\n" for program, why in sorted(REFUSED[platform].items())]
        else:
            parts.append("\n")
    return "".join(parts)


if __name__ == "__main__":
    text = page()
    print(text)
    if "--write" in sys.argv[1:]:
        (ROOT / "docs" / "accelerators.md").write_text(text)
