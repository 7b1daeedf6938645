#!/usr/bin/env bash
# Tries the sweep on a real SLURM of one node, which it sets up here and takes down again: workflow/try_slurm.sh --yes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home="$PWD/build/slurm"                  # everything but the packages and the one file of /etc
conf=/etc/slurm/slurm.conf               # SLURM_CONF would not do: srun inside a job does not see it
mark="# made by workflow/try_slurm.sh"
jobs=build/sweep/mini-limit8-mini
late="$home/late-model"                  # the third model of the sweep, missing in the first call

say() { printf '\n== %s\n' "$*"; }
refuse() { echo "Not done: $*" >&2; exit 2; }

plan() {
    cat <<END
This tries the sweep on a SLURM cluster of one node, which is this machine. With --yes it will, as root,
- install Debian's slurm-wlm and munge by apt-get, unless they are here;
- write $conf, and nothing else outside build/slurm: munge's key and socket, the states and logs are there;
- start munged, slurmctld and slurmd for as long as it runs;
- install requirements-snakemake.txt into build/snakemake and, by ./reproduce.sh, the project's packages into .venv;
- run notebook 10 for two models at once, and for a third that is not there yet, on 8 items each (--limit 8);
- put the third model in its place and go on, then ask a third time;
- stop the three, purge the packages that it installed, and remove $conf and build/slurm.
It does nothing where a SLURM is set up already. What a killed try left is removed by --down.
END
}

check() {
    [ "$(id -u)" = 0 ] || refuse "it must be root, to install packages and to write $conf."
    command -v apt-get >/dev/null || refuse "it installs SLURM by apt-get, which is not here."
    [ "$(nproc)" -ge 2 ] || refuse "two jobs at once want two cores."
    [ ! -e "$home" ] || refuse "build/slurm is there, from a try that was killed: remove it by --down."
    [ -z "${SLURM_CONF:-}" ] || refuse "SLURM_CONF names a SLURM that is set up already."
    for folder in /etc/slurm /etc/slurm-llnl; do
        [ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || refuse "$folder is not empty: a SLURM is set up already."
    done
    ! pidof slurmctld slurmd >/dev/null || refuse "a SLURM is running already."
    command -v munged >/dev/null || [ ! -e /etc/munge ] || refuse "/etc/munge is there, without munge: it is not ours."
}

installed() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii  *//p' | sort; }

start() {
    say "Packages"
    mkdir -p "$home"/{state,spool}
    [ -e /etc/slurm ] || touch "$home/own_etc"
    installed > "$home/before"
    cut -d: -f1 /etc/passwd | sort > "$home/users"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends slurm-wlm munge; } > "$home/apt.log" 2>&1 \
        || { tail "$home/apt.log"; return 1; }
    installed | comm -13 "$home/before" - | xargs -r dpkg-query -W
    [ -x build/snakemake/bin/pip ] || python3 -m venv build/snakemake
    build/snakemake/bin/pip install --quiet --disable-pip-version-check -r requirements-snakemake.txt 2> "$home/pip.log" \
        || { tail "$home/pip.log"; return 1; }
    build/snakemake/bin/pip list 2>/dev/null | grep -i '^snakemake[ -]*\(executor-plugin-slurm\)\? '

    say "The node"
    (umask 077 && head -c 1024 /dev/urandom > "$home/munge.key")
    munged --key-file="$home/munge.key" --socket="$home/munge.socket" --pid-file="$home/munged.pid" \
        --log-file="$home/munged.log" --seed-file="$home/munge.seed"
    mkdir -p /etc/slurm
    cat > "$conf" <<END
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
NodeName=one NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(free -m | awk '/^Mem/ {print $2}')
PartitionName=all Nodes=one Default=YES MaxTime=INFINITE State=UP
END
    slurmctld
    slurmd
    for _ in $(seq 30); do sinfo -h -t idle | grep -q one && break; sleep 1; done
    sinfo --version
    sinfo
}

sweep() {  # one call of Snakemake; its output, less what differs from call to call
    set +e
    PATH="$PWD/build/snakemake/bin:$PATH" snakemake --workflow-profile workflow/profiles/slurm --nocolor --config \
        "models=[mini-bert, mini-albert, $late]" 'notebooks=[10]' profile=mini-limit8 threads=1 mem_mb=3000 "$@" \
        > "$home/sweep.log" 2>&1
    status=$?
    set -e
    sed "s#$PWD/##g" "$home/sweep.log" | grep -E '^(localrule|rule) |has been submitted|^Error in rule|failed, SLURM|steps \(|Trying to restart|Exiting because|Nothing to be done' || true
    echo "exit status $status"
}

watch_queue() {  # shows the queue once, when two jobs run
    until [ "$(squeue -h -t running 2>/dev/null | wc -l)" -ge 2 ]; do sleep 1; done
    squeue -o '%.5i %.9P %.8T %.5C %.7m  %k' | sed 's/^/    /'
}

try() {
    rm -rf "$jobs"
    say "First call: two models, and one that is not there"
    watch_queue & watcher=$!
    sweep
    wait "$watcher"
    [ "$status" = 1 ] && [ -e "$jobs/mini-bert/10.done" ] && [ -e "$jobs/mini-albert/10.done" ]
    cat "$jobs"/*late-model/10.log
    say "Second call: the third model is in its place"
    cp -r data/models/mini-gpt2 "$late"
    sweep
    [ "$status" = 0 ] && [ "$(grep -c 'has been submitted' "$home/sweep.log")" = 1 ]
    say "Third call"
    sweep
    grep -q 'Nothing to be done' "$home/sweep.log"
    (cd "$jobs" && find . -name '*.done' | sort)
}

stop() {
    for name in slurmd slurmctld munged; do
        [ ! -e "$home/$name.pid" ] || kill "$(cat "$home/$name.pid")" || true
    done
    for _ in $(seq 20); do pidof slurmctld slurmd >/dev/null || break; sleep 1; done
    if grep -qsx "$mark" "$conf"; then rm "$conf"; fi
    [ ! -e "$home/own_etc" ] || [ ! -e /etc/slurm ] || rmdir --ignore-fail-on-non-empty /etc/slurm
    installed | comm -13 "$home/before" - | xargs -r apt-get purge -y > /dev/null 2>&1
    cut -d: -f1 /etc/passwd | sort | comm -13 "$home/users" - | xargs -r -n 1 userdel
    rm -rf "$home" "$jobs" build/mini-*-limit8
}

case "${1:-}" in
    --yes)
        plan
        check
        trap 'code=$?; say "Down"; stop; [ "$code" = 0 ] && echo "All went as it should" || echo "It went wrong"' EXIT
        start
        try ;;
    --down) [ -e "$home" ] && stop ;;
    *) plan ;;
esac
