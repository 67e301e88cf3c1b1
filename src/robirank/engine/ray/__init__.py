"""The cluster engine: tasks on the workers of a Ray cluster."""
