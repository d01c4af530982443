# SPDX-License-Identifier: Apache-2.0
"""Public names of `actuon.fit.excite`."""

from .excite import ExcitationOptions as ExcitationOptions, Limits as Limits, excite as excite
