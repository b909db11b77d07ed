"""Looking at what happens: metrics, graphs, recompilations."""
