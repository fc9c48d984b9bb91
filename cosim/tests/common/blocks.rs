//! What the tests of blocks share: models of hdl's definitions, built once a test program and lint clean, and frames.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use spraynic_cosim::{Builder, Frame, Model, ModelSource, Received, Simulation};
use spraynic_rtl::{Context, Definition};

static MODELS: Mutex<Option<HashMap<String, Arc<Model>>>> = Mutex::new(None);

/// A running model of a block. It is linted and built at the first call.
pub(crate) fn simulation<'a>(context: &'a Context, definition: Definition<'a>) -> Simulation {
    let _ = context;
    let mut models = MODELS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let models = models.get_or_insert_default();
    let model = models.entry(definition.name()).or_insert_with(|| {
        let source = ModelSource::from_definition(definition);
        spraynic_cosim::lint(&source).unwrap_or_else(|error| panic!("{error}"));
        Builder::new().build(&source).unwrap_or_else(|error| panic!("{error}"))
    });
    Simulation::new(model, 1)
}

/// Frames of 1 to `longest` beats; short ones and last beats of any size are common.
pub(crate) fn frames(beat: usize, longest: usize, user: u64, count: usize) -> impl Strategy<Value = Vec<Frame>> {
    let beats = prop_oneof![2 => Just(1), 2 => 1..=longest.min(4), 1 => 1..=longest];
    let last = prop_oneof![1 => Just(beat), 2 => 1..=beat, 1 => 1..=beat.min(4)];
    let frame = (beats, last, any::<u64>(), 0..=user)
        .prop_map(move |(beats, last, seed, user)| Frame::with_user(bytes((beats - 1) * beat + last, seed), user));
    prop::collection::vec(frame, 0..count)
}

/// Bytes that differ from each other and from those of other seeds.
pub(crate) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Frames of these numbers of whole beats, each with its own bytes.
pub(crate) fn whole_beats(beat: usize, beats: impl IntoIterator<Item = usize>) -> Vec<Frame> {
    let numbered = beats.into_iter().zip(0..);
    numbered
        .map(|(beats, seed)| Frame::new(bytes(beats * beat, seed)))
        .collect()
}

/// What came out is what went in, to the bit and in its order.
pub(crate) fn assert_same(sent: &[Frame], received: &[Received]) -> Result<(), TestCaseError> {
    for (index, (sent, received)) in sent.iter().zip(received).enumerate() {
        prop_assert_eq!(&sent.data, &received.data, "bytes of frame {}", index);
        prop_assert_eq!(sent.user, received.user, "tuser of frame {}", index);
    }
    prop_assert_eq!(sent.len(), received.len(), "count of frames");
    Ok(())
}
