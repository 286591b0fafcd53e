"""What the notebooks of the course share: layers, models, training, looking."""
