"""Runs torch_xla's own examples on this package, as they are but for their sizes.

    python tests/upstream/examples.py CHECKOUT [EXAMPLE...]

CHECKOUT is a working copy of torch_xla's repository. The examples are copied to a temporary folder, in which the sizes
of `SIZES` replace theirs: as written, they train a ResNet-50 for 300 steps of 128 images. Each then runs by
``python -m torch_go_xla.as_torch_xla``, those of several devices on two. It passes if it ends well. The exit status is
1 if one does not, and then its last lines are shown.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# What a source line of theirs says, and what it says here.
SIZES = {
    "self.img_dim = 224": "self.img_dim = 32",
    "self.batch_size = 128": "self.batch_size = 4",
    "self.batch_size = 16": "self.batch_size = 4",
    "self.num_steps = 300": "self.num_steps = 3",
    "self.seq_len = 512": "self.seq_len = 16",
    "num_steps: int = 200": "num_steps: int = 3",
    "hidden_size: int = 1024": "hidden_size: int = 64",
    "intermediate_size: int = 32 * 1024": "intermediate_size: int = 128",
    "vocab_size: int = 3200": "vocab_size: int = 100",
    "duration_ms = 30000": "duration_ms = 2000",
    "/tmp/profile/": "profile/",
    "/tmp/xla_cache_": "xla_cache_",
}


@dataclass(frozen=True)
class Example:
    """A program of the folder ``examples``, with its arguments and the devices that it runs on."""

    program: str
    devices: int = 1
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The program with its arguments, but for sizes."""
        return " ".join((self.program, *(a for a in self.arguments if a not in _SMALL)))


_SMALL = ("--num-steps", "3", "--hidden-size", "64", "--intermediate-size", "128")

EXAMPLES = (
    Example("train_resnet_base.py"),
    Example("train_resnet_amp.py"),
    Example("train_decoder_only_base.py", arguments=_SMALL),
    Example("train_decoder_only_base.py", arguments=("scan.decoder_with_scan.DecoderWithScan", *_SMALL)),
    Example("data_parallel/train_resnet_ddp.py", 2),
    Example("data_parallel/train_resnet_xla_ddp.py", 2),
    Example("data_parallel/train_resnet_spmd_data_parallel.py", 2),
    Example("debug/train_resnet_benchmark.py"),
    Example("debug/train_resnet_profile.py"),
    Example("eager/train_decoder_only_eager.py"),
    Example("eager/train_decoder_only_eager_multi_process.py", 2),
    Example("eager/train_decoder_only_eager_spmd_data_parallel.py", 2),
    Example("eager/train_decoder_only_eager_with_compile.py"),
    Example("flash_attention/train_decoder_only_flash_attention.py"),
    Example("flash_attention/train_decoder_only_flash_attention_fsdp_v2.py", 2),
    Example("fsdp/train_decoder_only_fsdp_v2.py", 2),
    Example("fsdp/train_resnet_fsdp_auto_wrap.py", 2),
    Example("scan/scan_examples.py"),
)


def copy(checkout: Path, folder: Path) -> None:
    """Copy the examples with small sizes; LookupError for a size that no example has."""
    shutil.copytree(checkout / "examples", folder, dirs_exist_ok=True)
    (folder / "profile").mkdir()
    absent = set(SIZES)
    for path in folder.rglob("*.py"):
        text = path.read_text()
        for theirs in [size for size in SIZES if size in text]:
            text = text.replace(theirs, SIZES[theirs])
            absent.discard(theirs)
        path.write_text(text)
    if absent:
        raise LookupError(f"no example of {checkout} has {sorted(absent)}")


def run(example: Example, folder: Path) -> tuple[bool, str]:
    """Return whether an example ended well, and its output."""
    env = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(example.devices)}
    command = [sys.executable, "-m", "torch_go_xla.as_torch_xla", example.program, *example.arguments]
    try:
        done = subprocess.run(
            command,
            env=env,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1200,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        return False, f"{(e.stdout or b'').decode()}\nit did not end in {e.timeout} s"
    return done.returncode == 0, done.stdout


def main() -> int:
    """Run what the command line names; print a line for each."""
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "examples").is_dir():
        print(f"usage: {sys.argv[0]} CHECKOUT [EXAMPLE...], where CHECKOUT is a working copy of torch_xla's repository")
        return 2
    chosen = [e for e in EXAMPLES if len(sys.argv) == 2 or e.program in sys.argv[2:]]
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy(Path(sys.argv[1]), Path(folder))
        for example in chosen:
            start = time.monotonic()
            good, output = run(example, Path(folder))
            passed += good
            print(f"{example!s:80}{'passed' if good else 'FAILED':>8}{time.monotonic() - start:8.0f} s", flush=True)
            if not good:
                print("    " + "\n    ".join(output.splitlines()[-25:]), flush=True)
    print(f"{passed} of {len(chosen)} passed")
    return 0 if chosen and passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
