"""Answers to the exercises of notebook 06: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
