#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Commands on the other of two guests, over a network that no test touches (`on HOST` in lib.sh).

  remote.py serve            answers on all addresses
  remote.py run COMMAND...   runs a command on the peer: its output, and its exit status as ours

A request is one line of JSON; the answer is the output, followed by a line with the status. When the connection ends
(because the caller was killed) the command is killed with all that it started.
"""
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time

PORT = 7777
STATUS = b"\n@status "


class Command(socketserver.StreamRequestHandler):
    """One command, for as long as its connection lives."""

    def handle(self) -> None:
        arguments = json.loads(self.rfile.readline())
        try:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=self.connection.fileno(),
                                       stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            self.wfile.write(f"{error}{STATUS.decode()}127\n".encode())
            return
        threading.Thread(target=self.kill_when_left, args=(process,), daemon=True).start()
        status = process.wait()
        self.wfile.write(STATUS + b"%d\n" % (status if status >= 0 else 128 - status))

    def kill_when_left(self, process: subprocess.Popen) -> None:
        try:
            left = not self.connection.recv(1)
        except OSError:
            return
        if left and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def connect(peer: str) -> socket.socket:
    """Waits for a peer that is still coming up."""
    for _ in range(100):
        try:
            return socket.create_connection((peer, PORT), timeout=20)
        except (ConnectionRefusedError, socket.timeout):
            time.sleep(0.2)
    raise SystemExit("the other guest does not answer")


def run(arguments: list[str]) -> int:
    peer = "192.168.77.2" if os.environ["FERROBAND_HOST"] == "A" else "192.168.77.1"
    with connect(peer) as connection:
        connection.settimeout(None)
        connection.sendall(json.dumps(arguments).encode() + b"\n")
        held = b""
        while data := connection.recv(65536):
            held += data
            # The last bytes may be the status.
            shown = max(held.rfind(b"\n"), 0) if STATUS not in held else held.rfind(STATUS)
            sys.stdout.buffer.write(held[:shown])
            sys.stdout.buffer.flush()
            held = held[shown:]
    output, _, status = held.rpartition(STATUS)
    sys.stdout.buffer.write(output)
    return int(status) if status.strip() else 125


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        Server(("", PORT), Command).serve_forever()
    sys.exit(run(sys.argv[2:]))
