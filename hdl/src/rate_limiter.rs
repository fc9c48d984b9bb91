//! `rate_limiter`: says whether a queue pair may send so many bytes now, by two token buckets: its own and that of its traffic class.
//!
//! One request in two clocks, also of one queue pair, in a pipeline that never stalls: a request enters only when its grant has a place. It never
//! queues what it refuses. Theory of operation: `docs/src/blocks/rate_limiter.md`.

mod bucket;
mod carry_save;
mod gain;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::sweep;
use bucket::{Asked, Place, Tables};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, RateLimit, RateRequest};
use spraynic_rtl::{Context, Definition, MemoryStyle, Module, Signal, Stream, cat_lsb_first};

/// Name of the block.
pub const NAME: &str = "rate_limiter";

/// Traffic classes.
const CLASSES: u32 = 4;

/// Bits of their number.
const CLASS_BITS: u32 = CLASSES.trailing_zeros();

/// Requests in the pipeline and grants that wait: three enter before the first one's grant is taken.
const PLACES: u32 = 4;

/// A value with its register in each stage from the one where it appears.
struct Staged<'a> {
    name: String,
    stages: Vec<Signal<'a>>,
}

impl<'a> Staged<'a> {
    fn new(name: impl Into<String>, value: Signal<'a>) -> Self {
        Self {
            name: name.into(),
            stages: vec![value],
        }
    }

    /// So many clocks later.
    fn after(&mut self, clocks: usize) -> Signal<'a> {
        while self.stages.len() <= clocks {
            let name = format!("{}_{}", self.name, self.stages.len() + 1);
            let last = self.stages[self.stages.len() - 1];
            self.stages.push(last.delayed(&name));
        }
        self.stages[clocks]
    }
}

/// In each of the clocks 1 to 6, whether there was something in clock 1.
fn stages<'a>(m: Module<'a>, name: &str, first: Signal<'a>) -> Vec<Signal<'a>> {
    let mut stages = vec![first];
    for clock in 2..=6 {
        let stage = m.reg(&format!("{name}_{clock}"), 1).reset(0);
        stage.set(stages[stages.len() - 1]);
        stages.push(stage);
    }
    stages
}

/// The block for this configuration.
#[must_use]
pub fn rate_limiter<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let count = config.send_queue_pairs();
    let m = context.module(&format!("{NAME}_qp{count}"));
    m.doc("Token buckets of queue pairs and traffic classes: one request in two clocks. A grant says 0: granted, 1: the bucket of the\nqueue pair refuses, 2: that of the class refuses.");
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
    let sweep = sweep::after_reset(m, index_bits.max(CLASS_BITS));

    // Clock 0: the tables are read. A request enters behind a free clock, a write when the pipeline is empty, and alone.
    let taken = m
        .reg("taken", 3)
        .reset(0)
        .doc("requests in the pipeline, and grants that wait");
    let valid_1 = m.reg("valid_1", 1).reset(0);
    let write_1 = m.reg("write_1", 1).reset(0);
    let valid = stages(m, "valid", valid_1);
    let idle = !valid[..5].iter().fold(write_1, |any, stage| any | *stage);
    limits.ready.set(idle.named("pipeline_empty") & !sweep.active);
    let has_place = taken.ne_lit(PLACES);
    requests
        .ready
        .set(has_place & !valid_1 & !write_1 & !limits.valid & !sweep.active);
    valid_1.set(requests.fires());
    write_1.set(limits.fires());
    let request_1 = m.reg("request_1", RateRequest::width());
    let limit_1 = m.reg("limit_1", RateLimit::width());
    let time_1 = m.reg("time_1", 64);
    m.when(requests.fires(), || request_1.set(requests.data));
    m.when(limits.fires(), || limit_1.set(limits.data));
    m.when(requests.fires() | limits.fires(), || time_1.set(now));

    // Clock 1: which buckets, and what is written.
    let request = Fields::unpack::<RateRequest>(request_1);
    let limit = Fields::unpack::<RateLimit>(limit_1);
    request.get("reserved_0").ignore();
    limit.get("reserved_0").ignore();
    let (of_class, written) = (limit.get("class"), limit.get("index"));
    let qpn_1 = write_1.mux(written, request.get("qpn"));
    let class_1 = write_1.mux(written.part(0, CLASS_BITS), request.get("class"));
    let beyond = (qpn_1 >> index_bits).any().named("queue_pair_is_beyond");
    let class_beyond = (written >> CLASS_BITS).any();
    count_when(
        m,
        Counter("drop_limit", "writes of a queue pair or class beyond the table"),
        write_1 & of_class.mux(class_beyond, beyond),
    );
    let mut own = Place {
        index: Staged::new("qpn", qpn_1.part(0, index_bits)),
        asked: stages(m, "own_asked", valid_1 & !beyond),
        writes_1: write_1 & !of_class & !beyond,
    };
    let mut class = Place {
        index: Staged::new("class", class_1),
        asked: valid.clone(),
        writes_1: write_1 & of_class & !class_beyond,
    };
    // Clock 4: does it follow a refused one? The request ahead is in clock 6 at least.
    let mut follows = Staged::new("follows", request.get("follows"));
    let mut of_responses = Staged::new("of_responses", request.get("responses"));
    let last_refused: Vec<Signal<'a>> = ["work", "responses"]
        .iter()
        .map(|asker| m.reg(&format!("last_of_{asker}_refused"), 1).reset(0))
        .collect();
    let barred_4 = follows.after(3) & of_responses.after(3).select(&last_refused);
    let mut asked = Asked {
        time_1,
        bytes: Staged::new("bytes", request.get("bytes")),
        barred_4: barred_4.named("follows_a_refused_one"),
        granted_5: m.wire("granted_5", 1),
        write_1,
        written_1: cat_lsb_first(&[limit.get("limited"), limit.get("rate"), limit.get("burst")]),
        burst_written_1: limit.get("burst"),
        sweep,
    };

    // Clocks 1 to 6: the buckets.
    let own_tables = Tables::new(m, "own", count, MemoryStyle::Block);
    let qpn_0 = Fields::unpack::<RateRequest>(requests.data)
        .get("qpn")
        .part(0, index_bits);
    let own_stored = own_tables.read((requests.fires(), qpn_0), (valid[1], own.index.after(1)));
    let own_holds = bucket::bucket(m, &own_tables, &own_stored, &mut own, &mut asked);
    let class_tables = Tables::new(m, "class", CLASSES, MemoryStyle::Distributed);
    let class_stored = class_tables.read_now(class_1, class.index.after(2));
    let class_holds = bucket::bucket(m, &class_tables, &class_stored, &mut class, &mut asked);
    asked.granted_5.set(own_holds & class_holds);
    for (asker, refused) in (0..).zip(&last_refused) {
        let answered = valid[4] & of_responses.after(4).eq_lit(asker);
        m.when(answered, || refused.set(!asked.granted_5));
    }

    // Clock 5: the answer leaves, or waits.
    let answer = cat_lsb_first(&[!own_holds, own_holds & !class_holds]).named("answer");
    let answers = valid[4];
    queue(m, answers, answer, grants);
    taken.set(taken + requests.fires().zero_extend(3) - grants.fires().zero_extend(3));
    let (counted, answer_6) = (valid[5], answer.delayed("answer_6"));
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
        count_when(m, Counter(name, doc), counted & answer_6.eq_lit(code));
    }
    m.finish()
}

/// Grants that wait. There is a place for each that is under way; one that finds none waiting and a reader passes.
fn queue<'a>(m: Module<'a>, valid: Signal<'a>, answer: Signal<'a>, grants: Stream<'a>) {
    let ram = m.memory("queue", PLACES, 2).style(MemoryStyle::Distributed);
    let (head, tail) = (m.reg("head", 2).reset(0), m.reg("tail", 2).reset(0));
    let waiting = m.reg("waiting", 3).reset(0);
    let any = waiting.any();
    grants.valid.set(any | valid);
    grants.data.set(any.mux(ram.read_now(head), answer));
    let (joins, leaves) = (valid & (any | !grants.ready), any & grants.ready);
    ram.write(joins, tail, answer);
    m.when(joins, || tail.set(tail + tail.lit(1)));
    m.when(leaves, || head.set(head + head.lit(1)));
    waiting.set(waiting + joins.zero_extend(3) - leaves.zero_extend(3));
    m.assert("queue_has_room", !(joins & waiting.eq_lit(PLACES)));
}
