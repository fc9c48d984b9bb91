//! The table of header templates: a block RAM, cleared after reset, with what of the IPv4 checksum depends on the template.
//!
//! A write takes seven clocks where there is IPv4: its words are added up one a clock while the writer holds them. In the clock in
//! which the word goes into the RAM no descriptor is taken, so none meets a template half old, half new.

use super::ipv4::add_word;
use super::stage::Template;
use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::HeaderTemplate;
use spraynic_rtl::{MemoryHandle, Module, Signal, Stream, cat};

/// The table; its read port is the reader's.
pub(super) struct Templates<'a> {
    memory: MemoryHandle<'a>,
    shape: Template<'a>,
    /// In this clock the RAM is written: no descriptor may be taken.
    pub(super) busy: Signal<'a>,
}

impl<'a> Templates<'a> {
    /// The template of `index`, one clock after `enable`; it stays until the next read.
    pub(super) fn read(&self, enable: Signal<'a>, index: Signal<'a>) -> Template<'a> {
        self.shape.unpack_like(self.memory.read(enable, index))
    }
}

/// Adds up the words of the IPv4 header that a template decides. Gives the sum, and whether it is ready.
fn checksum<'a>(m: Module<'a>, fields: &Fields<'a>, begin: Signal<'a>) -> (Signal<'a>, Signal<'a>) {
    const LAST: u32 = 6;
    let step = m.reg("template_step", 3).reset(0);
    let sum = m
        .reg("template_sum", 17)
        .doc("sum of the words so far, carry in bit 16");
    let word = |field: &str, low: u32| fields.get(field).part(low, 16);
    // Version, header length, DF and protocol are constants: 4500 + 4000 + 0011.
    let first = cat(&[fields.get("hop_limit"), fields.get("traffic_class")]);
    let rest = [
        word("source_ip", 16),
        word("source_ip", 0),
        word("destination_ip", 16),
        word("destination_ip", 0),
        m.lit(0, 16),
    ];
    let next = (step - step.lit(1)).select(&rest);
    let ready = step.eq_lit(LAST).named("template_summed");
    m.when(step.eq_lit(0), || {
        sum.set(first.add_wide(m.lit(0x8511, 16)));
        m.when(begin, || step.set_lit(1));
    })
    .else_when(ready, || step.set_lit(0))
    .otherwise(|| {
        sum.set(add_word(sum, next));
        step.set(step + step.lit(1));
    });
    (sum.part(0, 16), ready)
}

/// The table, written by `writes`.
pub(super) fn templates<'a>(m: Module<'a>, config: &NicConfig, writes: Stream<'a>) -> Templates<'a> {
    let wire = &config.wire;
    let fields = Fields::unpack::<HeaderTemplate>(writes.data);
    let index_bits = config.qpn_bits();
    let clearing = m
        .reg("clearing", 1)
        .reset(1)
        .doc("the table is being cleared after reset");
    let clear_index = m.reg("clear_index", index_bits).reset(0);
    clear_index.set(clear_index + clear_index.lit(1));
    m.when(clear_index.all(), || clearing.set_lit(0));

    let (checksum, write) = match wire.ipv4 {
        true => checksum(m, &fields, writes.valid & !clearing),
        false => (m.lit(0, 16), writes.valid & !clearing),
    };
    writes.ready.set(if wire.ipv4 { write } else { !clearing });

    let (vlan, ipv6) = (fields.get("vlan"), fields.get("ipv6"));
    let only_if = |there: bool, value: Signal<'a>| if there { value } else { value.lit(0) };
    let network = match (wire.ipv4, wire.ipv6) {
        (true, true) => m.high(),
        (false, _) => ipv6,
        (_, false) => !ipv6,
    };
    let generated = (network & (m.lit(wire.vlan, 1) | !vlan)).named("template_generated");
    let qpn = fields.get("qpn");
    let in_table = !qpn.slice(23, index_bits).any();
    let address = |name: &str| {
        let address = fields.get(name);
        if wire.ipv6 { address } else { address.part(0, 32) }
    };
    let word = Template {
        valid: generated & !clearing,
        vlan: only_if(wire.vlan, vlan),
        ipv6: match (wire.ipv4, wire.ipv6) {
            (true, true) => ipv6,
            (_, ipv6) => m.lit(ipv6, 1),
        },
        spray: only_if(wire.ipv6, fields.get("spray")),
        migration: fields.get("migration"),
        destination_mac: fields.get("destination_mac"),
        source_mac: fields.get("source_mac"),
        vlan_tci: only_if(wire.vlan, fields.get("vlan_tci")),
        traffic_class: fields.get("traffic_class"),
        hop_limit: fields.get("hop_limit"),
        flow_label: only_if(wire.ipv6, fields.get("flow_label")),
        source_ip: address("source_ip"),
        destination_ip: address("destination_ip"),
        partition_key: fields.get("partition_key"),
        destination_qpn: fields.get("destination_qpn"),
        checksum,
    };
    let packed = word.pack();
    let memory = m.memory("templates", config.queue_pairs.count, packed.width());
    memory.write(
        clearing | write & in_table,
        clearing.mux(clear_index, qpn.part(0, index_bits)),
        packed,
    );
    count_when(
        m,
        Counter(
            "drop_template_write",
            "template writes refused: QPN beyond the table, or what was not generated",
        ),
        write & !(in_table & generated),
    );
    Templates {
        memory,
        shape: word,
        busy: clearing | write,
    }
}
