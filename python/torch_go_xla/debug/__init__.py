"""Looking at what happens: metrics, graphs, recompilations, collectives."""

from .communication import Collective, collectives

__all__ = ["Collective", "collectives"]
