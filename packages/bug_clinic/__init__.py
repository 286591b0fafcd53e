"""A small GPT with one hidden bug: symptoms only, and each question costs a point."""
