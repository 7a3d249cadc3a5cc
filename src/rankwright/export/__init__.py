"""Models for search engines and other runtimes."""
