"""Exercises of notebook 14."""

from course_utils.exercises.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
