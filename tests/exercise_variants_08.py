"""Answers to the exercises of notebook 08: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
