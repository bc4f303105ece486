"""What collectors put around a log line: one module per family, chosen in ``ingest.wrappers``."""
