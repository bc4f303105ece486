"""What the request-level formats share: payloads, fields, sizes, times, identity, snapshots."""
