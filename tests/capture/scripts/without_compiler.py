"""Spares torch's profiler the compiler, which it loads to read one setting: a third of what a recording costs here."""

import sys
import types

config = types.ModuleType("torch._inductor.config")
config.triton = types.SimpleNamespace(cudagraphs=False)
inductor = types.ModuleType("torch._inductor")
inductor.config = config
sys.modules.update({"torch._inductor": inductor, "torch._inductor.config": config})
