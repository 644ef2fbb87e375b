#!/usr/bin/env python3
"""Agent of all hosts for the tests of the Spark plug-in: the one of plugins/python, with faults.

It prints a line for each frame that comes: its kind, a name, and what is stored after it.
"""

import argparse
import json
import os
import pathlib
import sys
import threading

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path.insert(0, str(PYTHON / "tests"))

import fake_agent  # noqa: E402 (the path is set above)


class FaultyAgent(fake_agent.FakeAgent):
    """Agent that prints what comes, and fails at a COLLECT."""

    def __init__(self, path, options):
        faults = fake_agent.Faults(lost_pairs=options.lost_pairs, protocol=options.protocol)
        super().__init__(path, faults)
        self.options = options
        self.collects = 0

    def serve_frames(self, connection):
        receive = connection.receive

        def receive_and_print():
            frame = receive()
            if frame is not None:
                self.print(*frame)
            return frame

        connection.receive = receive_and_print
        super().serve_frames(connection)

    def print(self, kind, body):
        if kind == fake_agent.STORE:
            length = int.from_bytes(body[:2], "big")
            text = f"STORE {body[2:2 + length].decode()}"
        elif kind == fake_agent.COLLECT:
            request = json.loads(body)
            parts = len(request.pop("mappers"))
            text = f"COLLECT {json.dumps(request)} {parts}"
        else:
            left = [name for name in self.parts if not name.startswith(body.decode())]
            text = f"FORGET {body.decode()} {len(left)}"
        with self.lock:
            print(text, flush=True)

    def collect(self, connection, request):
        with self.lock:
            self.collects += 1
            number = self.collects
        if number == self.options.exit_at:
            os._exit(1)
        if number == self.options.silent_at:
            threading.Event().wait()
        if number == self.options.cut_at:
            connection.send(fake_agent.PAIRS, b"\0\5sab")
            return
        super().collect(connection, request)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("path", help="unix:PATH")
    parser.add_argument("--lost-pairs", type=int, default=0, metavar="N")
    parser.add_argument("--protocol", type=int, default=1, metavar="N")
    for name in ("exit", "silent", "cut"):
        parser.add_argument(f"--{name}-at", type=int, metavar="N", help="number of the COLLECT")
    options = parser.parse_args()
    with FaultyAgent(options.path[len("unix:"):], options):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
