"""Programs over many devices."""
