"""Answers to the exercises of notebook 11: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
