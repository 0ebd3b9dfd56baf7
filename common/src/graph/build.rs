//! Document to graph.
