//! What came out of the receive pipeline against the golden models of its blocks, each of which is given what the RTL's block took, in the order
//! and at the time at which it took it (`m_axis_event`, `m_axis_taken`, `m_axis_control_event`).
//!
//! Every stream is compared exactly and in its order, control packets too, and every counter. It says nothing about what was sent: see
//! [`super::traffic`].

mod acks;
mod back;
mod counters;
mod front;
mod lives;
mod order;

use std::fmt::Debug;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, PacketContext, PacketDescriptor, ReceivedPacket, ResponseMessage, SequencedPacket,
};
use thiserror::Error;

use super::{Result as Run, Scenario};
use acks::Acks;
use back::Back;
use front::Front;
use order::Order;
pub(super) use order::bits_of;

/// The RTL did something else than the golden models.
#[derive(Debug, Error)]
pub enum Difference {
    /// Something that the RTL says took effect cannot be.
    #[error("{block}, event {index}: {problem}")]
    Event {
        /// Block whose order is followed.
        block: &'static str,
        /// Index of what it took.
        index: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A stream gave something else.
    #[error("{stream}, packet {index}:\n RTL    {rtl}\n golden {golden}")]
    Stream {
        /// Name of the stream.
        stream: &'static str,
        /// Index of the packet.
        index: usize,
        /// What came.
        rtl: String,
        /// What should have come.
        golden: String,
    },
    /// A counter has another value.
    #[error("counter {name}: RTL {rtl:?}, golden {golden:?}")]
    Counter {
        /// Its name, without `count_`.
        name: String,
        /// The RTL's value, if it has such a counter.
        rtl: Option<u64>,
        /// The golden model's.
        golden: Option<u64>,
    },
}

/// Compares a run with the golden models.
///
/// # Errors
/// The first [`Difference`].
pub fn judge(config: &NicConfig, scenario: &Scenario, run: &Run) -> Result<(), Difference> {
    let order = Order::of(run);
    let mut front = Front::new(config, scenario, order.lookup);
    front.follow(run)?;
    let mut back = Back::new(config, scenario);
    back.follow(scenario, &mut front, order.responder, order.regions)?;
    let mut acks = Acks::new(config, scenario);
    acks.follow(run, &mut front, &mut back)?;

    let differs = run.memory.iter().zip(&back.memory);
    let differs = differs.enumerate().find(|(_, (rtl, golden))| rtl != golden);
    if let Some((address, (rtl, golden))) = differs {
        return Err(Difference::Stream {
            stream: "memory, by address",
            index: address,
            rtl: format!("{rtl:#04x}"),
            golden: format!("{golden:#04x}"),
        });
    }
    // Frames of the host that the MAC marks bad leave as bad ones.
    let host = run.outcome.received("m_axis_slow_path").iter();
    let host = host.filter(|frame| frame.user & 1 == 0).map(|frame| &frame.data);
    same("m_axis_slow_path", host, &front.slow_path)?;
    let feedback = descriptors(run, "m_axis_feedback", |bytes| {
        let (packet, context) = bytes.split_at(ReceivedPacket::width() as usize / 8);
        (ReceivedPacket::unpack(packet), PacketContext::unpack(context))
    });
    same("m_axis_feedback", &feedback, &front.feedback)?;
    let payload = data(run, "m_axis_feedback_payload");
    same("m_axis_feedback_payload", payload, &front.feedback_payload)?;
    let endpoint = descriptors(run, "m_axis_endpoint", ReceivedPacket::unpack);
    same("m_axis_endpoint", &endpoint, &front.endpoint)?;
    let requester = descriptors(run, "m_axis_requester", SequencedPacket::unpack);
    same("m_axis_requester", &requester, &back.requester)?;
    let payload = data(run, "m_axis_requester_payload");
    same("m_axis_requester_payload", payload, &back.requester_payload)?;
    same("m_axis_completion", &run.completions, &back.completions)?;
    let responses = descriptors(run, "m_axis_response", PacketDescriptor::unpack);
    same("m_axis_response", &responses, &back.responses)?;
    let messages = descriptors(run, "m_axis_message", ResponseMessage::unpack);
    same("m_axis_message", &messages, &back.messages)?;
    counters::compare(&run.outcome.counters, &front, &back, acks.counters())
}

fn data<'r>(run: &'r Run, stream: &str) -> impl Iterator<Item = &'r Vec<u8>> {
    run.outcome.received(stream).iter().map(|frame| &frame.data)
}

fn descriptors<D>(run: &Run, stream: &str, unpack: impl Fn(&[u8]) -> D) -> Vec<D> {
    data(run, stream).map(|bytes| unpack(bytes)).collect()
}

/// Compares the packets of a stream in their order.
fn same<'a, T: Debug + PartialEq + 'a>(
    stream: &'static str,
    rtl: impl IntoIterator<Item = &'a T>,
    golden: &'a [T],
) -> Result<(), Difference> {
    let (mut rtl, mut golden) = (rtl.into_iter(), golden.iter());
    for index in 0.. {
        match (rtl.next(), golden.next()) {
            (None, None) => break,
            (rtl, golden) if rtl == golden => {}
            (rtl, golden) => return Err(differs(stream, index, &rtl, &golden)),
        }
    }
    Ok(())
}

fn differs(stream: &'static str, index: usize, rtl: &impl Debug, golden: &impl Debug) -> Difference {
    let shorten = |text: String| text.chars().take(1500).collect();
    Difference::Stream {
        stream,
        index,
        rtl: shorten(format!("{rtl:?}")),
        golden: shorten(format!("{golden:?}")),
    }
}
