//! round_robin_arbiter: golden model and RTL grant the same requester in every clock, at any number of requesters.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use bitvec::prelude::*;
use proptest::prelude::*;
use spraynic_cosim::Simulation;
use spraynic_golden::round_robin_arbiter::RoundRobinArbiter;
use spraynic_rtl::Context;

/// One requester needs no clock, so it has no model; the unit tests of hdl have that case.
const REQUESTERS: [u32; 5] = [2, 3, 5, 64, 100];

fn arbiter(requesters: u32) -> Simulation {
    let context = Context::new();
    blocks::simulation(
        &context,
        spraynic_hdl::round_robin_arbiter::round_robin_arbiter(&context, requesters),
    )
}

/// One clock: what was granted, after comparison with the model.
fn clock(
    simulation: &mut Simulation,
    model: &mut RoundRobinArbiter,
    requesters: u32,
    request: u128,
    advance: bool,
) -> Result<Option<usize>, TestCaseError> {
    let port = simulation.input("request")?;
    simulation.set_bytes(port, &request.to_le_bytes());
    simulation.set_by_name("advance", u64::from(advance))?;
    simulation.step()?;
    let grant = simulation
        .bytes(simulation.output("grant")?)
        .view_bits::<Lsb0>()
        .to_bitvec();
    let request: BitVec = (0..requesters).map(|bit| request >> bit & 1 == 1).collect();
    let expected = if advance {
        model.grant(&request)
    } else {
        model.peek(&request)
    };
    prop_assert_eq!(
        grant.iter_ones().collect::<Vec<_>>(),
        expected.into_iter().collect::<Vec<_>>()
    );
    prop_assert_eq!(simulation.get_by_name("granted")?, u64::from(expected.is_some()));
    Ok(expected)
}

/// All ones, few ones, none: what decides about wrapping.
fn request() -> impl Strategy<Value = u128> {
    prop_oneof![
        any::<u128>(),
        Just(u128::MAX),
        Just(0),
        (0..128u32).prop_map(|bit| 1 << bit),
        (any::<u128>(), any::<u128>(), any::<u128>()).prop_map(|(a, b, c)| a & b & c),
    ]
}

proptest! {
    #![proptest_config(common::config(100, "round_robin_arbiter"))]

    #[test]
    fn grants_equal_the_golden_model_in_every_clock(
        requesters in prop::sample::select(REQUESTERS.to_vec()),
        clocks in prop::collection::vec((request(), prop::bool::weighted(0.8)), 1..200),
    ) {
        if common::have_verilator() {
            let mut simulation = arbiter(requesters);
            simulation.reset(2)?;
            let mut model = RoundRobinArbiter::new(requesters as usize);
            for (request, advance) in clocks {
                clock(&mut simulation, &mut model, requesters, request, advance)?;
            }
        }
    }
}

/// One grant in every clock, and everybody is served once before anybody is served twice.
#[test]
fn everybody_asking_is_served_once_a_round() {
    if !common::have_verilator() {
        return;
    }
    for requesters in REQUESTERS {
        let mut simulation = arbiter(requesters);
        simulation.reset(2).unwrap();
        let mut model = RoundRobinArbiter::new(requesters as usize);
        for turn in 0..3 * requesters {
            let granted = clock(&mut simulation, &mut model, requesters, u128::MAX, true).unwrap();
            assert_eq!(granted, Some((turn % requesters) as usize));
        }
    }
}

/// A reset gives requester 0 the next turn, wherever the order was.
#[test]
fn after_a_reset_requester_0_comes_first() {
    if !common::have_verilator() {
        return;
    }
    let mut simulation = arbiter(5);
    for turns in 1..5 {
        simulation.reset(1).unwrap();
        let mut model = RoundRobinArbiter::new(5);
        for _ in 0..turns {
            clock(&mut simulation, &mut model, 5, u128::MAX, true).unwrap();
        }
    }
}
