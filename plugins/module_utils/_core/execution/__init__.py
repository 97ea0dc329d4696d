# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Carrying out a plan: what is decided, wave by wave, on what was just read. Nothing here reads, writes or waits."""
