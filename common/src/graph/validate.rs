//! The list of rules a graph must keep, one function each.
