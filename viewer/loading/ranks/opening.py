"""Opens a run of many ranks: finds its files, has them reduced, keeps the summaries, and joins them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parsers.files.base import Accompanying, Source, is_reopenable
from parsers.files.containers import contents
from parsers.files.fetched import address_of
from parsers.files.private_folder import PrivateFolder
from parsers.files.signatures import USUAL_GROWTH
from parsers.model import Effect, Malformed, Progress, Quality, QualityRecorder, TraceError
from parsers.model.late import dataclass
from parsers.opening import recordings_of
from parsers.ranks.rank_choice import LEFT_OUT, Member, members_of_one_run
from parsers.ranks.rank_clocks import Collectives, Numbers, aligned
from rules.summaries.rank_summary import Placed, RankSummary
from rules.summaries.run import ManyRanks
from rules.terms import DEFAULTS, Thresholds
from viewer.loading.ranks import summaries
from viewer.loading.ranks.asking import FULL_RANKS, MIN_RANKS, may_be_many
from viewer.loading.ranks.far_ranks import reduced_there
from viewer.loading.ranks.pool import processes, reduce_here
from viewer.loading.ranks.summaries import Reduced, Wanted
from viewer.remote.addresses import bring_here


def joined(
    summaries: Sequence[RankSummary],
    unread: Sequence[tuple[str, str]] = (),
    thresholds: Thresholds = DEFAULTS,
    progress: Progress | None = None,
) -> ManyRanks:
    """The run of these ranks, on one clock as ``parsers.ranks.merge`` would place them; others are named as unread."""
    progress = progress or Progress()
    working = [each for each in summaries if each.words.devices]
    without = [
        (each.words.input.path, "it holds no GPU work") for each in summaries if not each.words.devices
    ]
    chosen = members_of_one_run([_member(each) for each in working])
    without += [(working[index].words.input.path, reason) for index, reason in chosen.left_out]
    kept = [working[index] for index in chosen.kept]
    ranks = [
        own.words.input.rank if given is None else given for own, given in zip(kept, chosen.rank, strict=True)
    ]
    epochs = [each.words.epoch_ns for each in kept]
    known = [epoch for epoch in epochs if epoch is not None]
    zero = min(known, default=0)
    shifts = [epoch - zero if epoch is not None and len(known) == len(kept) else 0 for epoch in epochs]
    numbers = Numbers()
    clocks = aligned(
        [_collectives(each, shift, numbers) for each, shift in zip(kept, shifts, strict=True)],
        ranks,
        progress.part(0.0, 0.5),
    )
    shifts = [shift + more for shift, more in zip(shifts, clocks.corrections, strict=True)]
    earliest = min(shifts, default=0)
    members = [
        Placed(each, shift - earliest, rank, error)
        for each, shift, rank, error in zip(kept, shifts, ranks, clocks.errors, strict=True)
    ]
    order = sorted(range(len(members)), key=lambda index: (_number(members[index]), index))
    notes = QualityRecorder()
    for note in clocks.notes:
        notes.note(note.kind, note.effect, note.reason, note.example, note.count)
    for path, reason in (*without, *unread):
        notes.note(LEFT_OUT, Effect.NOTED, "files that are not part of this run", f"{path}: {reason}")
    return ManyRanks(
        members=tuple(members[index] for index in order),
        unread=(*without, *unread),
        quality=Quality.merged([*(each.words.quality for each in kept), notes.quality()]),
        thresholds=thresholds,
    )


def _member(summary: RankSummary) -> Member:
    words = summary.words
    return Member(
        path=words.input.path,
        rank=words.input.rank,
        world_size=words.rank.world_size if words.rank is not None else None,
        span=None if words.epoch_ns is None else (words.epoch_ns, words.epoch_ns + words.duration),
    )


def _collectives(summary: RankSummary, shift: int, numbers: Numbers) -> Collectives:
    words, own = summary.words, summary.columns
    names = numbers.of(words.collective_names)[own["collective.name"]]
    groups = numbers.of([kind.group for kind in words.kinds])[own["collective.kind"]]
    return Collectives(own["collective.end"] + shift, names, groups)


def _number(placed: Placed) -> int:
    return placed.rank if placed.rank is not None else 1 << 31


FULL_BYTES = 6 << 30  # of several ranks together, unpacked


@dataclass(frozen=True, slots=True)
class Workers:
    """Who reduces: ``count`` processes of this machine (0: as many as it has cores), or a Dask cluster.

    ``scheduler`` is the address of one, or "local" for one of ``count`` workers that is started here.
    """

    count: int = 0
    scheduler: str = ""


@dataclass(frozen=True, slots=True)
class FilesOfRun:
    """The recordings of a run of many ranks; ``folders`` keeps what was unpacked while this lives."""

    wanted: tuple[Wanted, ...]
    skipped: tuple[tuple[str, str], ...]
    folders: tuple[PrivateFolder, ...] = ()
    large: bool = False  # too large to be read in full, however few of them belong together


def files_of_many(
    paths: Sequence[Path], progress: Progress | None = None, always: bool = False
) -> FilesOfRun | None:
    """The files of a run of many ranks; None where these are few and small enough to be read in full.

    ``always`` for whom summaries are enough of any run.
    """
    progress = progress or Progress()
    if not always and not may_be_many(paths):
        return None
    found = [contents(Path(path), progress) for path in paths]
    timelines: list[tuple[str, list[Source]]] = []
    others: list[list[Source]] = []
    for _, parser, sources in recordings_of(found):
        progress.stop_if_wanted()
        if parser is not None and is_reopenable(parser) and not isinstance(parser, Accompanying):
            timelines.append((parser.format, sources))
        else:
            others.append(sources)
    size = sum(_unpacked_bytes(each) for _, sources in timelines for each in sources)
    large = len(timelines) >= MIN_RANKS and size > FULL_BYTES
    if not timelines or not (len(timelines) > FULL_RANKS or large or always):
        return None
    skipped = [each for content in found for each in content.skipped]
    skipped += [(sources[0].name, "It is not a timeline of a rank.") for sources in others]
    return FilesOfRun(
        tuple(
            Wanted(
                tuple(str(each.path) for each in sources),
                sources[0].shown or str(sources[0].path),
                format=format,
            )
            for format, sources in timelines
        ),
        tuple(skipped),
        tuple(each.folder for each in found if each.folder is not None),
        large,
    )


def _unpacked_bytes(source: Source) -> int:
    try:
        size = source.path.stat().st_size
    except OSError:
        return 0
    return size * USUAL_GROWTH if source.compression else size


def open_many(
    files: FilesOfRun,
    progress: Progress | None = None,
    thresholds: Thresholds = DEFAULTS,
    workers: Workers | None = None,
    known: Mapping[int, RankSummary] | None = None,
) -> ManyRanks:
    """The run of these files; a rank that cannot be read is named in ``ManyRanks.unread``. Raises ``TraceError``.

    Where summaries are ``known`` already, by the places of their files, no other files are looked into.
    """
    progress = progress or Progress()
    workers = workers or Workers()
    chosen = tuple(sorted(thresholds.chosen.items()))
    wanted = [replace(each, thresholds=chosen) for each in files.wanted]
    keys = [_key(each) for each in wanted]
    found: dict[int, RankSummary] = dict(known or {})
    if known is None:
        found |= {
            number: kept for number, key in enumerate(keys) if (kept := summaries.kept(key)) is not None
        }
    missing = [number for number in range(len(wanted)) if number not in found and known is None]
    unread = list(files.skipped)

    def answer(place: int, reduced: Reduced) -> None:
        number = missing[place]
        if reduced.problem:
            unread.append((wanted[number].shown, reduced.problem))
            return
        found[number] = summaries.summary_of_bytes(reduced.content)
        summaries.keep(keys[number], reduced.content)

    if missing:
        asked = [wanted[number] for number in missing]
        part = progress.part(0.0, 0.9)
        if workers.scheduler:
            from viewer.loading.ranks.cluster import reduce_on_cluster

            reduce_on_cluster(asked, workers.scheduler, workers.count, answer, part)
        else:
            reduce_here(asked, workers.count or processes(), answer, part)
        summaries.ENTRIES.trim()
    if not found:
        name, problem = unread[0] if unread else ("", "there is no file")
        raise Malformed(
            wanted[0].files[0] if wanted else Path(),
            f"No rank could be read ({name}: {problem.rstrip('.')}).",
            "Open the recordings themselves.",
        )
    unread.sort()
    run = joined([found[number] for number in sorted(found)], unread, thresholds, progress.part(0.9, 1.0))
    if not run.rows:
        raise TraceError(
            wanted[0].files[0],
            f"None of the {len(found):,} ranks holds GPU work.",
            "Record the GPU as well, and open the recordings again.",
        )
    return run


def many_ranks_of(
    paths: Sequence[Path], progress: Progress | None = None, thresholds: Thresholds = DEFAULTS
) -> tuple[FilesOfRun, ManyRanks] | None:
    """The run of so many ranks that it is judged by summaries, and its files; None for what is to be read in full.

    Of many files only a few may be ranks of one run, or none may hold GPU work.
    """
    progress = progress or Progress()
    if any(address_of(path) for path in paths):
        if (there := _run_elsewhere(paths, progress, thresholds)) is not None:
            return there
        progress = progress.part(0.5, 1.0)
    files = files_of_many(paths, progress.part(0.0, 0.05))
    if files is None:
        return None
    try:
        run = open_many(files, progress.part(0.05, 1.0), thresholds)
    except TraceError:
        return None
    return None if len(run.members) <= FULL_RANKS and not files.large else (files, run)


def _run_elsewhere(
    paths: Sequence[Path], progress: Progress, thresholds: Thresholds
) -> tuple[FilesOfRun, ManyRanks] | None:
    """The run of an address where it can be reduced there; else None, and its files are here then."""
    reduced = reduced_there(paths[0], progress.part(0.0, 0.9), thresholds) if len(paths) == 1 else None
    if reduced is None:
        bring_here(paths, progress.part(0.0, 0.5))
        return None
    entries, known, unread = reduced
    wanted = tuple(Wanted((str(paths[0] / each.name),), each.name) for each in entries)
    files = FilesOfRun(wanted, tuple(unread))
    return files, open_many(files, progress.part(0.9, 1.0), thresholds, known=known)


def _key(wanted: Wanted) -> str | None:
    if wanted.remote or len(wanted.files) != 1:
        return None
    return summaries.key_of(Path(wanted.files[0]), dict(wanted.thresholds))
