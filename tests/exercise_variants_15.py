"""Answers to the exercises of notebook 15: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
