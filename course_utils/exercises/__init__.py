"""Checks that name the mistake. Start at `course_utils.exercises.session`."""
