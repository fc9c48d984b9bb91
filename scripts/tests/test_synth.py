"""Self-test of scripts/synth: python3 scripts/tests/test_synth.py

The counting is tested on small netlists, without tools. The hand-written blocks of synth_reference/ are measured
with SPRAYNIC_SYNTH=1 or CI set (67 s of one core): where Yosys or nextpnr-ecp5 is missing, those tests say so and skip, and
fail when CI is set.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = SCRIPTS / "tests" / "synth_reference"
sys.path.insert(0, str(SCRIPTS))
import synth_flow  # noqa: E402
import synth_netlist  # noqa: E402


def cell(kind, inputs, outputs):
    """A cell of a JSON netlist from {port: [bits]}."""
    return {"type": kind, "connections": {**inputs, **outputs},
            "port_directions": {**{port: "input" for port in inputs}, **{port: "output" for port in outputs}}}


def run_synth(*arguments):
    """Runs the script; returns the finished process."""
    return subprocess.run([sys.executable, str(SCRIPTS / "synth"), *map(str, arguments)],
                          capture_output=True, text=True, check=False)


class Counting(unittest.TestCase):
    """What is a level, what is a LUT."""

    def test_levels_end_at_registers(self):
        module = {"cells": {
            "a": cell("LUT2", {"I0": [2], "I1": [3]}, {"O": [4]}),
            "f": cell("FDRE", {"C": [9], "D": [4]}, {"Q": [5]}),
            "b": cell("LUT1", {"I0": [5]}, {"O": [6]}),
            "c": cell("CARRY4", {"S": [6, "0", "0", "0"]}, {"O": [7, 10, 11, 12]}),
            "d": cell("LUT6", {"I0": [7]}, {"O": [8]}),
        }}
        self.assertEqual(synth_netlist.levels(module, synth_netlist.XILINX), (3, {"lut": 2, "carry": 1}))

    def test_write_port_of_lut_memory_is_no_path(self):
        write = {"cells": {"a": cell("LUT2", {"I0": [2]}, {"O": [3]}),
                           "m": cell("RAM32M", {"DIA": [3], "ADDRA": [4]}, {"DOA": [5]})}}
        self.assertEqual(synth_netlist.levels(write, synth_netlist.XILINX)[0], 1)
        read = {"cells": {"a": cell("LUT2", {"I0": [2]}, {"O": [3]}),
                          "m": cell("RAM32M", {"DIA": [4], "ADDRA": [3]}, {"DOA": [5]})}}
        self.assertEqual(synth_netlist.levels(read, synth_netlist.XILINX)[0], 2)

    def test_loop_is_an_error(self):
        module = {"cells": {"a": cell("LUT1", {"I0": [2]}, {"O": [3]}), "b": cell("LUT1", {"I0": [3]}, {"O": [2]})}}
        with self.assertRaisesRegex(synth_netlist.NetlistError, "loop"):
            synth_netlist.levels(module, synth_netlist.XILINX)

    def test_counts(self):
        kinds = ["LUT6", "INV", "SRL16E", "RAM32M", "FDSE", "RAMB18E1", "MYSTERY"]
        counts, unknown = synth_netlist.count({"cells": {k: cell(k, {}, {}) for k in kinds}}, synth_netlist.XILINX)
        self.assertEqual(counts, {"lut": 2, "lut_memory": 5, "ff": 1, "bram18": 1})
        self.assertEqual(unknown, {"MYSTERY": 1})
        counts, _ = synth_netlist.count({"cells": {"a": cell("CCU2C", {}, {})}}, synth_netlist.ECP5)
        self.assertEqual(counts, {"lut": 2, "carry": 1})

    def test_each_port_bit_but_the_clock_gets_a_register(self):
        module = {"ports": {"clk": {"direction": "input", "bits": [2]}, "a": {"direction": "input", "bits": [3, 4]},
                            "b": {"direction": "output", "bits": [5, "0"]}},
                  "cells": {"l": cell("LUT4", {"A": [3], "B": [4]}, {"Z": [5]})}, "netnames": {}}
        self.assertEqual(synth_netlist.register_ports(module, "clk"), 3)
        self.assertEqual(module["ports"]["b"]["bits"][1], "0")
        self.assertNotIn(3, module["ports"]["a"]["bits"])
        with self.assertRaisesRegex(synth_netlist.NetlistError, "clock port 'clock'"):
            synth_netlist.register_ports(module, "clock")


class Measured(unittest.TestCase):
    """The hand-written blocks, with the tools."""

    def setUp(self):
        if not os.environ.get("CI") and os.environ.get("SPRAYNIC_SYNTH") != "1":
            self.skipTest("takes a minute: set SPRAYNIC_SYNTH=1")
        try:
            synth_flow.find_tool("yosys", None)
            synth_flow.find_tool("nextpnr-ecp5", None)
        except synth_flow.SynthError as error:
            if os.environ.get("CI"):
                self.fail(str(error))
            self.skipTest(str(error))

    def block(self, name, *arguments):
        """Measures one reference block, alone in a directory."""
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / f"{name}.v").write_bytes((REFERENCE / f"{name}.v").read_bytes())
            return run_synth("--top", name, directory, *arguments)

    def test_skid_buffer(self):
        done = self.block("skid_buffer_512", "--json", "--no-ports", "--max-lut", 589, "--max-ff", 1172, "--min-mhz", 250)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)["results"][0]
        # Two registers of 578 bits: neither flow can need fewer, nor may the ECP5 flow lose one.
        for flow in ("xilinx", "ecp5"):
            self.assertGreaterEqual(result[flow]["ff"], 2 * 578)
            self.assertGreaterEqual(result[flow]["lut"], 578)

    def test_fifo_is_block_ram(self):
        done = self.block("stream_fifo_512", "--json", "--no-ports", "--max-lut", 100, "--max-bram", 8.5, "--min-mhz", 150)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)["results"][0]
        self.assertEqual((result["xilinx"]["bram18"], result["ecp5"]["bram"]), (17, 17))
        self.assertEqual(result["xilinx"]["lut_memory"] + result["ecp5"]["lut_memory"], 0)

    def test_arbiter_and_port_paths(self):
        done = self.block("round_robin_arbiter_64", "--json", "--max-lut", 361, "--min-mhz", 106, "--min-mhz-ports", 106)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["results"][0]["ecp5"]["port_registers"], 67 - 1 + 65)

    def test_limit_exceeded_is_status_1(self):
        done = self.block("round_robin_arbiter_64", "--xilinx", "--max-lut", 10)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("lut is", done.stderr)

    def test_wrong_use_is_status_2(self):
        self.assertEqual(run_synth("/nonexistent", "--xilinx").returncode, 2)
        self.assertEqual(run_synth("--all", "--only", "nothing").returncode, 2)
        broken = self.block("skid_buffer_512", "--xilinx", "--top", "other")
        self.assertEqual(broken.returncode, 2)
        self.assertIn("other", broken.stderr)


if __name__ == "__main__":
    unittest.main()
