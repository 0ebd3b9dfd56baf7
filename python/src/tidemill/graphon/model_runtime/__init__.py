"""Models of model calls: their usage."""
