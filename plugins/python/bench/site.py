#!/usr/bin/env python3
"""Runs a command as ranks on hosts of a site: namespaces, a switch, agents and a master. As root.

    sudo plugins/python/bench/site.py --ranks 3 -- python3 train.py

Each rank has the variables that `torch.distributed` and `polyplane_aggregate.torch` read. With
`--rate` each link has this rate in both directions: a namespace between switch and hosts has the
queues from the switch, since the switch's own frames pass no queue of the kernel. With `--loss` and
`--duplicate` the hosts' interfaces lose and double messages of reductions in both directions, by
nftables.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from polyplane_aggregate import Group

# P4Runtime of the switch, in its namespace.
SERVER = "127.0.0.1:9559"


def address(host: int) -> str:
    """Returns the address of a host."""
    return f"10.46.1.{host + 1}"


def mac(host: int) -> str:
    """Returns the MAC address of a host's interface."""
    return f"02:00:00:01:46:{host + 1:02x}"


class Site:
    """Namespaces and processes, which end with it."""

    def __init__(self, options):
        """Lays the links and starts all processes."""
        self.options = options
        self.directory = tempfile.TemporaryDirectory(prefix="polyplane-site-")
        self.prefix = f"pps{os.getpid()}-"
        self.namespaces = []
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "delete", namespace], check=False)
        self.directory.cleanup()

    def start(self):
        """Lays the links and starts switch, agents and master."""
        switch = self.namespace("switch")
        middle = self.namespace("links") if self.options.rate else None
        for host in range(self.options.ranks):
            self.link(switch, middle, host)
        for host in range(self.options.ranks):
            self.process(f"h{host}", ["aggregate", "agent", "--address", address(host),
                                      "--listen", self.socket(f"agent{host}"),
                                      "--engines", self.socket(f"engines{host}")])
        ports = [f"--port={host}=port{host}" for host in range(self.options.ranks)]
        self.process("switch", ["serve", "--p4runtime", SERVER, *ports])
        topology = pathlib.Path(self.directory.name, "site.toml")
        topology.write_text(self.topology())
        self.process("switch", ["aggregate", "serve", "--fabric", str(topology),
                                "--listen", self.socket("master")])
        # The master connects to all of them.
        time.sleep(3)
        # The switch has a program when a group has begun, and goes on to forward.
        Group(self.socket("engines0"), "site", 0, 1, slots=1).leave()

    def namespace(self, name: str) -> str:
        """Creates a namespace."""
        namespace = self.prefix + name
        subprocess.run(["ip", "netns", "add", namespace], check=True)
        self.namespaces.append(namespace)
        self.inside(namespace, "ip", "link", "set", "lo", "up")
        return namespace

    def inside(self, namespace: str, *command):
        """Runs a command in a namespace."""
        subprocess.run(["ip", "netns", "exec", namespace, *command], check=True,
                       stdout=subprocess.DEVNULL)

    def link(self, switch: str, middle: str | None, host: int):
        """Creates a host and its link to the switch."""
        namespace = self.namespace(f"h{host}")
        for name in [switch, namespace] + ([middle] if middle else []):
            self.inside(name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        port = f"port{host}"
        if middle is None:
            self.pair(switch, port, namespace, "eth0")
        else:
            to_host, to_switch = f"host{host}", f"switch{host}"
            self.pair(switch, port, middle, to_switch)
            self.pair(middle, to_host, namespace, "eth0")
            self.bridge(middle, f"link{host}", to_host, to_switch)
            self.limit(middle, to_host)
            self.limit(namespace, "eth0")
        self.faults(namespace)
        self.inside(namespace, "ip", "link", "set", "eth0", "address", mac(host))
        self.inside(namespace, "ip", "address", "add", f"{address(host)}/24", "dev", "eth0")
        for other in range(self.options.ranks):
            if other != host:
                self.inside(namespace, "ip", "neighbour", "add", address(other),
                            "lladdr", mac(other), "dev", "eth0")
        self.inside(namespace, "ip", "neighbour", "add", "10.46.1.254",
                    "lladdr", "02:00:00:00:00:fe", "dev", "eth0")
        self.inside(namespace, "ip", "route", "add", "198.18.0.0/24", "via", "10.46.1.254")

    def pair(self, first: str, name: str, second: str, other: str):
        """Creates two interfaces that are linked."""
        self.inside(first, "ip", "link", "add", name, "type", "veth",
                    "peer", "name", other, "netns", second)
        self.inside(first, "ip", "link", "set", name, "up")
        self.inside(second, "ip", "link", "set", other, "up")

    def bridge(self, namespace: str, name: str, *interfaces: str):
        """Joins interfaces by a bridge that sends every frame to the others."""
        self.inside(namespace, "ip", "link", "add", name, "type", "bridge", "ageing_time", "0")
        for interface in interfaces:
            self.inside(namespace, "ip", "link", "set", interface, "master", name)
        self.inside(namespace, "ip", "link", "set", name, "up")

    def limit(self, namespace: str, interface: str):
        """Gives an interface the rate."""
        self.inside(namespace, "tc", "qdisc", "add", "dev", interface, "root", "tbf",
                    "rate", self.options.rate, "burst", "32kb", "latency", "100ms")

    def faults(self, namespace: str):
        """Lets a host's interface lose and double messages."""
        rules = {"ingress": [(self.options.loss, "drop")],
                 "egress": [(self.options.loss, "drop"), (self.options.duplicate, "dup to eth0")]}
        match = "udp dport 9570-9579 numgen random mod 10000 <"
        lines = ["table netdev faults {"]
        for hook, acts in rules.items():
            lines += [f"chain {hook} {{", f"type filter hook {hook} device eth0 priority 0"]
            lines += [f"{match} {round(percent * 100)} {act}" for percent, act in acts if percent]
            lines += ["}"]
        if self.options.loss or self.options.duplicate:
            self.inside(namespace, "nft", "\n".join(lines + ["}"]))

    def process(self, name: str, words):
        """Starts a process of polyplane in a namespace."""
        command = ["ip", "netns", "exec", self.prefix + name, self.options.polyplane, *words]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def socket(self, name: str) -> str:
        """Returns the address of a Unix socket."""
        return f"unix:{self.directory.name}/{name}.sock"

    def topology(self) -> str:
        """Returns the topology for the master."""
        text = f'name = "site"\n[[switch]]\nname = "s1"\nslots = 1_000_000\np4runtime = "{SERVER}"\n'
        for host in range(self.options.ranks):
            text += (f'[[host]]\nname = "h{host}"\nmac = "{mac(host)}"\n'
                     f'ip = "{address(host)}/24"\nagent = "{self.socket(f"agent{host}")}"\n'
                     f'[[link]]\nends = ["h{host}", "s1:{host}"]\n')
        return text

    def run(self, command) -> int:
        """Runs a command as each rank. Returns the largest status."""
        ranks = []
        for rank in range(self.options.ranks):
            environment = dict(
                os.environ, RANK=str(rank), WORLD_SIZE=str(self.options.ranks), LOCAL_RANK="0",
                MASTER_ADDR=address(0), MASTER_PORT="29500", GLOO_SOCKET_IFNAME="eth0",
                POLYPLANE_ENGINE=self.socket(f"engines{rank}"))
            words = ["ip", "netns", "exec", f"{self.prefix}h{rank}", *command]
            is_shown = rank == 0 or self.options.all_output
            output = None if is_shown else subprocess.DEVNULL
            ranks.append(subprocess.Popen(words, env=environment, stdout=output))
        self.processes += ranks
        return max(abs(rank.wait()) for rank in ranks)


def main() -> int:
    """Reads the options and runs the site."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=3, help="number of hosts, one rank each")
    parser.add_argument("--rate", help="rate of each link in both directions, as tc writes it")
    parser.add_argument("--loss", type=float, default=0, metavar="PERCENT",
                        help="share of messages that a host's interface loses, each way")
    parser.add_argument("--duplicate", type=float, default=0, metavar="PERCENT",
                        help="share of messages that a host's interface doubles when it sends")
    parser.add_argument("--all-output", action="store_true",
                        help="show the output of all ranks, not of rank 0 alone")
    parser.add_argument("--polyplane", default="polyplane", help="the program (polyplane)")
    parser.add_argument("command", nargs="+", help="what each rank runs")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("site.py: namespaces need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Site(options) as site:
        site.start()
        return site.run(options.command)


if __name__ == "__main__":
    sys.exit(main())
