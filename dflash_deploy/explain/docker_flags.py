"""The options of `docker run`, as Docker 28.2.2 lists them."""

from __future__ import annotations

SWITCHES = frozenset(
    {"--detach", "--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck",
     "--oom-kill-disable", "--privileged", "--publish-all", "--quiet", "--read-only", "--rm",
     "--sig-proxy", "--tty", "--use-api-socket"}
)  # fmt: skip
"""Those that take no word."""
VALUED = frozenset(
    {"--add-host", "--annotation", "--attach", "--blkio-weight", "--blkio-weight-device",
     "--cap-add", "--cap-drop", "--cgroup-parent", "--cgroupns", "--cidfile", "--cpu-count",
     "--cpu-percent", "--cpu-period", "--cpu-quota", "--cpu-rt-period", "--cpu-rt-runtime",
     "--cpu-shares", "--cpus", "--cpuset-cpus", "--cpuset-mems", "--detach-keys", "--device",
     "--device-cgroup-rule", "--device-read-bps", "--device-read-iops", "--device-write-bps",
     "--device-write-iops", "--dns", "--dns-option", "--dns-search", "--domainname",
     "--entrypoint", "--env", "--env-file", "--expose", "--gpus", "--group-add", "--health-cmd",
     "--health-interval", "--health-retries", "--health-start-interval", "--health-start-period",
     "--health-timeout", "--hostname", "--io-maxbandwidth", "--io-maxiops", "--ip", "--ip6",
     "--ipc", "--isolation", "--kernel-memory", "--label", "--label-file", "--link",
     "--link-local-ip", "--log-driver", "--log-opt", "--mac-address", "--memory",
     "--memory-reservation", "--memory-swap", "--memory-swappiness", "--mount", "--name",
     "--network", "--network-alias", "--oom-score-adj", "--pid", "--pids-limit", "--platform",
     "--publish", "--pull", "--restart", "--runtime", "--security-opt", "--shm-size",
     "--stop-signal", "--stop-timeout", "--storage-opt", "--sysctl", "--tmpfs", "--ulimit",
     "--user", "--userns", "--uts", "--volume", "--volume-driver", "--volumes-from", "--workdir"}
)  # fmt: skip
LONG = {
    "-a": "--attach", "-c": "--cpu-shares", "-d": "--detach", "-e": "--env", "-h": "--hostname",
    "-i": "--interactive", "-l": "--label", "-m": "--memory", "-p": "--publish",
    "-P": "--publish-all", "-q": "--quiet", "-t": "--tty", "-u": "--user", "-v": "--volume",
    "-w": "--workdir", "--net": "--network", "--net-alias": "--network-alias",
}  # fmt: skip
"""Short forms, and the two that Docker still takes for others."""
