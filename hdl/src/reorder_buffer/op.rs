//! Operations: what the pipeline does, one a clock. Everything that reads or changes a window, a credit or the account of slots is one, so
//! that there is one order of events.

use spraynic_rtl::Signal;

/// Makes a struct of signals that is handed on from clock to clock.
macro_rules! travels {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $name<'a> {
            /// There is one in this clock.
            pub(super) valid: Signal<'a>,
            $($(#[$doc])* pub(super) $field: Signal<'a>,)*
        }

        impl $name<'_> {
            /// The same one clock later, its registers named by their stage. Not every stage reads all of it.
            pub(super) fn delayed(&self, stage: &str) -> Self {
                let next = Self {
                    valid: self.valid.delayed(&format!("valid_{stage}")).reset(0),
                    $($field: self.$field.delayed(&format!("{}_{stage}", stringify!($field))),)*
                };
                $(next.$field.ignore();)*
                next.valid.ignore();
                next
            }
        }
    };
}
pub(super) use travels;

travels! {
    /// One operation. One of the kinds is 1 where it is valid.
    Op {
        /// A packet has arrived.
        packet,
        /// `credits` receive requests were posted.
        credit,
        /// The window begins to receive, if it does not yet.
        open,
        /// The window receives no more.
        close,
        /// Nothing: its report tells how far the window can move.
        scan,
        /// The window moves on by `amount` PSNs, which were given from slots or retired.
        advance,
        /// Clears the group of the bitmap that `psn` stands in.
        walk,
        /// Sequence space.
        space,
        /// Queue pair number, as far as the tables go.
        index,
        /// The window is in the tables.
        in_table,
        /// Of the packet; open: the first one; advance: the window's first; walk: any of the group.
        psn,
        /// PSNs to move on by, 0 to 32, all in one group.
        amount,
        /// Receive requests added or taken.
        credits,
        /// advance: the last one of its turn.
        last,
        /// advance: the turn ended at a packet that found no receive request.
        starved,
        /// open: the profile.
        profile,
        /// close: the credits go too.
        drop_credits,
        /// open, close: the first operation of the context write.
        first,
        /// The packet takes a receive request.
        needs,
        /// The packet is a READ or atomic request.
        answered,
        /// How it was trimmed.
        trimmed,
        /// It ends a message of mrc.
        ends,
        /// It comes with payload.
        has_payload,
        /// Its beats less one.
        beats,
        /// It is a READ request of this length.
        read,
        /// DMA length of its RETH.
        length,
        /// Path MTU code.
        mtu,
    }
}
