"""Prints the views of views.txt as torch makes them: python views.py > new, then go test -run Golden -rewrite.

Each line is the dimensions of the base, the expression on it, and the size, stride and offset that torch gives.
"""

import torch

VIEWS = [
    # whole, reshaped
    ((2, 3), "x"),
    ((2, 3, 4), "x.view(6, 4)"),
    ((24,), "x.view(2, 3, 4)"),
    ((1,), "x.squeeze()"),
    ((), "x.view(1, 1)"),
    ((2, 1, 3), "x.squeeze(1).unsqueeze(0)"),
    # slices of the base's dimensions
    ((6, 4), "x[1]"),
    ((6, 4), "x[:, 2]"),
    ((4, 1, 5), "x[1:3]"),
    ((6, 4), "x[1:3]"),
    ((6, 4), "x[1:3, 2:]"),
    ((6, 4), "x[..., ::2]"),
    ((8, 4), "x[::2]"),
    ((7,), "x[1::3]"),
    ((3, 5, 7), "x[1, 0, 1]"),
    ((10, 4), "x.chunk(3)[1]"),
    ((10, 4), "x.split(4)[2]"),
    ((6, 4), "x.narrow(0, 1, 4).view(2, 2, 4)"),
    # slices across or inside the base's dimensions
    ((6, 4), "x.view(2, 3, 4)[:, 1]"),
    ((24,), "x.view(2, 3, 4)[:, 1:3, :2]"),
    ((6, 4), "x.view(24)[3:20]"),
    ((6, 4), "x.view(24)[::5]"),
    ((20,), "x[3:15].view(3, 4)[:, :2]"),
    ((2, 5, 72), "x.view(2, 5, 3, 4, 6)[:, :, 1].transpose(1, 2)"),
    ((10, 72), "x.view(2, 5, 72).split(24, -1)[1].view(2, 5, 4, 6).transpose(1, 2)"),
    # permutations
    ((3, 4), "x.t()"),
    ((3, 4), "x.t()[2]"),
    ((6, 4), "x.view(2, 3, 4).permute(2, 0, 1)[1:3]"),
    ((2, 3, 4, 5), "x.movedim(1, -1)"),
    ((2, 4, 5, 3), "x.permute(0, 3, 1, 2)"),
    ((4, 1, 5), "x.permute(2, 1, 0)"),
    # expanded
    ((3, 1), "x.expand(2, 3, 4)"),
    ((3,), "x.expand(4, 3)"),
    ((3, 4), "x.t().expand(2, 4, 3)"),
    ((4, 1, 5), "x.permute(2, 1, 0).expand(5, 3, 4)"),
    ((6, 4), "x[1:3, 1:2].expand(2, 3)"),
    ((1, 3), "x.view(3, 1).expand(3, 2)"),
    ((1, 1, 4), "x.view(4).expand(2, 4)"),
    # diagonals
    ((5, 5), "x.diagonal()"),
    ((5, 7), "x.diagonal(1)"),
    ((5, 7), "x.diagonal(-2)"),
    ((3, 5, 5), "x.diagonal(0, 1, 2)"),
    ((4, 4, 3), "x.diagonal(0, 0, 1)"),
    ((3, 5, 7), "x.diagonal(0, 0, 2)"),
    # windows
    ((12,), "x.unfold(0, 4, 4)"),
    ((10,), "x.unfold(0, 3, 1)"),
    ((2, 11), "x.unfold(1, 3, 2)"),
    ((2, 3, 8, 8), "x.unfold(2, 3, 1).unfold(3, 3, 1)"),
    ((2, 3, 9, 9), "x.unfold(2, 3, 2).unfold(3, 3, 2)"),
    # strides of their own
    ((20,), "x.as_strided((2, 3), (3, 2), 0)"),
    ((11,), "x.as_strided((3, 2), (4, 1), 1)"),
    ((6, 5), "x.as_strided((2, 2, 2), (15, 3, 1), 0)"),
    ((300,), "x.as_strided((5, 5), (13, 47), 3)"),
    ((6,), "x.as_strided((2, 3), (0, 2), 1)"),
    # without elements
    ((6, 4), "x[2:2]"),
    ((0, 4), "x.view(4, 0)"),
]


def main() -> None:
    for base, expression in VIEWS:
        x = torch.arange(torch.Size(base).numel()).view(base)
        v = eval(expression, {"x": x})
        print(list(base), expression, "=", list(v.shape), list(v.stride()), v.storage_offset(), sep="\t")


if __name__ == "__main__":
    main()
