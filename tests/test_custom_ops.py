"""Ops whose computation is a program of the user."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import pathlib
import subprocess
from collections.abc import Callable, Iterator

import pytest
import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla import stablehlo
from torch_go_xla.experimental.stablehlo_custom_call import stablehlo_custom_call

SOURCE = pathlib.Path(__file__).parent / "programs" / "custom_ops" / "scale.c"
NUMBERS = itertools.count()


@pytest.fixture
def name() -> Iterator[str]:
    """The name of an op that no other test has."""
    yield f"custom_ops_test::op{next(NUMBERS)}"


def kind(x: torch.Tensor) -> str:
    return f"tensor<{''.join(f'{n}x' for n in x.shape)}f32>"


def cubed(x: torch.Tensor) -> str:
    t = kind(x)
    return f"""
module @cubed {{
  func.func public @main(%x: {t} {{jax.arg_info = "x"}}) -> ({t} {{jax.result_info = ""}}) {{
    %0 = call @square(%x) : ({t}) -> {t}
    %1 = stablehlo.multiply %0, %x : {t}
    return %1 : {t}
  }}
  func.func private @square(%x: {t}) -> {t} {{
    %0 = stablehlo.multiply %x, %x : {t}
    return %0 : {t}
  }}
}}
"""


def define_cubed(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch_go_xla.custom_op(
        f"{name}(Tensor x) -> Tensor",
        stablehlo=cubed,
        cpu=lambda x: x**3,
        backward=lambda ctx, grad: 3 * grad * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )


def trained(device: str, op: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).to(device)
    x = torch.randn(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = op(model(x)).square().mean() + op(model(x).T[1:]).sum()  # of two shapes, one not contiguous
        loss.backward()
        optimizer.step()
        torch_go_xla.sync()
    return [loss.detach().cpu(), *(p.detach().cpu() for p in model.parameters())]


def test_a_model_trains_as_on_the_cpu(name: str) -> None:
    op = define_cubed(name)
    torch.testing.assert_close(trained("xla", op), trained("cpu", op))


def test_gradients_and_registration_are_right(name: str) -> None:
    op = define_cubed(name)
    x = torch.randn(3, dtype=torch.float32, device="xla", requires_grad=True)
    torch.library.opcheck(op, (x,), test_utils=("test_schema", "test_faketensor"))


def test_the_text_is_asked_for_once_for_each_type(name: str) -> None:
    asked = []

    def text(x: torch.Tensor) -> str:
        asked.append((x.device.type, tuple(x.shape)))
        return cubed(x)

    op = torch_go_xla.custom_op(f"{name}(Tensor x) -> Tensor", stablehlo=text)
    for n in (2, 3, 2, 3):
        op(torch.ones(n, device="xla")).sum().item()
    assert asked == [("meta", (2,)), ("meta", (3,))]


def test_it_is_part_of_the_steps_program(name: str) -> None:
    op, x = define_cubed(name), torch.ones(5).to("xla")
    met.clear_all()
    op(op(x) + 1).sum().item()
    assert met.metric_data("CompileTime")[0] == 1


def test_lists_numbers_and_several_results(name: str) -> None:
    def text(xs: list[torch.Tensor], by: float, flag: bool = False) -> str:
        t = kind(xs[0])
        return f"""
        func.func @main(%x: {t}, %y: {t}) -> ({t}, {t}, tensor<i1>) {{
          %by = stablehlo.constant dense<{by:e}> : {t}
          %0 = stablehlo.multiply %x, %by : {t}
          %1 = stablehlo.subtract %x, %y : {t}
          %2 = stablehlo.constant dense<{"true" if flag else "false"}> : tensor<i1>
          return %0, %1, %2 : {t}, {t}, tensor<i1>
        }}"""

    schema = f"{name}(Tensor[] xs, float by, *, bool flag=False) -> (Tensor, Tensor, Tensor)"
    op = torch_go_xla.custom_op(schema, stablehlo=text)
    x, y = torch.tensor([1.0, 2.0], device="xla"), torch.tensor([5.0, 7.0], device="xla")
    scaled, difference, flag = op([x, y], 3.0, flag=True)
    assert (scaled.tolist(), difference.tolist(), flag.item()) == ([3.0, 6.0], [-4.0, -5.0], True)
    assert op([x, y], -1.0)[0].tolist() == [-1.0, -2.0]


def test_compiled_captured_and_exported(name: str) -> None:
    op = define_cubed(name)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return op(x) + 1

    x = torch.tensor([1.0, 2.0])
    want = Model()(x)
    compiled = torch.compile(Model(), backend="openxla", fullgraph=True)
    torch.testing.assert_close(compiled(x.to("xla")).cpu(), want)
    step = torch_go_xla.compile(Model())
    for _ in range(3):
        torch.testing.assert_close(step(x.to("xla")).cpu(), want)
    program = torch.export.export(Model(), (x,))
    exported = stablehlo.exported_program_to_stablehlo(program)
    torch.testing.assert_close(exported(x.to("xla")).cpu(), want)


def test_a_transform_of_torch(name: str) -> None:
    op = define_cubed(name)
    torch.library.register_vmap(name, lambda info, dims, x: (op(x), dims[0]))
    x = torch.arange(6.0, device="xla").reshape(2, 3)
    torch.testing.assert_close(torch.vmap(op)(x).cpu(), x.cpu() ** 3)


def program(body: str, argument: str = "tensor<2xf32>") -> str:
    return f"func.func @main(%x: {argument}) -> {argument} {{ {body} : {argument} }}"


BAD = [
    ("no program", ValueError, "no func.func @main"),
    (program("return %x", "tensor<?xf32>"), ValueError, "fixed sizes"),
    ("func.func @main(%x: tensor<2xf32>) { return }", ValueError, "has 1 results, its program returns nothing"),
    ("#map = affine_map<(d0) -> (d0)>\n" + program("return %x"), ValueError, "beside its functions"),
    (program("return %x", "tensor<3xf32>"), RuntimeError, r"takes float32\[3\], got float32\[2\]"),
    (program("%0 = stablehlo.no %x"), torch_go_xla.CompileError, r"(?s)stablehlo.no.*test_custom_ops.py"),
]


@pytest.mark.parametrize(("text", "error", "message"), BAD)
def test_a_bad_program_is_an_error(name: str, text: str, error: type[Exception], message: str) -> None:
    op = torch_go_xla.custom_op(f"{name}(Tensor x) -> Tensor", stablehlo=text)
    with pytest.raises(error, match=message):
        op(torch.ones(2, device="xla")).sum().item()
    assert torch.ones(2, device="xla").sum().item() == 2


def test_bad_definitions(name: str) -> None:
    for schema, message in (
        ("scale", "expected a schema"),
        (f"{name}(Tensor(a!) x) -> Tensor", "writes to an argument"),
    ):
        with pytest.raises(ValueError, match=message):
            torch_go_xla.custom_op(schema, stablehlo="")
    op = torch_go_xla.custom_op(f"{name}(Tensor x) -> Tensor", stablehlo=lambda x: 3)
    with pytest.raises(TypeError, match="as a str, got int"):
        op(torch.ones(2, device="xla"))
    with pytest.raises(NotImplementedError, match="CPU"):
        op(torch.ones(2))


def test_a_lowering_for_an_op_of_a_library(name: str) -> None:
    """It runs on the CPU before; afterwards on the device, with the gradients and the fake that the library gave."""
    torch.library.define(name, "(Tensor x) -> Tensor")
    torch.library.impl(name, "cpu")(lambda x: x**3)
    torch.library.register_fake(name, lambda x: torch.empty_like(x))
    torch.library.register_autograd(
        name,
        lambda ctx, grad: 3 * grad * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    op = getattr(torch.ops.custom_ops_test, name.partition("::")[2])
    x = torch.tensor([1.0, -2.0], device="xla")
    with pytest.warns(UserWarning, match=f"{name} has no lowering .*register_lowering"):
        assert op(x).tolist() == [1, -8]
    torch_go_xla.register_lowering(name, cubed)
    met.clear_counters()
    torch.testing.assert_close(trained("xla", op), trained("cpu", op))
    compiled = torch.compile(lambda x: op(x) + 1, backend="openxla", fullgraph=True)
    assert compiled(x).tolist() == [2, -7]
    assert met.executed_fallback_ops() == []
    with pytest.raises(RuntimeError, match="has a lowering"):
        torch_go_xla.register_lowering(op.default, cubed)


def test_a_lowering_tells_the_shapes(name: str) -> None:
    torch.library.define(name, "(Tensor x) -> Tensor")
    torch_go_xla.register_lowering(name, cubed)
    op = getattr(torch.ops.custom_ops_test, name.partition("::")[2])
    assert op(torch.ones(2, device="meta")).shape == (2,)
    assert op(torch.full((2,), 2.0, device="xla")).tolist() == [8, 8]


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        ("custom_ops_test::nothing", ValueError, "there is no op 'custom_ops_test::nothing'"),
        ("nothing", ValueError, "there is no op 'nothing'"),
        ("aten::add_.Tensor", ValueError, "writes to an argument"),
        ("aten::add.Tensor", RuntimeError, "has a lowering"),
        ("aten::einsum", ValueError, "torch composes aten::einsum of other ops"),
        (torch.ops.aten.add, TypeError, "want an overload, such as .*, got <OpOverloadPacket"),
    ],
)
def test_lowerings_that_cannot_be(op: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        torch_go_xla.register_lowering(op, "")  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A library with a handler of custom calls; XLA's headers come with TensorFlow, which the build needs."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or not found.submodule_search_locations:
        pytest.skip("XLA's headers are not here")
    out = tmp_path_factory.mktemp("custom_ops") / "libscale.so"
    include = pathlib.Path(found.submodule_search_locations[0]) / "include"
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{include}", "-o", out, SOURCE], check=True)
    return ctypes.CDLL(out)


@pytest.fixture
def target(library: ctypes.CDLL) -> str:
    """A target of custom calls; to register it again is the same."""
    torch_go_xla.register_ffi_target("custom_ops_test_scale", library.Scale)
    return "custom_ops_test_scale"


def test_a_c_function_is_called(target: str) -> None:
    x = torch.arange(6.0, device="xla").reshape(2, 3)
    config = {"backend_config": "{by = 2.5 : f32}", "api_version": 4}
    y = stablehlo_custom_call([x + 1], target, [x.shape], [x.dtype], **config)
    torch.testing.assert_close((y * 2).cpu(), (torch.arange(6.0).reshape(2, 3) + 1) * 5)


def test_a_capsule_is_called(library: ctypes.CDLL) -> None:
    """As the capsules that jax.ffi.pycapsule makes."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(ctypes.cast(library.Scale, ctypes.c_void_p), None, None)
    torch_go_xla.register_ffi_target("custom_ops_test_capsule", capsule)
    x = torch.ones(2, device="xla")
    config = {"backend_config": "{by = 4.0 : f32}", "api_version": 4}
    assert stablehlo_custom_call([x], "custom_ops_test_capsule", [[2]], [x.dtype], **config).tolist() == [4, 4]


def test_its_error_is_one_of_the_call(target: str) -> None:
    x = torch.ones(3, device="xla")
    y = stablehlo_custom_call([x], target, [[3]], [x.dtype], backend_config="{by = -1.0 : f32}", api_version=4)
    with pytest.raises(torch_go_xla.XlaError, match="by is negative"):
        y.tolist()
    assert (x + 1).tolist() == [2, 2, 2]


def test_an_unknown_target_is_an_error() -> None:
    x = torch.ones(3, device="xla")
    y = stablehlo_custom_call([x], "custom_ops_test_no_such", [[3]], [x.dtype], api_version=4)
    with pytest.raises(torch_go_xla.XlaError, match="custom_ops_test_no_such"):
        y.tolist()
    with pytest.raises(ValueError, match="0 output dtypes"):
        stablehlo_custom_call([x], "x", [[3]], [])
    with pytest.raises(TypeError, match="complex32"):
        stablehlo_custom_call([x], "x", [[3]], [torch.complex32])


def test_what_is_no_function_is_refused(library: ctypes.CDLL) -> None:
    with pytest.raises(TypeError, match="got str"):
        torch_go_xla.register_ffi_target("custom_ops_test_other", "Scale")
    with pytest.raises(ValueError, match="the name of a target"):
        torch_go_xla.register_ffi_target("", library.Scale)
    with pytest.raises(ValueError, match="package's own"):
        torch_go_xla.register_ffi_target("torch_op", library.Scale)
