"""PyTorch by the network: a communication hook of DDP, and the process group `polyplane`.

Importing this module registers the backend of `torch.distributed.init_process_group`.
"""

from .hook import State, hook
from .process_group import register

__all__ = ["State", "hook"]

register()
