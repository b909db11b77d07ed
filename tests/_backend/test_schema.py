"""What is read of torch's schemas against their text, and the plans made from them."""

import re

import pytest
import torch

from torch_go_xla._backend import foreach, plan, schema
from torch_go_xla._vocabulary import NEW, RESIZABLE, WRITE

NO_KERNEL = {"aten::get_gradients"}  # it returns a Dict
ALL = sorted(n for n in {*torch._C._dispatch_get_all_op_names()} - NO_KERNEL if n.startswith("aten::"))


def torchs(name):
    base, _, overload = name.partition(".")
    return torch._C._get_schema(base, overload)


def plain(text):
    """A type of a schema, or of an argument, as `schema` states it."""
    return re.sub(r"(?<=\w)\([^)]*\)", "", text).replace("SymInt", "int").replace("SymBool", "bool")


def test_every_schema_of_torch_is_read_right():
    for name in ALL:
        theirs = torchs(name)
        ours = schema.of(name)
        assert ours.name == name and f"aten::{ours.key}" == name and ours.overload == theirs.overload_name
        arguments, _, returns = str(theirs).partition("(")[2].rpartition(") -> ")
        for a, b in zip(ours.args, theirs.arguments, strict=True):
            assert (a.name, a.keyword_only) == (b.name, b.kwarg_only), name
            assert (a.default is not schema.REQUIRED) == b.has_default_value(), name
            assert a.default == b.default_value or not b.has_default_value(), name
            assert f"{a.type} {a.name}" in plain(arguments), name
        assert all(r.type in plain(returns) for r in ours.returns), name
        aliases = re.findall(r"\(([a-z])(!?)[^)]*\)(\S*) (\w+)", arguments)
        assert [(a.alias, a.write, a.name) for a in ours.args if a.alias] == [
            ("*" if "[" in more else letter, bool(write), argument) for letter, write, more, argument in aliases
        ], name
        assert any(r.alias for r in ours.returns) == bool(re.search(r"\w\(", returns)), name


def test_an_unknown_op_is_an_error():
    with pytest.raises(RuntimeError):
        schema.of("no_such_op")


@pytest.mark.parametrize("kind", ["Stream", "Storage", "Dimname[]", "Dict(int, Tensor)"])
def test_a_type_that_kernels_cannot_carry_is_an_error(kind):
    with pytest.raises(TypeError):
        schema.type_code(kind)


def test_lengths_and_optionality_do_not_change_the_encoding():
    assert schema.type_code("int[2]") == schema.type_code("SymInt[]?") == schema.type_code("bool[3]")
    assert schema.type_code("Tensor?") == schema.type_code("Tensor")


def test_in_place_form():
    p = plan.in_place(schema.of("add.Tensor"), schema.of("add_.Tensor"))
    assert p is not None
    assert p.destinations == [(WRITE, 0)] and p.returns == -1
    assert [a[0] for a in p.args] == [0, 1, 2]
    assert plan.in_place(schema.of("add.Tensor"), schema.of("add_.Scalar")) is None


def test_out_form_with_two_results():
    p = plan.out_form(schema.of("max.dim"), schema.of("max.dim_max"))
    assert p is not None
    assert p.destinations == [(WRITE | RESIZABLE, 3), (WRITE | RESIZABLE, 4)] and p.returns == (-4, -5)


def test_out_form_of_a_factory_takes_type_and_device_from_the_out_argument():
    row, op = schema.of("arange.start_step"), schema.of("arange.start_out")
    p = plan.out_form(row, op)
    assert p is not None
    out = [a.name for a in op.args].index("out")
    places = {a.name: p.args[i][0] for i, a in enumerate(row.args)}
    assert places["dtype"] == places["device"] == out and places["layout"] == -1


def test_form_that_updates_arguments():
    row, op = schema.of("_native_batch_norm_legit_functional"), schema.of("_native_batch_norm_legit")
    p = plan.updating(row, op)
    assert p is not None
    assert p.destinations == [(NEW, 0)] * 3 + [(WRITE, 3), (WRITE, 4)]
    assert p.returns == (0, 1, 2)


@pytest.mark.parametrize(
    "op, row, places",
    [
        ("_foreach_add_.Scalar", "add.Tensor", [0, 1, -1]),
        ("_foreach_add.List", "add.Tensor", [0, 1, 2]),
        ("_foreach_lerp_.ScalarList", "lerp.Scalar", [0, 1, 2]),
        ("_foreach_lerp.List", "lerp.Tensor", [0, 1, 2]),
        ("_foreach_addcdiv_.ScalarList", "addcdiv", [0, 1, 2, 3]),
        ("_foreach_addcmul.Scalar", "addcmul", [0, 1, 2, 3]),
        ("_foreach_pow.ScalarAndTensor", "pow.Scalar", [0, 1]),
        ("_foreach_norm.Scalar", "linalg_vector_norm", [0, 1, -1, -1, 2]),
        ("_foreach_maximum_.Scalar", "clamp_min", [0, 1]),
        ("_foreach_zero_", "fill.Scalar", [0, -1]),
        ("_foreach_max", "max", [0]),
        ("_foreach_copy_", "copy", [0, 1, 2]),
    ],
)
def test_foreach_forms(op, row, places):
    found = foreach.plan(schema.of(op), {row: schema.of(row)}, {schema.of(row).base: [row]})
    assert found is not None
    assert [a[0] for a in found[1].args] == places
    assert found[1].each and (found[1].returns is None) == op.partition(".")[0].endswith("_")


def test_foreach_with_numbers_in_a_tensor_is_left_to_torch():
    assert (
        foreach.plan(schema.of("_foreach_addcmul.Tensor"), {"addcmul": schema.of("addcmul")}, {"addcmul": ["addcmul"]})
        is None
    )


def test_foreach_prefers_the_row_that_takes_a_number():
    rows = {name: schema.of(name) for name in ("mul.Tensor", "mul.Scalar")}
    found = foreach.plan(schema.of("_foreach_mul_.ScalarList"), rows, {"mul": ["mul.Tensor", "mul.Scalar"]})
    assert found is not None and found[0].key == "mul.Scalar"
    found = foreach.plan(schema.of("_foreach_mul_.List"), rows, {"mul": ["mul.Scalar", "mul.Tensor"]})
    assert found is not None and found[0].key == "mul.Tensor"
