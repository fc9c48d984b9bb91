//! `rate_limiter`: says whether a queue pair may send so many bytes now, by two token buckets: its own and that of its traffic class.
//!
//! One request a clock, also of one queue pair, in a pipeline that never stalls: a request enters only when its grant has a place. It never
//! queues what it refuses. Theory of operation: `docs/src/blocks/rate_limiter.md`.

mod bucket;
mod product;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::sweep;
use bucket::{LEVEL_BITS, Levels, State};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, RateLimit, RateRequest};
use spraynic_rtl::{Context, Definition, MemoryStyle, Module, ReadDuringWrite, Signal, Stream, cat_lsb_first};

/// Name of the block.
pub const NAME: &str = "rate_limiter";

/// Traffic classes.
const CLASSES: u32 = 4;

/// Requests in the pipeline and grants that wait: the pipeline takes eleven clocks.
const PLACES: u32 = 16;

/// Width of what is known of a bucket beside its level: limited, rate, burst.
const SETTING_BITS: u32 = 1 + 40 + 24;

/// A value with its register in each stage from the one where it appears.
struct Staged<'a> {
    name: &'static str,
    stages: Vec<Signal<'a>>,
}

impl<'a> Staged<'a> {
    fn new(name: &'static str, value: Signal<'a>) -> Self {
        Self {
            name,
            stages: vec![value],
        }
    }

    /// So many clocks later.
    fn after(&mut self, clocks: usize) -> Signal<'a> {
        while self.stages.len() <= clocks {
            let name = format!("{}_{}", self.name, self.stages.len());
            let last = self.stages[self.stages.len() - 1];
            self.stages.push(last.delayed(&name));
        }
        self.stages[clocks]
    }
}

/// The block for this configuration.
#[must_use]
pub fn rate_limiter<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let count = config.send_queue_pairs();
    let m = context.module(&format!("{NAME}_qp{count}"));
    m.doc("Token buckets of queue pairs and traffic classes: one request a clock. A grant says 0: granted, 1: the bucket of the\nqueue pair refuses, 2: that of the class refuses.");
    let requests = Stream::slave(
        m,
        "s_axis_request",
        RateRequest::width(),
        "RateRequest: see descriptors",
    );
    let limits = Stream::slave(
        m,
        "s_axis_limit",
        RateLimit::width(),
        "RateLimit: a bucket is written, and full",
    );
    let now = m.input("time_ns", 64).doc("time in nanoseconds");
    let grants = Stream::master(
        m,
        "m_axis_grant",
        2,
        "of each request, in order: 0 granted, 1 queue pair, 2 class",
    );
    let index_bits = count.trailing_zeros();
    let sweep = sweep::after_reset(m, index_bits);

    // Clock 1: what entered. A write enters when the pipeline is empty, and alone.
    let taken = m
        .reg("taken", 5)
        .reset(0)
        .doc("requests in the pipeline, and grants that wait");
    let valid: Vec<Signal<'a>> = (1..=11)
        .map(|stage| m.reg(&format!("valid_{stage}"), 1).reset(0))
        .collect();
    let idle = !valid.iter().fold(m.low(), |any, stage| any | *stage);
    let is_write_1 = m.reg("is_write_1", 1);
    let mut is_write = Staged::new("is_write", is_write_1);
    let writing = (0..11).fold(m.low(), |any, stage| any | (valid[stage] & is_write.after(stage)));
    limits.ready.set(idle.named("pipeline_empty") & !sweep.active);
    let has_place = taken.ne_lit(PLACES);
    requests
        .ready
        .set(has_place & !limits.valid & !writing.named("writing") & !sweep.active);
    valid[0].set(requests.fires() | limits.fires());
    for pair in valid.windows(2) {
        pair[1].set(pair[0]);
    }
    let request_1 = m.reg("request_1", RateRequest::width());
    let limit_1 = m.reg("limit_1", RateLimit::width());
    let time_1 = m.reg("time_1", 64);
    m.when(requests.fires(), || request_1.set(requests.data));
    m.when(limits.fires(), || limit_1.set(limits.data));
    m.when(requests.fires() | limits.fires(), || {
        time_1.set(now);
        is_write_1.set(limits.fires());
    });
    let request = Fields::unpack::<RateRequest>(request_1);
    let limit = Fields::unpack::<RateLimit>(limit_1);
    request.get("reserved_0").ignore();
    limit.get("reserved_0").ignore();
    let qpn_1 = is_write_1.mux(limit.get("index"), request.get("qpn"));
    let class_1 = is_write_1.mux(limit.get("index").part(0, 2), request.get("class"));
    let of_class = limit.get("class");
    let own_beyond = (qpn_1 >> index_bits).any();
    let class_beyond = (limit.get("index") >> 2).any();
    let mut qpn = Staged::new("qpn", qpn_1.part(0, index_bits));
    let mut class = Staged::new("class", class_1);
    let mut bytes = Staged::new("bytes", request.get("bytes"));
    let mut time = Staged::new("time", time_1);
    let mut beyond = Staged::new("beyond", own_beyond);
    let mut writes_own = Staged::new("writes_own", is_write_1 & !of_class & !own_beyond);
    let mut writes_class = Staged::new("writes_class", is_write_1 & of_class & !class_beyond);
    let written = cat_lsb_first(&[limit.get("limited"), limit.get("rate"), limit.get("burst")]);
    let dropped = valid[0] & is_write_1 & of_class.mux(class_beyond, own_beyond);
    count_when(
        m,
        Counter("drop_limit", "writes of a queue pair or class beyond the table"),
        dropped,
    );

    // Clock 1 writes a setting and reads; clock 2 has it from the RAM; clock 3 in a register.
    let settings = m.memory("settings", count, SETTING_BITS);
    let write_own_1 = valid[0] & writes_own.after(0);
    settings.write(
        sweep.active | write_own_1,
        sweep.active.mux(sweep.index, qpn.after(0)),
        written.gate(!sweep.active),
    );
    let own_2 = settings.read(valid[0] & !is_write_1, qpn.after(0));
    let written_2 = written.delayed("written_2");
    let class_settings: Vec<Signal<'a>> = (0..CLASSES)
        .map(|class| m.reg(&format!("class_setting_{class}"), SETTING_BITS).reset(0))
        .collect();
    for (number, setting) in (0..CLASSES).zip(&class_settings) {
        let chosen = valid[0] & writes_class.after(0) & class.after(0).eq_lit(number);
        m.when(chosen, || setting.set(written));
    }
    let written_or = |stored: Signal<'a>, is_write: Signal<'a>| is_write.mux(written_2, stored);
    let own_3 = written_or(own_2, is_write.after(1)).delayed("own_3");
    let class_3 = written_or(class.after(1).select(&class_settings), is_write.after(1)).delayed("class_3");

    // Clocks 3 to 7: rate times time; clock 8: the levels that would be compared; clock 9 decides.
    let time_3 = time.after(2);
    let mut own_setting = Staged::new("own_setting", own_3);
    let mut class_setting = Staged::new("class_setting", class_3);
    let own_gained = product::product(m, "own", own_3.part(1, 40), time_3);
    let class_gained = product::product(m, "class", class_3.part(1, 40), time_3);
    // The first register of the product is that of clock 4, the last that of clock 7.
    let bytes_7 = bytes.after(6);
    let own_levels = Levels::new(m, "own", own_gained, own_setting.after(4), bytes_7);
    let class_levels = Levels::new(m, "class", class_gained, class_setting.after(4), bytes_7);

    // Levels that stand in the tables, as "rate times time when it was empty": read in clock 7, in a register in clock 9.
    let state = m
        .memory("empty_since", count, LEVEL_BITS)
        .read_during_write(ReadDuringWrite::New);
    let own_ram_8 = state.read(valid[6], qpn.after(6));
    let class_states: Vec<Signal<'a>> = (0..CLASSES)
        .map(|class| m.reg(&format!("class_empty_since_{class}"), LEVEL_BITS))
        .collect();
    let (qpn_8, qpn_9, qpn_10) = (qpn.after(7), qpn.after(8), qpn.after(9));
    let (class_8, class_9, class_10) = (class.after(7), class.after(8), class.after(9));

    let own = State {
        stored_8: own_ram_8,
        same_8_10: qpn_8.eq(qpn_10),
        same_8_9: qpn_8.eq(qpn_9),
    };
    let shared = State {
        stored_8: class_8.select(&class_states),
        same_8_10: class_8.eq(class_10),
        same_8_9: class_8.eq(class_9),
    };
    let write_9 = is_write.after(8);
    let granted_9 = m.wire("granted_9", 1);
    let own_bucket = bucket::bucket(
        m,
        "own",
        own,
        own_levels,
        write_9.mux(writes_own.after(8), granted_9) & valid[8],
        write_9,
    );
    let class_bucket = bucket::bucket(
        m,
        "class",
        shared,
        class_levels,
        write_9.mux(writes_class.after(8), granted_9) & valid[8],
        write_9,
    );
    let own_holds = (own_bucket.holds & !beyond.after(8)).named("own_holds");
    granted_9.set(own_holds & class_bucket.holds & !write_9);
    state.write(own_bucket.write_10, qpn_10, own_bucket.level_10);
    for (number, level) in (0..CLASSES).zip(&class_states) {
        let chosen = class_bucket.write_10 & class_10.eq_lit(number);
        m.when(chosen, || level.set(class_bucket.level_10));
    }

    // Clock 10: the answer, into the queue before the port.
    let answer_9 = own_holds.mux((!class_bucket.holds).zero_extend(2) << 1, m.lit(1, 2));
    let answer_10 = answer_9.delayed("answer_10");
    let answers = valid[9] & !is_write.after(9);
    queue(m, answers, answer_10, grants);
    taken.set(taken + requests.fires().zero_extend(5) - grants.fires().zero_extend(5));
    for (name, doc, code) in [
        ("granted", "requests granted", 0),
        (
            "refused_queue_pair",
            "requests that the bucket of the queue pair refused",
            1,
        ),
        (
            "refused_class",
            "requests that the bucket of the class alone refused",
            2,
        ),
    ] {
        count_when(m, Counter(name, doc), answers & answer_10.eq_lit(code));
    }
    m.finish()
}

/// Grants that wait. There is a place for each that is under way.
fn queue<'a>(m: Module<'a>, valid: Signal<'a>, answer: Signal<'a>, grants: Stream<'a>) {
    let ram = m.memory("queue", PLACES, 2).style(MemoryStyle::Distributed);
    let (head, tail) = (m.reg("head", 4).reset(0), m.reg("tail", 4).reset(0));
    let waiting = m.reg("waiting", 5).reset(0);
    ram.write(valid, tail, answer);
    m.when(valid, || tail.set(tail + tail.lit(1)));
    grants.valid.set(waiting.any());
    grants.data.set(ram.read_now(head));
    m.when(grants.fires(), || head.set(head + head.lit(1)));
    waiting.set(waiting + valid.zero_extend(5) - grants.fires().zero_extend(5));
    m.assert("queue_has_room", !(valid & waiting.eq_lit(PLACES)));
}
