"""Files of models, shards and checkpoints: how they are written, read and checked."""
