//! Tests of the send queue's model: each rule of the contract by an example.

use spraynic_config::Profile;
use spraynic_config::descriptor::WorkOpcode;

use super::*;

const QPN: u32 = 3;

pub(super) fn config() -> Config {
    Config {
        queue_pairs: 8,
        work_requests: 8,
        window: 64,
        reads: 4,
        checks: packet_slicer::Config::full(8),
    }
}

pub(super) fn context(qpn: u32, profile: Profile) -> SendContext {
    SendContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: profile.code(),
        mtu: 3,
        class: 1,
        reads: 4,
        window: 64,
        weight: 1,
        psn: 0xff_fff0,
        ..SendContext::default()
    }
}

pub(super) fn request(qpn: u32, opcode: WorkOpcode, length: u32, cookie: u64) -> WorkRequest {
    WorkRequest {
        opcode: opcode as u8,
        signalled: true,
        segments: 1,
        qpn,
        length,
        cookie,
        ..WorkRequest::default()
    }
}

fn opened(profile: Profile) -> WorkQueue {
    let mut block = WorkQueue::new(config());
    block.write_context(&context(QPN, profile));
    block
}

fn write(length: u32, cookie: u64) -> WorkRequest {
    request(QPN, WorkOpcode::Write, length, cookie)
}

fn read(length: u32, cookie: u64) -> WorkRequest {
    request(QPN, WorkOpcode::Read, length, cookie)
}

fn grant(_: &RateRequest) -> Grant {
    Grant::Granted
}

fn all(block: &mut WorkQueue) -> Vec<WorkSlice> {
    std::iter::from_fn(|| block.next_slice(0, grant))
        .map(|(_, slice)| slice)
        .collect()
}

fn completed(block: &mut WorkQueue) -> Vec<(u64, u8)> {
    let completions = std::iter::from_fn(|| block.pop_completion());
    completions
        .map(|completion| (completion.cookie, completion.status))
        .collect()
}

fn psn(offset: u32) -> u32 {
    (0xff_fff0 + offset) & 0xff_ffff
}

fn acknowledge(block: &mut WorkQueue, base: u32, done: u32) {
    block.progress(&SendProgress {
        qpn: QPN,
        base: psn(base),
        done: psn(done),
        ..SendProgress::default()
    });
}

fn again(block: &mut WorkQueue, offset: u32, rewind: bool) {
    block.resend(&Resend {
        qpn: QPN,
        psn: psn(offset),
        rewind,
        ..Resend::default()
    });
}

fn answer(block: &mut WorkQueue, slot: u8, status: u8) {
    block.response_done(&ResponseDone { qpn: QPN, slot, status });
}

/// Offset of the PSN, index and packets of each slice.
fn places(slices: &[WorkSlice]) -> Vec<(u32, u32, u8)> {
    let places = slices.iter();
    places
        .map(|slice| (slice.psn.wrapping_sub(psn(0)) & 0xff_ffff, slice.index, slice.packets))
        .collect()
}

#[test]
fn a_message_is_given_in_slices_of_4096_bytes_and_completes_when_it_is_done() {
    let mut block = opened(Profile::Solar);
    block.post(&write(10_000, 7));
    let slices = all(&mut block);
    assert_eq!(places(&slices), [(0, 0, 4), (4, 4, 4), (8, 8, 2)]);
    assert!(
        slices
            .iter()
            .all(|slice| !slice.retransmission && slice.slot == 0 && slice.class == 1)
    );
    acknowledge(&mut block, 10, 9);
    assert_eq!(completed(&mut block), []);
    acknowledge(&mut block, 10, 10);
    assert_eq!(completed(&mut block), [(7, 0)]);
    assert_eq!(block.waiting(QPN), 0);
}

#[test]
fn the_window_is_never_exceeded_and_its_opening_wakes_the_queue_pair() {
    let mut block = opened(Profile::Mrc);
    block.post(&write(100 * 1024, 7));
    let slices = all(&mut block);
    assert_eq!(slices.iter().map(|slice| u32::from(slice.packets)).sum::<u32>(), 64);
    acknowledge(&mut block, 3, 0);
    assert_eq!(places(&all(&mut block)), [(64, 64, 3)]);
    acknowledge(&mut block, 67, 0);
    let rest = all(&mut block);
    assert_eq!(rest.last().map(|slice| (slice.index, slice.packets)), Some((99, 1)));
}

#[test]
fn completions_keep_the_order_of_the_requests() {
    let mut block = opened(Profile::Solar);
    block.post(&read(1_000, 1));
    block.post(&WorkRequest {
        signalled: false,
        ..write(1, 2)
    });
    block.post(&write(1, 3));
    assert_eq!(all(&mut block).len(), 3);
    acknowledge(&mut block, 3, 3);
    assert_eq!(completed(&mut block), [], "the READ has no response yet");
    answer(&mut block, 0, 0);
    assert_eq!(completed(&mut block), [(1, 0), (3, 0)]);
    answer(&mut block, 0, 0);
    answer(&mut block, 7, 0);
    assert_eq!(block.counters().drop_response, 2);
}

#[test]
fn a_fence_waits_for_reads_and_a_read_for_the_limit() {
    let mut block = WorkQueue::new(config());
    block.write_context(&SendContext {
        reads: 2,
        ..context(QPN, Profile::Solar)
    });
    for cookie in 0..3 {
        block.post(&read(8, cookie));
    }
    block.post(&WorkRequest {
        fence: true,
        ..write(1, 3)
    });
    assert_eq!(places(&all(&mut block)), [(0, 0, 1), (1, 0, 1)]);
    answer(&mut block, 1, 0);
    assert_eq!(places(&all(&mut block)), [(2, 0, 1)]);
    answer(&mut block, 0, 0);
    assert_eq!(all(&mut block), [], "one READ is still under way");
    answer(&mut block, 2, 0);
    assert_eq!(places(&all(&mut block)), [(3, 0, 1)]);
    acknowledge(&mut block, 4, 4);
    assert_eq!(completed(&mut block).len(), 4);
}

#[test]
fn lost_packets_go_first_the_lowest_first_and_once() {
    let mut block = opened(Profile::Mrc);
    block.post(&write(20 * 1024, 7));
    assert_eq!(block.next_slice(0, grant).map(|(_, slice)| slice.packets), Some(4));
    assert_eq!(block.next_slice(0, grant).map(|(_, slice)| slice.packets), Some(4));
    for offset in [6, 2, 6, 1, 8] {
        again(&mut block, offset, false);
    }
    assert_eq!(block.counters().drop_resend, 1, "8 was not sent");
    acknowledge(&mut block, 2, 0);
    let slices = all(&mut block);
    assert_eq!(places(&slices)[..3], [(2, 2, 1), (6, 6, 1), (8, 8, 4)]);
    assert_eq!(
        slices.iter().map(|slice| slice.retransmission).collect::<Vec<_>>()[..3],
        [true, true, false]
    );
    assert_eq!(block.counters().retransmissions, 2);
}

#[test]
fn roce_goes_back_and_on_from_there() {
    let mut block = opened(Profile::Roce);
    block.post(&write(6 * 1024, 1));
    block.post(&read(3 * 1024, 2));
    block.post(&write(1024, 3));
    assert_eq!(places(&all(&mut block)), [(0, 0, 4), (4, 4, 2), (6, 0, 1), (9, 0, 1)]);
    again(&mut block, 5, true);
    let slices = all(&mut block);
    assert_eq!(places(&slices), [(5, 5, 1), (6, 0, 1), (9, 0, 1)]);
    assert!(slices.iter().all(|slice| slice.retransmission));
    // A READ whose first response came is asked for the rest; what was acknowledged meanwhile is left out.
    again(&mut block, 6, true);
    acknowledge(&mut block, 7, 6);
    assert_eq!(completed(&mut block), [(1, 0)]);
    let slices = all(&mut block);
    assert_eq!(places(&slices), [(7, 1, 1), (9, 0, 1)]);
    again(&mut block, 7, true);
    acknowledge(&mut block, 10, 10);
    answer(&mut block, 1, 0);
    assert_eq!(all(&mut block), []);
    assert_eq!(completed(&mut block), [(2, 0), (3, 0)]);
}

#[test]
fn nothing_is_sent_in_vain_while_the_peer_is_not_ready() {
    let mut block = opened(Profile::Roce);
    block.post(&request(QPN, WorkOpcode::Send, 1, 1));
    all(&mut block);
    let wait = SendProgress {
        qpn: QPN,
        base: psn(0),
        done: psn(0),
        wait: true,
        ..SendProgress::default()
    };
    block.progress(&wait);
    block.post(&write(1, 2));
    assert_eq!(all(&mut block), []);
    again(&mut block, 0, true);
    assert_eq!(places(&all(&mut block)), [(0, 0, 1), (1, 0, 1)]);
    block.progress(&wait);
    block.post(&write(1, 3));
    assert_eq!(all(&mut block), []);
    acknowledge(&mut block, 1, 1);
    assert_eq!(places(&all(&mut block)), [(2, 0, 1)], "progress ends the wait, too");
}

#[test]
fn a_rewind_while_new_packets_wait_resends_no_more_than_was_sent() {
    let mut block = opened(Profile::Roce);
    block.post(&write(64 * 1024, 1));
    block.post(&write(64 * 1024, 2));
    assert_eq!(all(&mut block).len(), 16);
    again(&mut block, 62, true);
    let slices = all(&mut block);
    assert_eq!(places(&slices), [(62, 62, 2)]);
    acknowledge(&mut block, 1, 0);
    let slices = all(&mut block);
    assert_eq!(places(&slices), [(64, 0, 1)]);
    assert!(!slices[0].retransmission);
}

#[test]
fn a_roce_read_longer_than_the_window_goes_alone() {
    let mut block = opened(Profile::Roce);
    block.post(&write(1, 1));
    block.post(&read(100 * 1024, 2));
    block.post(&write(1, 3));
    assert_eq!(places(&all(&mut block)), [(0, 0, 1)]);
    acknowledge(&mut block, 1, 1);
    assert_eq!(places(&all(&mut block)), [(1, 0, 1)]);
    acknowledge(&mut block, 38, 1);
    assert_eq!(places(&all(&mut block)), [(101, 0, 1)]);
    acknowledge(&mut block, 102, 102);
    answer(&mut block, 1, 0);
    assert_eq!(completed(&mut block).len(), 3);
}

#[test]
fn two_psns_always_have_an_order() {
    let mut block = WorkQueue::new(config());
    block.write_context(&SendContext {
        mtu: 1,
        ..context(QPN, Profile::Roce)
    });
    block.post(&read(1 << 31, 1));
    block.post(&read(1 << 31, 2));
    assert_eq!(all(&mut block).len(), 1);
    // All responses of the first one but its end are there: the second one must wait for its completion.
    acknowledge(&mut block, 1 << 23, 1 << 23);
    assert_eq!(all(&mut block), []);
    answer(&mut block, 0, 0);
    assert_eq!(places(&all(&mut block)), [(1 << 23, 0, 1)]);
    again(&mut block, (1 << 23) + 5, true);
    assert_eq!(places(&all(&mut block)), [((1 << 23) + 5, 5, 1)]);
}

#[test]
fn wrong_requests_complete_in_order_with_an_error_and_take_no_psn() {
    let mut block = opened(Profile::Solar);
    block.post(&write(1, 1));
    block.post(&WorkRequest {
        segments: 2,
        ..write(1, 2)
    });
    block.post(&write((1 << 31) + 1, 3));
    block.post(&WorkRequest {
        opcode: 77,
        signalled: false,
        ..write(1, 4)
    });
    block.post(&write(1, 5));
    assert_eq!(places(&all(&mut block)), [(0, 0, 1), (1, 0, 1)]);
    assert_eq!(completed(&mut block), []);
    acknowledge(&mut block, 1, 1);
    let wrong = CompletionStatus::LocalInvalidRequest as u8;
    assert_eq!(completed(&mut block), [(1, 0), (2, wrong), (3, wrong), (4, wrong)]);
    acknowledge(&mut block, 2, 2);
    assert_eq!(completed(&mut block), [(5, 0)]);
    block.post(&WorkRequest {
        segments: 0,
        ..write(1, 6)
    });
    assert_eq!(
        completed(&mut block),
        [(6, wrong)],
        "at once, where nothing is before it"
    );
    let counters = block.counters();
    assert_eq!(
        (counters.drop_segments, counters.drop_length, counters.drop_opcode),
        (2, 1, 1)
    );
    assert_eq!((counters.messages, counters.completions), (2, 6));
}

#[test]
fn reads_where_the_peer_takes_none_are_wrong() {
    let mut block = WorkQueue::new(config());
    block.write_context(&SendContext {
        reads: 0,
        ..context(QPN, Profile::Solar)
    });
    block.post(&read(1, 1));
    block.post(&write(1, 2));
    assert_eq!(
        completed(&mut block),
        [(1, CompletionStatus::LocalInvalidRequest as u8)]
    );
    assert_eq!(all(&mut block).len(), 1);
}

#[test]
fn a_request_without_a_slot_is_refused_at_once() {
    let mut block = opened(Profile::Solar);
    (0..9).for_each(|cookie| block.post(&write(1, cookie)));
    assert_eq!(completed(&mut block), [(8, CompletionStatus::QueueFull as u8)]);
    assert_eq!(all(&mut block).len(), 8);
    acknowledge(&mut block, 8, 8);
    assert_eq!(completed(&mut block).len(), 8);
}

#[test]
fn a_failure_ends_all_requests_in_order() {
    let flushed = CompletionStatus::Flushed as u8;
    let mut block = opened(Profile::Solar);
    block.post(&write(1, 1));
    block.post(&read(1, 2));
    block.post(&write(4096, 3));
    block.post(&WorkRequest {
        signalled: false,
        ..write(1, 4)
    });
    all(&mut block);
    block.progress(&SendProgress {
        qpn: QPN,
        base: psn(3),
        done: psn(3),
        failed: true,
        status: CompletionStatus::RemoteAccess as u8,
        ..SendProgress::default()
    });
    let access = CompletionStatus::RemoteAccess as u8;
    assert_eq!(completed(&mut block), [(1, 0), (2, flushed), (3, access), (4, flushed)]);
    block.post(&write(1, 5));
    assert_eq!(completed(&mut block), [(5, flushed)], "posted to a queue pair in ERROR");
    assert_eq!(all(&mut block), []);
    // What comes late means nothing.
    acknowledge(&mut block, 7, 7);
    again(&mut block, 3, false);
    answer(&mut block, 1, 0);
    assert_eq!(
        block.counters().drop_progress + block.counters().drop_resend + block.counters().drop_response,
        0
    );
    block.write_context(&context(QPN, Profile::Solar));
    block.post(&write(1, 6));
    assert_eq!(places(&all(&mut block)), [(0, 0, 1)], "it begins anew");
}

#[test]
fn a_failed_response_fails_its_request() {
    let mut block = opened(Profile::Solar);
    block.post(&read(1, 1));
    block.post(&read(1, 2));
    all(&mut block);
    answer(&mut block, 1, CompletionStatus::LocalMemory as u8);
    let expected = [
        (1, CompletionStatus::Flushed as u8),
        (2, CompletionStatus::LocalMemory as u8),
    ];
    assert_eq!(completed(&mut block), expected);
}

#[test]
fn reset_forgets_and_error_flushes() {
    for (state, completions) in [(QueuePairState::Reset, 0), (QueuePairState::Error, 2)] {
        let mut block = opened(Profile::Mrc);
        block.post(&write(1, 1));
        block.post(&write(1, 2));
        block.write_context(&SendContext {
            state: state as u8,
            ..context(QPN, Profile::Mrc)
        });
        assert_eq!(completed(&mut block).len(), completions);
        assert_eq!(all(&mut block), []);
        assert_eq!(block.waiting(QPN), 0);
    }
}

#[test]
fn mrc_numbers_messages_and_those_with_immediate() {
    let mut block = opened(Profile::Mrc);
    for immediate in [false, true, true, false] {
        block.post(&WorkRequest {
            inline_immediate: immediate,
            ..write(1, 0)
        });
    }
    let numbers: Vec<_> = all(&mut block).iter().map(|slice| (slice.msn, slice.rqmsn)).collect();
    assert_eq!(numbers, [(0, 0), (1, 0), (2, 1), (3, 2)]);
}

#[test]
fn progress_of_what_was_not_sent_is_not_believed() {
    let mut block = opened(Profile::Solar);
    block.post(&write(1024, 1));
    acknowledge(&mut block, 1, 1);
    assert_eq!(block.counters().drop_progress, 1);
    assert_eq!(completed(&mut block), []);
    all(&mut block);
    acknowledge(&mut block, 1, 1);
    assert_eq!(completed(&mut block), [(1, 0)]);
}

#[test]
fn what_does_not_exist_is_counted() {
    let mut block = opened(Profile::Solar);
    block.write_context(&context(8, Profile::Solar));
    block.write_context(&SendContext {
        state: 5,
        ..context(0, Profile::Solar)
    });
    block.post(&request(8, WorkOpcode::Write, 1, 1));
    block.post(&request(1, WorkOpcode::Write, 1, 1));
    assert_eq!(
        (block.counters().drop_context, block.counters().drop_queue_pair),
        (2, 2)
    );
    assert_eq!(completed(&mut block), []);
}

/// Bytes that each queue pair sends while all have work, on a port that takes `bytes` bytes.
fn shares(block: &mut WorkQueue, bytes: u64, mut ask: impl FnMut(&RateRequest, u64) -> Grant) -> Vec<u64> {
    let mut sent = vec![0u64; 8];
    let mut now = 0;
    while sent.iter().sum::<u64>() < bytes {
        for qpn in 0..8 {
            while block.waiting(qpn) < 4 {
                block.post(&request(qpn, WorkOpcode::Write, 1_000 + 3_000 * qpn, 0));
            }
        }
        let Some((request, slice)) = block.next_slice(now, |request| ask(request, now)) else {
            now = block.wakes_at().expect("somebody waits for tokens").max(now + 1);
            continue;
        };
        let cost = slice.packets as u64 * (1024 + 64);
        now += cost / 12;
        sent[request.qpn as usize] += cost;
        let end = slice.psn.wrapping_add(u32::from(slice.packets)) & 0xff_ffff;
        block.progress(&SendProgress {
            qpn: request.qpn,
            base: end,
            done: end,
            ..SendProgress::default()
        });
        while block.pop_completion().is_some() {}
    }
    sent
}

fn eight(classes: Classes, weight: impl Fn(u32) -> u8) -> WorkQueue {
    let mut block = WorkQueue::new(config());
    block.set_classes(classes);
    for qpn in 0..8 {
        block.write_context(&SendContext {
            class: (qpn / 2) as u8,
            weight: weight(qpn),
            ..context(qpn, Profile::Solar)
        });
    }
    block
}

#[test]
fn classes_and_queue_pairs_share_by_their_weights() {
    let classes = Classes {
        strict: 0,
        weight: [1, 2, 4, 9],
    };
    let mut block = eight(classes, |qpn| 1 + 2 * (qpn % 2) as u8);
    let sent = shares(&mut block, 40_000_000, |_, _| Grant::Granted);
    for qpn in 0..8usize {
        let share = sent[qpn] as f64 / sent.iter().sum::<u64>() as f64;
        let wanted = f64::from(classes.weight[qpn / 2]) / 16.0 * [0.25, 0.75][qpn % 2];
        // Costs are counted here by whole packets: messages of 1,000 bytes and more end in a part of one.
        assert!(
            (share / wanted - 1.0).abs() < 0.12,
            "queue pair {qpn}: {share} instead of {wanted}"
        );
    }
}

#[test]
fn a_strict_class_goes_first_and_a_capped_one_keeps_to_its_rate() {
    let classes = Classes {
        strict: 0b0001,
        weight: [1, 1, 1, 1],
    };
    let mut block = eight(classes, |_| 1);
    let mut limiter = crate::rate_limiter::RateLimiter::new(crate::rate_limiter::Config { queue_pairs: 8 });
    let limit = |index, rate| spraynic_config::descriptor::RateLimit {
        index,
        class: true,
        limited: true,
        rate,
        burst: 20_000,
        ..Default::default()
    };
    // The strict class may take 3 bytes in a nanosecond of the 12 of the port, class 2 one and a half.
    limiter.write_limit(&limit(0, 3 << 32), 0);
    limiter.write_limit(&limit(2, 3 << 31), 0);
    let total = 60_000_000u64;
    let sent = shares(&mut block, total, |request, now| limiter.request(request, now));
    let class = |class: usize| (sent[2 * class] + sent[2 * class + 1]) as f64 / total as f64;
    for (index, wanted) in [(0, 0.25), (1, 0.3125), (2, 0.125), (3, 0.3125)] {
        assert!(
            (class(index) / wanted - 1.0).abs() < 0.12,
            "class {index}: {} instead of {wanted}",
            class(index)
        );
    }
    // The two queue pairs of the capped class share it.
    assert!((sent[4] as f64 / sent[5] as f64 - 1.0).abs() < 0.1, "{sent:?}");
}
