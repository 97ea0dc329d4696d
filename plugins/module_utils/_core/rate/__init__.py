# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How quickly pods may be moved: what is known of the cluster, and the law that makes limits of it. Nothing here asks anybody."""
