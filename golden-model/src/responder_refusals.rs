//! What the responder model refuses, each by an example: order of opcodes, lengths, buffers, keys and bounds.

use super::*;

#[test]
fn a_send_that_is_longer_than_its_buffer_is_refused() {
    for (opcodes, payload) in [
        (vec![Opcode::SEND_ONLY], 11),
        (vec![Opcode::SEND_FIRST, Opcode::SEND_LAST], 1),
    ] {
        let mut nic = Nic::new(Profile::Roce);
        let buffer = if opcodes.len() == 1 { 10 } else { 256 };
        nic.post(1, buffer);
        nic.post(2, 1000);
        for opcode in &opcodes[..opcodes.len() - 1] {
            assert!(!nic.take(*opcode, MTU, &[]).discard);
        }
        let write = nic.take(opcodes[opcodes.len() - 1], payload, &[]);
        assert!(nak(&write, NakCode::InvalidRequest));
        assert_eq!(completion(&write), Some((1, CompletionStatus::LocalLength, 0)));
        nic.discards();
        assert_eq!(nic.state(QueuePairState::Error), [flush(QPN, 2)]);
    }
}

#[test]
fn a_send_without_a_receive_request_is_an_operational_error() {
    let mut nic = Nic::new(Profile::Roce);
    let write = nic.take(Opcode::SEND_ONLY, 1, &[]);
    assert!(nak(&write, NakCode::RemoteOperationalError) && !write.completion);
    nic.discards();
    assert_eq!(nic.responder.counters().refused_operational, 1);
}

#[test]
fn what_a_key_does_not_allow_is_a_remote_access_error() {
    let outside = [
        reth(0, KEY ^ 1, 8),
        reth(LENGTH - 7, KEY, 8),
        reth(u64::MAX - BASE, KEY, 8),
        reth(BASE.wrapping_neg().wrapping_sub(4), KEY, 8),
        reth(u64::MAX, KEY, 8),
    ];
    for headers in outside {
        for opcode in [Opcode::WRITE_ONLY, Opcode::READ_REQUEST, Opcode::FETCH_ADD] {
            let mut nic = Nic::new(Profile::Roce);
            let reth = Reth::parse(&headers).expect("16 bytes");
            let atomic = AtomicEth {
                virtual_address: reth.virtual_address & !7,
                remote_key: reth.remote_key,
                ..AtomicEth::default()
            };
            let write = match opcode {
                Opcode::FETCH_ADD => nic.take(opcode, 0, &[atomic.to_bytes()]),
                Opcode::READ_REQUEST => nic.take(opcode, 0, std::slice::from_ref(&headers)),
                _ => nic.take(opcode, 8, std::slice::from_ref(&headers)),
            };
            // Of the addresses, one rounded down to 8 bytes is within.
            let inside = opcode == Opcode::FETCH_ADD && headers == outside_by_7();
            assert_eq!(nak(&write, NakCode::RemoteAccessError), !inside, "{opcode} {reth:?}");
        }
    }
}

fn outside_by_7() -> Vec<u8> {
    reth(LENGTH - 7, KEY, 8)
}

#[test]
fn nothing_wraps_at_the_end_of_the_address_space() {
    let mut nic = Nic::new(Profile::Solar);
    let last = u64::MAX - 255;
    nic.regions.write_region(&MemoryRegion {
        base: last,
        length: 256,
        address: last,
        ..region()
    });
    let at = |virtual_address, length| {
        Reth {
            virtual_address,
            remote_key: KEY,
            length,
        }
        .to_bytes()
    };
    let whole = nic.take(Opcode::WRITE_ONLY, 256, &[at(last, 256)]);
    assert_eq!((whole.discard, whole.address), (false, last));
    let first = nic.take(Opcode::WRITE_FIRST, 256, &[at(last, 257)]);
    assert!(nak(&first, NakCode::RemoteAccessError));
}

#[test]
fn a_retry_with_the_other_generation_of_a_key_is_judged_by_itself() {
    let mut nic = Nic::new(Profile::Roce);
    let write = |nic: &mut Nic, key| nic.take(Opcode::WRITE_ONLY, 8, &[reth(0, key, 8)]);
    assert!(!write(&mut nic, KEY).discard);
    nic.regions.write_region(&MemoryRegion {
        generation: 0x5B,
        ..region()
    });
    assert!(nak(&write(&mut nic, KEY), NakCode::RemoteAccessError));
    nic.state(QueuePairState::Error);
    nic.state(QueuePairState::Reset);
    nic.state(QueuePairState::ReadyToSend);
    let retry = write(&mut nic, KEY + 1);
    assert_eq!((retry.discard, retry.msn), (false, 1), "the MSN begins again");
    assert!(nak(&write(&mut nic, KEY), NakCode::RemoteAccessError));
}

#[test]
fn messages_keep_their_order_of_opcodes() {
    use Opcode as O;
    let right = [
        vec![O::SEND_FIRST, O::SEND_MIDDLE, O::SEND_LAST],
        vec![O::SEND_FIRST, O::SEND_LAST_IMMEDIATE],
        vec![O::WRITE_FIRST, O::WRITE_MIDDLE, O::WRITE_LAST],
        vec![O::SEND_ONLY, O::WRITE_ONLY, O::READ_REQUEST, O::FETCH_ADD, O::SEND_ONLY],
    ];
    let wrong = [
        vec![O::SEND_MIDDLE],
        vec![O::SEND_LAST],
        vec![O::WRITE_MIDDLE],
        vec![O::WRITE_LAST_IMMEDIATE],
        vec![O::SEND_FIRST, O::SEND_FIRST],
        vec![O::SEND_FIRST, O::SEND_ONLY],
        vec![O::SEND_FIRST, O::WRITE_MIDDLE],
        vec![O::SEND_FIRST, O::READ_REQUEST],
        vec![O::WRITE_FIRST, O::SEND_LAST],
        vec![O::WRITE_FIRST, O::WRITE_ONLY],
        vec![O::WRITE_FIRST, O::FETCH_ADD],
        vec![O::SEND_ONLY, O::SEND_LAST],
        vec![O::ACKNOWLEDGE],
        vec![O::MRC_WRITE_ONLY],
    ];
    for (opcodes, fine) in right
        .map(|opcodes| (opcodes, true))
        .into_iter()
        .chain(wrong.map(|opcodes| (opcodes, false)))
    {
        let mut nic = Nic::new(Profile::Roce);
        for cookie in 1..=4 {
            nic.post(cookie, 4096);
        }
        let count = opcodes.len();
        for (place, opcode) in opcodes.into_iter().enumerate() {
            let length = if opcode == O::WRITE_FIRST { 520 } else { 8 };
            let info = opcode.info().expect("known");
            let payload = match (info.has_payload, info.position.ends_message()) {
                (false, _) => 0,
                (true, true) => 8,
                (true, false) => MTU,
            };
            let write = nic.take(opcode, payload, &[reth(0, KEY, length)]);
            let refused = nak(&write, NakCode::InvalidRequest);
            assert_eq!(refused, !fine && place + 1 == count, "{opcode} at {place}");
        }
    }
}

#[test]
fn a_request_in_the_middle_of_a_send_ends_both_receive_requests_in_order() {
    let mut nic = Nic::new(Profile::Solar);
    for cookie in 1..=4 {
        nic.post(cookie, 4096);
    }
    nic.take(Opcode::SEND_FIRST, MTU, &[]);
    let wrong = nic.take(Opcode::SEND_ONLY, 8, &[]);
    assert!(nak(&wrong, NakCode::InvalidRequest));
    let ended = |cookie, status| Some((cookie, status, 0));
    assert_eq!(completion(&wrong), ended(1, CompletionStatus::RemoteInvalidRequest));
    let behind = nic.take(Opcode::SEND_ONLY, 8, &[]);
    assert_eq!(
        (due(&behind).1, completion(&behind)),
        (false, ended(2, CompletionStatus::Flushed))
    );
    assert_eq!(nic.state(QueuePairState::Error), [flush(QPN, 3), flush(QPN, 4)]);
    assert_eq!(nic.responder.counters().flushed, 3);
}

#[test]
fn payload_of_another_length_than_the_message_is_refused() {
    use Opcode as O;
    let wrong: [(&[(O, usize)], u32); 10] = [
        (&[(O::WRITE_ONLY, 8)], 9),
        (&[(O::WRITE_ONLY, 8)], 7),
        (&[(O::WRITE_ONLY, 0)], 1),
        (&[(O::WRITE_ONLY, 257)], 257),
        (&[(O::WRITE_FIRST, 255)], 300),
        (&[(O::WRITE_FIRST, 256)], 256),
        (&[(O::WRITE_FIRST, 256), (O::WRITE_LAST, 0)], 257),
        (&[(O::WRITE_FIRST, 256), (O::WRITE_LAST, 2)], 257),
        (&[(O::WRITE_FIRST, 256), (O::WRITE_MIDDLE, 256)], 512),
        (&[(O::WRITE_FIRST, 256), (O::WRITE_MIDDLE, 255)], 1000),
    ];
    for (packets, length) in wrong {
        let mut nic = Nic::new(Profile::Solar);
        for (place, (opcode, payload)) in packets.iter().enumerate() {
            let write = nic.take(*opcode, *payload, &[reth(0, KEY, length)]);
            let refused = nak(&write, NakCode::InvalidRequest);
            assert_eq!(refused, place + 1 == packets.len(), "{packets:?} of {length}");
        }
    }
    let mut nic = Nic::new(Profile::Solar);
    let long = MAX_MESSAGE + 1;
    assert!(nak(
        &nic.take(O::READ_REQUEST, 0, &[reth(0, KEY, long)]),
        NakCode::InvalidRequest
    ));
}

#[test]
fn mrc_checks_each_packet_by_itself() {
    let wrong = [
        (
            Opcode::MRC_WRITE_MIDDLE,
            MTU,
            LENGTH - 255,
            1000,
            NakCode::RemoteAccessError,
        ),
        (Opcode::MRC_WRITE_MIDDLE, 255, 0, 1000, NakCode::InvalidRequest),
        (Opcode::MRC_WRITE_ONLY, 8, 0, 9, NakCode::InvalidRequest),
        (Opcode::MRC_WRITE_LAST, 8, 0, 7, NakCode::InvalidRequest),
        (Opcode::MRC_WRITE_FIRST, MTU, 0, 256, NakCode::InvalidRequest),
        (
            Opcode::MRC_WRITE_FIRST,
            MTU,
            0,
            MAX_MESSAGE + 1,
            NakCode::InvalidRequest,
        ),
        (Opcode::WRITE_ONLY, 8, 0, 8, NakCode::InvalidRequest),
    ];
    for (opcode, payload, offset, length, code) in wrong {
        let mut nic = Nic::new(Profile::Mrc);
        let write = nic.take(opcode, payload, &[meth(0), reth(offset, KEY, length)]);
        assert!(nak(&write, code), "{opcode} {write:?}");
    }
    // The bounds are those of the packet: the message as a whole may say more.
    let mut nic = Nic::new(Profile::Mrc);
    let write = nic.take(
        Opcode::MRC_WRITE_MIDDLE,
        MTU,
        &[meth(0), reth(LENGTH - 256, KEY, MAX_MESSAGE)],
    );
    assert_eq!(write.address, MEMORY + LENGTH - 256);
}
