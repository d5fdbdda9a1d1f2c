"""A cluster that Slurm schedules: programs are submitted as jobs, from this machine or from a login node."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import ClassVar

from viewer.remote.far_script import PREPARED
from viewer.remote.kinds.ssh import Ssh
from viewer.remote.names import PlaceProblem, Reach, place_kind

_CHECK = r"""
: > "$1/node.$SLURM_NODEID" && [ -r "$1/owner" ]
"""

_JOB = rf"""#!/bin/sh
dir=$1 setup=$2 spread=$3; shift 3
task={shlex.quote("setup=$1; shift" + chr(10) + PREPARED)}
check={shlex.quote(_CHECK)}
"""
_JOB += r"""
say() { printf '\036STALLSCOPE {"phase": "problem", "rank": -1, "text": "%s"}\n' "$1"; }
each_node() { srun --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 sh -c "$@"; }
each_node "$check" sh "$dir" 2>/dev/null
node=0
while [ $node -lt "$SLURM_NNODES" ]; do
    if [ ! -e "$dir/node.$node" ]; then
        say "$dir is not shared by all nodes. Name a folder that is: --shared=DIR after the place."
        : > "$dir/rc.job=96"
        exit 96
    fi
    rm -f "$dir/node.$node"; node=$((node+1))
done
: > "$dir/shared"
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(scontrol show node "$MASTER_ADDR" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
MASTER_ADDR=${address:-$MASTER_ADDR} MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export MASTER_ADDR MASTER_PORT
: "${PET_NNODES:=$SLURM_NNODES}" "${PET_RDZV_BACKEND:=c10d}" "${PET_RDZV_ID:=$SLURM_JOB_ID}"
: "${PET_RDZV_ENDPOINT:=$MASTER_ADDR:$MASTER_PORT}"
[ "$spread" != node ] || export PET_NNODES PET_RDZV_BACKEND PET_RDZV_ID PET_RDZV_ENDPOINT
case $spread in
batch) sh -c "$task" stallscope "$setup" "$@" ;;
node) each_node "$task" stallscope "$setup" "$@" ;;
*) srun sh -c "$task" stallscope "$setup" "$@" ;;
esac
code=$?
: > "$dir/rc.job=$code"
exit $code
"""

FOLLOW = rf"""
dir=$1; shift
job={shlex.quote(_JOB)}
"""
FOLLOW += r"""
say() { printf '\036STALLSCOPE {"phase": "%s", "rank": -1, "text": "%s"}\n' "$1" "$(printf %s "$2" | tr -d '"\\\n')"; }
command -v sbatch >/dev/null || { say problem "There is no sbatch here. Name the login node: slurm:HOST."; exit 127; }
printf '%s' "$job" > "$dir/job" && : > "$dir/output.job" && : > "$dir/queue" || exit 4
id=$(sbatch --parsable --export=ALL --output="$dir/output.job" --open-mode=append "$@" 2> "$dir/refused") || {
    why=$(tail -n 1 "$dir/refused" | sed 's/^sbatch: error: //')
    say problem "Slurm refuses the job: $why. Check the options after the place."
    exit 98
}
id=${id%%;*}
printf '%s\n' "$id" > "$dir/queue"
tail -n +1 -f "$dir/output.job" & reader=$!
turn=0 every=2 before= state=
while set -- "$dir/rc.job="*; [ ! -e "$1" ]; do
    if [ $((turn % every)) = 0 ]; then
        if now=$(squeue --noheader --jobs="$id" --states=all --format='%T|%r|%V' 2>/dev/null); then
            state=${now%%|*}; rest=${now#*|}
            case $state in
            PENDING)
                why=" (${rest%%|*})"
                [ "$why" != " (None)" ] || why=
                now="job $id is pending$why, since ${rest#*|}" ;;
            CONFIGURING|RUNNING|COMPLETING|SUSPENDED|STOPPED|REQUEUE*|RESIZING|SIGNALING|STAGE_OUT)
                now="job $id is $(printf %s "$state" | tr A-Z_ 'a-z ')" ;;
            *) break ;;
            esac
            [ "$now" = "$before" ] || { say queued "$now"; before=$now; }
        elif squeue --noheader --jobs="$id" 2>&1 | grep -qi 'invalid job id'; then
            break
        fi
        [ $turn -lt 60 ] || every=10
    fi
    turn=$((turn+1)); sleep 0.5
done
turn=0
until set -- "$dir/rc.job="*; [ -e "$1" ] || [ $turn -ge 20 ]; do turn=$((turn+1)); sleep 0.2; done
sleep 0.3
kill $reader 2>/dev/null
if [ -e "$1" ]; then
    code=${1##*=} turn=0
    # A job that is cancelled may end its program first, and only then be told as cancelled.
    while [ "$code" != 0 ] && [ $turn -lt 40 ]; do
        state=$(squeue --noheader --jobs="$id" --states=all --format=%T 2>/dev/null)
        case $state in RUNNING|COMPLETING|SIGNALING) turn=$((turn+1)); sleep 0.25 ;; *) break ;; esac
    done
    case $state in CANCELLED|TIMEOUT|DEADLINE|PREEMPTED|NODE_FAIL|OUT_OF_MEMORY) ;; *) exit "$code" ;; esac
fi
why="Its time limit, a cancellation, a lack of memory or a node that failed ended it."
[ -e "$dir/shared" ] || [ "$state" = CANCELLED ] ||
    why="It never began; its nodes may not share $dir. Name a folder that they do: --shared=DIR after the place."
say problem "Job $id ended as ${state:-unknown}. $why"
exit 99
"""


SHARED = "--shared="


@place_kind
class Slurm:
    """Requests run on the login node; what is started there is a job of ``sbatch`` with the options of the place.

    ``--shared=DIR`` among them is ours: a folder that every node sees, the home folder by default.
    """

    kind: ClassVar[str] = "slurm"
    title: ClassVar[str] = "a Slurm cluster"
    example: ClassVar[str] = "slurm:LOGIN --nodes 2"

    def __init__(self, name: str, below: Reach | None) -> None:
        if below is not None and not isinstance(below, Ssh):
            raise PlaceProblem(
                "slurm", "Slurm is reached from a login node.", f"Write it like {self.example}."
            )
        self._login: Reach | None = Ssh(name, None) if name and below is None else below

    def open(self) -> None:
        if self._login is not None:
            self._login.open()

    def words(self, words: Sequence[str]) -> list[str]:
        return list(words) if self._login is None else self._login.words(words)

    def is_lost(self, exit_code: int) -> bool:
        return self._login is not None and self._login.is_lost(exit_code)

    def close(self) -> None:
        if self._login is not None:
            self._login.close()

    def base(self, options: Sequence[str]) -> str:
        """Where folders are made that all nodes see."""
        shared = [option.removeprefix(SHARED) for option in options if option.startswith(SHARED)]
        return shared[-1] if shared else "~"

    def submission(
        self, folder: str, setup: str, options: Sequence[str], spread: str, words: Sequence[str]
    ) -> list[str]:
        """Words that submit these words as a job, and print and end as it does."""
        own = [option for option in options if not option.startswith(SHARED)]
        name = f"--job-name={folder.rpartition('/')[2]}"
        job = [f"{folder}/job", folder, setup, spread, *words]
        return ["sh", "-c", FOLLOW, "stallscope", folder, *own, name, *job]
