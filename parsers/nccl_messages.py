"""What NCCL prints of itself, as tables: how its ranks are connected, who never finished that, and its warnings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import field

from parsers.model.late import dataclass, regex
from parsers.model.results import MAX_ROWS, Cell, ResultTable, titled
from parsers.model.units import NS_PER_MS, duration

NCCL_LINE = regex(
    r"(?P<host>[A-Za-z\d][\w.-]{0,80})(?P<thread>:\d{1,9}:\d{1,9}) \[\d{1,4}\] NCCL (?P<level>INFO|WARN) "
    r"(?P<said>[^\n]*)"
)
_VERSION = regex(r"NCCL version (\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)")
_CHANNEL = regex(
    r"Channel (?P<channel>\d{1,4})(?:/\w{1,8})? ?: (?P<source>\d{1,7})\[\w{1,12}\] -> (?P<target>\d{1,7})\[\w{1,12}\]"
    r"(?: \[(?:send|receive)\])? via (?P<via>[A-Za-z][\w/]{0,60})"
)
_COMMUNICATOR = regex(
    r"rank (?P<rank>\d{1,7}) n[rR]anks (?P<ranks>\d{1,7}) .*?commId (?P<id>\w{1,40}) - Init (?P<state>START|COMPLETE)"
)
_TOPOLOGY = regex(r" {0,80}\+ (?P<link>\w{2,5})\[(?P<speed>\d{1,6}\.\d)\] - GPU/(?P<gpu>[\w-]{1,40})")
WATCHDOG = b"] Watchdog caught collective operation timeout: WorkNCCL("
_TIMED_OUT = regex(  # as torch's watchdog says it, once as it happens and again when it ends the process
    r"\[Rank (?P<rank>\d{1,7})\] Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(?P<number>\d{1,12}), OpType=(?P<name>\w{1,40}),[^\n)]{0,200}\)[^\n]{0,40}?\) "
    r"ran for (?P<ms>\d{1,12}) milliseconds before timing out"
)
_ADDRESS = regex(r"\b0x[0-9a-f]+\b|\b\d{2,}\b")  # what differs between two warnings of one kind
# what stands before the name of a computer, unless lines were printed into one another
_BEFORE_HOST = "\n \t>:]"
_MIN_MORE_OFTEN = 2  # times: a name that another one begins or ends in was printed into another line
_MAX_NAMED_RANKS = 8


@dataclass(frozen=True, slots=True)
class _Link:
    """One kind of connection: how it is called, and what to look at where it is not what one expects."""

    words: str
    unexpected: str = ""


_DIRECT = _Link("GPU to GPU (P2P)")
_THROUGH_HOST = _Link(
    "through the host's memory (SHM)",
    "Check nvidia-smi topo -m, NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, and ACS in virtual machines",
)
_SOCKET = _Link(
    "TCP sockets (NET/Socket)",
    "Check ibstat, NCCL_IB_DISABLE, NCCL_IB_HCA, and /dev/infiniband in the container",
)
_VERBS = _Link("InfiniBand or RoCE straight from the GPU's memory (GPUDirect RDMA)")
_VERBS_THROUGH_HOST = _Link(
    "InfiniBand or RoCE through the host's memory",
    "Check that nvidia_peermem is loaded (lsmod), and NCCL_NET_GDR_LEVEL",
)


_CHECK_NVLINKS = (
    "Look for links that are down or have errors: nvidia-smi nvlink --status, nvidia-smi nvlink -e"
)


@dataclass(slots=True)
class _Said:
    """What all lines say together."""

    version: str = ""
    ranks: int = 0
    hosts: Counter[str] = field(default_factory=Counter)
    hosts_of: defaultdict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    links: defaultdict[_Link, set[tuple[str, str, str]]] = field(default_factory=lambda: defaultdict(set))
    started: set[tuple[str, int]] = field(default_factory=set)
    completed: set[tuple[str, int]] = field(default_factory=set)
    described: dict[str, str] = field(default_factory=dict)  # the GPU whose links each thread tells
    # GB/s of the direct links from one GPU to another, on a computer
    direct: dict[tuple[str, str, str], float] = field(default_factory=dict)
    # the first of each kind, by what is the same in all
    warnings: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, level: str, host: str, thread: str, said: str) -> None:
        if host:
            self.hosts[host] += 1
        if level == "WARN":
            kind = _ADDRESS.sub("#", said)
            self.warnings.setdefault(kind, said.strip())
            self.counts[kind] += 1
        elif (channel := _CHANNEL.search(said)) is not None:
            self.links[_link_of(channel["via"])].add(
                (channel["channel"], channel["source"], channel["target"])
            )
        elif (found := _COMMUNICATOR.search(said)) is not None:
            self.ranks = max(self.ranks, int(found["ranks"]))
            which = found["id"], int(found["rank"])
            (self.started if found["state"] == "START" else self.completed).add(which)
            if host:
                self.hosts_of[which].add(host)
        elif host and (link := _TOPOLOGY.match(said)) is not None:
            self.take_link(host, host + thread, link)

    def take_link(self, host: str, thread: str, link: re.Match[str]) -> None:
        """A line of the topology: a GPU below its bus, or below a GPU what a direct link leads to."""
        if link["link"] != "NVL":
            self.described[thread] = link["gpu"]
        elif (gpu := self.described.get(thread)) is not None:
            self.direct[host, gpu, link["gpu"]] = float(link["speed"])

    @property
    def computers(self) -> int:
        """How many computers ranks are on, without names that were printed into other lines, as "0node-a"."""
        of_ranks = {max(names, key=lambda name: self.hosts[name]) for names in self.hosts_of.values()}
        names = sorted(host[::-1] for host in of_ranks or self.hosts)  # what ends in a name stands behind it
        torn: set[str] = set()
        for place, name in enumerate(names, 1):
            while place < len(names) and names[place].startswith(name):
                fewer, more = sorted((name, names[place]), key=lambda each: self.hosts[each[::-1]])
                if self.hosts[more[::-1]] >= _MIN_MORE_OFTEN * self.hosts[fewer[::-1]]:
                    torn.add(fewer)
                place += 1
        return len(names) - len(torn)

    @property
    def unfinished(self) -> list[int]:
        """Ranks that began a communicator and never said that they have it."""
        return sorted({rank for _, rank in self.started - self.completed})

    @property
    def one_sided(self) -> list[tuple[str, str, str, float, float]]:
        """Computer, from and to which GPU, and GB/s that way and back, of links that are slower one way: links fail."""
        return sorted(
            (host, source, target, speed, back)
            for (host, source, target), speed in self.direct.items()
            if speed < (back := self.direct.get((host, target, source), speed))
        )


def _link_of(via: str) -> _Link:
    kind, _, rest = via.partition("/")
    plugin, _, how = rest.partition("/")
    if kind == "P2P":
        return _DIRECT
    if kind == "SHM":
        return _THROUGH_HOST
    if kind == "NET" and plugin == "Socket":
        return _SOCKET
    if kind == "NET" and plugin == "IB":
        return _VERBS if "GDRDMA" in how else _VERBS_THROUGH_HOST
    if kind == "NET":
        return _Link(f"the network plugin {plugin}{' (GPUDirect RDMA)' if 'GDRDMA' in how else ''}")
    return _Link(kind)


def nccl_tables(text: str, results: Iterable[ResultTable] = ()) -> Iterator[ResultTable]:
    """A table for each thing that its lines tell, what harms the program first, then its ``results``."""
    said = _Said()
    if (version := _VERSION.search(text)) is not None:
        said.version = version[1]
    for line in NCCL_LINE.finditer(text):
        stands_alone = not line.start() or text[line.start() - 1] in _BEFORE_HOST
        said.take(line["level"], line["host"] if stands_alone else "", line["thread"], line["said"])
    name = f"NCCL {said.version}".strip()
    yield from _of_timeouts(text)
    unfinished = said.unfinished
    if unfinished:
        yield _of_the_start(name, unfinished, said.ranks)
    if said.one_sided:
        yield _of_slower_links(name, said.one_sided)
    yield from results
    if said.warnings:
        yield _of_warnings(name, said)
    if said.links:
        yield _of_links(name, said)
    elif said.completed:
        columns = titled("ranks", "computers")
        rows = ((float(said.ranks), float(said.computers)),)
        yield ResultTable(f"{name}: {_counted(said.ranks, 'rank')}, connected", columns, rows)


def _of_timeouts(text: str) -> Iterator[ResultTable]:
    """The collectives that torch waited for in vain, the first one first."""
    found = {
        (int(each["number"]), each["name"], int(each["rank"])): each for each in _TIMED_OUT.finditer(text)
    }
    if not found:
        return
    number, name, _ = min(found)
    ranks = sorted({rank for *which, rank in found if which == [number, name]})
    waited = duration(float(found[number, name, ranks[0]]["ms"]) * NS_PER_MS)
    rows = tuple(
        (float(number), name, float(rank), float(each["ms"]))
        for (number, name, rank), each in sorted(found.items())
    )
    columns = titled("number", "collective", "rank", "waited (ms)")
    others = len({rank for *_, rank in found} - set(ranks))
    later = f", and {_counted(others, 'other rank')} in later ones" if others else ""
    yield ResultTable(
        f"{name} number {number} timed out after {waited} on {_ranks(ranks)}{later}", columns, rows[:MAX_ROWS]
    )


def _ranks(ranks: list[int]) -> str:
    """ "rank 3", or "ranks 0, 2, 3, ..."."""
    named = ", ".join(map(str, ranks[:_MAX_NAMED_RANKS])) + (", ..." if len(ranks) > _MAX_NAMED_RANKS else "")
    return f"rank {named}" if len(ranks) == 1 else f"ranks {named}"


def _of_the_start(name: str, unfinished: list[int], ranks: int) -> ResultTable:
    rows = tuple(
        (float(rank), "began to connect, and the log does not say that it is done") for rank in unfinished
    )
    return ResultTable(
        f"{name}: {_ranks(unfinished)} of {ranks} did not finish connecting",
        titled("rank", "state"),
        rows[:MAX_ROWS],
    )


def _of_warnings(name: str, said: _Said) -> ResultTable:
    rows = tuple((said.warnings[kind], float(count)) for kind, count in said.counts.most_common(MAX_ROWS))
    return ResultTable(f"{name} warns: {rows[0][0]}", titled("warning", "times"), rows)


def _of_slower_links(name: str, one_sided: list[tuple[str, str, str, float, float]]) -> ResultTable:
    """Two GPUs have as many links one way as the other, so that fewer are up one way tells of broken ones."""
    _, source, target, speed, back = min(one_sided, key=lambda row: row[3] / row[4])
    columns = titled("computer", "from GPU", "to GPU", "NVLink (GB/s)", "NVLink back (GB/s)", "what to check")
    rows = tuple((*row, _CHECK_NVLINKS) for row in one_sided)
    return ResultTable(
        f"{name}: NVLink from GPU {source} to GPU {target} carries {speed:g} GB/s, and {back:g} GB/s the other way",
        columns,
        rows[:MAX_ROWS],
    )


def _of_links(name: str, said: _Said) -> ResultTable:
    """The slowest kind of link first: it is what a ring waits for."""
    most_first = sorted(said.links.items(), key=lambda row: (not row[0].unexpected, -len(row[1])))
    rows: list[tuple[Cell, ...]] = [
        (
            link.words,
            float(len(channels)),
            float(len({(source, target) for _, source, target in channels})),
            link.unexpected or None,
        )
        for link, channels in most_first
    ]
    told = ", ".join(
        f"{words} for {pairs:.0f} of {sum(float(row[2] or 0) for row in rows):.0f} connections"
        if len(rows) > 1
        else str(words)
        for words, _, pairs, _ in rows
        if isinstance(pairs, float)
    )
    who = f", {_counted(said.ranks, 'rank')} on {_counted(said.computers, 'computer')}" if said.ranks else ""
    columns = titled("link", "channels", "connections", "where this is unexpected")
    return ResultTable(f"{name}{who}: {told}", columns, tuple(rows))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
