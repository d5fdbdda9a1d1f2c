"""What the numbers of a kernel report mean, in plain words: every stall reason, section and group of metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """One entry: what it is, why it costs time, what usually helps, and when it can be ignored."""

    label: str
    meaning: str
    cost: str
    fix: str
    harmless: str


STALLS: dict[str, Explanation] = {
    "long_scoreboard": Explanation(
        "long scoreboard",
        "The warp waits for data from global or local memory that it requested and now needs.",
        "A trip to DRAM takes 400 to 800 cycles and to L2 about 200; nothing else of this warp can run meanwhile.",
        "Ask for data earlier and for more at once: vector loads (float4), several independent loads per thread, "
        "asynchronous copies into shared memory. Read neighbouring addresses from neighbouring threads, keep reused "
        "data in shared memory or registers, and raise the occupancy when it is low.",
        "When DRAM or L2 throughput is already high: then the memory is busy, and waiting for it is normal.",
    ),
    "short_scoreboard": Explanation(
        "short scoreboard",
        "The warp waits for shared memory, or for a special function such as exponential, sine or a shuffle.",
        "Each takes 20 to 30 cycles, and more when bank conflicts or a queue stand before it.",
        "Remove bank conflicts (pad or swizzle the array), read wider vectors from shared memory, keep values in "
        "registers, use fast intrinsics (__expf) or fewer special functions.",
        "When the shared-memory or special-function pipe is at its peak because that is the work to be done.",
    ),
    "wait": Explanation(
        "wait",
        "The warp sits out the fixed number of cycles between two instructions that depend on each other.",
        "Every arithmetic result is ready 4 to 6 cycles later; a chain of dependent instructions waits at each link.",
        "Let each thread work on several independent values (unroll, two or four accumulators), or raise the number "
        "of warps so that others fill the gaps.",
        "Nearly always: it is the unavoidable part. It matters only when few warps are resident.",
    ),
    "barrier": Explanation(
        "barrier",
        "The warp has reached __syncthreads() (or another barrier of the block) and waits for the block's other warps.",
        "The whole block advances at the pace of its slowest warp.",
        "Give the warps of a block equal work, use fewer barriers, use smaller blocks so that other blocks can run "
        "meanwhile, or synchronise only within a warp (__syncwarp, cooperative groups, shuffles).",
        "In pipelined matrix kernels whose tensor cores are busy: there some warps wait on purpose.",
    ),
    "membar": Explanation(
        "memory barrier",
        "The warp waits until its earlier writes are visible to others (__threadfence, release or acquire).",
        "All outstanding writes must arrive in L2, or in another GPU, before the warp continues.",
        "Use fewer fences, the narrowest scope (block instead of device or system), and write less before them.",
        "When it appears once at the end of a kernel, in a reduction over blocks for example.",
    ),
    "mio_throttle": Explanation(
        "MIO throttle",
        "The queue in front of the memory input/output unit is full: shared memory, special functions, dynamic "
        "branches.",
        "Warps cannot even hand in their instruction; the unit behind the queue is overloaded.",
        "Use fewer and wider shared-memory accesses, remove bank conflicts, replace special functions by arithmetic "
        "or by fast approximations.",
        "When that unit does the real work of the kernel and runs near its peak.",
    ),
    "lg_throttle": Explanation(
        "LG throttle",
        "The queue for local and global memory instructions is full.",
        "Too many loads, stores or atomics are issued too fast, often narrow ones or register spills.",
        "Use wider loads and stores, combine atomics within a warp or block before they go to memory, avoid register "
        "spills and arrays that are indexed at run time.",
        "When the kernel only copies data and memory throughput is near its peak.",
    ),
    "tex_throttle": Explanation(
        "TEX throttle",
        "The queue of the texture unit is full.",
        "Texture, surface or (on older GPUs) global reads come faster than the unit takes them.",
        "Fetch fewer or wider texels, mix in arithmetic, or read through ordinary loads.",
        "When texture throughput is at its peak and the reads are needed.",
    ),
    "math_pipe_throttle": Explanation(
        "math pipe throttle",
        "The pipe that the next instruction needs is busy with other warps.",
        "All warps want the same pipe at the same moment: FP64, tensor, FMA or integer.",
        "Use the pipe less (FP32 instead of FP64, tensor cores instead of FMA, fewer integer index computations) or "
        "mix different kinds of instructions.",
        "When that pipe is the limit you want to reach, as in a matrix multiplication.",
    ),
    "dispatch_stall": Explanation(
        "dispatch stall",
        "The dispatcher holds the instruction back because of a conflict inside the SM.",
        "Usually register-bank or port conflicts of long runs of arithmetic.",
        "Nothing at source level as a rule; a different unrolling or compiler version may change it.",
        "Nearly always: it is small.",
    ),
    "drain": Explanation(
        "drain",
        "The warp has finished and waits until its last writes have left.",
        "The block's place on the SM stays taken until then.",
        "Write neighbouring addresses from neighbouring threads and avoid one large burst of stores at the very end.",
        "When the kernel is short or its writing is near the memory's peak.",
    ),
    "branch_resolving": Explanation(
        "branch resolving",
        "The warp waits until the target of a branch is known.",
        "Each jump costs some cycles in which this warp fetches nothing.",
        "Unroll short loops, replace short branches by selections (?:), hoist conditions out of loops.",
        "When the share is below a few percent.",
    ),
    "no_instruction": Explanation(
        "no instruction",
        "The next instruction has not been fetched yet: the instruction cache missed or the kernel has just started.",
        "Very long straight code, jumps over long distances, or a kernel so short that start-up dominates.",
        "Unroll less, split huge kernels, or make very short kernels do more work.",
        "In kernels of a few microseconds: start-up always looks like this.",
    ),
    "imc_miss": Explanation(
        "constant cache miss",
        "The warp waits for a value from constant memory, kernel arguments included.",
        "The first access fetches from memory; different threads reading different constants are served in turn.",
        "Read the same constant from all threads of a warp, and keep tables that are indexed per thread in global or "
        "shared memory.",
        "In short kernels, where it is the first read of the arguments.",
    ),
    "gmma": Explanation(
        "warpgroup MMA",
        "The warp waits for an asynchronous tensor-core operation of its warpgroup.",
        "The tensor cores are still multiplying, or their input is late.",
        "Overlap more: deeper pipelines of tiles, two warpgroups that alternate.",
        "When tensor-core utilisation is high: this is what a good matrix kernel does.",
    ),
    "warpgroup_arrive": Explanation(
        "warpgroup arrive",
        "The warp waits for the other warps of its warpgroup before an asynchronous tensor-core operation.",
        "Four warps start such an operation together and the slowest decides.",
        "Give the warps of a warpgroup the same work before it.",
        "When tensor-core utilisation is high.",
    ),
    "sleeping": Explanation(
        "sleeping",
        "All threads of the warp called __nanosleep or yielded.",
        "The program asked for it, usually while polling a flag.",
        "Shorten the sleep or signal by a barrier or cooperative launch instead of polling.",
        "When the warp has nothing else to do, as in a persistent kernel that waits for work.",
    ),
    "misc": Explanation(
        "miscellaneous",
        "A reason without its own counter.",
        "Unknown.",
        "Look at the other reasons first.",
        "Nearly always: it is small.",
    ),
    "not_selected": Explanation(
        "not selected",
        "The warp was ready, but the scheduler issued another one.",
        "Nothing: the issue slot was used.",
        "Nothing to fix. There are more ready warps than needed, so fewer warps with more registers would do as well.",
        "Always: many warps in this state mean that the SM has plenty of work.",
    ),
    "selected": Explanation(
        "selected",
        "The warp issued an instruction in this cycle.",
        "Nothing: this is the time in which work is done.",
        "Nothing to fix.",
        "Always: this is not a wait.",
    ),
}

SECTIONS: dict[str, Explanation] = {
    "SpeedOfLight": Explanation(
        "Speed of light",
        "How much of the GPU's best possible throughput the kernel uses, for compute and for memory.",
        "The higher of the two says what limits the kernel; when both are low, it waits instead of working.",
        "High memory: move fewer bytes. High compute: do less or cheaper arithmetic. Both low: look at stalls, "
        "occupancy and the size of the grid.",
        "A kernel of a few microseconds is too short for these percentages to mean much.",
    ),
    "SpeedOfLight_RooflineChart": Explanation(
        "Roofline",
        "Arithmetic per second against arithmetic per byte: the roof above a kernel is what the GPU allows it.",
        "Left of the ridge the memory is the roof, right of it the arithmetic units; the distance is what can be "
        "gained.",
        "Under the slope: reuse data, fuse kernels, use smaller types. Under the flat part: use tensor cores.",
        "Kernels that calculate with integers, sort or copy do no floating-point arithmetic and lie far below.",
    ),
    "ComputeWorkloadAnalysis": Explanation(
        "Compute workload",
        "How busy each arithmetic pipe of the SMs is.",
        "One pipe at its peak limits the kernel even when all others are idle.",
        "Move work to another pipe or to the tensor cores, or do less of it.",
        "Memory-bound kernels leave all pipes idle, and that is right.",
    ),
    "MemoryWorkloadAnalysis": Explanation(
        "Memory workload",
        "How much data flows between the SMs, the caches and DRAM, and how much of it the caches could serve.",
        "Every level has its own limit; bytes that a cache serves need not come from the slower one below.",
        "Reuse data while it is in a cache, read neighbouring addresses together, use smaller types.",
        "Data that is used only once cannot be cached: low hit rates are normal for streaming kernels.",
    ),
    "SchedulerStats": Explanation(
        "Schedulers",
        "Each SM has four schedulers; each can issue one instruction of one ready warp per cycle.",
        "A cycle without a ready warp is lost.",
        "More resident warps, fewer waits, or more independent instructions per warp.",
        "Memory-bound kernels issue rarely and can still be as fast as the memory allows.",
    ),
    "WarpStateStats": Explanation(
        "Warp states",
        "What an average warp did between two of its instructions, as cycles for each reason.",
        "The longest reason is what to shorten, but only when the schedulers lack ready warps.",
        "See the explanation of each reason.",
        "When instructions are issued in more than 80 % of the cycles, what a single warp waits for costs nothing.",
    ),
    "InstructionStats": Explanation(
        "Instructions",
        "How many instructions of which kind were executed.",
        "More instructions take longer; some kinds run at a fraction of the speed of others.",
        "Fuse multiply and add, avoid FP64 and integer division, let the compiler vectorise loads.",
        "When memory is the limit.",
    ),
    "LaunchStats": Explanation(
        "Launch",
        "The size of the grid and its blocks, and the registers and shared memory each block takes.",
        "Too few blocks leave SMs idle; the last wave of blocks may fill only a part of the GPU.",
        "At least two blocks per SM, block sizes that are multiples of 32, grids much larger than one wave or sized "
        "to it exactly.",
        "Persistent kernels launch exactly one block per SM on purpose.",
    ),
    "Occupancy": Explanation(
        "Occupancy",
        "How many of the warps that an SM can hold it does hold.",
        "Other warps fill the time in which one waits; with too few there is nothing to switch to.",
        "Fewer registers or less shared memory per block, other block sizes, a larger grid.",
        "When the kernel keeps compute or memory busy anyway: 25 % without stalls is fine, and fast matrix kernels "
        "run at less.",
    ),
    "SourceCounters": Explanation(
        "Source counters",
        "Where in the code accesses waste traffic and where warps wait, as sampled.",
        "A few instructions usually cause most of it.",
        "Compile with -lineinfo and look at the lines with the most samples.",
        "With few samples the distribution is a matter of chance.",
    ),
    "WorkloadDistribution": Explanation(
        "Workload distribution",
        "How evenly the work was spread over SMs, caches and memory channels.",
        "The kernel ends when its busiest unit ends.",
        "Smaller blocks, work that blocks fetch themselves, grids that are a multiple of the number of SMs.",
        "In short kernels and with fewer blocks than SMs the number only repeats that the grid is small.",
    ),
    "MemoryWorkloadAnalysis_Chart": Explanation(
        "Memory chart",
        "The same flows as a picture: instructions, L1 and shared memory, L2, DRAM, host and other GPUs.",
        "The thickest flow close to its limit is the bottleneck.",
        "Serve it from the level above.",
        "When the kernel is compute bound.",
    ),
    "MemoryWorkloadAnalysis_Tables": Explanation(
        "Memory tables",
        "Requests, sectors, hit rates and bank conflicts for each kind of access.",
        "Many sectors per request or many conflicts mean that the hardware does the same access several times.",
        "Let neighbouring threads touch neighbouring addresses; pad shared-memory arrays.",
        "When this kind of access is rare in the kernel.",
    ),
    "PmSampling": Explanation(
        "Sampling over time",
        "Counters sampled while the kernel ran: start, steady state and tail.",
        "A long tail or a slow start does not show in averages.",
        "See the launch configuration.",
        "Kernels shorter than a few sampling intervals.",
    ),
    "Nvlink": Explanation(
        "NVLink",
        "Traffic between GPUs while the kernel ran.",
        "Links are many times slower than the GPU's own memory.",
        "Keep data on the GPU that uses it, or overlap the transfer with computation.",
        "When the kernel uses one GPU only.",
    ),
    "NumaAffinity": Explanation(
        "NUMA affinity",
        "Which CPU and memory node the GPU is attached to.",
        "Host memory of the far node is reached more slowly.",
        "Bind the process to the near node (numactl).",
        "When the kernel never touches host memory.",
    ),
}

METRIC_GROUPS: dict[str, str] = {
    "sm__": "the SMs (the GPU's processors)",
    "smsp__": "the four schedulers of each SM",
    "l1tex__": "the L1 cache and shared memory of the SMs",
    "lts__": "the slices of the L2 cache",
    "ltc__": "the L2 cache",
    "lrc__": "the links between the parts of the L2 cache",
    "dram__": "the GPU's memory",
    "fbpa__": "the controllers of the GPU's memory",
    "gpu__": "the whole GPU",
    "gpc__": "clusters of SMs",
    "gr__": "the graphics and compute front end",
    "idc__": "the constant cache",
    "launch__": "how the kernel was launched",
    "device__attribute": "properties of the GPU",
    "profiler__": "the profiler itself",
    "pcie__": "the link to the host",
    "nvlrx__": "NVLink, receiving",
    "nvltx__": "NVLink, sending",
    "sass__": "executed instructions, by patching the kernel",
    "memory_": "accesses of single instructions, added up",
    "derived__": "values that the report computes from others",
}


def explain_metric(metric: str) -> str:
    """Which unit a metric belongs to; empty when its name says nothing."""
    return next((text for prefix, text in METRIC_GROUPS.items() if metric.startswith(prefix)), "")


def glossary() -> list[str]:
    """Every stall reason and section as lines of Markdown."""
    lines: list[str] = []
    for title, entries in (("Stall reasons", STALLS), ("Sections of a kernel report", SECTIONS)):
        lines += ["", f"## {title}"]
        for key, entry in entries.items():
            lines += [
                "",
                f"**{entry.label[0].upper()}{entry.label[1:]}** (`{key}`): {entry.meaning}",
                f"* Why it costs time: {entry.cost}",
                f"* What usually helps: {entry.fix}",
                f"* When it does not matter: {entry.harmless}",
            ]
    return lines
