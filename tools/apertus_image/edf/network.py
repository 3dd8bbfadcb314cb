"""The settings of NCCL and libfabric on CSCS's Slingshot network, each with what it does.

Values: eth-cscs/cscs-docs 80abed1, software/communication (notes on Enroot and CSCS, 4).
Meanings: NCCL's list of environment variables, fi_cxi(7), fi_mr(3).
"""

from __future__ import annotations

__all__ = ["ELSEWHERE", "SETTINGS"]

SETTINGS: dict[str, tuple[str, str]] = {
    "NCCL_NET": ("AWS Libfabric", "fail rather than fall back to TCP where the plugin is missing"),
    "NCCL_NET_PLUGIN": ("", "unset: it outranks NCCL_NET, and images carry stale values"),
    "NCCL_NET_GDR_LEVEL": ("PHB", "GPUDirect RDMA between a GPU and a NIC under one host bridge"),
    "NCCL_CROSS_NIC": ("1", "rings and trees may use other NICs on other nodes"),
    "NCCL_PROTO": ("^LL128", "every protocol but LL128, as CSCS says"),
    "FI_CXI_DEFAULT_CQ_SIZE": ("131072", "entries of a completion queue"),
    "FI_CXI_DEFAULT_TX_SIZE": ("16384", "operations in flight"),
    "FI_CXI_DISABLE_HOST_REGISTER": ("1", "no registration of host buffers with the GPU's driver"),
    "FI_CXI_RX_MATCH_MODE": ("software", "messages are matched in software, not in the NIC"),
    "FI_MR_CACHE_MONITOR": ("userfaultfd", "the kernel tells of freed memory, not hooks in malloc"),
}
"""Variable -> (value, what it does)."""

ELSEWHERE = {
    "NCCL_CROSS_NIC": {"0": "CSCS's own images"},
    "FI_CXI_RX_MATCH_MODE": {"hybrid": "CSCS's own images"},
}
"""Variable -> other value -> where CSCS uses it (eth-cscs/alps-extended-images 2f16898)."""
