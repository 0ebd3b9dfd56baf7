"""What all nodes have."""
