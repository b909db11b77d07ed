"""Runs random programs on the device in several configurations and compares all tensors with torch's CPU.

``python tests/metamorphic/check.py --count 20000`` is `make metamorphic`. Programs run in batches, step by step side
by side, so that they share graphs and compilations. What is compiled is kept in a folder, and a second process runs the
programs once more with that alone. One that fails is reduced to the fewest lines and written to ``regressions``, where
the tests find it.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from generator import Generator, Program, execute, observe
from machine import Machine, uses

REGRESSIONS = Path(__file__).parent / "regressions"
BATCH = 50
STORED = 10 * BATCH  # programs after which the second process has its turn
# Two devices, and a compiler that makes slow programs fast: there are many, and they are small.
ENVIRONMENT = {
    "CPU_NUM_DEVICES": "2",
    "XLA_COMPILATION_CACHE_SIZE": "300",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}


@dataclass(frozen=True)
class Configuration:
    """How programs are run: what a ``sync`` in a program does, when there are others, and the core's switches."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()
    every: bool = False  # a sync after every line, with all storages compared
    moved: bool = False  # at other places than the program says
    ignored: bool = False  # nowhere
    some: bool = False  # of one tensor only
    together: bool = False  # the final values of all programs are read as one snapshot


_DEFAULT = {"XLA_TIER": "compile", "XLA_ENABLE_PARAM_ALIASING": "1", "XLA_DISABLE_FUNCTIONALIZATION": "0"}
CONFIGURATIONS = (
    Configuration("as written"),
    Configuration("as written, compiled before", together=True),
    Configuration("a sync after every line", every=True),
    Configuration("a sync after every line, no donation", (("XLA_ENABLE_PARAM_ALIASING", "0"),), every=True),
    Configuration("syncs moved", moved=True),
    Configuration("no syncs", ignored=True, together=True),
    Configuration("partial syncs", some=True),
    Configuration("op by op, a sync after every line", (("XLA_TIER", "eager"),), every=True),
    Configuration("op by op, syncs moved", (("XLA_TIER", "eager"),), moved=True),
    Configuration("functionalization off", (("XLA_DISABLE_FUNCTIONALIZATION", "1"),), moved=True),
)
NEGATIVE_ZERO = -(2**31)  # the bits of one
FROM_DISK = (Configuration("as written, compiled by another process"),)


Pair = tuple[int, tuple[Machine, Program]]  # a program by its number in a batch, with the machine that runs it


class Mismatch(AssertionError):
    """A program gave other values, aliases or errors than on the CPU."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number  # of the program in its batch


def run(programs: Sequence[Program], configuration: Configuration, seed: int = 0) -> None:
    """Run a batch; Mismatch says what differs."""
    import torch_go_xla
    import torch_go_xla.core.xla_model as xm
    from torch_go_xla._core import core

    gc.collect()  # and not on the way, see main: what is alive at a sync is the same in every process
    for name, value in (_DEFAULT | dict(configuration.settings)).items():
        core.configure(name, value)
    chance = random.Random(f"{seed} {configuration.name}")

    def sync() -> None:
        if not (configuration.ignored or configuration.moved):
            torch_go_xla.sync()

    def sync_some(t: torch.Tensor) -> None:
        if not configuration.ignored:
            torch_go_xla._XLAC._xla_sync_multi([t], wait=False)

    second = "xla:1" if torch_go_xla.device_count() > 1 else "xla:0"
    machines = [Machine("xla:0", second, {}, sync, sync_some, xm.save) for _ in programs]
    pairs = list(enumerate(zip(machines, programs, strict=True)))
    for i in range(max((len(p.lines) for p in programs), default=0)):
        running = [(number, pair) for number, pair in pairs if i < len(pair[1].lines)]
        for number, (machine, program) in running:
            if configuration.some and program.lines[i] == "sync" and machine.tensors:
                sync_some(chance.choice(list(machine.tensors.values())))
            else:
                _step(number, machine, program, i)
        if configuration.every or (configuration.moved and chance.random() < 0.2):
            torch_go_xla.sync()
        if configuration.every:
            _compare(running, i, _from_storages)
    if not configuration.every:
        _compare(pairs, -1, torch_go_xla._XLAC._xla_get_cpu_tensors if configuration.together else _one_by_one)


def _first_line(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {error}".partition("\n")[0]


def _step(number: int, machine: Machine, program: Program, i: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = machine.run(program.lines[i])
    ours, theirs = _first_line(error), _first_line(program.errors[i])
    if type(error) is not type(program.errors[i]):
        raise Mismatch(number, f"line {i}: {program.lines[i]}: {ours}; on the CPU: {theirs}") from error


def _compare(pairs: Sequence[Pair], i: int, read: Callable[[list[torch.Tensor]], list[torch.Tensor]]) -> None:
    """Compare all tensors of programs, and their aliases, with those after line i."""
    for number, (machine, program) in pairs:
        wanted = program.states[i]
        where = f"after {program.lines[i]}: "
        if list(machine.tensors) != list(wanted):
            raise Mismatch(number, where + f"tensors {list(machine.tensors)}; on the CPU: {list(wanted)}")
        for name, (group, about) in observe(machine).items():
            if (group, about) != (wanted[name].group, wanted[name].about):
                theirs = (wanted[name].group, wanted[name].about)
                raise Mismatch(number, where + f"{name} is {(group, about)}; on the CPU: {theirs}")
    values = iter(read([t for _, (machine, _) in pairs for t in machine.tensors.values()]))
    for number, (_, program) in pairs:
        for name, state in program.states[i].items():
            value = next(values)
            if not _equal(value, state.value):
                where = f"after {program.lines[i]}: "
                raise Mismatch(number, where + f"{name} is\n{value}\non the CPU:\n{state.value}")


def _one_by_one(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [t.detach().cpu().resolve_conj().resolve_neg() for t in tensors]


def _from_storages(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors as views of copies of their storages, which takes no program of the device."""
    from torch_go_xla._backend.snapshot import snapshot

    with snapshot([t.untyped_storage() for t in tensors]) as fetch:
        return [_over(fetch(t.untyped_storage()), t) for t in tensors]


def _over(storage: torch.UntypedStorage, t: torch.Tensor) -> torch.Tensor:
    """Return what the bytes of t's storage are to t."""
    value = torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset(), t.shape, t.stride())
    return torch._neg_view(value) if t.is_neg() else value.conj().resolve_conj() if t.is_conj() else value


def _equal(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    if torch.equal(ours, theirs):
        return True
    if theirs.dtype == torch.int32:  # maybe bits of numbers; x + 0 is x to XLA, whatever the sign of a zero
        return torch.equal(*(t.where(t != NEGATIVE_ZERO, 0) for t in (ours, theirs)))
    if ours.shape != theirs.shape or not (theirs.is_floating_point() or theirs.is_complex()):
        return False
    tolerance = 2e-2 if theirs.dtype == torch.bfloat16 else 1e-5
    return torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


# ---- reducing ----


def mismatch(programs: Sequence[Program], configuration: Configuration, seed: int) -> Mismatch | None:
    """Return what differs first in a batch; None if nothing does."""
    try:
        run(programs, configuration, seed)
    except Mismatch as e:
        return e
    return None


def fails(lines: list[str], configuration: Configuration, seed: int = 0) -> str | None:
    """Return what differs if a program is run alone; None if nothing does."""
    try:
        program = execute(lines)
    except KeyError:  # a line uses a tensor that a line taken out had made
        return None
    try:
        run([program], configuration, seed)
    except Mismatch as e:
        return str(e)
    except KeyError:
        return None
    return None


def reduce(lines: list[str], failing: Callable[[list[str]], bool]) -> list[str]:
    """Return as few of the lines as still fail."""
    size = len(lines) // 2
    while size:
        start = 0
        while start < len(lines):
            fewer = lines[:start] + lines[start + size :]
            if fewer and failing(fewer):
                lines = fewer
            else:
                start += size
        size //= 2
    return lines


def report(programs: list[Program], error: Mismatch, configuration: Configuration, seed: int) -> Path:
    """Reduce a failing program and write it down; return the file."""
    lines = programs[error.number].lines
    if fails(lines, configuration, seed):
        lines = reduce(lines, lambda fewer: fails(fewer, configuration, seed) is not None)
        text = fails(lines, configuration, seed)
    else:  # it takes the others of its batch: keep the programs one after the other
        lines, text = _joined(programs), str(error)
    head = f"# {configuration.name}, seed {seed}\n" + "".join(f"# {x}\n" for x in str(text).splitlines())
    path = REGRESSIONS / f"{_digest(lines)}.txt"
    path.write_text(head + "\n".join(lines) + "\n")
    return path


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _joined(programs: list[Program]) -> list[str]:
    """Return programs as one, with tensors of different names, step by step side by side."""
    lines: list[str] = []
    for i in range(max(len(p.lines) for p in programs)):
        for k, p in enumerate(programs):
            if i < len(p.lines):
                line = p.lines[i]
                for name in sorted(set(uses(line)), key=len, reverse=True):
                    line = _rename(line, name, f"t{k}000{name[1:]}")
                lines.append(line)
    return lines


def _rename(line: str, old: str, new: str) -> str:
    return re.sub(rf"\b{old}\b", new, line)


# ---- many ----


def check(first: int, count: int, configurations: Sequence[Configuration] = CONFIGURATIONS) -> int:
    """Check programs by their seeds; return the number of those that failed."""
    failed = 0
    for seed in range(first, first + count, BATCH):
        programs = [Generator(s).make() for s in range(seed, min(seed + BATCH, first + count))]
        for configuration in configurations:
            while (error := mismatch(programs, configuration, seed)) is not None:
                path = report(programs, error, configuration, seed)
                print(f"{path}\n{path.read_text()}")
                failed += 1
                programs.pop(error.number)
    return failed


def check_stored(first: int, count: int) -> int:
    """Check programs with what another process has compiled, which must be all; return the number of failures."""
    import torch_go_xla.debug.metrics as met

    failed = check(first, count, FROM_DISK)
    compiled = met.counter_value("UncachedCompile") or 0
    if compiled and not failed:
        print(f"{compiled} graphs of the programs {first} to {first + count - 1} are not those of another process")
    return failed or compiled


def main() -> int:
    """Check what the command line says."""
    parser = argparse.ArgumentParser(description="Check random programs on the device xla against torch's CPU.")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=1500, help="how many programs")
    parser.add_argument("--stored", action="store_true", help="with what is in XLA_PERSISTENT_CACHE_PATH alone")
    options = parser.parse_args()
    gc.disable()
    if options.stored:
        return 1 if check_stored(options.first, options.count) else 0
    failed, start = 0, time.monotonic()
    last = options.first + options.count
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_PERSISTENT_CACHE_PATH"] = folder
        for first in range(options.first, last, STORED):
            count = min(STORED, last - first)
            here = check(first, count)
            if not here:
                command = [sys.executable, __file__, "--stored", "--first", str(first), "--count", str(count)]
                here = subprocess.run(command, env=os.environ | {"XLA_PERSISTENT_CACHE_READ_ONLY": "1"}).returncode
            failed += here
            print(
                f"{first + count - options.first} programs, {failed} failed, {time.monotonic() - start:.0f} s",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    torch.set_num_threads(1)
    sys.exit(main())
