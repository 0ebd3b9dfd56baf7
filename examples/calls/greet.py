#!/usr/bin/env python3
"""A Call of one's own: says hello, word by word, and then what it has said.

Each operation is one JSON object on standard input; answers are lines on standard output. Register it with
`tidemill calls add greet --file examples/calls/greet.yml`, and name this file in `calls.programs` of the workers.
"""

import json
import sys


def say(kind, content):
    print(json.dumps({"type": kind, "content": content}, ensure_ascii=False), flush=True)


def main():
    asked = json.load(sys.stdin)
    if asked["operation"] == "init":
        who = asked["params"].get("who") or "world"
        greeting = "你好" if asked["call_vars"]["language"] == "zh" else "Hello"
        print(json.dumps({"input": {"greeting": greeting, "who": who}}, ensure_ascii=False))
    elif asked["operation"] == "exec":
        given = asked["input"]
        words = [given["greeting"], ", ", given["who"], "!"]
        for word in words:
            say("text", word)


if __name__ == "__main__":
    main()
