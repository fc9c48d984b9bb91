"""Counts resources and logic levels of one mapped, flat Yosys JSON netlist (7-series or ECP5 cells).

It never runs a tool and never estimates: each number is a count of cells in the netlist. What counts as what is the
tables below and docs/src/synthesis.md.
"""

import collections
import json
import re

# Function -> (regular expression of the cell types, LUTs that one such cell occupies where it occupies any).
XILINX = [
    ("lut", r"LUT[1-6]|LUT6_2|INV", 1),
    ("mux", r"MUXF[789]", 0),
    ("carry", r"CARRY4", 0),
    ("ff", r"FD[RSCP]E(_1)?|LD[CP]E", 0),
    ("lut_memory", r"SRL16E?|SRLC16E?|SRLC32E", 1),
    ("lut_memory", r"RAM(16|32|64)X1S(_1)?", 1),
    ("lut_memory", r"RAM(16|32|64)X1D(_1)?|RAM128X1S(_1)?", 2),
    ("lut_memory", r"RAM(32|64)M|RAM128X1D(_1)?|RAM256X1S", 4),
    ("bram36", r"RAMB36E1|FIFO36E1", 0),
    ("bram18", r"RAMB18E1|FIFO18E1", 0),
    ("dsp", r"DSP48E1", 0),
    ("buffer", r"BUFG|IBUF|OBUF|VCC|GND", 0),
]
ECP5 = [
    ("lut", r"LUT4", 1),
    ("lut", r"INV", 1),
    ("mux", r"PFUMX|L6MUX21", 0),
    ("carry", r"CCU2C", 2),
    ("ff", r"TRELLIS_FF", 0),
    ("lut_memory", r"TRELLIS_DPR16X4", 4),
    ("bram", r"DP16KD|PDPW16KD", 0),
    ("dsp", r"MULT18X18D|MULT9X9D|ALU54B", 0),
    ("buffer", r"TRELLIS_IO|VLO|VHI|GSR|SGSR", 0),
]
# Through these a path goes on; through every other cell it ends and begins. Reading a memory made of LUTs is a path.
COMBINATIONAL = {"lut", "mux", "carry", "lut_memory"}
# Of a memory made of LUTs only the read address reaches the output without a clock.
READ_ADDRESS = re.compile(r"A\d*|DPRA\d*|ADDR[A-D]|RAD")


class NetlistError(Exception):
    """The netlist is not one that can be counted; the text says why."""


def load_top(path):
    """Reads a JSON netlist and returns (name, module) of its top."""
    with open(path, encoding="utf-8") as file:
        modules = json.load(file)["modules"]
    for name, module in modules.items():
        top = module.get("attributes", {}).get("top", "0")
        if int(str(top), 2) != 0:
            return name, module
    raise NetlistError(f"{path}: no module carries the attribute 'top'")


def classify(cell_type, table):
    """Returns (function, LUTs) of a cell type, ("other", 0) for one that the table does not know."""
    for function, pattern, luts in table:
        if re.fullmatch(pattern, cell_type):
            return function, luts
    return "other", 0


def count(module, table):
    """Counts the cells of a flat netlist by function; LUTs in carry cells count as LUTs."""
    result = collections.Counter()
    unknown = collections.Counter()
    for cell in module["cells"].values():
        kind = cell["type"]
        if kind.startswith("$scopeinfo") or kind == "$print":
            continue
        function, luts = classify(kind, table)
        if function == "other":
            unknown[kind] += 1
        elif function == "lut_memory":
            result["lut_memory"] += luts
        else:
            result[function] += 1
            if function == "carry":
                result["lut"] += luts
    return dict(result), dict(unknown)


def levels(module, table):
    """The longest path in cells between registers, memories and ports: each LUT, mux and carry cell is one level.

    Returns (levels, {function: cells of that function on the path}).
    """
    driver = {}
    inputs = {}
    for name, cell in module["cells"].items():
        function, _ = classify(cell["type"], table)
        if function not in COMBINATIONAL:
            continue
        directions = cell.get("port_directions")
        if directions is None:
            raise NetlistError(f"cell {name} of type {cell['type']} has no port directions")
        inputs[name] = []
        for port, bits in cell["connections"].items():
            if directions[port] == "output":
                driver.update((bit, name) for bit in bits if isinstance(bit, int))
            elif function != "lut_memory" or READ_ADDRESS.fullmatch(port):
                inputs[name] += [bit for bit in bits if isinstance(bit, int)]

    depth = {}
    before = {}
    open_cells = set()
    for start in inputs:
        stack = [start]
        while stack:
            name = stack[-1]
            if name in depth:
                stack.pop()
                continue
            sources = {driver[bit] for bit in inputs[name] if bit in driver}
            waiting = [source for source in sources if source not in depth]
            if waiting:
                open_cells.add(name)
                if any(source in open_cells for source in waiting):
                    raise NetlistError(f"combinational loop through cell {name}")
                stack += waiting
                continue
            before[name] = max(sources, key=lambda source: depth[source], default=None)
            depth[name] = 1 + (depth[before[name]] if before[name] else 0)
            open_cells.discard(name)
            stack.pop()

    path = collections.Counter()
    name = max(depth, key=depth.get, default=None)
    total = depth[name] if name else 0
    while name:
        path[classify(module["cells"][name]["type"], table)[0]] += 1
        name = before[name]
    return total, dict(path)


def register_ports(module, clock):
    """Puts one ECP5 flip-flop between each port bit and the block, so that paths from and to ports are timed too.

    Changes the netlist in place, leaves what is inside alone and returns the number of flip-flops added.
    """
    ports = module["ports"]
    if clock not in ports:
        raise NetlistError(f"the top has no clock port '{clock}'; its ports are {', '.join(ports)}")
    clock_bit = ports[clock]["bits"][0]
    next_bit = 1 + max(
        [bit for port in ports.values() for bit in port["bits"] if isinstance(bit, int)]
        + [bit for cell in module["cells"].values() for bits in cell["connections"].values() for bit in bits
           if isinstance(bit, int)]
        + [bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)]
    )
    added = 0
    for port_name, port in ports.items():
        if port_name == clock:
            continue
        if port["direction"] == "inout":
            raise NetlistError(f"port '{port_name}' is inout; only input and output ports can be registered")
        outside = []
        for bit in port["bits"]:
            if not isinstance(bit, int):
                outside.append(bit)
                continue
            pins = {"DI": next_bit, "Q": bit} if port["direction"] == "input" else {"DI": bit, "Q": next_bit}
            module["cells"][f"port_register_{added}"] = {
                "hide_name": 0,
                "type": "TRELLIS_FF",
                # "1 " with a space: nextpnr takes a parameter of bits alone for a number.
                "parameters": {"GSR": "DISABLED", "CEMUX": "1 ", "CLKMUX": "CLK", "LSRMUX": "LSR", "REGSET": "RESET"},
                "attributes": {},
                "port_directions": {"CLK": "input", "DI": "input", "Q": "output"},
                "connections": {"CLK": [clock_bit], "DI": [pins["DI"]], "Q": [pins["Q"]]},
            }
            module["netnames"][f"port_outside_{added}"] = {"hide_name": 0, "bits": [next_bit], "attributes": {}}
            outside.append(next_bit)
            next_bit += 1
            added += 1
        # The port keeps its name; the net inside must not carry it too.
        if port_name in module["netnames"]:
            module["netnames"][f"{port_name}_inside"] = module["netnames"].pop(port_name)
        port["bits"] = outside
    return added
