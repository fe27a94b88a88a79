"""Which processor a figure is of: its name, and how wide it computes."""

import torch


def processor():
    """As in `AMD EPYC (AVX512)`: two of one name may compute at other widths."""
    name = torch.cpu.get_capabilities().get("cpu_name", "an unknown processor")
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"
