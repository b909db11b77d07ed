"""The server behind `processes.command`: it has imported torch, which takes seconds, and forks for each program.

`forkserver.py run ADDRESS PROGRAM ...` stands in for the program: it hands its standard files, folder and environment
to the server, waits for the fork, and ends as the fork has ended. torch_go_xla and the library in Go are not loaded in
the server: a fork loads them as a new process does.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import selectors
import signal
import socket
import sys

_HEAD = 8  # bytes of the length before a message


def _receive(connection: socket.socket, size: int) -> bytes:
    """Read as many bytes; fewer if the other end has closed."""
    held = b""
    while len(held) < size and (part := connection.recv(size - len(held))):
        held += part
    return held


def _stand_in(address: str, arguments: list[str]) -> None:
    """Have the server run a program with what this process was given, and end as it ends."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    message = marshal.dumps([arguments, os.getcwd(), dict(os.environ)])
    socket.send_fds(connection, [len(message).to_bytes(_HEAD)], [0, 1, 2])
    connection.sendall(message)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _: connection.sendall(bytes([n])))
    status = _receive(connection, _HEAD)
    code = os.waitstatus_to_exitcode(int.from_bytes(status)) if len(status) == _HEAD else 70
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


def _serve(address: str) -> list[str]:
    """Fork for each connection until standard input ends; returns in the forks, with what they are to run."""
    import gc

    import torch  # noqa: F401  what the forks need not import

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waits = selectors.DefaultSelector()
    for source in (0, ended, listener):
        waits.register(source, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    gc.freeze()
    print("ready", flush=True)
    while True:
        for key, _ in waits.select():
            if key.fileobj == 0:
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            elif key.fileobj == ended:
                os.read(ended, 4096)
                while running:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if not pid:
                        break
                    connection = running.pop(pid)
                    if connection.fileno() != -1:
                        waits.unregister(connection)
                        with contextlib.suppress(OSError), connection:  # who waits may be gone
                            connection.sendall(status.to_bytes(_HEAD))
            elif key.fileobj is listener:
                connection, _ = listener.accept()
                head, files, *_ = socket.recv_fds(connection, _HEAD, 3)
                message = _receive(connection, int.from_bytes(head))
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for other in (waits, listener, connection, *running.values()):
                        other.close()
                    os.close(ended)
                    os.close(wake)
                    return _become(message, files)
                for file in files:
                    os.close(file)
                running[pid] = connection
                waits.register(connection, selectors.EVENT_READ)
            elif (
                key.fileobj.fileno() != -1
            ):  # a signal for the program; nothing, if who stood in for it has been killed
                pid = next(pid for pid, c in running.items() if c is key.fileobj)
                number = _receive(key.fileobj, 1)
                os.kill(pid, int.from_bytes(number) or signal.SIGKILL)
                if not number:
                    waits.unregister(key.fileobj)
                    key.fileobj.close()


def _become(message: bytes, files: list[int]) -> list[str]:
    """Take over the files, the folder and the environment of who asked."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    arguments, folder, environment = marshal.loads(message)
    os.chdir(folder)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    return arguments


if __name__ == "__main__":
    if sys.argv[1] == "run":
        _stand_in(sys.argv[2], sys.argv[3:])
    sys.argv = _serve(sys.argv[2])
    main = type(sys)("__main__")
    if sys.argv[0] == "-c":
        text, sys.path[0] = sys.argv.pop(1), ""
        name = "<string>"
    else:
        name = main.__file__ = sys.argv[0]
        tests = os.path.dirname(__file__)
        sys.path[:1] = [os.path.dirname(os.path.abspath(name)), os.path.join(tests, "programs"), tests]
        with open(name, encoding="utf-8") as file:
            text = file.read()
    sys.modules["__main__"] = main
    exec(compile(text, name, "exec"), main.__dict__)
