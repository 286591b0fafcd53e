"""Answers to the exercises of notebook 16: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
