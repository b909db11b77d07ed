"""Compiled programs: one compile a graph, and a directory that later processes read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met

pytestmark = pytest.mark.compiled


def test_a_second_process_does_not_compile(ok, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first, second = (ok("cache/step.py", XLA_PERSISTENT_CACHE_PATH=str(folder)).split() for _ in range(2))
    assert first[0] == second[0]
    assert int(first[1]) > 0 and int(second[1]) == 0 and int(second[2]) == int(first[1])


def test_damaged_files_are_compiled_again(ok, python, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first = ok("cache/step.py", XLA_PERSISTENT_CACHE_PATH=str(folder)).split()
    for i, file in enumerate(sorted(folder.glob("*.bin"))):
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2] if i % 2 else b"x" * len(data))
    done = python("cache/step.py", XLA_PERSISTENT_CACHE_PATH=str(folder))
    assert done.code == 0, done.err
    second = done.out.split()
    assert second[0] == first[0] and second[1] == first[1] and second[3] == first[1]
    assert done.err.count("is not usable and is compiled again") == int(first[1])


def test_both_caches_are_bounded_in_bytes(ok, tmp_path: Path) -> None:

    for mb, left in (("", 4), ("0", 1)):  # what was used last stays, however large
        variables = {"TORCH_GO_XLA_COMPILATION_CACHE_MB": mb, "TORCH_GO_XLA_PERSISTENT_CACHE_MB": mb} if mb else {}
        folder = tmp_path / f"cache{mb}"
        assert (
            int(ok("cache/both_caches_are_bounded_in_bytes.py", XLA_PERSISTENT_CACHE_PATH=str(folder), **variables))
            == left
        )
        assert len(list(folder.iterdir())) == left


def test_programs_take_a_part_of_the_devices_memory(ok) -> None:
    kept = {
        megabytes: int(
            ok("cache/both_caches_are_bounded_in_bytes.py", PJRT_XLA_CPU_MEMORY_LIMIT_BYTES=str(megabytes << 20))
        )
        for megabytes in (4, 128)
    }
    assert kept == {4: 1, 128: 4}


@pytest.mark.slow
def test_programs_stay_within_their_bound_in_the_heap(ok) -> None:
    grown = float(ok("cache/programs_stay_within_their_bound.py", TORCH_GO_XLA_COMPILATION_CACHE_MB="4"))
    assert grown < 8, f"the heap has grown by {grown} MB"


def test_a_directory_that_others_can_write_to_is_not_used(python, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = python("cache/step.py", XLA_PERSISTENT_CACHE_PATH=str(tmp_path))
    assert done.code == 0, done.err
    assert done.err.count("XLA_PERSISTENT_CACHE_PATH is not used") == 1 and "(mode 0700)" in done.err
    assert not list(tmp_path.iterdir())


def test_a_directory_that_others_can_read_is_closed(ok, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ok("cache/step.py", XLA_PERSISTENT_CACHE_PATH=str(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("*.bin")} == {0o600}


def test_numbers_do_not_compile_again() -> None:
    x = torch.ones(5, device="xla")
    torch_go_xla.sync()
    for k in range(6):
        (x * (3.0 + k) + (k + 0.3)).sum().item()
    before = met.counter_value("UncachedCompile")
    for k in range(6):
        value = (x * (13.0 + k) + (k + 0.25)).sum().item()  # an assert would keep the intermediate tensors alive
        assert value == 5 * (13.0 + k + k + 0.25)
    assert met.counter_value("UncachedCompile") == before


def test_indexing_in_a_loop_compiles_once() -> None:
    x = torch.arange(40.0, device="xla").view(10, 4)
    cache = torch.zeros(10, 4, device="xla")
    torch_go_xla.sync()
    before = None
    for i in range(1, 10):
        y = x[i] * 2
        cache[i] = y
        torch_go_xla.sync(wait=True)
        if i == 2:
            before = met.counter_value("UncachedCompile")
    assert met.counter_value("UncachedCompile") == before
    assert torch.equal(cache.cpu()[1:], x.cpu()[1:] * 2) and not cache[0].any()
