//! The steps of an operation, and what words of the bitmaps are gone through for.

/// Steps of an operation: one clock each, unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    /// An operation may begin.
    Idle,
    /// An operation on another sequence space began while the one before ended: that space goes back to its table.
    Swap,
    /// The state of the sequence space comes from its table.
    Load,
    /// The first look at it. Asks for the word of the bitmaps in which the base stands.
    Begin,
    /// A SACK or ACK is believed or not; that word is there.
    Check,
    /// Another word of the bitmaps is asked for, as soon as the walk over packets rests.
    WordRead,
    /// It is there.
    Word,
    /// The next bit of the word.
    Pick,
    /// The base has reached the end of its word: the next word is there.
    Advance,
    /// The marks at the head of the log are asked for, as soon as the walk over packets ends.
    HeadRead,
    /// How far the head moves in them.
    HeadWord,
    /// It moves.
    HeadMove,
    /// The sending at the head: its packet is still awaited.
    HeadJudge,
    /// Whether it is overdue.
    HeadOld,
    /// A packet that is lost.
    Lose,
    /// A NACK.
    Refused,
    /// A packet that was sent, but not the plain next one.
    Sent,
    /// It was sent again.
    Again,
    /// A timer fires.
    Fire,
    /// A probe leaves.
    Probe,
    /// A context: what a space becomes.
    Context,
    /// A context: a word of the bitmaps is cleared.
    Clear,
    /// A context: the second space comes from its table.
    Second,
    /// roce: a packet that was sent.
    RoceSent,
    /// roce: how far an answer moves the base.
    RoceAnswer,
    /// roce: what it asks for beside.
    RoceJudge,
    /// roce: what is lost is sent again, with all behind it.
    RoceRewind,
    /// The timer's delay.
    Delay,
    /// The timer is set, and what changed is told.
    Settle,
}

impl Step {
    pub(super) const BITS: u32 = 5;
    pub(super) const ALL: [Self; 29] = [
        Self::Idle,
        Self::Swap,
        Self::Load,
        Self::Begin,
        Self::Check,
        Self::WordRead,
        Self::Word,
        Self::Pick,
        Self::Advance,
        Self::HeadRead,
        Self::HeadWord,
        Self::HeadMove,
        Self::HeadJudge,
        Self::HeadOld,
        Self::Lose,
        Self::Refused,
        Self::Sent,
        Self::Again,
        Self::Fire,
        Self::Probe,
        Self::Context,
        Self::Clear,
        Self::Second,
        Self::RoceSent,
        Self::RoceAnswer,
        Self::RoceJudge,
        Self::RoceRewind,
        Self::Delay,
        Self::Settle,
    ];

    /// Whether only queue pairs of roce come here.
    pub(super) fn is_roce(self) -> bool {
        matches!(
            self,
            Self::RoceSent | Self::RoceAnswer | Self::RoceJudge | Self::RoceRewind
        )
    }
}

/// What words of the bitmaps are gone through for, from that of the base on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// All up to the cumulative PSN are acknowledged, and those of the SACK's bitmap.
    Acknowledge,
    /// The base, if it is the PSN behind the cumulative one, and what the bitmap covers is declared lost if it is suspect.
    Lose,
    /// A timeout: all that is old is lost.
    Timeout,
}

impl Phase {
    pub(super) const BITS: u32 = 2;
}
