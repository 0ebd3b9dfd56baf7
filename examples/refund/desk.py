#!/usr/bin/env python3
"""What examples/refund/refund.yml talks to: a carrier on port 8765 of this machine (or the port that is given), and the orders
in ./refund-orders.db."""

import http.server
import json
import sqlite3
import sys
import urllib.parse

ORDERS = [("A17", "Ada", 40), ("B2", "Grace", 12)]

database = sqlite3.connect("refund-orders.db")
database.execute("create table if not exists orders (id text primary key, customer text, total integer)")
database.executemany("insert or replace into orders values (?, ?, ?)", ORDERS)
database.commit()
database.close()


class Carrier(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        answer = json.dumps({"order": asked.get("order"), "country": asked.get("country"), "state": "lost"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


carrier = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8765), Carrier)
print(f"the carrier is at http://127.0.0.1:{carrier.server_port}, the orders are in refund-orders.db", flush=True)
carrier.serve_forever()
