#!/usr/bin/env bash
# Tries the sweep on a real SLURM of one node, which it sets up here and takes down again: workflow/try_slurm.sh --yes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home="$PWD/build/slurm"                  # everything but the packages and two files of /etc
etc=/etc/slurm                           # SLURM_CONF would not do: srun inside a job does not see it
mark="# made by workflow/try_slurm.sh"
jobs=build/sweep/mini-limit7-mini
columns=JobID:7,Partition:11,State:9,NumCPUs:6,MinMemory:12,tres-per-job:14,Comment:60
late=build/slurm/late-model              # the third model of the sweep, missing in the first call

say() { printf '\n== %s\n' "$*"; }
refuse() { echo "Not done: $*" >&2; exit 2; }
must() { "$@" || { tail -n 30 "$home/sweep.log"; echo "This should have been so, and was not: $*"; exit 1; }; }

plan() {
    cat <<END
This tries the sweep on a SLURM cluster of one node, which is this machine. With --yes it will, as root,
- install Debian's slurm-wlm and munge by apt-get, unless they are here;
- write slurm.conf and gres.conf into $etc; munge's key and socket, states and logs go to build/slurm;
- start munged, slurmctld and slurmd for as long as it runs;
- install requirements/snakemake.txt into build/snakemake and, by ./reproduce.sh, the project's packages into .venv;
- run notebook 10 for two models at once, and for a third that is not there yet, on 7 items each;
- put the third model in its place and go on, now asking for a partition and a GPU (/dev/null stands for it);
- call a third time, when there is nothing left to do;
- stop the three, purge the packages that it installed, and remove what it wrote but build/snakemake and .venv.
It does nothing where a SLURM is set up already. What a killed try left is removed by --down.
END
}

check() {
    [ "$(id -u)" = 0 ] || refuse "it must be root, to install packages and to write to $etc."
    command -v apt-get >/dev/null || refuse "it installs SLURM by apt-get, which is not here."
    [ "$(nproc)" -ge 2 ] || refuse "two jobs at once want two cores."
    [ ! -e "$home" ] || refuse "build/slurm is there, from a try that was killed: remove it by --down."
    [ -z "${SLURM_CONF:-}" ] || refuse "SLURM_CONF names a SLURM that is set up already."
    for file in $etc/slurm.conf $etc/gres.conf /etc/slurm-llnl/slurm.conf; do
        [ ! -e "$file" ] || refuse "$file is there: a SLURM is set up already."
    done
    ! pidof slurmctld slurmd >/dev/null || refuse "a SLURM is running already."
    command -v munged >/dev/null || [ ! -e /etc/munge ] || refuse "/etc/munge is there, without munge: it is not ours."
}

packages() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii  *//p' | sort; }

start() {
    say "Packages"
    mkdir -p "$home"/{state,spool}
    [ -e $etc ] || touch "$home/own_etc"
    packages > "$home/packages_before"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends slurm-wlm munge; } > "$home/apt.log" 2>&1 \
        || { tail "$home/apt.log"; return 1; }
    packages | comm -13 "$home/packages_before" - > "$home/own_packages"  # for the purge: these, and no others
    xargs -r dpkg-query -W < "$home/own_packages"
    [ -x build/snakemake/bin/pip ] || python3 -m venv build/snakemake
    build/snakemake/bin/pip install --quiet --disable-pip-version-check -r requirements/snakemake.txt \
        2> "$home/pip.log" || { tail "$home/pip.log"; return 1; }
    build/snakemake/bin/pip list 2>/dev/null | grep -i '^snakemake[ -]*\(executor-plugin-slurm\)\? '

    say "The node"
    (umask 077 && head -c 1024 /dev/urandom > "$home/munge.key")
    munged --key-file="$home/munge.key" --socket="$home/munge.socket" --pid-file="$home/munged.pid" \
        --log-file="$home/munged.log" --seed-file="$home/munge.seed"
    mkdir -p $etc
    printf '%s\n' "$mark" 'Name=gpu File=/dev/null' > $etc/gres.conf
    cat > $etc/slurm.conf <<END
$mark
ClusterName=one
SlurmctldHost=$(hostname -s)(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$home/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.pid
SlurmctldLogFile=$home/slurmctld.log
SlurmdLogFile=$home/slurmd.log
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
NodeName=one NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Gres=gpu:1 CPUs=$(nproc) \
    RealMemory=$(free -m | awk '/^Mem/ {print $2}')
PartitionName=all Nodes=one Default=YES MaxTime=INFINITE State=UP
END
    slurmctld
    slurmd
    for _ in $(seq 30); do sinfo -h -t idle | grep -q one && break; sleep 1; done
    sinfo --version
    sinfo
}

sweep() {  # one call of Snakemake, with these flags too: what it says of its jobs, and $status
    watch_queue & echo $! > "$home/watcher.pid"
    PATH="$PWD/build/snakemake/bin:$PATH" snakemake --workflow-profile workflow/profiles/slurm "$@" --config \
        "models=[mini-bert, mini-albert, $late]" 'notebooks=[10]' profile=mini-limit7 threads=1 mem_mb=3000 \
        > "$home/sweep.log" 2>&1 & echo $! > "$home/snakemake.pid"
    wait $! && status=0 || status=$?
    kill "$(cat "$home/watcher.pid")"
    rm "$home"/{snakemake,watcher}.pid
    sed "s#$PWD/##g" "$home/sweep.log" \
        | grep -E 'submitted with|^Error in|failed, SLURM|restart job|^Finished|steps \(|Nothing to' || true
    echo "exit status $status"
}

watch_queue() {  # shows the queue whenever another number of jobs runs in it
    seen=0
    while sleep 1; do
        now="$(squeue -h -t running 2>/dev/null | wc -l)"
        [ "$now" = "$seen" ] || [ "$now" = 0 ] || squeue -O "$columns"
        [ "$now" -le "$(cat "$home/at_once")" ] || echo "$now" > "$home/at_once"
        seen=$now
    done
}

try() {
    rm -rf "$jobs"
    echo 0 > "$home/at_once"
    say "First call: two models, and one that is not there"
    sweep
    must [ "$status" = 1 ]
    must [ "$(cat "$home/at_once")" = 2 ]
    must [ "$(cd "$jobs" && echo */10.done)" = "mini-albert/10.done mini-bert/10.done" ]
    echo "The failed job's log:"
    cat "$jobs/build-slurm-late-model/10.log"
    say "Second call: the model is there, with the profile's lines for a partition and a GPU"
    cp -r data/models/mini-gpt2 "$late"
    sweep --default-resources "slurm_partition='all'" --set-resources notebook:gpu=1
    must [ "$status" = 0 ]
    must [ "$(grep -c 'submitted with' "$home/sweep.log")" = 1 ]
    say "Third call"
    sweep
    must grep -q 'Nothing to be done' "$home/sweep.log"
    ls "$jobs"/*/10.done
}

stop() {
    set +e
    for name in watcher snakemake slurmd slurmctld munged; do
        [ "$name" != slurmd ] || ! grep -qsx "$mark" $etc/slurm.conf || scancel -u root 2>/dev/null  # ours alone
        pid="$(cat "$home/$name.pid" 2>/dev/null)" || continue
        kill "$pid" 2>/dev/null
        for _ in $(seq 20); do kill -0 "$pid" 2>/dev/null || continue 2; sleep 1; done
        kill -KILL "$pid" 2>/dev/null
    done
    [ ! -e "$home/snakemake.pid" ] || build/snakemake/bin/snakemake --unlock > /dev/null 2>&1
    for file in $etc/slurm.conf $etc/gres.conf; do
        if grep -qsx "$mark" "$file"; then rm "$file"; fi
    done
    [ ! -e "$home/own_packages" ] || xargs -r apt-get purge -y < "$home/own_packages" > /dev/null 2>&1
    [ ! -e "$home/own_etc" ] || rmdir $etc 2>/dev/null
    rm -rf "$home" "$jobs" build/mini-{mini-bert,mini-albert,*build-slurm-late-model}-limit7
}

ended="It did not go as it should"
case "${1:-}" in
    --yes)
        plan
        check
        trap 'say "Down"; stop; echo "$ended"' EXIT
        trap 'exit 130' INT TERM
        start
        try
        ended="All went as it should" ;;
    --down) [ ! -e "$home" ] || stop ;;
    *) plan ;;
esac
