//! A short run of the long example `fuzz_parse`: damaged frames of the captures, with a fixed seed.

mod common;

use common::check::{Random, damage, frame, mend};

#[test]
fn damaged_captured_frames_never_panic() {
    let frames: Vec<Vec<u8>> = common::captures()
        .into_iter()
        .flat_map(|(_, frames)| frames)
        .map(|frame| frame.bytes)
        .collect();
    let mut random = Random::new(1);
    let mut packets = 0;
    for _ in 0..100_000 {
        let mut bytes = frames[random.below(frames.len())].clone();
        damage(&mut random, &mut bytes);
        mend(&mut random, &mut bytes);
        packets += usize::from(frame(&bytes));
    }
    // Neither all refused nor all accepted: the damage reaches the deeper checks.
    assert!((10_000..90_000).contains(&packets), "{packets} of 100,000 are packets");
}
