"""Looking at what happens: metrics, graphs, recompilations, collectives, placements."""

from .._submodules import submodules
from .communication import Collective, collectives
from .placement import Placed, Placements, placements

__all__ = ["Collective", "Placed", "Placements", "collectives", "placements"]

__getattr__ = submodules(__name__)
