"""Fit a model: losses, the loop, optimizers, checkpoints, several processes."""
