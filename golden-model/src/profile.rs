//! Wire profile of a queue pair, as its code in a `SliceContext`. It says nothing of what a profile means.

/// Wire profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Profile {
    /// Standard RoCEv2 RC.
    Roce = 0,
    /// RC opcodes, every packet sprayed, reliability by SACK.
    Solar = 1,
    /// OCP MRC 1.0 opcodes.
    Mrc = 2,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 3] = [Self::Roce, Self::Solar, Self::Mrc];

    /// The profile with this code; 3 is none.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| *profile as u8 == code)
    }
}
