"""The domain: identity, clocks, mechanisms, verdicts and estimates."""
