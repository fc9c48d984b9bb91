//! Parts of the parser by themselves; the whole is compared with its golden model in cosim/tests/packet_parser.rs.

use super::*;
use proptest::prelude::*;
use spraynic_config::Preset;
use spraynic_rtl::{Bits, Evaluator};

fn parser(width: u32) -> PacketParser {
    PacketParser {
        data_width: width,
        ..PacketParser::from(&NicConfig::preset(Preset::G100))
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let context = Context::new();
    let refused = |parser: PacketParser| packet_parser(&context, &parser).map(|_| ()).unwrap_err();
    assert_eq!(refused(parser(96)), PacketParserError::DataWidth(96));
    let no_ip = PacketParser {
        ipv4: false,
        ipv6: false,
        ..parser(64)
    };
    assert_eq!(refused(no_ip), PacketParserError::NoIp);
    for max_payload in [0, 4097] {
        let long = PacketParser {
            max_payload,
            ..parser(64)
        };
        assert_eq!(refused(long), PacketParserError::MaxPayload(max_payload));
    }
}

#[test]
fn keep_and_last_lane_say_the_same() {
    for lanes in [8, 16, 32, 64, 128] {
        let context = Context::new();
        let m = context.module("probe");
        let lane = lanes::last_lane(m.input("keep", lanes));
        m.output_of("lane", lane);
        m.output_of("again", lanes::keep_up_to(lane, lanes));
        let mut run = Evaluator::new(m.finish());
        for last in 0..lanes {
            let keep: Vec<u8> = (0..lanes / 8)
                .map(|byte| (0xFFFFu32 >> (15 - (last as i32 - 8 * byte as i32).clamp(-1, 7)) & 0xFF) as u8)
                .collect();
            let keep = Bits::from_bytes(lanes, &keep);
            run.set("keep", keep.clone());
            assert_eq!(run.get_u64("lane"), u64::from(last));
            assert_eq!(run.get("again"), keep);
        }
    }
}

/// All 256 opcodes, with and without time stamp, against the golden model's source.
#[test]
fn the_opcode_table_is_the_libraries() {
    let context = Context::new();
    let m = context.module("probe");
    let mut some = parser(64);
    some.opcodes.retain(|opcode| opcode.0 != 0x04);
    let facts = opcode_table::opcode_facts(m, &some, "probe", m.input("opcode", 8), m.input("timestamped", 1));
    m.output_of("known", facts.known);
    m.output_of("has_payload", facts.has_payload);
    m.output_of("takes_psn", facts.takes_psn);
    m.output_of("extension_words", facts.extension_words);
    let mut run = Evaluator::new(m.finish());
    for code in 0..=255u8 {
        for timestamped in [false, true] {
            run.set("opcode", code);
            run.set("timestamped", u64::from(timestamped));
            let info = Opcode(code).info().filter(|_| code != 0x04);
            assert_eq!(run.get_u64("known"), u64::from(info.is_some()), "{code:#x}");
            let Some(info) = info else { continue };
            let takes_psn = info.operation.is_request() || info.operation.is_response();
            assert_eq!(run.get_u64("has_payload"), u64::from(info.has_payload), "{code:#x}");
            assert_eq!(run.get_u64("takes_psn"), u64::from(takes_psn), "{code:#x}");
            let words = info.header_bytes(timestamped) as u64 / 4;
            assert_eq!(run.get_u64("extension_words"), words, "{code:#x}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Two beats rotated and merged are the bytes from the payload's first on.
    #[test]
    fn a_payload_beat_is_what_begins_in_the_first_beat(
        shift in 1..=5u32, word in any::<u32>(), seed in any::<u8>(),
    ) {
        let bytes = 4u32 << shift;
        let word = word % (1 << shift);
        let context = Context::new();
        let m = context.module("probe");
        let words = m.input("words", shift);
        let [first, second] = ["first", "second"].map(|name| {
            payload_reader::rotated(m.input(name, bytes * 8), words)
        });
        m.output_of("merged", payload_reader::merge(words, first, second));
        let mut run = Evaluator::new(m.finish());
        let frame: Vec<u8> = (0..2 * bytes).map(|at| seed.wrapping_add(at as u8)).collect();
        run.set("words", word);
        run.set("first", Bits::from_bytes(bytes * 8, &frame[..bytes as usize]));
        run.set("second", Bits::from_bytes(bytes * 8, &frame[bytes as usize..]));
        let from = (word * 4 + 2) as usize;
        prop_assert_eq!(run.get("merged").to_bytes(), &frame[from..from + bytes as usize]);
    }
}
