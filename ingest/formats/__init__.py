"""One module per source format. Every module here is found by scanning this package."""
