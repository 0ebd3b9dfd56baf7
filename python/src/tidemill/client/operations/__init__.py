"""The operations of the API, a file for each resource. Each function builds a request from its arguments, and is pure
except for files that it reads from the disk when it is asked to send them."""
