# SPDX-License-Identifier: Apache-2.0
"""The text of a kernel around its rings, which are read and written by cells of DOFs."""

from __future__ import annotations

from .types import Flavour


def ring_header(label: str, flavour: Flavour) -> list[str]:
    """What is read of a ring before the DOFs of a cell are stepped."""
    synced = "in_place"
    if flavour is not Flavour.GRAD:
        synced += f" or {label}_spare_out[cell] == {label}_tag_in[cell]"
        synced += f" or {label}_origin_in[cell] == {label}_tag_out[cell]"
    lines = [
        f"{label}_newest = {label}_newest_in[cell]",
        f"{label}_slot = next_row({label}_newest, {label}_rows)",
        f"{label}_filled = {label}_filled_in[cell]",
        f"{label}_synced = {synced}",
    ]
    if flavour is Flavour.BLOCK:
        lines.append(f"{label}_full = wp.min({label}_filled, {label}_filled_out[cell]) >= {label}_rows - 1")
    return lines


def ring_footer(label: str, flavour: Flavour) -> list[str]:
    """What is written of a ring after them."""
    lines = [
        f"{label}_tag_out[cell] = {label}_tag_out[cell] + wp.int64(1)",
        f"{label}_origin_out[cell] = wp.int64(0)",
        f"{label}_newest_out[cell] = {label}_slot",
        f"{label}_filled_out[cell] = wp.min({label}_filled + 1, {label}_rows - 1)",
        f"{label}_spare_out[cell] = wp.int64(0)",
    ]
    if flavour is not Flavour.GRAD:
        lines += ["if not in_place:", f"    {label}_spare_in[cell] = {label}_tag_out[cell]"]
    return lines
