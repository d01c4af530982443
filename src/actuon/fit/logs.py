# SPDX-License-Identifier: Apache-2.0
"""Public names of `actuon.logs` under their former path."""

from ..logs import (
    ColumnMapping as ColumnMapping,
    JointLog as JointLog,
    Log as Log,
    log_files as log_files,
    read_log as read_log,
    read_logs as read_logs,
    save_log as save_log,
)
