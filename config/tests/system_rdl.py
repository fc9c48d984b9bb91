"""Reads a SystemRDL file by systemrdl-compiler and prints what it elaborates, as JSON: called by registers.rs."""

import json
import sys

from systemrdl import RDLCompiler
from systemrdl.node import RegNode


def access(field):
    """How software sees a field, as registers.json says it."""
    return ("r" if field.is_sw_readable else "") + ("w" if field.is_sw_writable else "")


def main():
    compiler = RDLCompiler()
    compiler.compile_file(sys.argv[1])
    top = compiler.elaborate().top
    registers = []
    for node in top.children():
        assert isinstance(node, RegNode), node
        fields = [{"name": field.inst_name, "lsb": field.low, "width": field.width, "access": access(field),
                   "reset": field.get_property("reset"), "doc": field.get_property("desc")} for field in node.fields()]
        registers.append({"name": node.inst_name, "offset": node.absolute_address, "bytes": node.size,
                          "doc": node.get_property("desc"), "fields": fields})
    print(json.dumps({"size": top.size, "registers": registers}))


main()
