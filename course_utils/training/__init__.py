"""Fit a model: losses, optimizers, checkpoints, processes. Start at `loop.train`."""
