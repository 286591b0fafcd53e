"""From files, the hub and generated languages to batches."""
