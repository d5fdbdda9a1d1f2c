"""What the fields of dcgm-exporter and the columns of amd-smi and rocm-smi mean."""

from __future__ import annotations

import re

from parsers.csv_tables import plain
from parsers.smi.columns import MEBI, MILLI, Quantity

_PERCENT_OF_ONE = 100.0
_DCGM = {
    "SM_CLOCK": Quantity("SM clock", "MHz"),
    "MAX_SM_CLOCK": Quantity("maximum SM clock", "MHz"),
    "MEM_CLOCK": Quantity("memory clock", "MHz"),
    "MAX_MEM_CLOCK": Quantity("maximum memory clock", "MHz"),
    "GPU_TEMP": Quantity("temperature", "C"),
    "MEMORY_TEMP": Quantity("memory temperature", "C"),
    "POWER_USAGE": Quantity("power", "W"),
    "POWER_MGMT_LIMIT": Quantity("power limit", "W"),
    "ENFORCED_POWER_LIMIT": Quantity("power limit", "W"),
    "TOTAL_ENERGY_CONSUMPTION": Quantity("energy", "J", MILLI),
    "GPU_UTIL": Quantity("GPU utilization", "%"),
    "MEM_COPY_UTIL": Quantity("memory controller utilization", "%"),
    "ENC_UTIL": Quantity("encoder utilization", "%"),
    "DEC_UTIL": Quantity("decoder utilization", "%"),
    "FB_USED": Quantity("framebuffer used", "B", MEBI),
    "FB_FREE": Quantity("framebuffer free", "B", MEBI),
    "FB_TOTAL": Quantity("framebuffer total", "B", MEBI),
    "XID_ERRORS": Quantity("XID error", ""),
    "ECC_DBE_VOL_TOTAL": Quantity("uncorrected ECC errors", ""),
    "ECC_SBE_VOL_TOTAL": Quantity("corrected ECC errors", ""),
    "CLOCK_THROTTLE_REASONS": Quantity("clock limit reasons (bits)", ""),
    "CLOCKS_EVENT_REASONS": Quantity("clock limit reasons (bits)", ""),
    "GR_ENGINE_ACTIVE": Quantity("graphics engine active", "%", _PERCENT_OF_ONE),
    "SM_ACTIVE": Quantity("SM active", "%", _PERCENT_OF_ONE),
    "SM_OCCUPANCY": Quantity("SM occupancy", "%", _PERCENT_OF_ONE),
    "PIPE_TENSOR_ACTIVE": Quantity("tensor cores active", "%", _PERCENT_OF_ONE),
    "DRAM_ACTIVE": Quantity("DRAM active", "%", _PERCENT_OF_ONE),
    "PCIE_TX_BYTES": Quantity("PCIe sent", "B/s"),
    "PCIE_RX_BYTES": Quantity("PCIe received", "B/s"),
    "NVLINK_TX_BYTES": Quantity("NVLink sent", "B/s"),
    "NVLINK_RX_BYTES": Quantity("NVLink received", "B/s"),
}
_FIELD = re.compile(r"DCGM_FI_(?:DEV|PROF)_(\w+)$")
_AMD = {
    "powerusage": Quantity("power", "W"),
    "socketpower": Quantity("power", "W"),
    "averagesocketpower": Quantity("power", "W"),
    "currentsocketpower": Quantity("power", "W"),
    "averagegraphicspackagepowerw": Quantity("power", "W"),
    "currentsocketgraphicspackagepowerw": Quantity("power", "W"),
    "maxgraphicspackagepowerw": Quantity("power limit", "W"),
    "socketpowerlimit": Quantity("power limit", "W"),
    "powerlimit": Quantity("power limit", "W"),
    "powercap": Quantity("power limit", "W"),
    "gfxclk": Quantity("SM clock", "MHz"),
    "gfxclock": Quantity("SM clock", "MHz"),
    "gfx0clk": Quantity("SM clock", "MHz"),
    "sclkclockspeed": Quantity("SM clock", "MHz"),
    "gfx0maxclk": Quantity("maximum SM clock", "MHz"),
    "gfxmaxclk": Quantity("maximum SM clock", "MHz"),
    "memclock": Quantity("memory clock", "MHz"),
    "mem0clk": Quantity("memory clock", "MHz"),
    "mclkclockspeed": Quantity("memory clock", "MHz"),
    "mem0maxclk": Quantity("maximum memory clock", "MHz"),
    "gfx": Quantity("GPU utilization", "%"),
    "gfx%": Quantity("GPU utilization", "%"),
    "gfxactivity": Quantity("GPU utilization", "%"),
    "gpuuse%": Quantity("GPU utilization", "%"),
    "mem": Quantity("memory controller utilization", "%"),
    "mem%": Quantity("memory controller utilization", "%"),
    "umcactivity": Quantity("memory controller utilization", "%"),
    "gpumemoryreadwriteactivity%": Quantity("memory controller utilization", "%"),
    "gpumemoryallocatedvram%": Quantity("framebuffer used", "%"),
    "hotspottemperature": Quantity("temperature", "C"),
    "hotspot": Quantity("temperature", "C"),
    "temperaturesensorjunctionc": Quantity("temperature", "C"),
    "temperaturesensoredgec": Quantity("edge temperature", "C"),
    "memorytemperature": Quantity("memory temperature", "C"),
    "temperaturesensormemoryc": Quantity("memory temperature", "C"),
    "vramused": Quantity("framebuffer used", "B", MEBI),
    "vramtotal": Quantity("framebuffer total", "B", MEBI),
    "pviol": Quantity("power throttling", "%"),
    "tviol": Quantity("thermal throttling", "%"),
    "phottviol": Quantity("hot processor throttling", "%"),
    "vrtviol": Quantity("hot regulator throttling", "%"),
    "hbmtviol": Quantity("hot memory throttling", "%"),
    "totaluncorrectablecount": Quantity("uncorrected ECC errors", ""),
    "totalcorrectablecount": Quantity("corrected ECC errors", ""),
}


def dcgm_field(name: str) -> Quantity:
    """A field of dcgm-exporter; an unknown one keeps its name without a unit."""
    found = _FIELD.match(name)
    return (
        _DCGM.get(found[1], Quantity(found[1].lower().replace("_", " "), "")) if found else Quantity(name, "")
    )


def amd_column(title: str) -> Quantity | None:
    """A column of amd-smi or rocm-smi; None for one that is not known."""
    return _AMD.get(plain(title))
