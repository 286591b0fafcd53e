"""Look into a model: recordings, diagnostics, numbers for maps, pictures, views."""
