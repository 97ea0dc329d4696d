# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The audit for people: terminal text, one HTML page, and a CSV of the nodes.

Each takes the ``fragmentation`` result as plain data and gives a string; the same input gives the same bytes.
"""
