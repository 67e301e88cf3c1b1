"""How the parallel algorithm scales, measured."""
