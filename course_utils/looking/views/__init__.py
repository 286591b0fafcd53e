"""Interactive views as self-contained HTML, and a story page to share."""
