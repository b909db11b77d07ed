"""Two processes exchange different things."""

import torch

import torch_go_xla.core.xla_model as xm
import torch_go_xla.distributed.xla_multiprocessing as xmp


def different(index, word):
    assert word == "argument"
    t = torch.ones(4, device="xla")
    xm.all_reduce("sum", t).tolist()
    try:
        (xm.all_reduce("sum", t) if index == 0 else xm.all_gather(t[:2])).tolist()
    except RuntimeError as e:
        assert "number 2 of the exchanges of xla:0 among processes 0 1 is a" in str(e), e
        assert "all-reduce of f32[4] in process 0" in str(e) and "all-gather of f32[4] in process 1" in str(e), e
        print("told", flush=True)
    else:
        raise AssertionError("no error")


def fails(index):
    raise KeyError(f"process {index}")


if __name__ == "__main__":
    xmp.spawn(different, args=("argument",), nprocs=2)
    for arguments, words in (({"start_method": "fork"}, "forked child"), ({"nprocs": 0}, "cannot run 0 processes")):
        try:
            xmp.spawn(fails, **arguments)
        except ValueError as e:
            assert words in str(e)
        else:
            raise AssertionError("no error")
