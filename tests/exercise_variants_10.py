"""Answers to the exercises of notebook 10: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
