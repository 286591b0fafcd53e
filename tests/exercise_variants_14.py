"""Answers to the exercises of notebook 14: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
