//! A parameter's value and the values it may have, without knowing which parameter it is.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Operation, Profile};

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Integer(i128),
    /// On or off.
    Flag(bool),
    /// Text.
    Text(String),
    /// Names out of a fixed set, in the set's order where the value is valid.
    Set(Vec<String>),
}

impl Value {
    /// The type, with its article, for error messages.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Integer(_) => "a whole number",
            Self::Flag(_) => "true or false",
            Self::Text(_) => "text",
            Self::Set(_) => "a list",
        }
    }
}

/// TOML notation.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
            Self::Set(names) => {
                f.write_str("[")?;
                for (index, name) in names.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", toml::Value::String(name.clone()))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The values that a parameter may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// One of these numbers.
    Choice(&'static [u32]),
    /// A power of two, both ends included.
    PowerOfTwo {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Any whole number, both ends included.
    Range {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// true or false.
    Flag,
    /// A name: lower-case letters, digits, `_` and `-`, 1 to 32 characters, first a letter or digit.
    Name,
    /// One or more of these names.
    Set(&'static [&'static str]),
}

/// How a value fails to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It is of another type.
    Type,
    /// It is of the right type, but not among those allowed.
    Range,
}

impl Allowed {
    /// Checks a value.
    pub(crate) fn check(self, value: &Value) -> Result<(), Misfit> {
        let in_range = match (self, value) {
            (Self::Choice(choices), Value::Integer(n)) => choices.iter().any(|c| i128::from(*c) == *n),
            (Self::PowerOfTwo { min, max }, Value::Integer(n)) => {
                (i128::from(min)..=i128::from(max)).contains(n) && n.count_ones() == 1
            }
            (Self::Range { min, max }, Value::Integer(n)) => (i128::from(min)..=i128::from(max)).contains(n),
            (Self::Flag, Value::Flag(_)) => true,
            (Self::Name, Value::Text(text)) => {
                (1..=32).contains(&text.len())
                    && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                    && text
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
            }
            (Self::Set(known), Value::Set(names)) => {
                !names.is_empty() && names.iter().all(|name| known.contains(&name.as_str()))
            }
            _ => return Err(Misfit::Type),
        };
        if in_range { Ok(()) } else { Err(Misfit::Range) }
    }
}

/// What is allowed, as the end of a sentence that begins "it must be".
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choice(choices) => {
                let list: Vec<String> = choices.iter().map(ToString::to_string).collect();
                write!(f, "one of {}", list.join(", "))
            }
            Self::PowerOfTwo { min, max } => write!(f, "a power of two from {min} to {max}"),
            Self::Range { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Flag => f.write_str("true or false"),
            Self::Name => f.write_str("1 to 32 lower-case letters, digits, `-` and `_`, first a letter or a digit"),
            Self::Set(names) => write!(f, "one or more of {}", names.join(", ")),
        }
    }
}

/// A field's Rust type, as a [`Value`] and back.
pub(crate) trait FieldType: Sized {
    fn to_value(&self) -> Value;
    /// `None` where the value does not fit the type: the parameter's [`Allowed`] then says what would.
    fn from_value(value: &Value) -> Option<Self>;
}

impl FieldType for u32 {
    fn to_value(&self) -> Value {
        Value::Integer(i128::from(*self))
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Self::try_from(*number).ok(),
            _ => None,
        }
    }
}

impl FieldType for bool {
    fn to_value(&self) -> Value {
        Value::Flag(*self)
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }
}

impl FieldType for String {
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

macro_rules! set_type {
    ($($ty:ty)*) => {$(
        impl FieldType for BTreeSet<$ty> {
            fn to_value(&self) -> Value {
                Value::Set(self.iter().map(|item| item.name().to_owned()).collect())
            }
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Set(names) => names.iter().map(|name| <$ty>::from_name(name)).collect(),
                    _ => None,
                }
            }
        }
    )*};
}
set_type!(Profile Operation);
