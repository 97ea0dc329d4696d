# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The audit, the plan and a fleet of audits for people: terminal text, one HTML page, and a CSV of the audited nodes.

Each takes a result as plain data and gives a string; the same input gives the same bytes.
"""
