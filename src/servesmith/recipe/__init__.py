"""What is served and how, what is asked of it, and what counts as better: the nouns of the input."""
