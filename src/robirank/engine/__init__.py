"""Where training runs: the plan of the stratified algorithm, its tasks, and who executes them."""
