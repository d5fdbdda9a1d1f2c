"""Where every track lies on the screen: heights, rows of nested events, pinned tracks, headings."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from parsers.model import LaneKind
from parsers.model.late import dataclass
from viewer.timeline.geometry.arrangement import Arrangement, GroupState, LaneFilter
from viewer.timeline.geometry.derived import ABOVE_ALL, Derived
from viewer.timeline.geometry.nested_calls import inside_or_apart
from viewer.timeline.geometry.tracks import Group, Track
from viewer.timeline.kinds.base import LaneStyle, Wish, style_of

HEADING = 28
STRIP = 30
COLLAPSED = 22
LEGEND, LOW_PITCH = 104, 3  # px of a lane with many rows in a low window: its colours' names, and a row
COMPACT = 14
COUNTER = 44
STACKED = 196
PADDING = 4
BRIEF_HEADING = 24
ROWS_OF_CALLS = 2  # what a lane of their own would take
FOOT = 3  # the solid line under a gap
NOTE = 8  # more between it and the events of a lane with room: what many small gaps wait for is written there
SCREEN = 560  # pixels of lanes that are surely visible at once
LOW = 400  # pixels of lanes: in so few a curve gives up its second line
MAX_BRIEF_RANKS = 4  # ranks
MIN_LEVELS = 2  # of a lane that gives up some for the GPU's
MAX_GROWTH = 2  # times what the lane of a GPU wishes for, where there is room
MAX_GROWTH_ALONE = 3  # the same where it alone grows
LARGE, MAX_GROWTH_OF_ROWS = 700, 2.0  # pixels of room beyond which rows grow, too, and so many times at most


@dataclass(frozen=True, slots=True)
class RowPlace:
    """One row of events: its depth, and its top and height relative to the track."""

    depth: int
    top: int
    height: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A track at ``top`` with its ``height``; ``rows`` are the levels that fit, ``hidden_levels`` those that do not."""

    track: Track
    top: int
    height: int
    rows: tuple[RowPlace, ...] = ()
    hidden_levels: int = 0
    collapsed: bool = False
    state: GroupState = GroupState.FULL  # of a heading's group

    @property
    def bottom(self) -> int:
        return self.top + self.height


@dataclass(frozen=True, slots=True)
class Layout:
    """Pinned tracks, which stay at the top, and those that scroll; both count from their own zero."""

    pinned: tuple[Placed, ...]
    scrolled: tuple[Placed, ...]
    headings: tuple[Placed, ...] = field(init=False)  # of those that scroll

    def __post_init__(self) -> None:
        object.__setattr__(self, "headings", tuple(each for each in self.scrolled if each.track.is_heading))

    @property
    def pinned_height(self) -> int:
        return self.pinned[-1].bottom if self.pinned else 0

    @property
    def scrolled_height(self) -> int:
        return self.scrolled[-1].bottom if self.scrolled else 0

    def find(self, key: str) -> Placed | None:
        return next((each for each in (*self.pinned, *self.scrolled) if each.track.key == key), None)

    def of_lane(self, lane: int) -> Placed | None:
        return next((each for each in (*self.pinned, *self.scrolled) if each.track.holds(lane)), None)

    def at(self, y: int) -> Placed | None:
        index = bisect_right(self.scrolled, y, key=lambda each: each.top) - 1
        return self.scrolled[index] if index >= 0 and y < self.scrolled[index].bottom else None

    def heading_above(self, y: int) -> tuple[Placed, int] | None:
        """The heading of the unfolded group at ``y`` that has begun above it, and where the next group begins."""
        begun = bisect_right(self.headings, y, key=lambda each: each.top)
        above = self.headings[begun - 1] if begun else None
        if above is None or above.top >= y or above.state is GroupState.STRIP:
            return None
        return above, self.headings[begun].top if begun < len(self.headings) else self.scrolled_height

    def visible(self, top: int, bottom: int) -> Sequence[Placed]:
        first = max(bisect_right(self.scrolled, top, key=lambda each: each.top) - 1, 0)
        last = bisect_right(self.scrolled, bottom - 1, key=lambda each: each.top)
        return self.scrolled[first:last]


def starting_states(groups: Sequence[Group]) -> dict[str, GroupState]:
    """One rank is shown in full, and so are several that fit a screen; else up to four in brief; else a strip each."""
    with_gpu = [group for group in groups if group.devices]
    plain = Arrangement()
    if len(with_gpu) <= 1 or sum(_full_height(group, plain) for group in with_gpu) <= SCREEN:
        state = GroupState.FULL
    else:
        state = GroupState.BRIEF if len(with_gpu) <= MAX_BRIEF_RANKS else GroupState.STRIP
    return {group.key: state if group.devices or not with_gpu else GroupState.STRIP for group in groups}


def _full_height(group: Group, arrangement: Arrangement) -> int:
    return HEADING + sum(_sized(track, arrangement).height for track in group.tracks)


def lay_out(
    groups: Sequence[Group],
    arrangement: Arrangement,
    text: str = "",
    derived: Iterable[Derived] = (),
    room: int = 0,
    ample: int = 0,
) -> Layout:
    """Place the tracks of all groups; ``text`` keeps those that a ``LaneFilter`` of it keeps.

    Lanes that nobody resized grow where they would fill less than ``room`` pixels, their rows as in ``ample`` ones.
    """
    states = starting_states(groups) | arrangement.groups
    wanted = LaneFilter.of(text)
    groups = [replace(group, tracks=tuple(drawn(group, arrangement, text))) for group in groups]
    by_key = {
        track.key: track
        if len(groups) == 1
        else replace(track, subtitle=f"{group.title} {track.subtitle}".strip())
        for group in groups
        for track in group.tracks
    }
    pinned = _stacked(
        _sized(by_key[key], arrangement)
        for key in arrangement.pinned
        if key in by_key and key not in arrangement.hidden
    )
    pinned_keys = set(arrangement.pinned)
    placed: list[Placed] = []
    busy: list[Track] = []
    for group in groups:
        tracks = [
            track
            for track in _ordered(group.tracks, arrangement.order)
            if track.key not in pinned_keys
            and track.key not in arrangement.hidden
            and (not wanted or wanted.keeps(track, group))
        ]
        state = GroupState.FULL if wanted else GroupState.STRIP if arrangement.compact else states[group.key]
        if not tracks and wanted:
            continue
        if len(groups) > 1:
            placed.append(_heading(group, state, arrangement))
        if state is GroupState.STRIP and len(groups) > 1:
            continue
        busy += [track for track in group.busy if track.key not in arrangement.hidden and not wanted]
        placed += [
            _sized(track, arrangement, state)
            for track in tracks
            if state is not GroupState.BRIEF or track.brief or len(groups) == 1
        ]
    placed = [*_busy_rows(busy, arrangement), *_with_derived(placed, tuple(derived), 0 < room < LOW)]
    spare = room - sum(each.height for each in (*pinned, *placed))
    fitted = (
        _grown(placed, spare, max(room, ample), arrangement)
        if spare > 0
        else _with_gpu_in_view(placed, room, arrangement)
    )
    return Layout(tuple(pinned), tuple(_stacked(fitted)))


def drawn(group: Group, arrangement: Arrangement, text: str = "") -> list[Track]:
    """The tracks of a group with calls inside of their operators, where those are not wanted for themselves."""
    kept = frozenset(arrangement.pinned) | arrangement.hidden
    return inside_or_apart(group.tracks, kept, arrangement.calls_apart or bool(LaneFilter.of(text)))


def _busy_rows(tracks: Sequence[Track], arrangement: Arrangement) -> list[Placed]:
    """The rows that say when each GPU works, lower where there are many."""
    height = COMPACT if arrangement.compact or len(tracks) > MAX_BRIEF_RANKS else COLLAPSED
    return [Placed(track, 0, height, (RowPlace(0, 2, height - 4),)) for track in tracks]


def _with_gpu_in_view(placed: Sequence[Placed], room: int, arrangement: Arrangement) -> list[Placed]:
    """Lanes above the first GPU's own one give up their deepest levels until that and what follows from it end within
    ``room`` pixels.
    """
    shrunk = list(placed)
    first = next((index for index, each in enumerate(placed) if each.track.first_of_device), 0)
    rest = itertools.takewhile(lambda each: each.track.derived, placed[first + 1 :])
    over = sum(each.height for each in (*placed[: first + 1], *rest)) - room if room else 0
    while over > 0:
        index = max(
            (at for at in range(first) if _may_shrink(shrunk[at], arrangement)),
            key=lambda at: len(shrunk[at].rows),
            default=-1,
        )
        if index < 0:
            break
        each = shrunk[index]
        shrunk[index] = _sized(
            each.track, arrangement, height=each.height - _wish(each.track, GroupState.FULL).row
        )
        over -= each.height - shrunk[index].height
    return shrunk


def _may_shrink(each: Placed, arrangement: Arrangement) -> bool:
    free = each.track.lane >= 0 and not each.collapsed and each.track.key not in arrangement.heights
    return free and len(each.rows) > MIN_LEVELS


def _grown(placed: Sequence[Placed], spare: int, room: int, arrangement: Arrangement) -> list[Placed]:
    """With up to ``spare`` more pixels: half for the GPUs' own lanes, then hidden levels, then height.

    In more ``room`` rows may be higher.
    """
    grown = list(placed)
    large = min(max(room / LARGE, 1.0), MAX_GROWTH_OF_ROWS)
    free = [
        index
        for index, each in enumerate(placed)
        if each.track.lane >= 0 and not each.collapsed and each.track.key not in arrangement.heights
    ]
    streams = [index for index in free if placed[index].track.first_of_device]
    times, share = (MAX_GROWTH_ALONE, 1) if arrangement.compact else (MAX_GROWTH, 2)

    def grow_streams(pixels: int) -> int:
        for place, index in enumerate(streams):
            each = grown[index]
            wished = round(_wish(each.track, GroupState.FULL).height * times * large)
            more = min(pixels // (len(streams) - place), wished - each.height)
            grown[index] = _enlarged(each, more, arrangement, large)
            pixels -= grown[index].height - each.height
        return pixels

    theirs = spare // share
    spare += grow_streams(theirs) - theirs
    for index in () if arrangement.compact else free:
        each = grown[index]
        row = _wish(each.track, GroupState.FULL).row
        more = min(each.hidden_levels, spare // row) * row
        grown[index] = _enlarged(each, more, arrangement, large)
        spare -= grown[index].height - each.height
    rest = [] if arrangement.compact else [index for index in free if not grown[index].hidden_levels]
    most = {
        index: len(grown[index].rows) * round(_style(grown[index].track).highest_row * large)
        + 2 * PADDING
        - grown[index].height
        for index in rest
    }
    for place, index in enumerate(sorted(rest, key=most.__getitem__)):
        each = grown[index]
        more = min(most[index], spare // (len(rest) - place))
        grown[index] = _enlarged(each, more, arrangement, large)
        spare -= grown[index].height - each.height
    grow_streams(spare)
    return grown


def _enlarged(each: Placed, more: int, arrangement: Arrangement, large: float) -> Placed:
    return each if more <= 0 else _sized(each.track, arrangement, height=each.height + more, large=large)


def _with_derived(placed: Sequence[Placed], derived: Sequence[Derived], low: bool) -> list[Placed]:
    """Each below the first lane of its device, where that is shown, or above all."""
    found = [_derived(each, low) for each in derived if each.device == ABOVE_ALL] if placed else []
    for one in placed:
        found.append(one)
        if one.track.first_of_device:
            found += [_derived(each, low) for each in derived if each.device == one.track.device]
    return found


def _derived(each: Derived, low: bool) -> Placed:
    height = COLLAPSED if low and (each.curve is not None or each.parted) else each.height
    if low and len(each.rows) > 1:
        height = min(height, max(LEGEND, len(each.rows) * LOW_PITCH + 2 * PADDING))
    room = (height - 2 * PADDING) // max(len(each.rows), 1)
    rows = tuple(RowPlace(row, PADDING + row * room, room - 1) for row in range(len(each.rows)))
    return Placed(each.track, 0, height, rows)


def _heading(group: Group, state: GroupState, arrangement: Arrangement) -> Placed:
    track = Track(f"group/{group.key}", group.key, group.title, group.subtitle)
    if state is not GroupState.STRIP:
        return Placed(track, 0, HEADING if state is GroupState.FULL else BRIEF_HEADING, state=state)
    height = COMPACT + 2 if arrangement.compact else STRIP
    return Placed(
        track, 0, height, (RowPlace(0, 2, height - 4 - (0 if arrangement.compact else FOOT)),), state=state
    )


def _ordered(tracks: Sequence[Track], order: Sequence[str]) -> list[Track]:
    """Tracks named in ``order`` take the places that these tracks have, in that order; the others stay."""
    rank = {key: index for index, key in enumerate(order)}
    moved = sorted((track for track in tracks if track.key in rank), key=lambda track: rank[track.key])
    following = iter(moved)
    return [next(following) if track.key in rank else track for track in tracks]


def _stacked(placed: Iterable[Placed]) -> list[Placed]:
    stacked, top = [], 0
    for each in placed:
        stacked.append(replace(each, top=top))
        top += each.height
    return stacked


def _wish(track: Track, state: GroupState) -> Wish:
    brief = state is not GroupState.FULL
    wish = _style(track).wished(track.levels, brief=brief, first=track.first_of_device)
    return wish if track.calls < 0 else replace(wish, rows=wish.rows + ROWS_OF_CALLS)


def _style(track: Track) -> LaneStyle:
    return style_of(track.kind if track.kind is not None else LaneKind.OTHER)


def _sized(
    track: Track,
    arrangement: Arrangement,
    state: GroupState = GroupState.FULL,
    height: int | None = None,
    large: float = 1.0,
) -> Placed:
    """A track of this ``height``, else of the one it was given by hand, else of the one its kind wishes.

    Its rows are ``large`` times as high as those of its kind at most.
    """
    own = height or arrangement.heights.get(track.key)
    collapsed = arrangement.collapsed.get(track.key, track.small)
    if track.counter >= 0:
        wanted = STACKED if track.stacked else COUNTER
        height = COLLAPSED if collapsed else max(own or wanted, COLLAPSED)
        return Placed(track, 0, height, (), 0, collapsed)
    if arrangement.compact and not collapsed and own is None:
        return Placed(track, 0, COMPACT, (RowPlace(0, 2, COMPACT - 4),), track.levels - 1, False)
    if collapsed:
        return Placed(track, 0, COLLAPSED, (RowPlace(0, 6, COLLAPSED - 12),), track.levels - 1, True)
    wish = _wish(track, state)
    gap_foot = FOOT + 4 if track.first_of_device else 0
    if own is None:
        levels = min(track.levels, wish.rows)
        height = max(levels * wish.row + 2 * PADDING + gap_foot, wish.height)
    else:
        height = max(own, COMPACT)
        levels = max(1, min(track.levels, (height - 2 * PADDING - gap_foot) // wish.row))
    room = height - 2 * PADDING - gap_foot
    if track.first_of_device and room - NOTE >= 2 * levels * wish.row:
        room -= NOTE
    highest = room if track.first_of_device else _style(track).highest_row * large
    pitch = max(min(room / levels, highest), 1)
    edges = [PADDING + round(level * pitch) for level in range(levels + 1)]
    gap = 1 if levels > 1 and pitch >= 5 else 0
    rows = tuple(
        RowPlace(level, edges[level], max(edges[level + 1] - edges[level] - gap, 1))
        for level in range(levels)
    )
    return Placed(track, 0, height, rows, track.levels - levels, False)
