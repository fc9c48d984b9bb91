//! The whole receive path as the server of captured Linux soft-RoCE connections: the same answers, and the memory that the requests imply.

use std::path::PathBuf;

use spraynic_config::descriptor::{PacketDescriptor, PayloadRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_golden::capture_server::{Answered, ServerReplay, servers};
use spraynic_golden::frame::Frame;
use spraynic_golden::receive_pipeline::Moment;
use spraynic_golden::receive_pipeline::path::{Config, ReceivePath};
use spraynic_golden::transmit_pipeline::payload_request;
use spraynic_wire::pcap::Reader;

fn replays(name: &str) -> Vec<ServerReplay> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data")
        .join(name);
    let captured = Reader::read_all(&path).unwrap();
    servers(&captured.into_iter().map(|frame| frame.bytes).collect::<Vec<_>>())
}

fn payload(packet: &PacketDescriptor, memory: &[u8]) -> Vec<u8> {
    payload_request(packet).map_or_else(Vec::new, |PayloadRequest { address, length, .. }| {
        memory[address as usize..][..usize::from(length)].to_vec()
    })
}

/// Plays one server's frames. Gives its answers, each with the index of the frame that it answers, and the memory.
fn play(server: &ServerReplay) -> (Vec<(usize, Answered)>, Vec<u8>) {
    let mut nic = NicConfig::preset(Preset::G100);
    nic.queue_pairs.count = 64;
    nic.receive.receive_requests = 16;
    nic.validate().unwrap();
    let mut path = ReceivePath::new(Config::from(&nic));
    let mut memory = server.memory.clone();
    for context in &server.contexts {
        path.write_context(context, &mut memory);
    }
    for region in &server.regions {
        path.write_region(region);
    }
    for request in &server.receive_requests {
        path.post(request, &mut memory);
    }
    let mut answers = Vec::new();
    let mut completed = 0;
    for (index, bytes) in &server.frames {
        let outcome = path.receive(&Frame::plain(bytes.clone()), &Moment::default(), &mut memory);
        completed += outcome.effects.completions.len();
        for packet in outcome
            .control
            .iter()
            .copied()
            .chain(outcome.effects.response_packets())
        {
            answers.push((*index, Answered::of(&packet, *index, payload(&packet, &memory))));
        }
    }
    assert!(completed <= server.receive_requests.len());
    (answers, memory)
}

/// What must be equal, by queue pair.
fn by_queue_pair(answers: &[Answered], qpn: u32) -> Vec<Answered> {
    let of_this = answers.iter().filter(|answer| answer.qpn == qpn);
    of_this
        .map(|answer| Answered {
            index: 0,
            ..answer.clone()
        })
        .collect()
}

fn serve(name: &str) {
    for server in replays(name) {
        let (ours, memory) = play(&server);
        assert!(memory == server.memory_after, "{name}: memory at the end");
        let answers: Vec<Answered> = ours.iter().map(|(_, answer)| answer.clone()).collect();
        let mut compared = 0;
        for context in &server.contexts {
            let (ours, linux) = (
                by_queue_pair(&answers, context.qpn),
                by_queue_pair(&server.answers, context.qpn),
            );
            // Captures end at a count of frames: what Linux answered to the last ones may be missing, nothing else.
            assert!(ours.len() >= linux.len(), "{name}: {} of {}", ours.len(), linux.len());
            assert_eq!(ours[..linux.len()], linux[..], "{name}, queue pair {}", context.qpn);
            compared += linux.len();
        }
        assert_eq!(compared, server.answers.len());
        let beyond = answers.len() - compared;
        println!(
            "{name}: server {:x}: {compared} answers equal, {beyond} after the capture's end",
            server.address
        );
        assert!(compared > 0 || name == "rc-write-multi-qp-1023.pcap", "{name}");
    }
}

macro_rules! captures {
    ($($test:ident: $file:literal;)*) => {$(
        #[test]
        fn $test() {
            serve($file);
        }
    )*};
}

captures! {
    send: "rc-send-1024.pcap";
    write: "rc-write-1024.pcap";
    read: "rc-read-1024.pcap";
    write_of_64_bytes: "rc-write-lat-64.pcap";
    atomics: "rc-atomics.pcap";
    ipv6_with_padding: "rc-write-ipv6-unaligned-12345.pcap";
    several_queue_pairs: "rc-write-multi-qp-1023.pcap";
    go_back_n: "rc-write-lossy-go-back-n.pcap";
}
