"""Answers to the exercises of notebook 09: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
