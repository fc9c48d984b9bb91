//! What the stages before the header hand on: a descriptor as far as headers need it, and its queue pair's template.
//!
//! Fields that the configuration does without are constants; no stage spends a register on them.

use spraynic_rtl::{Module, Signal, cat_lsb_first};

macro_rules! stage {
    ($(#[doc = $doc:literal])* $name:ident { $($field:ident: $text:literal;)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $name<'a> {
            $(#[doc = $text] pub(super) $field: Signal<'a>,)*
        }

        impl<'a> $name<'a> {
            /// Every field that is no constant, replaced.
            fn map(&self, mut with: impl FnMut(&str, &str, Signal<'a>) -> Signal<'a>) -> Self {
                Self {
                    $($field: match self.$field.constant() {
                        Some(_) => self.$field,
                        None => with(stringify!($field), $text, self.$field),
                    },)*
                }
            }

            /// Registers `prefix_field` that take the fields where `load` is 1.
            pub(super) fn registered(&self, m: Module<'a>, prefix: &str, load: Signal<'a>) -> Self {
                self.map(|name, text, value| {
                    let register = m.reg(&format!("{prefix}_{name}"), value.width()).doc(text);
                    m.when(load, || register.set(value));
                    register
                })
            }
        }
    };
}

stage! {
    /// A descriptor that was taken.
    Taken {
        control: "control descriptor";
        unknown_qpn: "QPN beyond the table";
        refused: "lengths that were not generated";
        opcode: "BTH opcode";
        psn: "BTH PSN";
        solicited: "BTH solicited event";
        ack_request: "BTH AckReq";
        retransmission: "BTH rtx";
        timestamped: "BTH ts";
        mrc: "mrc bit order of BTH byte 1";
        becn: "BTH BECN";
        port: "port by which the frame leaves";
        stamp: "where the time stamp goes";
        entropy: "entropy value, as far as headers carry it";
        payload_length: "bytes of payload";
        has_payload: "there is payload";
        datagram_words: "UDP length in units of 4 bytes";
        extension_words: "length of the extension headers in units of 4 bytes";
        extension: "extension headers";
    }
}

stage! {
    /// The template of the queue pair.
    Template {
        valid: "the queue pair has a template";
        vlan: "a VLAN tag is sent";
        ipv6: "IPv6 instead of IPv4";
        spray: "flow label from the entropy value";
        migration: "BTH MigReq";
        destination_mac: "Ethernet destination";
        source_mac: "Ethernet source";
        vlan_tci: "VLAN priority, DEI and VID";
        traffic_class: "IPv4 TOS or IPv6 traffic class";
        hop_limit: "IPv4 TTL or IPv6 hop limit";
        flow_label: "IPv6 flow label where `spray` is 0";
        source_ip: "source address";
        destination_ip: "destination address";
        partition_key: "BTH P_Key";
        destination_qpn: "BTH destination QPN";
        checksum: "one's complement sum of the IPv4 header without length and identification";
    }
}

impl<'a> Template<'a> {
    /// The fields side by side, the first one at bit 0: a word of the table.
    pub(super) fn pack(&self) -> Signal<'a> {
        let mut parts = vec![];
        self.map(|_, _, value| {
            parts.push(value);
            value
        });
        cat_lsb_first(&parts)
    }

    /// The fields of a word, where `self` says which ones are constants and how wide the others are.
    pub(super) fn unpack_like(&self, packed: Signal<'a>) -> Self {
        let mut low = 0;
        self.map(|_, _, value| {
            low += value.width();
            packed.part(low - value.width(), value.width())
        })
    }
}
