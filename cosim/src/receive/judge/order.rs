//! The order in which the RTL's blocks took what came to them on several ports: `m_axis_taken`, decoded.

use std::collections::VecDeque;

use spraynic_hdl::receive_pipeline::taken;

use super::super::Result as Run;

/// What `qp_lookup` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookedUp {
    Packet,
    Context,
}

/// Packets of one order: queue pair, space, retired. (How those of mrc that tell of retired messages stand among its packets is a matter of time.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) qpn: u32,
    pub(super) space: bool,
    pub(super) retired: bool,
}

/// What `responder` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Packet(Way),
    Context,
    Request,
}

/// What `memory_regions` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtRegions {
    Access,
    Write,
}

/// The orders of a run.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) lookup: VecDeque<LookedUp>,
    pub(super) responder: VecDeque<Taken>,
    pub(super) regions: VecDeque<AtRegions>,
}

/// A number of up to 16 bytes, little-endian.
pub(in crate::receive) fn bits_of(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
}

impl Order {
    pub(super) fn of(run: &Run) -> Self {
        let mut order = Self::default();
        for frame in run.outcome.received("m_axis_taken") {
            let bits = bits_of(&frame.data);
            let is = |bit: u32| bits >> bit & 1 == 1;
            let way = Way {
                qpn: bits as u32 & 0xFF_FFFF,
                space: is(24),
                retired: is(25),
            };
            let responder = [
                (taken::RESPONDER_PACKET, Taken::Packet(way)),
                (taken::RESPONDER_CONTEXT, Taken::Context),
                (taken::RESPONDER_REQUEST, Taken::Request),
            ];
            let lookup = [
                (taken::LOOKUP_PACKET, LookedUp::Packet),
                (taken::LOOKUP_CONTEXT, LookedUp::Context),
            ];
            let regions = [
                (taken::REGIONS_ACCESS, AtRegions::Access),
                (taken::REGIONS_WRITE, AtRegions::Write),
            ];
            order.responder.extend(set(responder, is));
            order.lookup.extend(set(lookup, is));
            order.regions.extend(set(regions, is));
        }
        order
    }
}

/// Those whose bit is set.
fn set<T, const N: usize>(all: [(u32, T); N], is: impl Fn(u32) -> bool) -> impl Iterator<Item = T> {
    all.into_iter().filter(move |(bit, _)| is(*bit)).map(|(_, what)| what)
}
