"""Figures for lessons in notebooks: arrays in, one figure with an alt text out."""
