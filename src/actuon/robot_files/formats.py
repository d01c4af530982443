# SPDX-License-Identifier: Apache-2.0
"""Endings of files of robots and actuators, in small letters."""

USD_FORMATS = (".usda", ".usd", ".usdc", ".usdz")
USD_WRITTEN = (".usda", ".usd", ".usdc")
"""Those of USD that are written: a ``.usdz`` is an archive of others."""
MUJOCO_FORMATS = (".xml", ".urdf", ".mjb")
"""Those that MuJoCo reads."""
YAML_FORMATS = (".yaml", ".yml")
