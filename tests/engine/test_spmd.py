"""SPMD: sharded values, programs partitioned over 8 devices of one process, against the same on one CPU."""

from __future__ import annotations

EIGHT = {"CPU_NUM_DEVICES": "8"}


def test_one_device_of_all(ok) -> None:
    ok(
        "spmd/one_device_of_all.py",
        **EIGHT,
    )


def test_tensors_on_several_devices_are_refused(ok) -> None:
    ok(
        "spmd/tensors_on_several_devices_are_refused.py",
        **EIGHT,
    )


def test_one_device_is_enough(ok) -> None:
    ok(
        "spmd/one_device_is_enough.py",
        CPU_NUM_DEVICES="1",
    )


def test_each_device_is_sent_its_shard(ok) -> None:
    ok(
        "spmd/each_device_is_sent_its_shard.py",
        **EIGHT,
    )


def test_bad_shardings(ok) -> None:
    ok(
        "spmd/bad_shardings.py",
        **EIGHT,
    )


def test_an_array_too_large_to_move(ok) -> None:
    assert ok("spmd/too_large_to_move.py").split() == ["good"]


def test_views_and_writes(ok) -> None:
    ok(
        "spmd/views_and_writes.py",
        **EIGHT,
    )


def test_training_is_as_on_one_device(ok) -> None:
    ok(
        "spmd/training_is_as_on_one_device.py",
        **EIGHT,
    )


def test_local_values(ok) -> None:
    ok(
        "spmd/local_values.py",
        **EIGHT,
    )


def test_ops_of_local_values(ok) -> None:
    ok(
        "spmd/ops_of_local_values.py",
        **EIGHT,
    )


def test_collectives(ok) -> None:
    ok(
        "spmd/collectives.py",
        **EIGHT,
    )


def test_random_numbers_are_those_of_one_device(ok) -> None:
    ok(
        "spmd/random_numbers_are_those_of_one_device.py",
        **EIGHT,
    )


def test_programs_are_kept_on_disk_with_their_shardings(ok, tmp_path) -> None:
    cache = {"XLA_PERSISTENT_CACHE_PATH": str(tmp_path)}
    compiled, found = ok("spmd/stored.py", **EIGHT, **cache).split()
    assert int(compiled) > 0 and int(found) == 0
    assert ok("spmd/stored.py", **EIGHT, **cache).split() == ["0", compiled]
    assert ok("spmd/stored.py", "turned", **EIGHT, **cache).split() != ["0", compiled], (
        "another sharding is another program"
    )


def test_sharded_heads_stay_where_they_are(ok) -> None:
    ok(
        "spmd/sharded_heads_stay_where_they_are.py",
        **EIGHT,
    )
