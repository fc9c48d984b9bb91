"""What scripts/axi_check runs under cocotb on axi_read_master: requests go in, a memory of cocotbext-axi answers the bursts, and each packet has the
bytes that memory holds where packets.json says.

The model checks each burst itself (4 KiB). It knows nothing of the golden model.
"""

import json
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiRamRead, AxiReadBus, AxiStreamBus, AxiStreamSink

from axi_memory import MEMORY_BYTES, pauses


async def send_requests(dut, words):
    """Offers one packed PayloadRequest after another."""
    for word in words:
        dut.s_axis_payload_request_tdata.value = word
        dut.s_axis_payload_request_tvalid.value = 1
        await RisingEdge(dut.clk)
        while not int(dut.s_axis_payload_request_tready.value):
            await RisingEdge(dut.clk)
    dut.s_axis_payload_request_tvalid.value = 0


@cocotb.test()
async def packets_are_what_memory_holds(dut):
    with open(os.environ["AXI_PACKETS"], encoding="utf-8") as file:
        given = json.load(file)
    packets = given["packets"]
    cocotb.start_soon(Clock(dut.clk, 4, unit="ns").start())
    dut.rst.value = 1
    dut.s_axis_payload_request_tvalid.value = 0
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_payload"), dut.clk)
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await RisingEdge(dut.clk)

    ram = AxiRamRead(AxiReadBus.from_prefix(dut, "m_axi"), dut.clk, size=MEMORY_BYTES)
    ram.write(0, random.Random(given["seed"]).randbytes(MEMORY_BYTES))
    ram.ar_channel.set_pause_generator(pauses(1, 60))
    ram.r_channel.set_pause_generator(pauses(2, 60))
    sink.set_pause_generator(pauses(3, 60))
    cocotb.start_soon(send_requests(dut, [int(packet["word"], 16) for packet in packets]))

    async def answers():
        for index, packet in enumerate(packets):
            frame = await sink.recv()
            expected = ram.read(packet["address"], packet["length"])
            assert bytes(frame.tdata) == expected, f"packet {index} is not what memory holds at {packet['address']:#x}"
            user = frame.tuser if isinstance(frame.tuser, int) else max(frame.tuser)
            assert user == 0, f"packet {index} is marked bad"

    await with_timeout(answers(), 4000 * len(packets), "ns")
    await ClockCycles(dut.clk, 100)
    assert sink.empty(), "more packets than requests"
    dut._log.warning("%d packets, %d bytes: each is what memory holds", len(packets),
                     sum(packet["length"] for packet in packets))
