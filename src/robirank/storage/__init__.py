"""What is kept: one reader and one writer for models, shards, checkpoints and runs."""
