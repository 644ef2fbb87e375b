#!/usr/bin/env python3
"""Runs a command as ranks on hosts of a site: namespaces, a switch, agents and a master. As root.

    sudo plugins/python/bench/site.py --ranks 3 -- python3 train.py

Each rank has the variables that `torch.distributed` and `polyplane_aggregate.torch` read. Links
have a rate from the hosts to the switch.
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
        self.forwarding = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.forwarding is not None:
            self.forwarding.close()
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
        for host in range(self.options.ranks):
            self.link(switch, host)
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
        # The switch forwards as soon as it has a program, so other transports work too.
        self.forwarding = Group(self.socket("engines0"), "site", 0, 1, slots=1)

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

    def link(self, switch: str, host: int):
        """Creates a host and its link to the switch."""
        namespace = self.namespace(f"h{host}")
        port = f"port{host}"
        self.inside(switch, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self.inside(namespace, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self.inside(switch, "ip", "link", "add", port, "type", "veth",
                    "peer", "name", "eth0", "netns", namespace)
        self.inside(switch, "ip", "link", "set", port, "up")
        self.inside(namespace, "ip", "link", "set", "eth0", "address", mac(host))
        self.inside(namespace, "ip", "address", "add", f"{address(host)}/24", "dev", "eth0")
        self.inside(namespace, "ip", "link", "set", "eth0", "up")
        if self.options.rate:
            self.inside(namespace, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
                        "rate", self.options.rate, "burst", "32kb", "latency", "100ms")
        for other in range(self.options.ranks):
            if other != host:
                self.inside(namespace, "ip", "neighbour", "add", address(other),
                            "lladdr", mac(other), "dev", "eth0")
        self.inside(namespace, "ip", "neighbour", "add", "10.46.1.254",
                    "lladdr", "02:00:00:00:00:fe", "dev", "eth0")
        self.inside(namespace, "ip", "route", "add", "198.18.0.0/24", "via", "10.46.1.254")

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
            output = None if rank == 0 else subprocess.DEVNULL
            ranks.append(subprocess.Popen(words, env=environment, stdout=output))
        self.processes += ranks
        return max(abs(rank.wait()) for rank in ranks)


def main() -> int:
    """Reads the options and runs the site."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ranks", type=int, default=3, help="number of hosts, one rank each")
    parser.add_argument("--rate", help="rate of a host's link to the switch, as tc writes it")
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
