"""Views to explore by mouse and keyboard: arrays and strings in, HTML out."""
