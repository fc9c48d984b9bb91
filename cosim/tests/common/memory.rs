//! Memory for the tests of what writes to it: wrappers that make plain streams of strobed data and of AXI4 channels, the beats they carry, and
//! how long memory takes.
#![allow(dead_code, reason = "each test program uses a part")]

use proptest::prelude::*;
use spraynic_golden::payload_writer::Beat;
use spraynic_hdl::write_data::WriteData;
use spraynic_rtl::{AxiStream, Context, Definition, Module, Stream, cat_lsb_first};

/// Clocks that memory takes: 1 us at 250 MHz.
pub(crate) const LATENCY: u64 = 250;

/// Passes a stream of descriptors from an instance on to a port of the wrapper.
fn give<'a>(m: Module<'a>, instance: spraynic_rtl::InstanceHandle<'a>, name: &str) {
    let from = Stream::from_instance(instance, name);
    from.connect(Stream::master(m, name, from.data.width(), "as the block"));
}

pub(crate) fn take<'a>(m: Module<'a>, instance: spraynic_rtl::InstanceHandle<'a>, name: &str) {
    let to = Stream::into_instance(instance, name);
    Stream::slave(m, name, to.data.width(), "as the block").connect(to);
}

/// Ports of a stream with `tlast`, whose beats are data with their strobes above.
fn strobed_output<'a>(m: Module<'a>, name: &str, data: WriteData<'a>) {
    m.output_of(&format!("{name}_tdata"), data.pack());
    m.output_of(&format!("{name}_tlast"), data.last);
    m.output_of(&format!("{name}_tvalid"), data.valid);
    data.ready.set(m.input(&format!("{name}_tready"), 1));
}

fn strobed_input<'a>(m: Module<'a>, name: &str, width: u32, data: WriteData<'a>) {
    let word = m.input(&format!("{name}_tdata"), width + width / 8);
    data.data.set(word.part(0, width));
    data.strobe.set(word.part(width, width / 8));
    data.last.set(m.input(&format!("{name}_tlast"), 1));
    data.valid.set(m.input(&format!("{name}_tvalid"), 1));
    m.output_of(&format!("{name}_tready"), data.ready);
}

pub(crate) fn counters<'a>(m: Module<'a>, instance: spraynic_rtl::InstanceHandle<'a>) {
    for port in instance.definition().ports() {
        if port.name.starts_with("count_") {
            m.output_of(&port.name, instance.output(&port.name));
        }
    }
}

/// `payload_writer` with `m_axis_write_data` as a plain stream: strobes above the data in `tdata`.
pub(crate) fn payload_writer_bench<'a>(context: &'a Context, writer: Definition<'a>) -> Definition<'a> {
    let m = context.module(&format!("{}_bench", writer.name()));
    let instance = m.instance("u_writer", writer);
    for name in ["s_axis", "s_axis_written", "s_axis_context"] {
        take(m, instance, name);
    }
    for name in ["m_axis", "m_axis_write", "m_axis_completion"] {
        give(m, instance, name);
    }
    let to = AxiStream::into_instance(instance, "s_axis_payload");
    let (width, user) = (to.data.width(), to.user.width());
    AxiStream::slave(m, "s_axis_payload", width, user, "as the block").connect(to);
    strobed_output(
        m,
        "m_axis_write_data",
        WriteData::from_instance(instance, "m_axis_write_data"),
    );
    counters(m, instance);
    m.finish()
}

/// `axi_write_master` with its AXI4 channels as plain streams: `m_axis_aw` (address, then AWLEN), `m_axis_w` (data, then strobes), `s_axis_b`
/// (BRESP). What is constant on AW is asserted.
pub(crate) fn axi_write_master_bench<'a>(context: &'a Context, master: Definition<'a>, width: u32) -> Definition<'a> {
    let m = context.module(&format!("{}_bench", master.name()));
    let instance = m.instance("u_master", master);
    take(m, instance, "s_axis_write");
    give(m, instance, "m_axis_written");
    strobed_input(
        m,
        "s_axis_write_data",
        width,
        WriteData::into_instance(instance, "s_axis_write_data"),
    );
    let axi = |name: &str| instance.output(&format!("m_axi_{name}"));
    m.output_of("m_axis_aw_tdata", cat_lsb_first(&[axi("awaddr"), axi("awlen")]));
    m.output_of("m_axis_aw_tvalid", axi("awvalid"));
    instance.input("m_axi_awready").set(m.input("m_axis_aw_tready", 1));
    let size = (width / 8).trailing_zeros();
    for (name, value) in [
        ("awid", 0),
        ("awsize", size),
        ("awburst", 1),
        ("awlock", 0),
        ("awcache", 3),
        ("awprot", 0),
    ] {
        m.assert(&format!("{name}_is_right"), axi(name).eq_lit(value));
    }
    m.output_of("m_axis_w_tdata", cat_lsb_first(&[axi("wdata"), axi("wstrb")]));
    m.output_of("m_axis_w_tlast", axi("wlast"));
    m.output_of("m_axis_w_tvalid", axi("wvalid"));
    instance.input("m_axi_wready").set(m.input("m_axis_w_tready", 1));
    instance.input("m_axi_bid").set(m.low());
    instance.input("m_axi_bresp").set(m.input("s_axis_b_tdata", 2));
    instance.input("m_axi_bvalid").set(m.input("s_axis_b_tvalid", 1));
    m.output_of("s_axis_b_tready", axi("bready"));
    counters(m, instance);
    m.finish()
}

/// `axi_read_master` with its AXI4 channels as plain streams: `m_axis_ar` (address, then ARLEN), `s_axis_r` (data, then a byte whose low bits are
/// RRESP). What is constant on AR is asserted. RLAST is not looked at: it is noise.
pub(crate) fn axi_read_master_bench<'a>(context: &'a Context, master: Definition<'a>, width: u32) -> Definition<'a> {
    let m = context.module(&format!("{}_bench", master.name()));
    let instance = m.instance("u_master", master);
    take(m, instance, "s_axis_payload_request");
    let packets = AxiStream::from_instance(instance, "m_axis_payload");
    packets.connect(AxiStream::master(m, "m_axis_payload", width, 1, "as the block"));
    let axi = |name: &str| instance.output(&format!("m_axi_{name}"));
    m.output_of("m_axis_ar_tdata", cat_lsb_first(&[axi("araddr"), axi("arlen")]));
    m.output_of("m_axis_ar_tvalid", axi("arvalid"));
    instance.input("m_axi_arready").set(m.input("m_axis_ar_tready", 1));
    let size = (width / 8).trailing_zeros();
    for (name, value) in [
        ("arid", 0),
        ("arsize", size),
        ("arburst", 1),
        ("arlock", 0),
        ("arcache", 3),
        ("arprot", 0),
    ] {
        m.assert(&format!("{name}_is_right"), axi(name).eq_lit(value));
    }
    let beat = m.input("s_axis_r_tdata", width + 8);
    instance.input("m_axi_rdata").set(beat.part(0, width));
    instance.input("m_axi_rresp").set(beat.part(width, 2));
    beat.part(width + 2, 6).ignore();
    instance.input("m_axi_rid").set(m.low());
    instance.input("m_axi_rlast").set(beat.bit(0));
    instance.input("m_axi_rvalid").set(m.input("s_axis_r_tvalid", 1));
    m.output_of("s_axis_r_tready", axi("rready"));
    counters(m, instance);
    m.finish()
}

/// Beats of a plain stream of strobed data: strobes above the data, bytes without a strobe 0.
pub(crate) fn beats(bytes: &[u8], beat_bytes: usize) -> Vec<Beat> {
    bytes
        .chunks(beat_bytes + beat_bytes / 8)
        .map(|beat| {
            let (data, strobes) = beat.split_at(beat_bytes);
            let mut wide = [0; 16];
            wide[..strobes.len()].copy_from_slice(strobes);
            let strobes = u128::from_le_bytes(wide);
            let written = |(lane, byte): (usize, &u8)| if strobes >> lane & 1 == 1 { *byte } else { 0 };
            Beat {
                data: data.iter().enumerate().map(written).collect(),
                strobes,
            }
        })
        .collect()
}

/// The other way round. Bytes without a strobe carry noise.
pub(crate) fn beat_bytes(beats: &[Beat]) -> Vec<u8> {
    let noisy = |beat: &Beat| -> Vec<u8> {
        let lane = |(lane, byte): (usize, &u8)| if beat.strobes >> lane & 1 == 1 { *byte } else { 0xA5 };
        let strobes = beat.strobes.to_le_bytes();
        let data = beat.data.iter().enumerate().map(lane);
        data.chain(strobes[..beat.data.len() / 8].iter().copied()).collect()
    };
    beats.iter().flat_map(noisy).collect()
}

/// Where payload goes: around the ends of beats and of 4 KiB, aligned and not.
pub(crate) fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => (0u64..64).prop_map(|page| page * 4096),
        2 => (1u64..64, 0u64..300).prop_map(|(page, before)| page * 4096 - before),
        2 => 0u64..0x4_0000,
        1 => (0u64..1024).prop_map(|beat| beat * 128),
        1 => any::<u64>().prop_map(|address| address >> 1),
    ]
}

/// Bytes of a packet: short ones, whole beats, up to the largest MTU.
pub(crate) fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 1usize..200,
        2 => (1usize..9).prop_map(|beats| beats * 64),
        1 => 1usize..=4096,
        1 => prop::sample::select(vec![256, 512, 1024, 2048, 4096]),
    ]
}
