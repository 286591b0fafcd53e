"""Checks that name the mistake. Start at `named_mistakes.session`."""
