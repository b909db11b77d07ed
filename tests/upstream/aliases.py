"""Runs torch_xla's own tests of aliases, views, in-place writes and saving on this package.

    python tests/upstream/aliases.py CHECKOUT [FILE...]

CHECKOUT is a working copy of torch_xla's repository. Printed are the counts beside those of torch_xla 2.9, and the
tests that fail, with the reason where it is a known difference; docs/upstream-aliases.md records them. The exit status
is 1 if one fails without a reason.
"""

from __future__ import annotations

import sys

from runner import Suite

# By file: what passes with torch_xla 2.9 itself.
FILES: dict[str, int | str | None] = {
    "test_input_output_aliases": "17, 1 error",
    "test_inplace_update": 5,
    "test_as_stride_use_slice": 4,
    "test_ops_error_message": 16,
    "test_operations": None,
}

CHOSEN = {
    "test_operations": "_view or inplace or in_place or _save or as_strided or diagonal_write or deepcopy "
    "or slice_copy or s_copy or ailing",
}

_WORDS = "the error is raised, in torch's own words, as on the CPU"  # tests/integration/test_bad_input.py compares them
_MEMORY = "the error is raised, and names the device, what is asked for, what there is, and the line"
_CUSTOM = "asks for torch_xla's builder of computations"
_TYPES = "reads the type of a value in a text, or by a name, that torch_xla has for it"
_SWITCH = "donation is exact by ownership here; torch_xla has a switch for it"

# By test: why it fails here.
DIFFERENCES: dict[str, str] = {
    "test_add_broadcast_error": _WORDS,
    "test_avg_pool_3d_raises_error_on_bad_spec": _WORDS,
    "test_baddbmm_raises_error_on_incompatible_shapes": _WORDS,
    "test_bmm_raises_error_on_different_batch_dimension": _WORDS,
    "test_bmm_raises_error_on_incompatible_shapes": _WORDS,
    "test_bmm_raises_error_on_non_3D_tensor_input": _WORDS,
    "test_cat_raises_error_on_incompatible_shapes": _WORDS,
    "test_clamp_scalar_raises_error_on_no_min_and_max": _WORDS,
    "test_construct_large_tensor_raises_error": _MEMORY,
    "test_div_raises_error_on_invalid_rounding_mode": _WORDS,
    "test_flip_raises_error_on_duplicated_dims": _WORDS,
    "test_full_raises_error_on_negative_size": _WORDS,
    "test_gather_raises_error_on_invalid_index_size": _WORDS,
    "test_gather_raises_error_on_rank_mismatch": _WORDS,
    "test_mm_raises_error_on_incompatible_shapes": _WORDS,
    "test_mm_raises_error_on_non_matrix_input": _WORDS,
    "test_random__raises_error_on_empty_interval": _WORDS,
    "test_random__raises_error_on_value_out_of_type_value_range": _WORDS,
    "test_roll_raises_error_on_empty_shifts": _WORDS,
    "test_roll_raises_error_on_mismatched_dims_and_shifts": _WORDS,
    "test_roll_raises_error_on_shifts_with_empty_dims": _WORDS,
    "test_trace_raises_error_on_non_matrix_input": _WORDS,
    "test_uniform__raises_error_on_invalid_range": _WORDS,
    "test_stablehlo_custom_call": _CUSTOM,
    "test_tpu_custom_call": _CUSTOM,
    "test_user_computation_empty_inputs": _CUSTOM,
    "test_user_config_donation_with_ltc_donation_graph_sync0": _SWITCH,
    "test_user_config_donation_with_ltc_donation_graph_sync1": _SWITCH,
    "test_inplace_mul_scalar_different_dtype": _TYPES,
    "test_view_as_complex_f32": _TYPES,
    "test_view_as_complex_f64": _TYPES,
    "test_view_as_real_c64": _TYPES,
    "test_view_as_real_c128": _TYPES,
    "test_device_data_node_tracing_aliasing": "is a method outside a class: an error with torch_xla too",
}

if __name__ == "__main__":
    sys.exit(Suite("", FILES, DIFFERENCES, chosen=CHOSEN).main())
