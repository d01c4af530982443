# SPDX-License-Identifier: Apache-2.0
"""Logs of real joints and robots: files to `Log`, in SI units and radians."""

from .columns import ColumnMapping as ColumnMapping
from .files import log_files as log_files, save_log as save_log
from .formats import FORMATS as FORMATS
from .log import Finding as Finding, JointLog as JointLog, Log as Log
from .read import read_log as read_log, read_logs as read_logs
from .table import Format as Format, Table as Table

__all__ = [
    "FORMATS",
    "ColumnMapping",
    "Finding",
    "Format",
    "JointLog",
    "Log",
    "Table",
    "log_files",
    "read_log",
    "read_logs",
    "save_log",
]


def __dir__() -> list[str]:
    return __all__
