# SPDX-License-Identifier: Apache-2.0
"""``python -m actuon.cli``."""

from actuon.cli.main import main

if __name__ == "__main__":
    main()
