//! Tests of executors of a host: which one a node gets, and what becomes of what it says.
