# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The audit and the plan for people: terminal text, one HTML page, and a CSV of the audited nodes.

Each takes the ``fragmentation`` or ``plan`` result as plain data and gives a string; the same input gives the same bytes.
"""
