"""What the notebooks share: layers, models, decoding, data, training, looking."""
