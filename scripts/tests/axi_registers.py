"""What scripts/axi_check runs under cocotb on register_file: an AXI4-Lite master of cocotbext-axi reads and writes every register of packets.json, which
is the registers.json that `spraynic generate` writes beside the Verilog.

It knows nothing of the golden model: what a register is, it takes from that file and from docs/src/registers.md.
"""

import json
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from axi_memory import pauses

TIME_NS = 0x0123_4567_89AB_CDEF


async def read(master, offset):
    """A register's value, or None where the read is refused."""
    answer = await master.read(offset, 4)
    if answer.resp != AxiResp.OKAY:
        assert answer.resp == AxiResp.SLVERR, answer
        return None
    return int.from_bytes(answer.data, "little")


async def write(master, offset, value, length=4):
    """True where the write is not refused."""
    answer = await master.write(offset, value.to_bytes(length, "little"))
    assert answer.resp in (AxiResp.OKAY, AxiResp.SLVERR), answer
    return answer.resp == AxiResp.OKAY


def mask(register):
    """The bits that fields have."""
    return sum(((1 << field["width"]) - 1) << field["lsb"] for field in register["fields"])


async def check_reads(dut, master, registers, dice):
    """Reset values, and what the ports of counters carry."""
    for register in registers:
        name, value = register["name"], await read(master, register["offset"])
        assert value is not None, f"{name} cannot be read"
        if register["counter"] and not name.startswith("register_file_"):
            for number in (dice.getrandbits(32), 0xFFFF_FFFF):
                getattr(dut, f"count_{name}").value = number
                await RisingEdge(dut.clk)
                found = await read(master, register["offset"])
                assert found == number, f"{name} reads as {found:#x}, its port is {number:#x}"
        elif "reset" in register:
            assert value == register["reset"], f"{name} reads as {value:#x} after reset, not {register['reset']:#x}"


async def check_settings(master, registers, dice):
    """What is written can be read, byte by byte too; what is only read refuses."""
    for register in registers:
        name, offset = register["name"], register["offset"]
        if register["access"] == "r":
            assert not await write(master, offset, 0xFFFF_FFFF), f"{name} can be written"
            continue
        if name == "descriptor_commit":
            continue
        value = dice.getrandbits(32)
        assert await write(master, offset, value), f"{name} cannot be written"
        byte, lane = dice.getrandbits(8), dice.randrange(4)
        assert await write(master, offset + lane, byte, 1), f"byte {lane} of {name} cannot be written"
        value = value & ~(0xFF << 8 * lane) | byte << 8 * lane
        found = await read(master, offset)
        assert found == value & mask(register), f"{name} is {found:#x}, written was {value:#x}"


async def check_descriptors(dut, master, offsets, targets, dice):
    """Each target gets the words that were written, once, and until then nothing can be written."""
    for target in targets:
        words = [dice.getrandbits(32) for _ in range(target["words"])]
        stream = f"m_axis_{target['name']}"
        for place, word in enumerate(words):
            assert await write(master, offsets["descriptor_0"] + 4 * place, word)
        assert await write(master, offsets["descriptor_commit"], target["code"])
        assert await read(master, offsets["descriptor_status"]) == 1, f"{target['name']} is not waiting"
        assert not await write(master, offsets["descriptor_0"], 0), "a word can be written while a descriptor waits"
        assert not await write(master, offsets["descriptor_commit"], target["code"]), "two descriptors can wait"
        valid = {other["name"]: int(getattr(dut, f"m_axis_{other['name']}_tvalid").value) for other in targets}
        assert valid == {other["name"]: int(other is target) for other in targets}, valid
        bits = sum(field["width"] for field in target["fields"])
        expected = sum(word << 32 * place for place, word in enumerate(words)) & ((1 << bits) - 1)
        assert int(getattr(dut, f"{stream}_tdata").value) == expected, f"{target['name']} has other words"
        ready = getattr(dut, f"{stream}_tready")
        ready.value = 1
        await RisingEdge(dut.clk)
        ready.value = 0
        assert await read(master, offsets["descriptor_status"]) == 0, f"{target['name']} has not left"


@cocotb.test()
async def a_bus_master_finds_what_the_map_says(dut):
    with open(os.environ["AXI_PACKETS"], encoding="utf-8") as file:
        given = json.load(file)
    registers, targets = given["registers"], given["targets"]
    offsets = {register["name"]: register["offset"] for register in registers}
    dice = random.Random(1)
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    dut.rst.value = 1
    # Reading the lower half of the time keeps the upper one.
    dut.time_ns.value = 0
    for target in targets:
        getattr(dut, f"m_axis_{target['name']}_tready").value = 0
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    for number, channel in enumerate([master.write_if.aw_channel, master.write_if.w_channel, master.write_if.b_channel,
                                      master.read_if.ar_channel, master.read_if.r_channel]):
        channel.set_pause_generator(pauses(number, 60))
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await RisingEdge(dut.clk)

    await check_reads(dut, master, registers, dice)
    dut.time_ns.value = TIME_NS
    await RisingEdge(dut.clk)
    assert await read(master, offsets["time_ns_low"]) == TIME_NS & 0xFFFF_FFFF
    dut.time_ns.value = 0
    await RisingEdge(dut.clk)
    assert await read(master, offsets["time_ns_high"]) == TIME_NS >> 32
    await check_settings(master, registers, dice)
    await check_descriptors(dut, master, offsets, targets, dice)
    there = set(offsets.values())
    holes = [offset for offset in range(0, max(there) + 64, 4) if offset not in there] + [0x8000, 0xFFFC]
    for hole in dice.sample(holes, 40) + [0x8000, 0xFFFC]:
        assert await read(master, hole) is None, f"there is something at {hole:#x}"
        assert not await write(master, hole, 0), f"{hole:#x} can be written"
    dut._log.warning("%d registers, %d targets: all as the map says", len(registers), len(targets))
