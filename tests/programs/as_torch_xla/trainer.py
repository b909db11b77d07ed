"""transformers' Trainer: losses and weights as on the CPU, nothing compiled once it runs, also when it resumes."""

import torch_go_xla.runtime as xr
from torch_go_xla import as_torch_xla
from torch_go_xla._backend import partitioning

as_torch_xla.install()
import json
import os

import torch
from accelerate.state import AcceleratorState, GradientState
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments, set_seed

import torch_go_xla.debug.metrics as met

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
        output_dir=folder,
        max_steps=6,
        save_steps=3,
        logging_steps=1,
        per_device_train_batch_size=8,
        report_to=[],
        per_device_eval_batch_size=8,
        learning_rate=1e-2,
        disable_tqdm=True,
        **options,
    )
    return Trained(
        LlamaForCausalLM(LlamaConfig(**sizes)), args, train_dataset=data, eval_dataset=data, callbacks=[Compilations()]
    )


def losses(run):
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


def weights(run):
    return {name: value.cpu().clone() for name, value in run.model.state_dict().items()}


def close(got, want, rtol=1e-4):
    torch.testing.assert_close(got, want, rtol=rtol, atol=1e-4)


folder = os.environ["FOLDER"]
options = json.loads(os.environ["OPTIONS"])
on_cpu = trainer(folder + "/cpu", use_cpu=True)
on_cpu.train()
run = trainer(folder + "/xla", **options)
run.train()
assert all(p.device.type == "xla" for p in run.model.parameters())
close(losses(run), losses(on_cpu))
close(weights(run), weights(on_cpu), 1e-3)
close(run.evaluate()["eval_loss"], on_cpu.evaluate()["eval_loss"])
(counts,) = (c.counts for c in run.callback_handler.callbacks if isinstance(c, Compilations))
assert counts[2] == counts[-1], counts
again = trainer(folder + "/xla", **options)
again.train(resume_from_checkpoint=folder + "/xla/checkpoint-3")
close(losses(again), losses(run))
close(weights(again), weights(run))
if xr.is_spmd():
    marks = [partitioning.sharding_of(p) for p in run.model.parameters()]
    assert all("devices=[4" in mark or ",4]" in mark for mark in marks), marks
