"""Looking at what happens: metrics, graphs, recompilations, collectives, placements."""

from .communication import Collective, collectives
from .placement import Placed, Placements, placements

__all__ = ["Collective", "Placed", "Placements", "collectives", "placements"]
