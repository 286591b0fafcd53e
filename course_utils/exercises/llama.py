"""Exercises of notebook 11."""

from course_utils.exercises.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
