"""The servers of tools that `tool_servers.rs` calls: MCP over standard input, or MCP over HTTP together with an API of pets
and a tool service. Over HTTP, the program first prints its port."""

import base64
import http.server
import itertools
import json
import queue
import sys

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def tool(name, description, **properties):
    schema = {key: {"type": kind} for key, kind in properties.items()}
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": schema, "required": list(schema)},
    }


TOOLS = [
    tool("add", "Adds two numbers", a="number", b="number"),
    tool("draw", "Draws a dot"),
]


def answer(method, params):
    """The result of a request."""
    if method == "initialize":
        return {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    given = params.get("arguments", {})
    if params["name"] == "add":
        text = json.dumps(given["a"] + given["b"])
        usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_price": "0.5", "currency": "EUR"}
        return {"content": [{"type": "text", "text": text}], "_meta": {"usage": usage}}
    picture = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    return {"content": [picture]}


def message(request):
    """The answer to a message; None for a notification."""
    if "id" not in request:
        return None
    result = answer(request["method"], request.get("params") or {})
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def over_stdio():
    for line in sys.stdin:
        said = message(json.loads(line))
        if said is not None:
            print(json.dumps(said), flush=True)


# The answers of each open stream of MCP over HTTP with two URLs.
SESSIONS = {}
NUMBERS = itertools.count(1)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, status, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self):
        """MCP over two URLs: a stream that first names the URL for messages, and then has all answers."""
        number = next(NUMBERS)
        answers = SESSIONS[str(number)] = queue.Queue()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        event = f"event: endpoint\ndata: /messages?{number}\n\n"
        while event:
            self.wfile.write(event.encode())
            event = f"event: message\ndata: {json.dumps(answers.get())}\n\n"

    def do_GET(self):
        if self.path.startswith(("/sse", "/older")):
            return self.stream()
        if self.path.startswith("/pets/"):
            if self.headers["Authorization"] != "Bearer pets-key":
                return self.say(401, {"error": "who are you?"})
            return self.say(200, {"name": self.path.removeprefix("/pets/")})
        return self.say(404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if self.path.startswith("/tools/"):
            messages = [{"type": "text", "text": "served"}]
            return self.say(200, {"messages": messages, "usage": {"prompt_tokens": 5, "completion_tokens": 6}})
        if self.path.startswith("/messages?"):
            said = message(body)
            if said is not None:
                SESSIONS[self.path.partition("?")[2]].put(said)
            return self.say(202)
        if self.path == "/older":
            return self.say(404)
        if self.headers["X-Team"] != "search":
            return self.say(401)
        said = message(body)
        return self.say(202) if said is None else self.say(200, said)

    def log_message(self, *_):
        pass


if sys.argv[1] == "stdio":
    over_stdio()
else:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
