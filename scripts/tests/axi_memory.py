"""What scripts/axi_check runs under cocotb: packets go in, a memory of cocotbext-axi takes the bursts, and holds at the end what the packets
say, byte for byte; bytes that no packet names are as they were.

The model checks each burst itself (4 KiB, WLAST). It knows nothing of the golden model: payload and addresses come from packets.json.
"""

import json
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiRamWrite, AxiStreamBus, AxiStreamFrame, AxiStreamSource, AxiWriteBus

MEMORY_BYTES = 1 << 16


def pauses(seed, chance):
    """True in so many of 256 clocks."""
    dice = random.Random(seed)
    while True:
        yield dice.randrange(256) < chance


async def send_descriptors(dut, words):
    """Offers one packed PayloadWrite after another on s_axis."""
    for word in words:
        dut.s_axis_tdata.value = word
        dut.s_axis_tvalid.value = 1
        await RisingEdge(dut.clk)
        while not int(dut.s_axis_tready.value):
            await RisingEdge(dut.clk)
    dut.s_axis_tvalid.value = 0


def holds(ram, packets, index):
    """Memory has the packet's bytes, where no later packet has written other ones."""
    packet = packets[index]
    allowed = [{byte} for byte in packet["payload"]]
    for later in packets[index + 1:]:
        first = max(packet["address"], later["address"])
        last = min(packet["address"] + len(packet["payload"]), later["address"] + len(later["payload"]))
        for address in range(first, last):
            allowed[address - packet["address"]].add(later["payload"][address - later["address"]])
    found = ram.read(packet["address"], len(packet["payload"]))
    return all(byte in values for byte, values in zip(found, allowed))


@cocotb.test()
async def memory_holds_what_was_sent(dut):
    with open(os.environ["AXI_PACKETS"], encoding="utf-8") as file:
        given = json.load(file)
    packets = [{"word": int(packet["word"], 16), "address": packet["address"], "payload": bytes.fromhex(packet["payload"])}
               for packet in given["packets"]]
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    dut.rst.value = 1
    dut.s_axis_tvalid.value = 0
    dut.s_axis_context_tvalid.value = 0
    dut.m_axis_tready.value = 0
    dut.m_axis_completion_tready.value = 1
    payload = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_payload"), dut.clk)
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await RisingEdge(dut.clk)

    ram = AxiRamWrite(AxiWriteBus.from_prefix(dut, "m_axi"), dut.clk, size=MEMORY_BYTES)
    before = random.Random(given["seed"]).randbytes(MEMORY_BYTES)
    ram.write(0, before)
    ram.aw_channel.set_pause_generator(pauses(1, 60))
    ram.w_channel.set_pause_generator(pauses(2, 60))
    ram.b_channel.set_pause_generator(pauses(3, 120))
    payload.set_pause_generator(pauses(4, 40))
    dut.m_axis_tready.value = 1

    for packet in packets:
        if packet["payload"]:
            payload.send_nowait(AxiStreamFrame(packet["payload"]))
    cocotb.start_soon(send_descriptors(dut, [packet["word"] for packet in packets]))

    async def answers():
        for index in range(len(packets)):
            await RisingEdge(dut.clk)
            while not int(dut.m_axis_tvalid.value):
                await RisingEdge(dut.clk)
            assert holds(ram, packets, index), f"packet {index} is answered before memory has it"

    await with_timeout(answers(), 4000 * len(packets), "ns")
    await ClockCycles(dut.clk, 100)
    assert not int(dut.m_axis_tvalid.value), "more answers than packets"

    expected = bytearray(before)
    for packet in packets:
        expected[packet["address"]:packet["address"] + len(packet["payload"])] = packet["payload"]
    found = ram.read(0, MEMORY_BYTES)
    wrong = [address for address in range(MEMORY_BYTES) if found[address] != expected[address]]
    assert not wrong, f"{len(wrong)} bytes are wrong, the first at {wrong[0]:#x}: {found[wrong[0]]:#x} is not {expected[wrong[0]]:#x}"
    dut._log.warning("%d packets, %d bytes of payload: memory is right", len(packets),
                     sum(len(packet["payload"]) for packet in packets))
