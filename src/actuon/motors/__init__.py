# SPDX-License-Identifier: Apache-2.0
"""Motors by what their vendors print: data sheets as actuators, and a catalogue of some."""
