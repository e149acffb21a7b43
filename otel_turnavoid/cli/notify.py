"""Tells systemd where this process stands (``Type=notify``); elsewhere it does nothing."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Send ``READY=1``, ``STOPPING=1`` and the like, by the protocol of ``sd_notify(3)``.

    Nothing is raised: a process that runs does not end because nobody listens.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), address)
    except OSError:
        return
