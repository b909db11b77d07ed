"""Opens: run by test_job_faults.py."""

import signal

import torch

import torch_go_xla

signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
torch.ones(1, device="xla")
