//! Tests of the composed model: every frame parses and carries what was asked for; recorded orders are followed.

use proptest::prelude::*;
use spraynic_config::descriptor::{Extension, WorkOpcode};
use spraynic_wire::{Ip, Packet, Profile, icrc as wire_icrc};

use super::*;

/// Payload that tells where it came from; one address answers with a byte too few.
struct Pattern {
    short_at: Option<u64>,
}

impl Memory for Pattern {
    fn read(&mut self, request: &PayloadRequest) -> Vec<u8> {
        let short = self.short_at == Some(request.address);
        (0..u64::from(request.length) - u64::from(short))
            .map(|at| byte_at(request.address.wrapping_add(at)))
            .collect()
    }
}

fn byte_at(address: u64) -> u8 {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn pipeline() -> TransmitPipeline {
    TransmitPipeline::new(Config {
        packet_slicer: packet_slicer::Config::full(8),
        header_builder: header_builder::Config::full(8),
        frame_fifo: frame_fifo::Config {
            depth_beats: 256,
            beat_bytes: 64,
        },
    })
}

fn template(qpn: u32) -> HeaderTemplate {
    HeaderTemplate {
        qpn,
        destination_mac: 0x5254_0000_0002,
        source_mac: 0x5254_0000_0001,
        hop_limit: 64,
        source_ip: 0x0A4D_0001,
        destination_ip: 0x0A4D_0002,
        partition_key: 0xFFFF,
        destination_qpn: 0x100 + qpn,
        ..HeaderTemplate::default()
    }
}

fn context(qpn: u32) -> SliceContext {
    SliceContext {
        qpn,
        open: true,
        mtu: 1,
        psn: 0xFF_FFF0,
        entropy: 0xC000 + qpn,
        ..SliceContext::default()
    }
}

fn write(qpn: u32, local_address: u64, length: u32) -> WorkRequest {
    WorkRequest {
        opcode: WorkOpcode::Write as u8,
        segments: 1,
        qpn,
        local_address,
        length,
        remote_address: 0x8000,
        ..WorkRequest::default()
    }
}

fn acknowledgement(qpn: u32, psn: u32) -> PacketDescriptor {
    PacketDescriptor {
        qpn,
        opcode: 0x11,
        psn,
        extension_words: 1,
        ..PacketDescriptor::default()
    }
}

fn response(qpn: u32, psn: u32, payload_length: u16) -> PacketDescriptor {
    PacketDescriptor {
        opcode: 0x10,
        payload_length,
        local_address: u64::from(psn) << 16,
        ..acknowledgement(qpn, psn)
    }
}

fn loaded() -> TransmitPipeline {
    let mut pipeline = pipeline();
    for qpn in 0..3 {
        pipeline.write_context(&context(qpn));
        pipeline.write_template(&template(qpn));
    }
    pipeline.load_identification(0xFFFD);
    pipeline.request(&write(0, 0x1000, 600)).unwrap();
    pipeline.request(&write(1, 0x2000, 10)).unwrap();
    pipeline.response(response(2, 5, 77));
    pipeline.response(response(2, 6, 0));
    pipeline.control(acknowledgement(1, 9));
    pipeline.slow_path(b"a frame of the host".to_vec());
    pipeline
}

#[test]
fn sources_take_turns_and_control_goes_first() {
    let mut pipeline = loaded();
    let mut memory = Pattern { short_at: None };
    let sources: Vec<Source> = std::iter::from_fn(|| pipeline.transmit(&mut memory, 0))
        .map(|(source, _)| source)
        .collect();
    use Source::*;
    assert_eq!(
        sources,
        [Control, SlowPath, Slicer, Response, Slicer, Response, Slicer, Slicer]
    );
    assert_eq!(pipeline.counters().header_builder.frames, 7);
    assert_eq!(pipeline.counters().icrc.frames, 7);
    assert_eq!(pipeline.counters().frame_fifo.forwarded, 7);
    assert_eq!(pipeline.counters().packet_slicer.packets, 4);
    assert_eq!(pipeline.finish(&mut memory), Ok(()));
}

#[test]
fn taking_from_an_empty_source_is_an_error() {
    let mut memory = Pattern { short_at: None };
    for source in Source::ALL {
        assert_eq!(pipeline().take(source, &mut memory, 0), Err(Nothing(source)));
    }
}

#[test]
fn a_wrong_frame_is_a_mismatch_that_shows_all_candidates() {
    let mut pipeline = loaded();
    let mut memory = Pattern { short_at: None };
    let mut right = pipeline.clone().take(Source::Slicer, &mut memory, 0).unwrap().unwrap();
    right[60] ^= 1;
    let mismatch = pipeline.follow(&right, &mut memory, 0..=0).unwrap_err();
    assert_eq!(mismatch.observed, right);
    assert_eq!(mismatch.candidates.len(), 4);
    right[60] ^= 1;
    assert_eq!(pipeline.follow(&right, &mut memory, 0..=0), Ok(Source::Slicer));
    assert_eq!(pipeline.finish(&mut memory).unwrap_err().candidates.len(), 7);
}

#[test]
fn frames_that_were_dropped_before_take_their_identification() {
    // The second packet of the first request gets a byte too few; RTL and model may drop it before or after others.
    let mut memory = Pattern { short_at: Some(0x1100) };
    let order = [
        Source::Slicer,
        Source::Slicer,
        Source::Control,
        Source::Slicer,
        Source::Slicer,
        Source::Response,
    ];
    let mut rtl = loaded();
    let observed: Vec<Vec<u8>> = order
        .into_iter()
        .filter_map(|source| rtl.take(source, &mut memory, 0).unwrap())
        .collect();
    assert_eq!(observed.len(), 5);
    let mut model = loaded();
    let followed: Vec<Source> = observed
        .iter()
        .map(|frame| model.follow(frame, &mut memory, 0..=0).unwrap())
        .collect();
    assert_eq!(
        followed,
        [
            Source::Slicer,
            Source::Control,
            Source::Slicer,
            Source::Slicer,
            Source::Response
        ]
    );
    assert_eq!(model.counters(), rtl.counters());
    assert_eq!(model.counters().frame_fifo.drop_bad, 1);
}

#[test]
fn descriptors_without_a_template_do_not_stop_others() {
    let mut pipeline = loaded();
    pipeline.control(acknowledgement(7, 1));
    pipeline.control(acknowledgement(1, 2));
    let mut rtl = pipeline.clone();
    let mut memory = Pattern { short_at: None };
    for _ in 0..3 {
        if let Some(frame) = rtl.take(Source::Control, &mut memory, 0).unwrap() {
            assert_eq!(pipeline.follow(&frame, &mut memory, 0..=0), Ok(Source::Control));
        }
    }
    assert_eq!(pipeline.counters(), rtl.counters());
    assert_eq!(pipeline.counters().header_builder.drop_template, 1);
}

/// A WRITE of each length is one packet: pad, IP and UDP length and the ICRC behind the pad, over IPv4 without a tag.
#[test]
fn lengths_count_pad_and_icrc_at_every_length_modulo_4_and_around_the_mtu() {
    let mut pipeline = pipeline();
    pipeline.write_context(&context(0));
    pipeline.write_template(&template(0));
    let mut memory = Pattern { short_at: None };
    for length in (0..=9).chain([253, 254, 255, 256]) {
        pipeline.request(&write(0, 0x1000, length)).unwrap();
        let (_, frame) = pipeline.transmit(&mut memory, 0).unwrap();
        let pad = [0, 3, 2, 1][length as usize % 4];
        // UDP 8, BTH 12, RETH 16, ICRC 4.
        let udp = 8 + 12 + 16 + length as usize + pad + 4;
        let field = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
        assert_eq!((field(16), field(38)), (20 + udp, udp), "{length}: IP and UDP length");
        assert_eq!(frame.len(), 14 + 20 + udp, "{length}");
        assert_eq!(usize::from(frame[43] >> 4 & 3), pad, "{length}: pad count of the BTH");
        assert!(
            frame[70 + length as usize..frame.len() - 4]
                .iter()
                .all(|byte| *byte == 0)
        );
        assert!(wire_icrc::verify(&frame).unwrap().is_valid(), "{length}");
    }
    // One byte beyond the MTU of 256 is a packet of its own.
    pipeline.request(&write(0, 0x1000, 257)).unwrap();
    let lengths = [(); 2].map(|()| pipeline.transmit(&mut memory, 0).unwrap().1.len());
    assert_eq!(lengths, [14 + 20 + 8 + 12 + 16 + 256 + 4, 14 + 20 + 8 + 12 + 1 + 3 + 4]);
}

#[test]
fn frames_longer_than_the_fifo_are_dropped() {
    let mut pipeline = TransmitPipeline::new(Config {
        frame_fifo: frame_fifo::Config {
            depth_beats: 2,
            beat_bytes: 64,
        },
        packet_slicer: packet_slicer::Config::full(8),
        header_builder: header_builder::Config::full(8),
    });
    pipeline.write_context(&context(0));
    pipeline.write_template(&template(0));
    pipeline.request(&write(0, 0, 256 + 50)).unwrap();
    let mut memory = Pattern { short_at: None };
    let frame = pipeline.transmit(&mut memory, 0).unwrap().1;
    assert_eq!(Packet::parse(&frame, None).unwrap().bth.psn.value(), 0xFF_FFF1);
    assert_eq!(pipeline.counters().frame_fifo.drop_too_long, 1);
}

#[test]
fn time_stamps_must_be_of_the_time_allowed() {
    let mut pipeline = pipeline();
    pipeline.write_context(&SliceContext {
        profile: 2,
        timestamps: true,
        ..context(0)
    });
    pipeline.write_template(&template(0));
    pipeline.request(&write(0, 0, 10)).unwrap();
    let mut memory = Pattern { short_at: None };
    // The stamp wraps between the two ends of the window.
    let time_ns = (7 << 23) + 300;
    let frame = pipeline
        .clone()
        .take(Source::Slicer, &mut memory, time_ns)
        .unwrap()
        .unwrap();
    assert!(
        pipeline
            .follow(&frame, &mut memory, time_ns + 128..=time_ns + 1000)
            .is_err()
    );
    assert!(
        pipeline
            .follow(&frame, &mut memory, time_ns - 1000..=time_ns - 128)
            .is_err()
    );
    assert_eq!(
        pipeline.follow(&frame, &mut memory, time_ns - 1000..=time_ns + 1000),
        Ok(Source::Slicer)
    );
}

prop_compose! {
    fn any_template(qpn: u32)(
        flags in any::<[bool; 4]>(), macs in any::<[u64; 2]>(), vlan_tci: u16, bytes in any::<[u8; 2]>(),
        flow_label in 0u32..1 << 20, ips in any::<[u128; 2]>(), partition_key: u16, destination_qpn in 0u32..1 << 24,
    ) -> HeaderTemplate {
        let [vlan, ipv6, spray, migration] = flags;
        let ip = |ip: u128| if ipv6 { ip } else { ip & 0xFFFF_FFFF };
        HeaderTemplate {
            qpn, vlan, ipv6, spray, migration, vlan_tci, flow_label, partition_key, destination_qpn,
            destination_mac: macs[0] >> 16, source_mac: macs[1] >> 16,
            traffic_class: bytes[0], hop_limit: bytes[1],
            source_ip: ip(ips[0]), destination_ip: ip(ips[1]),
            ..HeaderTemplate::default()
        }
    }
}

prop_compose! {
    fn any_request()(
        profile in 0u8..3, mtu in 1u8..=3, timestamps: bool, psn in 0u32..1 << 24, entropy: u32, msns in any::<[u16; 2]>(),
        operation in 0usize..6, length in prop_oneof![0u32..9, 250u32..260, 0u32..5000], flags in any::<[bool; 2]>(),
        addresses in any::<[u64; 2]>(), words in any::<[u32; 3]>(), operands in any::<[u64; 2]>(),
    ) -> (SliceContext, WorkRequest) {
        let operation = if profile == 2 { WorkOpcode::Write } else { WorkOpcode::ALL[operation] };
        let atomic = matches!(operation, WorkOpcode::CompareSwap | WorkOpcode::FetchAdd);
        let context = SliceContext {
            profile, mtu, timestamps, psn, entropy, msn: msns[0], rqmsn: msns[1], ..context(1)
        };
        let request = WorkRequest {
            opcode: operation as u8,
            solicited: flags[0],
            inline_immediate: flags[1] && matches!(operation, WorkOpcode::Send | WorkOpcode::Write),
            length: if atomic { 8 } else { length },
            local_address: addresses[0],
            remote_address: if atomic { addresses[1] & !7 } else { addresses[1] },
            local_key: words[0], remote_key: words[1], immediate: words[2],
            compare: operands[0], swap_add: operands[1],
            ..write(1, 0, 0)
        };
        (context, request)
    }
}

fn wire_profile(code: u8) -> Profile {
    Profile::ALL[usize::from(code)]
}

proptest! {
    #[test]
    fn every_frame_parses_and_is_what_was_asked_for(
        template in any_template(1), (context, request) in any_request(), identification: u16, time_ns: u64,
    ) {
        let mut pipeline = pipeline();
        pipeline.write_context(&context);
        pipeline.write_template(&template);
        pipeline.load_identification(identification);
        pipeline.request(&request).unwrap();
        let mut memory = Pattern { short_at: None };
        let mut payload = Vec::new();
        let mut frames = 0u32;
        while let Some((_, frame)) = pipeline.transmit(&mut memory, time_ns) {
            let packet = Packet::parse(&frame, Some(wire_profile(context.profile)));
            let packet = match packet {
                Ok(packet) => packet,
                Err(error) => return Err(TestCaseError::fail(format!("{error}: {frame:02x?}"))),
            };
            prop_assert!(wire_icrc::verify(&frame).unwrap().is_valid());
            prop_assert_eq!(packet.emit(), frame, "wire emits the same bytes");
            check_headers(&packet, &template, &context, identification.wrapping_add(frames as u16))?;
            prop_assert_eq!(packet.bth.psn.value(), (context.psn + frames) & 0xFF_FFFF);
            for extension in &packet.extensions {
                if let Some(tseth) = extension.as_tseth() {
                    prop_assert_eq!(tseth.tx_timestamp, (time_ns >> 7) as u16);
                }
                if let Some(reth) = extension.as_reth() {
                    let advanced = if context.profile == 2 { payload.len() as u64 } else { 0 };
                    prop_assert_eq!(reth.virtual_address, request.remote_address.wrapping_add(advanced));
                    prop_assert_eq!((reth.remote_key, reth.length), (request.remote_key, request.length));
                }
            }
            payload.extend_from_slice(&packet.payload);
            frames += 1;
        }
        let sends = matches!(WorkOpcode::from_code(request.opcode).unwrap(),
            WorkOpcode::Send | WorkOpcode::SendInvalidate | WorkOpcode::Write);
        prop_assert_eq!(payload.len(), if sends { request.length as usize } else { 0 });
        for (at, byte) in payload.iter().enumerate() {
            prop_assert_eq!(*byte, byte_at(request.local_address.wrapping_add(at as u64)));
        }
        prop_assert_eq!(pipeline.counters().packet_slicer.packets, frames);
    }

    #[test]
    fn any_legal_order_is_followed(order in prop::collection::vec(0usize..4, 0..12), short: bool) {
        let mut memory = Pattern { short_at: short.then_some(0x1100) };
        let (mut rtl, mut model) = (loaded(), loaded());
        for index in order {
            let source = Source::ALL[index];
            if let Ok(Some(frame)) = rtl.take(source, &mut memory, 0) {
                let followed = model.follow(&frame, &mut memory, 0..=0);
                prop_assert_eq!(followed, Ok(source));
            }
        }
        let _ = rtl.finish(&mut memory);
        let _ = model.finish(&mut memory);
        prop_assert_eq!(model.counters(), rtl.counters());
    }

    #[test]
    fn control_descriptors_of_any_extension_become_whole_frames(
        bytes in any::<[u8; 32]>(), words in 0u8..=9, template in any_template(1), stamp in 0u8..3,
    ) {
        let mut extension = Extension::default();
        extension.0[..32].copy_from_slice(&bytes);
        let mut pipeline = pipeline();
        pipeline.write_template(&template);
        pipeline.control(PacketDescriptor { extension, extension_words: words, stamp, ..acknowledgement(1, 3) });
        let mut memory = Pattern { short_at: None };
        let (source, frame) = pipeline.transmit(&mut memory, 12_345_678).unwrap();
        prop_assert_eq!(source, Source::Control);
        prop_assert!(wire_icrc::verify(&frame).unwrap().is_valid());
        let headers = header_builder::extension_offset(&template);
        prop_assert_eq!(frame.len(), headers + usize::from(words) * 4 + 4);
    }
}

fn check_headers(
    packet: &Packet,
    template: &HeaderTemplate,
    context: &SliceContext,
    identification: u16,
) -> Result<(), TestCaseError> {
    let mac = |address: u64| address.to_be_bytes()[2..].to_vec();
    prop_assert_eq!(packet.ethernet.destination.0.to_vec(), mac(template.destination_mac));
    prop_assert_eq!(packet.ethernet.source.0.to_vec(), mac(template.source_mac));
    let tags: Vec<u16> = packet.ethernet.vlans.iter().map(|tag| tag.tci).collect();
    prop_assert_eq!(tags, if template.vlan { vec![template.vlan_tci] } else { vec![] });
    match &packet.ip {
        Ip::V4(ip) => {
            prop_assert!(!template.ipv6 && ip.dont_fragment);
            prop_assert_eq!((ip.tos, ip.ttl), (template.traffic_class, template.hop_limit));
            prop_assert_eq!(ip.identification, identification);
            prop_assert_eq!(u128::from(u32::from(ip.source)), template.source_ip);
            prop_assert_eq!(u128::from(u32::from(ip.destination)), template.destination_ip);
        }
        Ip::V6(ip) => {
            prop_assert!(template.ipv6);
            prop_assert_eq!(
                (ip.traffic_class, ip.hop_limit),
                (template.traffic_class, template.hop_limit)
            );
            let label = if template.spray {
                context.entropy & 0xF_FFFF
            } else {
                template.flow_label
            };
            prop_assert_eq!(ip.flow_label, label);
            prop_assert_eq!(u128::from(ip.source), template.source_ip);
            prop_assert_eq!(u128::from(ip.destination), template.destination_ip);
        }
    }
    prop_assert_eq!(packet.udp_source_port, context.entropy as u16);
    let bth = &packet.bth;
    prop_assert_eq!(bth.migration, template.migration);
    prop_assert_eq!(
        (bth.partition_key, bth.destination_qpn),
        (template.partition_key, template.destination_qpn)
    );
    prop_assert_eq!(bth.timestamped, context.profile == 2 && context.timestamps);
    Ok(())
}
