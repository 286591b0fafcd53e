"""Answers to the exercises of notebook 13: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
