# SPDX-License-Identifier: GPL-2.0
"""What the tools share: paths, the guest's overlay and the virtual machine."""
