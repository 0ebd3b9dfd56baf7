"""Sockets of a code node that may use the network. This part comes before the fork server (serve.py).

The kernel refuses every new socket. Instead the child asks the worker for a connection: one byte on a descriptor that it
got, answered by a socket that is connected to the worker's proxy already. The functions here let programs find the proxy
at an address of the usual form, so that libraries work unchanged. They confine nothing: a program that goes around them
has only the same descriptor, at whose other end the worker checks each address.
"""

import errno, os, socket

# No process listens there: this address stands for the proxy, for libraries that want one.
PROXY = ("127.0.0.1", 3128)
PROXY_NAMES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
# The place of the descriptor in the child.
ASK = 3

REAL = {name: getattr(socket.socket, name, None) for name in (
    "__init__", "connect", "connect_ex", "getpeername", "getsockname", "getsockopt", "sendmsg", "setsockopt")}


class Outside:
    """The connection to the worker that gives out connections to the proxy."""

    def __init__(self, settings):
        self.most = settings["connections_max"]
        self.asking = socket.socket(fileno=ASK)

    def connection(self):
        """Returns the descriptor of a new connection to the proxy."""
        self.asking.sendall(b"c")
        answer, descriptors, _, _ = socket.recv_fds(self.asking, 1, 1)
        if descriptors:
            os.set_inheritable(descriptors[0], False)
            return descriptors[0]
        if answer:
            reason = f"a code node may have {self.most} connections at once (code.network_connections_max)"
            raise OSError(errno.EMFILE, reason)
        raise ConnectionAbortedError(errno.ECONNABORTED, "the worker has ended this execution")


def direct(what):
    return PermissionError(
        errno.EPERM, f"{what} is not allowed in a code node: servers are reached only by HTTP through the proxy in HTTP_PROXY")


def let_out(settings):
    """Changes this process so that its sockets lead to the proxy."""
    outside = Outside(settings)
    for name in PROXY_NAMES:
        os.environ[name] = "http://%s:%d" % PROXY
    if settings["certificates"]:
        os.environ.update(SSL_CERT_FILE=settings["certificates"], REQUESTS_CA_BUNDLE=settings["certificates"])

    def is_own(one):
        return one.family == socket.AF_UNIX

    def begin(self, family=-1, type=-1, proto=-1, fileno=None):
        if fileno is None and family in (-1, socket.AF_INET) and (type == -1 or type & 0xF == socket.SOCK_STREAM):
            family, type, proto, fileno = socket.AF_INET, socket.SOCK_STREAM, 0, outside.connection()
        elif fileno is None and family != socket.AF_UNIX:
            raise direct("a socket of this kind")
        REAL["__init__"](self, family, type, proto, fileno)

    def connect(self, address):
        if is_own(self) or tuple(address[:2]) != PROXY:
            raise direct(f"a connection to {address!r}")

    def connect_ex(self, address):
        return errno.EPERM if is_own(self) or tuple(address[:2]) != PROXY else 0

    def setsockopt(self, *arguments):
        # Options of TCP mean nothing to the socket that stands in for it.
        if is_own(self):
            REAL["setsockopt"](self, *arguments)

    def getsockopt(self, level, *arguments):
        return 0 if level == socket.IPPROTO_TCP else REAL["getsockopt"](self, level, *arguments)

    def getpeername(self):
        return REAL["getpeername"](self) if is_own(self) else PROXY

    def getsockname(self):
        return REAL["getsockname"](self) if is_own(self) else (PROXY[0], 0)

    def sendmsg(self, buffers, *arguments):
        # The kernel refuses the call, because it could pass descriptors.
        if arguments:
            raise direct("sending a message with more than bytes")
        return self.send(b"".join(buffers))

    def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
        if host not in (PROXY[0], PROXY[0].encode()) or int(port or 0) != PROXY[1]:
            raise direct(f"looking up {host!r}")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", PROXY)]

    for function in (connect, connect_ex, setsockopt, getsockopt, getpeername, getsockname, sendmsg):
        setattr(socket.socket, function.__name__, function)
    socket.socket.__init__ = begin
    socket.getaddrinfo = getaddrinfo
