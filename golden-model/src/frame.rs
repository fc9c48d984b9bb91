//! A frame between blocks: its bytes and its sideband. It knows nothing of beats but how many it takes.

/// A whole Ethernet frame, from the destination MAC to the last byte before the FCS.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Frame {
    /// Bytes in the order of the wire.
    pub bytes: Vec<u8>,
    /// `tuser[0]` of the last beat: the frame must not be sent.
    pub bad: bool,
    /// `tuser[1]` between `header_builder` and `icrc`: the network header is IPv6.
    pub ipv6: bool,
    /// `tuser[2]` between `header_builder` and `icrc`: a VLAN tag is there.
    pub vlan: bool,
}

impl Frame {
    /// A good frame without sideband, as it goes to or comes from a MAC.
    #[must_use]
    pub fn plain(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Whether what the RTL gave is this frame. Of a bad frame only its mark and its place in the order are
    /// specified: bytes and sideband count for good frames alone.
    #[must_use]
    pub fn agrees_with(&self, observed: &Self) -> bool {
        (self.bad && observed.bad) || self == observed
    }

    /// Beats that the frame takes on a bus of `beat_bytes`; an empty frame takes one.
    ///
    /// # Panics
    /// When `beat_bytes` is 0.
    #[must_use]
    pub fn beats(&self, beat_bytes: usize) -> usize {
        self.bytes.len().div_ceil(beat_bytes).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_round_up() {
        for (length, beats) in [(1, 1), (63, 1), (64, 1), (65, 2), (128, 2), (129, 3)] {
            assert_eq!(Frame::plain(vec![0; length]).beats(64), beats);
        }
    }

    #[test]
    fn bad_frames_agree_whatever_they_hold() {
        let bad = |bytes: &[u8]| Frame {
            bad: true,
            ..Frame::plain(bytes.to_vec())
        };
        assert!(bad(b"a").agrees_with(&bad(b"bc")));
        assert!(!bad(b"a").agrees_with(&Frame::plain(b"a".to_vec())));
        assert!(!Frame::plain(b"a".to_vec()).agrees_with(&bad(b"a")));
        assert!(!Frame::plain(b"a".to_vec()).agrees_with(&Frame::plain(b"b".to_vec())));
    }
}
