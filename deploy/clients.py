"""Pulsar's own client, and the programs of the demo, of chaos and of benchmarks that use it.

A client writes its log to standard output unless it is told otherwise, where figures and events stand.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

import pulsar


def quiet_client(url: str, **options: Any) -> pulsar.Client:
    """Return a client that logs errors alone; `options` are those of ``pulsar.Client``."""
    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **options)


def client_of_program(url: str) -> pulsar.Client:
    """Return the client of a program: its log goes to standard error, beside what is told."""
    return pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, "/dev/stderr"))


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set, instead of ending the program."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
