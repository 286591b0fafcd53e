"""Answers to the exercises of notebook 12: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
