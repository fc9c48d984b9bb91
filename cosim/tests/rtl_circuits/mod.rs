//! Random circuits: a recipe of plain numbers, which proptest generates, and the module that it describes.
//!
//! Every recipe is valid: numbers that choose signals, widths and values are taken modulo what there is, so that a recipe
//! stays one when steps are taken out of it. All assertions in a circuit hold by algebra.

use std::cell::RefCell;

use proptest::prelude::*;
use spraynic_rtl::{
    Bits, Context, Definition, MemoryStyle, Module, ReadDuringWrite, Signal, cat, cat_lsb_first, index_width,
};

/// Widest signal.
pub(crate) const WIDEST: u32 = 600;

/// One step of a recipe: what is built and the numbers that choose from what.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) what: What,
    /// Choose signals, most of all.
    pub(crate) picks: [u16; 6],
    /// Chooses a width.
    pub(crate) width: u16,
    /// A constant.
    pub(crate) value: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Binary(u8),
    Compare(u8),
    Wide(bool),
    ShiftBySignal(bool),
    ShiftByConstant(bool),
    Reduce(u8),
    Invert,
    Slice,
    BitAt,
    Extend(bool),
    Repeat,
    Cat(u8),
    Mux,
    Select(u8),
    Constant,
    Name,
    Delay,
    /// A wire and registers driven under a tree of conditions.
    Control(Vec<Branch>),
    Memory {
        style: u8,
        policy: u8,
        strobes: bool,
        now: bool,
    },
    Instance(Recipe),
    Property,
    Ignore,
}

/// A statement: an assignment or a decision.
#[derive(Debug, Clone)]
pub(crate) enum Branch {
    Set {
        target: u8,
        value: u16,
    },
    When {
        condition: u16,
        then: Vec<Branch>,
        rest: Rest,
    },
    Switch {
        selector: u16,
        arms: Vec<Vec<Branch>>,
        default: Option<Vec<Branch>>,
        complete: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Rest {
    Nothing,
    Otherwise(Vec<Branch>),
    ElseWhen(u16, Vec<Branch>, Vec<Branch>),
}

/// A module: widths of its inputs, and steps.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) inputs: Vec<u16>,
    pub(crate) steps: Vec<Step>,
}

/// Recipes with instances nested `depth` deep.
pub(crate) fn recipe(depth: u32) -> BoxedStrategy<Recipe> {
    let steps = if depth == 2 { 4..26 } else { 1..8 };
    (
        prop::collection::vec(any::<u16>(), 1..5),
        prop::collection::vec(step(depth), steps),
    )
        .prop_map(|(inputs, steps)| Recipe { inputs, steps })
        .boxed()
}

fn step(depth: u32) -> BoxedStrategy<Step> {
    (what(depth), any::<[u16; 6]>(), any::<u16>(), any::<u64>())
        .prop_map(|(what, picks, width, value)| Step {
            what,
            picks,
            width,
            value,
        })
        .boxed()
}

fn what(depth: u32) -> BoxedStrategy<What> {
    let flat = prop_oneof![
        6 => any::<u8>().prop_map(What::Binary),
        4 => any::<u8>().prop_map(What::Compare),
        2 => any::<bool>().prop_map(What::Wide),
        4 => any::<bool>().prop_map(What::ShiftBySignal),
        2 => any::<bool>().prop_map(What::ShiftByConstant),
        3 => any::<u8>().prop_map(What::Reduce),
        2 => Just(What::Invert),
        5 => Just(What::Slice),
        2 => Just(What::BitAt),
        3 => any::<bool>().prop_map(What::Extend),
        2 => Just(What::Repeat),
        4 => any::<u8>().prop_map(What::Cat),
        3 => Just(What::Mux),
        3 => any::<u8>().prop_map(What::Select),
        3 => Just(What::Constant),
        2 => Just(What::Name),
        2 => Just(What::Delay),
        5 => branches(3).prop_map(What::Control),
        3 => (any::<u8>(), any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(style, policy, strobes, now)| What::Memory { style, policy, strobes, now }),
        2 => Just(What::Property),
        1 => Just(What::Ignore),
    ];
    if depth == 0 {
        return flat.boxed();
    }
    prop_oneof![14 => flat, 1 => recipe(depth - 1).prop_map(What::Instance)].boxed()
}

fn branches(depth: u32) -> BoxedStrategy<Vec<Branch>> {
    let set = (any::<u8>(), any::<u16>()).prop_map(|(target, value)| Branch::Set { target, value });
    if depth == 0 {
        return prop::collection::vec(set, 0..3).boxed();
    }
    let inner = branches(depth - 1);
    let rest = prop_oneof![
        Just(Rest::Nothing),
        inner.clone().prop_map(Rest::Otherwise),
        (any::<u16>(), inner.clone(), inner.clone())
            .prop_map(|(condition, then, rest)| Rest::ElseWhen(condition, then, rest)),
    ];
    let when =
        (any::<u16>(), inner.clone(), rest).prop_map(|(condition, then, rest)| Branch::When { condition, then, rest });
    let arms = prop::collection::vec(inner.clone(), 1..5);
    let switch =
        (any::<u16>(), arms, prop::option::of(inner), any::<bool>()).prop_map(|(selector, arms, default, complete)| {
            Branch::Switch {
                selector,
                arms,
                default,
                complete,
            }
        });
    prop::collection::vec(prop_oneof![3 => set, 2 => when, 1 => switch], 0..4).boxed()
}

/// A number of bits: often one of the edges, else anything up to the widest.
pub(crate) fn width_of(pick: u16) -> u32 {
    const EDGES: [u32; 16] = [1, 1, 2, 3, 4, 8, 16, 31, 32, 33, 63, 64, 65, 128, 256, 512];
    match pick % 4 {
        0 | 1 => EDGES[(pick / 4) as usize % EDGES.len()],
        2 => u32::from(pick / 4) % 40 + 1,
        _ => u32::from(pick / 4) % WIDEST + 1,
    }
}

/// A constant of this width: random bits, few bits, zero or ones.
fn constant_of(width: u32, value: u64) -> Bits {
    let mut state = value;
    let words: Vec<u64> = (0..width.div_ceil(64))
        .map(|_| match value % 5 {
            0 => 0,
            1 => u64::MAX,
            2 => value >> 60,
            _ => random(&mut state),
        })
        .collect();
    Bits::from_words(width, &words)
}

/// SplitMix64.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// A module under construction: what later steps may read.
struct Building<'a> {
    module: Module<'a>,
    pool: RefCell<Vec<Signal<'a>>>,
    /// Those that are refused if nobody reads them.
    declared: RefCell<Vec<Signal<'a>>>,
    counter: std::cell::Cell<u32>,
}

/// Builds the circuit as a module of this name.
pub(crate) fn build<'a>(context: &'a Context, name: &str, recipe: &Recipe) -> Definition<'a> {
    let building = Building {
        module: context.module(name),
        pool: RefCell::default(),
        declared: RefCell::default(),
        counter: std::cell::Cell::new(0),
    };
    for (index, pick) in recipe.inputs.iter().enumerate() {
        let input = building.module.input(&format!("in_{index}"), width_of(*pick));
        building.declare(input);
    }
    for (index, step) in recipe.steps.iter().enumerate() {
        building.step(name, index, step);
    }
    building.finish()
}

impl<'a> Building<'a> {
    fn add(&self, signal: Signal<'a>) {
        self.pool.borrow_mut().push(signal);
    }

    fn declare(&self, signal: Signal<'a>) {
        self.declared.borrow_mut().push(signal);
        self.add(signal);
    }

    fn pick(&self, pick: u16) -> Signal<'a> {
        let pool = self.pool.borrow();
        // Half of the choices are among the latest signals, so that expressions grow deep.
        let recent = pool.len().min(6);
        let index = match pick % 2 {
            0 => (pick / 2) as usize % pool.len(),
            _ => pool.len() - 1 - (pick / 2) as usize % recent,
        };
        pool[index]
    }

    /// The signal with another width: cut, extended or repeated.
    fn fit(&self, signal: Signal<'a>, width: u32, pick: u16) -> Signal<'a> {
        let mine = signal.width();
        if mine >= width {
            return signal.part(u32::from(pick / 3) % (mine - width + 1), width);
        }
        match pick % 3 {
            0 => signal.zero_extend(width),
            1 => signal.sign_extend(width),
            _ => signal.repeat(width.div_ceil(mine)).part(0, width),
        }
    }

    fn pick_fit(&self, pick: u16, width: u32) -> Signal<'a> {
        self.fit(self.pick(pick), width, pick.rotate_left(7))
    }

    fn condition(&self, pick: u16) -> Signal<'a> {
        let signal = self.pick(pick);
        match pick / 16 % 3 {
            0 => signal.any(),
            1 => signal.parity(),
            _ => self.fit(signal, 1, pick),
        }
    }

    fn fresh(&self, stem: &str) -> String {
        self.counter.set(self.counter.get() + 1);
        format!("{stem}_{}", self.counter.get())
    }

    fn step(&self, name: &str, index: usize, step: &Step) {
        let p = step.picks;
        let a = self.pick(p[0]);
        let width = a.width();
        match &step.what {
            What::Binary(op) => {
                let b = self.pick_fit(p[1], width);
                self.add(match op % 5 {
                    0 => a + b,
                    1 => a - b,
                    2 => a & b,
                    3 => a | b,
                    _ => a ^ b,
                });
            }
            What::Compare(op) => {
                let b = self.pick_fit(p[1], width);
                self.add(match op % 10 {
                    0 => a.eq(b),
                    1 => a.ne(b),
                    2 => a.lt(b),
                    3 => a.le(b),
                    4 => a.gt(b),
                    5 => a.ge(b),
                    6 => a.lt_signed(b),
                    7 => a.le_signed(b),
                    8 => a.eq_lit(constant_of(width, step.value)),
                    _ => a.lt(a.lit(constant_of(width, step.value))),
                });
            }
            What::Wide(true) => {
                let (a, b) = (a.part(0, width.min(300)), self.pick(p[1]));
                self.add(a.mul_wide(b.part(0, b.width().min(300))));
            }
            What::Wide(false) => {
                let b = self.pick(p[1]);
                self.add(
                    a.part(0, width.min(WIDEST - 1))
                        .add_wide(b.part(0, b.width().min(WIDEST - 1))),
                );
            }
            What::ShiftBySignal(left) => {
                let by = self.pick(p[1]);
                // As it is, or just wide enough to reach beyond the end.
                let by = if p[2].is_multiple_of(2) {
                    by
                } else {
                    self.fit(by, index_width(u64::from(width) + 1), p[3])
                };
                self.add(if *left { a << by } else { a >> by });
            }
            What::ShiftByConstant(left) => {
                let by = u32::from(step.width) % (width + 2);
                self.add(if *left { a << by } else { a >> by });
            }
            What::Reduce(op) => self.add(match op % 3 {
                0 => a.any(),
                1 => a.all(),
                _ => a.parity(),
            }),
            What::Invert => self.add(!a),
            What::Slice => {
                let part = u32::from(step.width) % width + 1;
                self.add(a.part(u32::from(p[1]) % (width - part + 1), part));
            }
            What::BitAt => self.add(a.bit_at(self.pick(p[1]))),
            What::Extend(signed) => {
                let to = width + u32::from(step.width) % (WIDEST - width + 1);
                self.add(if *signed { a.sign_extend(to) } else { a.zero_extend(to) });
            }
            What::Repeat => self.add(a.repeat(u32::from(step.width) % (WIDEST / width) + 1)),
            What::Cat(count) => {
                let room = WIDEST / 4;
                let parts: Vec<Signal<'a>> = p[..(count % 4 + 1) as usize]
                    .iter()
                    .map(|pick| self.pick(*pick))
                    .map(|part| part.part(0, part.width().min(room)))
                    .collect();
                self.add(if count / 4 % 2 == 0 {
                    cat(&parts)
                } else {
                    cat_lsb_first(&parts)
                });
            }
            What::Mux => self.add(self.condition(p[1]).mux(a, self.pick_fit(p[2], width))),
            What::Select(count) => {
                let choices: Vec<Signal<'a>> = p[..(count % 6 + 1) as usize]
                    .iter()
                    .map(|pick| self.pick_fit(*pick, width))
                    .collect();
                let needed = index_width(choices.len() as u64);
                let index = self.pick_fit(p[5], needed + u32::from(count / 8 % 3));
                self.add(index.select(&choices));
            }
            What::Constant => {
                let width = width_of(step.width);
                self.add(self.module.lit(constant_of(width, step.value), width));
            }
            What::Name => self.add(a.named(["sum", "next", "t_1", "_unused", "x"][p[1] as usize % 5])),
            What::Delay => self.declare(a.delayed(&self.fresh("delayed"))),
            What::Control(tree) => self.control(step, tree),
            What::Memory {
                style,
                policy,
                strobes,
                now,
            } => self.memory(step, *style, *policy, *strobes, *now),
            What::Instance(recipe) => self.instance(name, index, step, recipe),
            What::Property => {
                let name = ["holds", "t_2", "formal_started"][p[1] as usize % 3];
                match p[2] % 3 {
                    0 => self.module.assert(name, (a | !a).all()),
                    1 => self.module.assume(name, a.le(a | self.pick_fit(p[3], width))),
                    _ => self.module.cover(name, a.any()),
                }
            }
            What::Ignore => a.part(0, u32::from(step.width) % width + 1).ignore(),
        }
    }

    fn control(&self, step: &Step, tree: &[Branch]) {
        let p = step.picks;
        let width = width_of(step.width);
        let wire = self.module.wire(&self.fresh("wire"), width);
        let kept = self.module.reg(&self.fresh("kept"), width);
        let reset = self
            .module
            .reg(&self.fresh("reset"), width)
            .reset(constant_of(width, step.value));
        let output = self.module.output(&self.fresh("driven"), width);
        let targets = [wire, kept, reset, output];
        // Drivers come from what is there before, so there is no loop through the wire; registers may read each other.
        wire.set(self.pick_fit(p[0], width));
        output.set(self.pick_fit(p[1], width));
        let sources: Vec<Signal<'a>> = p[2..]
            .iter()
            .map(|pick| self.pick_fit(*pick, width))
            .chain([kept, reset])
            .collect();
        // Whatever the tree does, registers have a driver, and not always.
        self.module.when(self.condition(p[5]), || {
            kept.set(sources[0]);
            reset.set(sources[1]);
        });
        self.branches(tree, &targets, &sources);
        self.declare(wire);
        self.declare(kept);
        self.declare(reset);
        self.add(output);
    }

    fn branches(&self, tree: &[Branch], targets: &[Signal<'a>], sources: &[Signal<'a>]) {
        let run = |body: &[Branch]| self.branches(body, targets, sources);
        for branch in tree {
            match branch {
                Branch::Set { target, value } => {
                    targets[*target as usize % targets.len()].set(sources[*value as usize % sources.len()]);
                }
                Branch::When { condition, then, rest } => {
                    let when = self.module.when(self.condition(*condition), || run(then));
                    match rest {
                        Rest::Nothing => {}
                        Rest::Otherwise(body) => when.otherwise(|| run(body)),
                        Rest::ElseWhen(condition, then, rest) => {
                            when.else_when(self.condition(*condition), || run(then))
                                .otherwise(|| run(rest));
                        }
                    }
                }
                Branch::Switch {
                    selector,
                    arms,
                    default,
                    complete,
                } => {
                    let width = if *complete { 2 } else { 1 + u32::from(selector % 5) };
                    let selector = self.pick_fit(*selector, width);
                    self.module.switch(selector, |switch| {
                        for value in 0..1u32 << width {
                            match arms.get(value as usize) {
                                Some(body) => switch.case(value, || run(body)),
                                None if *complete => switch.case(value, || run(&arms[0])),
                                None => {}
                            }
                        }
                        if let Some(body) = default {
                            switch.default(|| run(body));
                        }
                    });
                }
            }
        }
    }

    fn memory(&self, step: &Step, style: u8, policy: u8, strobes: bool, now: bool) {
        let p = step.picks;
        let depth = [2, 3, 4, 5, 8, 13, 16, 32][p[0] as usize % 8];
        let granule = [1, 8, 9, 32][p[1] as usize % 4];
        let width = if strobes {
            granule * (u32::from(step.width) % 6 + 2)
        } else {
            width_of(step.width)
        };
        let style = [MemoryStyle::Block, MemoryStyle::Ultra, MemoryStyle::Distributed][style as usize % 3];
        let policy = [ReadDuringWrite::Old, ReadDuringWrite::New, ReadDuringWrite::DontCare][policy as usize % 3];
        let memory = self
            .module
            .memory(&self.fresh("memory"), depth, width)
            .style(style)
            .read_during_write(policy);
        // Beyond the last word anything may come back, so addresses stay below.
        let address = |pick: u16| {
            let address = self.pick_fit(pick, memory.address_width());
            if depth.is_power_of_two() {
                address
            } else {
                address.lt(address.lit(depth)).mux(address, address.lit(depth - 1))
            }
        };
        let data = self.pick_fit(p[2], width);
        let to = address(p[3]);
        if strobes {
            memory
                .strobes(granule)
                .write_strobed(self.condition(p[0]), to, data, self.pick_fit(p[1], width / granule));
        } else {
            memory.write(self.condition(p[0]), to, data);
        }
        // Often the same address, so that the policy matters.
        let from = if p[4].is_multiple_of(2) { to } else { address(p[4]) };
        let read = if now && style == MemoryStyle::Distributed {
            memory.read_now(from)
        } else {
            memory.read(self.condition(p[5]), from)
        };
        self.declare(read);
    }

    fn instance(&self, name: &str, index: usize, step: &Step, recipe: &Recipe) {
        let inner = build(self.module.context(), &format!("{name}_{index}"), recipe);
        // Two instances of one module now and then.
        for copy in 0..1 + u16::from(step.picks[5].is_multiple_of(3)) {
            let instance = self.module.instance(&self.fresh("u"), inner);
            for (index, port) in inner
                .ports()
                .iter()
                .filter(|port| port.name.starts_with("in_"))
                .enumerate()
            {
                let input = instance.input(&port.name);
                let pick = step.picks[index % 4].wrapping_add(copy);
                input.set(self.pick_fit(pick, port.width));
                if pick % 3 == 0 {
                    let other = self.pick_fit(step.picks[5], port.width);
                    self.module.when(self.condition(pick), || input.set(other));
                }
            }
            for port in inner.ports().iter().filter(|port| port.output) {
                self.declare(instance.output(&port.name));
            }
            if step.picks[4].is_multiple_of(2) {
                self.add(instance.input("in_0"));
            }
        }
    }

    /// Declared signals become outputs or are ignored, the last expressions become outputs.
    fn finish(self) -> Definition<'a> {
        let declared = self.declared.into_inner();
        for (index, signal) in declared.iter().enumerate() {
            if index % 3 == 2 {
                signal.ignore();
            } else {
                self.module.output_of(&format!("out_{index}"), *signal);
            }
        }
        let pool = self.pool.into_inner();
        for (index, signal) in pool.iter().rev().take(6).enumerate() {
            self.module.output_of(&format!("last_{index}"), *signal);
        }
        self.module.finish()
    }
}
