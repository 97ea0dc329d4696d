# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carrying out a plan: what the core decides, done on a live cluster in the order in which it may be, and cleaned up after."""
