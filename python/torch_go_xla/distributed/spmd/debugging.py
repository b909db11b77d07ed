"""Looking at shardings."""

from __future__ import annotations

import io
from typing import Any

import torch

from ... import _XLAC, runtime
from ..._backend import tiles
from ..._backend.op_sharding import OpSharding

__all__ = ["construct_v1_sharding_str", "visualize_sharding", "visualize_tensor_sharding"]


def _cells(sharding: str) -> list[list[str]]:
    """Return a text for each tile of the first two dimensions: the devices that hold it, or a tile behind it."""
    tiled = bool(OpSharding.parse(sharding or "{replicated}").tiles)

    def name(ids: list[int]) -> str:
        return f"{runtime.device_type()} {ids[0] if len(ids) == 1 and tiled else ids}"

    return [[name(ids) for ids in row] for row in tiles.tiles(sharding)]


def visualize_sharding(
    sharding: str, use_color: bool = True, scale: float = 1.0, min_width: int = 9, max_width: int = 80
) -> Any:
    """Print which devices hold which tile of a tensor, of the first two dimensions.

    Args:
        sharding: in GSPMD's form, such as "{devices=[2,2]0,1,2,3}".
        use_color: leave the lines out on a terminal with colors.
        scale: of the tiles' height, 3 lines by default.
        min_width: of a tile, in characters.
        max_width: of the table, in characters.

    Returns:
        The table: of `rich` if it is installed, else a text.

    Raises:
        ValueError: the text is not a sharding.

    Example:
        >>> from torch_go_xla.distributed.spmd.debugging import visualize_sharding
        >>> table = visualize_sharding("{devices=[2,2]0,1,2,3}", use_color=False)
        Visualizing {devices=[2,2]0,1,2,3} (showing up to the first two dimensions)
        ...CPU 0...CPU 1...
        ...CPU 2...CPU 3...
    """
    cells = _cells(sharding)
    print(f"Visualizing {sharding} (showing up to the first two dimensions)")
    try:
        import rich.align
        import rich.box
        import rich.console
        import rich.padding
        import rich.style
        import rich.table
    except ImportError:
        text = _text_table(cells, min_width)
        print(text)
        return text
    console = rich.console.Console(width=max_width)
    use_color = use_color and console.color_system is not None
    table = rich.table.Table(
        show_header=False,
        show_lines=not use_color,
        padding=0,
        highlight=not use_color,
        pad_edge=False,
        box=None if use_color else rich.box.SQUARE,
    )
    above = max(int(3 * scale) - 1, 0) // 2
    for row in cells:
        table.add_row(
            *(
                rich.padding.Padding(
                    rich.align.Align(name, "center", vertical="middle"), (above, 1, above, 1), style=rich.style.Style()
                )
                for name in row
            )
        )
    console.print(table, end="\n\n")
    return table


def _text_table(cells: list[list[str]], min_width: int) -> str:
    width = max(min_width, *(len(name) + 2 for row in cells for name in row))
    line = "+".join(["", *["-" * width] * len(cells[0]), ""])
    out = io.StringIO()
    for row in cells:
        print(line, file=out)
        print("|".join(["", *(name.center(width) for name in row), ""]), file=out)
    print(line, file=out)
    return out.getvalue()


def construct_v1_sharding_str(t: torch.Tensor) -> str:
    """Return the sharding of a tensor in GSPMD's form with a list of devices; "" if there is none.

    Args:
        t: a tensor on the device.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla.distributed.spmd.debugging import construct_v1_sharding_str
        >>> xr.use_spmd()
        >>> x = xs.mark_sharding(torch.ones(8, 2, device="xla"), xs.get_1d_mesh("x"), ("x", None))
        >>> construct_v1_sharding_str(x)
        '{devices=[4,1]0,1,2,3}'
    """
    return _XLAC._get_xla_sharding_spec(t)


def visualize_tensor_sharding(t: torch.Tensor, **kwargs: Any) -> Any:
    """Print where a tensor lies.

    Args:
        t: a tensor on the device.
        kwargs: options of `visualize_sharding`.

    Returns:
        The table, as `visualize_sharding`.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla.distributed.spmd.debugging import visualize_tensor_sharding
        >>> xr.use_spmd()
        >>> x = xs.mark_sharding(torch.ones(8, 2, device="xla"), xs.get_1d_mesh("x"), (None, "x"))
        >>> table = visualize_tensor_sharding(x, use_color=False)
        Visualizing {devices=[1,4]0,1,2,3} (showing up to the first two dimensions)
        ...CPU 0...CPU 1...CPU 2...CPU 3...
    """
    return visualize_sharding(construct_v1_sharding_str(t), **kwargs)
