"""How the parallel algorithm scales: measured, calibrated, simulated."""
