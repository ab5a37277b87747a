"""servesmith: from the flags an LLM server runs with today to a faster recipe, with proof."""

__version__ = "0.1.0"
