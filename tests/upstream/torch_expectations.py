"""Why tests of torch fail on the device ``xla``: the reason of each, by file and name."""

from __future__ import annotations

import re

CPU = "it fails on torch's CPU too"

INTRODUCTION = """
`make upstream-torch TORCH_TESTS=checkout` runs the files that torch tests its own devices with, and
writes this page. A checkout is a working copy of pytorch or of torch-xpu-ops. Several may be named,
in quotes. Tests that torch keeps for its own devices (`onlyNativeDeviceTypes`) are run. What torch
skips for torch_xla is not skipped. Each file has a process of its own, which is started again
behind a test that crashes or hangs. What fails is run on torch's CPU too. What fails there is a
fault of the test or of the environment. A test that fails without a reason in
`tests/upstream/torch_expectations.py` fails the target.
"""

_COPY = "asserts torch's copy-on-write storages; here a clone shares its value until a write, without them"
_INDEX = (
    "an index of a tensor that is out of range raises only with `TORCH_GO_XLA_CHECK=indices`, when its value is read"
)
_LIST = "the test lists the devices that it knows"
_CPU_INDEX = "indexes by a tensor of the CPU, which the test does not do on CUDA"
_HALF = "torch.complex32 is not supported"

# By file, or "" for all: a pattern of names of tests, and why those fail.
TESTS: dict[str, dict[str, str]] = {
    "test_torch": {
        "test_lazy_clone|test_parallel_cow": _COPY,
        "test_grad_scaler_deprecated_warning|test_tensor_storage_type|test_broadcast_fn_map": _LIST,
        "TestTorchDeviceTypeXLA.test_masked_scatter_xla": "the number of ones in a mask is not compared, as on CUDA",
    },
    "test_indexing": {
        "test_trivial_fancy_out_of_bounds|test_advancedindex": _INDEX,
    },
    "test_sort_and_select": {
        "test_stable_sort_against_numpy": _CPU_INDEX,
        "test_unique_dim_xla": "torch leaves NaN where its sort happens to put it; here NaN comes last",
    },
    "test_tensor_creation_ops": {
        "test_(alias|copy|unsupported_alias)_from_dlpack": "the memory of the CPU device is given on as the CPU's",
        "test_normal_std_error": "a negative standard deviation in a tensor does not raise: that would wait for it",
    },
    "test_type_promotion": {
        "test_result_type_xla_.*complex": _HALF,
    },
}

# A pattern of what a test says when it fails, and why.
SAYS: dict[str, str] = {
    "there are no quantized tensors on xla": "quantized tensors are not supported",
    "is not supported for sparse tensors on xla": "not all ops of sparse tensors are supported",
    "there are no nested tensors on xla|nested tensors of layout": "strided nested tensors are not supported",
    "xla tensors cannot have dtype torch.complex32": _HALF,
}


def reason(file: str, test: str, said: str) -> str | None:
    """Return why a test fails, if that is known."""
    for group in (TESTS.get(file, {}), TESTS.get("", {})):
        for pattern, why in group.items():
            if re.search(pattern, test):
                return why
    return next((why for pattern, why in SAYS.items() if re.search(pattern, said)), None)
