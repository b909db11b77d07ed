"""The package under the name torch_xla, and libraries that look for that: accelerate, and transformers' Trainer."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ALIAS = """
import importlib.metadata, importlib.util
from torch_go_xla import as_torch_xla
assert importlib.util.find_spec("torch_xla") is None
as_torch_xla.install()
as_torch_xla.install()
assert importlib.util.find_spec("torch_xla") and importlib.util.find_spec("torch_xla.core")
assert importlib.util.find_spec("torch_xla.nothing") is None
import torch_go_xla, torch_xla
import torch_xla.core.xla_model as xm
import torch_go_xla.core.xla_model as ours
from torch_xla.distributed.spmd import Mesh
assert xm is ours and torch_xla.core is torch_go_xla.core and torch_xla._XLAC is torch_go_xla._XLAC
assert Mesh is torch_go_xla.distributed.spmd.Mesh and torch_xla.device() == torch_go_xla.device()
assert ours.__spec__.name == ours.__name__ == "torch_go_xla.core.xla_model" and "sync" in dir(torch_xla)
assert torch_xla.__version__ == importlib.metadata.version("torch-xla") == as_torch_xla.VERSION
assert torch_xla.__version__.startswith("2.9") and torch_go_xla.__version__ == "0.1.0"
assert importlib.metadata.packages_distributions()["torch_xla"] == ["torch_xla"]
for wrong in ("torch_xla.nothing", "torch_xla_elsewhere"):
    try:
        __import__(wrong)
        raise AssertionError(wrong)
    except ModuleNotFoundError as e:
        assert e.name == wrong
"""


def test_one_module_by_two_names(ok) -> None:
    ok(ALIAS)


def test_a_torch_xla_that_is_there_keeps_its_name(python, tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch_xla.py").write_text("")
    ended = python(f"""
import sys
sys.path.append({str(tmp_path)!r})
from torch_go_xla import as_torch_xla
as_torch_xla.install()
""")
    assert ended.code == 1 and "ImportError: there is a torch_xla already" in ended.err


def test_a_program_as_it_is(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    (tmp_path / "beside.py").write_text("value = 7")
    program.write_text(
        "import sys, beside, torch_xla.core.xla_model as xm, torch\n"
        "from torch_go_xla import as_torch_xla; as_torch_xla.install()\n"
        "print(__name__, sys.argv[1:], beside.value, torch.ones(2, device=xm.xla_device()).sum().item())"
    )
    command = [sys.executable, "-m", "torch_go_xla.as_torch_xla"]
    done = subprocess.run([*command, str(program), "-x", "1"], capture_output=True, text=True, check=False)
    assert done.stdout == "__main__ ['-x', '1'] 7 2.0\n", done.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("usage: python -m torch_go_xla.as_torch_xla PROGRAM")


def test_what_a_program_spawns_has_the_name_too() -> None:
    program = pathlib.Path(__file__).parent / "programs/as_torch_xla/spawns.py"
    command = [sys.executable, "-m", "torch_go_xla.as_torch_xla", str(program), "-x"]
    env = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "2"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    want = [f"{place} __mp_main__ True ['-x'] 2.0" for place in range(4)]
    assert sorted(done.stdout.splitlines()) == want, done.stderr


TRAINER = """
from torch_go_xla import as_torch_xla
as_torch_xla.install()
import os
import torch
import torch_go_xla.debug.metrics as met
from accelerate.state import AcceleratorState, GradientState
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments, set_seed

sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
ids = torch.randint(0, 64, (32, 8), generator=torch.Generator().manual_seed(1))
data = [{"input_ids": row, "labels": row} for row in ids]

class Compilations(TrainerCallback):
    def __init__(self):
        self.counts = []
    def on_step_end(self, *args, **kwargs):
        self.counts.append(met.counter_value("UncachedCompile") or 0)

class Trained(Trainer):
    def _wrap_model(self, model, training=True, **kwargs):
        wrapped = super()._wrap_model(model, training=training, **kwargs)
        if training and self.is_fsdp_xla_enabled and self.optimizer is None:
            self.create_optimizer(wrapped)  # transformers 5 forgets to
        return wrapped

def trainer(folder, **options):
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    set_seed(0)
    args = TrainingArguments(
        output_dir=folder, max_steps=6, save_steps=3, logging_steps=1, per_device_train_batch_size=8, report_to=[],
        per_device_eval_batch_size=8, learning_rate=1e-2, disable_tqdm=True, **options,
    )
    return Trained(LlamaForCausalLM(LlamaConfig(**sizes)), args, train_dataset=data, eval_dataset=data,
                   callbacks=[Compilations()])

def losses(run):
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]

def weights(run):
    return {name: value.cpu().clone() for name, value in run.model.state_dict().items()}

def close(got, want, rtol=1e-4):
    torch.testing.assert_close(got, want, rtol=rtol, atol=1e-4)

folder = os.environ["FOLDER"]
on_cpu = trainer(folder + "/cpu", use_cpu=True)
on_cpu.train()
run = trainer(folder + "/xla", **OPTIONS)
run.train()
assert all(p.device.type == "xla" for p in run.model.parameters())
close(losses(run), losses(on_cpu))
close(weights(run), weights(on_cpu), 1e-3)
close(run.evaluate()["eval_loss"], on_cpu.evaluate()["eval_loss"])
(counts,) = (c.counts for c in run.callback_handler.callbacks if isinstance(c, Compilations))
assert counts[2] == counts[-1], counts
again = trainer(folder + "/xla", **OPTIONS)
again.train(resume_from_checkpoint=folder + "/xla/checkpoint-3")
close(losses(again), losses(run))
close(weights(again), weights(run))
"""


def test_transformers_trainer(ok, tmp_path: pathlib.Path) -> None:
    """Losses and weights as on the CPU, nothing compiled once it runs, also when it resumes."""
    ok(TRAINER.replace("**OPTIONS", ""), FOLDER=str(tmp_path))


def test_transformers_trainer_fully_sharded(ok, tmp_path: pathlib.Path) -> None:
    config = {"xla": True, "xla_fsdp_v2": True, "xla_fsdp_grad_ckpt": True, "min_num_params": 0}
    config["transformer_layer_cls_to_wrap"] = ["LlamaDecoderLayer"]
    start = f"import torch_go_xla.runtime as xr\nxr.use_spmd()\nOPTIONS = dict(fsdp=True, fsdp_config={config})\n"
    checks = """
from torch_go_xla._backend import partitioning
marks = [partitioning.sharding_of(p) for p in run.model.parameters()]
assert all("devices=[4" in mark or ",4]" in mark for mark in marks), marks
"""
    ok(start + TRAINER + checks, FOLDER=str(tmp_path), CPU_NUM_DEVICES="4")


def test_accelerate(ok, tmp_path: pathlib.Path) -> None:
    """A loop with accumulated gradients, clipping, gathering, and a state that is saved and loaded."""
    ok(
        """
from torch_go_xla import as_torch_xla
as_torch_xla.install()
import os
import torch
import torch_go_xla.debug.metrics as met
from accelerate import Accelerator

data = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.randn(24, 2))

def made():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return model, optimizer, torch.utils.data.DataLoader(data, batch_size=4), schedule

model, optimizer, loader, schedule = made()
want = []
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y)
        (loss / 2).backward()
        if i % 2:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        want.append(loss.detach())
want, weights = torch.stack(want), model.state_dict()

accelerator = Accelerator(gradient_accumulation_steps=2)
model, optimizer, loader, schedule = accelerator.prepare(*made())
assert accelerator.device.type == "xla" == next(model.parameters()).device.type

def epoch():
    losses, counts = [], []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()[None]).cpu())
        counts.append(met.counter_value("UncachedCompile"))
    return torch.cat(losses), counts

first, _ = epoch()
accelerator.save_state(os.environ["FOLDER"])
second, counts = epoch()
torch.testing.assert_close(torch.cat([first, second]), want, rtol=1e-4, atol=1e-5)
trained = {name: value.cpu() for name, value in accelerator.get_state_dict(model).items()}
torch.testing.assert_close(trained, dict(weights), rtol=1e-4, atol=1e-5)
assert counts[2] == counts[-1], counts
epoch()
accelerator.load_state(os.environ["FOLDER"])
again, _ = epoch()
torch.testing.assert_close(again, second, rtol=1e-5, atol=1e-6)
""",
        FOLDER=str(tmp_path / "state"),
    )
