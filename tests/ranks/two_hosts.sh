#!/bin/sh
# Runs a program on two hosts that are network namespaces of this machine, each with a host name, processes and an address
# of its own, joined by a link that can be as bad as a real one. By hand, as root:
#   two_hosts.sh [--delay MS] [--loss PERCENT] [-n] RANKS PROGRAM [ARGUMENTS...]
# Half of the ranks run on each host, and MPI has nothing but TCP between them. With delay or loss the link is a relay
# (relay.py) between two TAP devices, as not every kernel has netem; else a veth pair.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
delay=0 loss=0
while :; do
  case $1 in
    --delay) delay=$2; shift 2 ;;
    --loss) loss=$2; shift 2 ;;
    -n) shift ;;
    *) break ;;
  esac
done
ranks=$1; shift
tag=mz$$
folder=$(mktemp -d)
relay=
clean() {
  [ -z "$relay" ] || kill "$relay" 2>/dev/null || true
  for n in 1 2; do
    ip netns pids "$tag.$n" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns del "$tag.$n" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

for n in 1 2; do ip netns add "$tag.$n"; ip -n "$tag.$n" link set lo up; done
if [ "$delay" = 0 ] && [ "$loss" = 0 ]; then
  ip link add "$tag.a" type veth peer name "$tag.b"
  ip link set "$tag.a" netns "$tag.1" name link0
  ip link set "$tag.b" netns "$tag.2" name link0
else
  python3 "$here/relay.py" "$tag.1" "$tag.2" --delay "$delay" --loss "$loss" &
  relay=$!
  for n in 1 2; do
    until ip -n "$tag.$n" link show link0 >/dev/null 2>&1; do kill -0 "$relay"; sleep 0.1; done
  done
fi
for n in 1 2; do
  ip -n "$tag.$n" addr add "10.77.0.$n/24" dev link0
  ip -n "$tag.$n" link set link0 up
done

# host N COMMAND...: on that host. Processes of one host do not see the other's.
cat >"$folder/host" <<TEXT
#!/bin/sh
n=\$1; shift
exec ip netns exec $tag.\$n unshare --uts --pid --fork --kill-child --mount-proc sh -c 'hostname host\$0; exec "\$@"' "\$n" "\$@"
TEXT
# What mpirun calls in place of ssh: its words behind the address are a command line.
cat >"$folder/rsh" <<TEXT
#!/bin/sh
n=\${1##*.}; shift
exec "$folder/host" "\$n" sh -c "\$*"
TEXT
chmod +x "$folder/host" "$folder/rsh"
half=$((ranks / 2))
status=0
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$folder/host" 1 mpirun -n "$ranks" \
  --host "10.77.0.1:$half,10.77.0.2:$((ranks - half))" --bind-to none --mca plm_rsh_agent "$folder/rsh" \
  --mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
  $(env | sed -n 's/^\(MEZZO_[A-Z_]*\|OMP_NUM_THREADS\|LD_LIBRARY_PATH\)=.*/-x \1/p') "$@" || status=$?
exit $status
