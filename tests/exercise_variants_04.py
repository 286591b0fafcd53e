"""Answers to the exercises of notebook 04: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
