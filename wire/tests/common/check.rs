//! What must hold of any bytes, and a small deterministic generator of damaged ones. Shared by the tests and by the
//! long-running example `fuzz_parse`.

use spraynic_wire::pcap::Reader;
use spraynic_wire::{Bth, Header, Packet, Pfc, Profile, icrc, pfc};

/// A generator of random numbers (xorshift64*), so that a seed says everything.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }
}

/// Damages bytes in one to four places: flipped bits, other bytes, cut, doubled, longer.
pub fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        // Headers are where it matters: half of the damage goes there.
        let reach = if random.below(2) == 0 {
            bytes.len().min(100)
        } else {
            bytes.len()
        };
        let at = random.below(reach.max(1));
        match (random.below(8), bytes.get_mut(at)) {
            (0 | 1, Some(byte)) => *byte ^= 1 << random.below(8),
            (2 | 3, Some(byte)) => *byte = random.next() as u8,
            (4, Some(byte)) => *byte = [0x00, 0xFF, 0x7F, 0x80][random.below(4)],
            (5, _) => bytes.truncate(at),
            (6, _) => {
                let tail = bytes[at.min(bytes.len())..].to_vec();
                bytes.extend_from_slice(&tail[..tail.len().min(64)]);
            }
            _ => bytes.extend((0..random.below(64)).map(|byte| byte as u8)),
        }
    }
}

/// Makes IPv4 checksum, BTH version and opcode right again where the damage left room, so that deeper checks are met.
pub fn mend(random: &mut Random, frame: &mut [u8]) {
    if let Some(header) = frame.get_mut(14..34).filter(|header| header[0] == 0x45) {
        let checksum = spraynic_wire::network::ipv4_checksum((&*header).try_into().expect("20 bytes"));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        if let Some(byte) = frame.get_mut(42).filter(|_| random.below(2) == 0) {
            let opcodes = spraynic_wire::opcode::OPCODES;
            *byte = opcodes[random.below(opcodes.len())].opcode.0;
        }
    }
}

/// What must hold of any bytes taken for a frame: no panic; what is parsed is emitted again; the verdict on the ICRC is
/// that of the packet. Gives whether they are a packet.
pub fn frame(bytes: &[u8]) -> bool {
    let mut parsed = false;
    for profile in [None].into_iter().chain(Profile::ALL.map(Some)) {
        match Packet::parse(bytes, profile) {
            Ok(packet) => {
                parsed = true;
                assert_eq!(packet.length(), bytes.len());
                assert_eq_but_reserved(&packet, &packet.emit(), bytes);
                let verdict = icrc::verify(bytes).expect("a packet has an ICRC");
                assert_eq!(packet.icrc, Some(verdict.found));
                assert!(!packet.to_string().is_empty());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let mut copy = bytes.to_vec();
    if icrc::insert(&mut copy).is_ok() {
        assert!(icrc::verify(&copy).expect("was inserted").is_valid());
    } else {
        assert_eq!(copy, bytes);
    }
    if let Ok(pause) = Pfc::parse(bytes) {
        let length = bytes.len().min(34);
        assert_eq!(pause.emit()[..length], bytes[..length]);
        assert_eq!(pause.emit().len(), pfc::LENGTH);
    }
    parsed
}

/// Reserved bits of extension headers become zero; all other bits stay.
fn assert_eq_but_reserved(packet: &Packet, emitted: &[u8], bytes: &[u8]) {
    let mut expected = bytes.to_vec();
    let mut at = packet.ethernet.length() + packet.ip.length() + 8 + Bth::LENGTH;
    for extension in &packet.extensions {
        for mask in extension.kind().reserved_mask() {
            expected[at] &= !mask;
            at += 1;
        }
    }
    assert_eq!(emitted, expected, "{packet:?}");
}

/// What must hold of any bytes taken for a capture file: no panic, an end, and at most one error, which is the last
/// item. Gives the count of frames.
pub fn capture_file(bytes: &[u8]) -> usize {
    let Ok(reader) = Reader::new(std::io::Cursor::new(bytes.to_vec())) else {
        return 0;
    };
    let mut frames = 0;
    let mut failed = false;
    for item in reader {
        assert!(!failed, "nothing follows an error");
        match item {
            Ok(frame) => {
                frames += 1;
                assert_eq!(frame.number, frames as u64);
                assert!(frame.offset < bytes.len() as u64 && frame.bytes.len() <= bytes.len());
            }
            Err(error) => {
                failed = true;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    frames
}
