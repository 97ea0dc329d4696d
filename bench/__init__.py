# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the core costs, in multiples of reading the same text with ``json.loads``. Run with ``make bench``."""
