"""Three generated languages of which everything is known: stories, phrases, senses."""
