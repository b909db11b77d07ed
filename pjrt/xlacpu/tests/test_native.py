"""The compiled tests of the C API, one pytest case each."""

import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.slow  # compiles them first

HERE = pathlib.Path(__file__).resolve().parent
CASE = re.compile(r"^TEST\((\w+)\)", re.MULTILINE)
NAMES = sorted(n for f in HERE.glob("*_test.cc") for n in CASE.findall(f.read_text()))


@pytest.fixture(scope="session")
def results(native, plugin, clean_environment):
    """All cases, run in one process: name to None, or why it failed."""
    done = subprocess.run(
        [native, plugin],
        capture_output=True,
        text=True,
        env=clean_environment,
        timeout=600,
    )
    out = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "ok":
            out[rest] = None
        elif word == "failed":
            name, _, why = rest.partition(": ")
            out[name] = why
        elif word == "note":
            print(rest)
    assert done.returncode in (0, 1), f"died with {done.returncode}:\n{done.stderr[-2000:]}"
    return out


@pytest.mark.parametrize("name", NAMES)
def test_case(results, name):
    assert name in results, "the case did not run"
    assert results[name] is None, results[name]


def run_one(native, plugin, env, case):
    return subprocess.run([native, plugin, case], capture_output=True, text=True, env=env, timeout=120)


def test_start_up_writes_nothing(native, plugin, clean_environment):
    done = run_one(native, plugin, clean_environment, "program_runs")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok program_runs\n", "")


def test_loading_a_serialized_program_writes_nothing(native, plugin, clean_environment):
    case = "serialized_program_runs_again"
    done = run_one(native, plugin, clean_environment, case)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ok {case}\n", "")


@pytest.mark.parametrize("flags", ["--xla_no_such_flag=1", "--xla_cpu_multi_thread_eigen=banana", "/no/such/file"])
def test_bad_flags_are_errors_and_end_no_process(native, plugin, clean_environment, flags):
    env = dict(clean_environment, XLA_FLAGS=flags)
    done = run_one(native, plugin, env, "program_runs")
    assert done.returncode == 1  # a failed expectation, not a signal
    assert "XLA_FLAGS" in done.stdout and flags in done.stdout


def test_environment_completes_the_options(native, plugin, clean_environment):
    env = dict(clean_environment, PJRT_XLA_CPU_HUGE_PAGES="no")
    done = run_one(native, plugin, env, "freed_block_is_kept_and_taken_again")
    assert done.returncode == 1 and "failed" in done.stdout
    env = dict(clean_environment, CPU_NUM_DEVICES="0")
    done = run_one(native, plugin, env, "program_runs")
    assert "CPU_NUM_DEVICES is 0, must lie in 1..2048" in done.stdout


def test_options_come_before_the_environment(native, plugin, clean_environment):
    env = dict(clean_environment, CPU_NUM_DEVICES="2")
    case = "client_has_the_devices_asked_for"  # by the option: 3
    done = run_one(native, plugin, env, case)
    assert (done.returncode, done.stdout) == (0, f"ok {case}\n"), done.stdout + done.stderr
