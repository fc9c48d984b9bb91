//! From preset, TOML file and overrides to a [`NicConfig`]: later sources win over earlier ones, key by key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, Origin};
use crate::parameters::{PARAMETERS, Parameter, SECTIONS};
use crate::value::{Allowed, Misfit, Value};
use crate::{NicConfig, Preset, contradictions};

/// The preset of a configuration that names none.
pub const DEFAULT_PRESET: Preset = Preset::G100;

/// The key, outside any section, by which a TOML file says which preset it starts from.
const PRESET_KEY: &str = "preset";

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Preset; without it, the one the file names by `preset = "…"`, or else [`DEFAULT_PRESET`].
    pub preset: Option<Preset>,
    /// TOML file.
    pub file: Option<PathBuf>,
    /// Overrides, each `key=value`; a later one wins. Lists may be written `a,b` and text without quotes.
    pub overrides: Vec<String>,
}

/// A configuration, and where each of its values was set.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The configuration, valid.
    pub config: NicConfig,
    /// The preset it started from.
    pub preset: Preset,
    /// Origin by key.
    pub origins: BTreeMap<&'static str, Origin>,
}

impl Source {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// The first thing wrong, in the order file, overrides, contradictions: see [`ConfigError`].
    pub fn resolve(&self) -> Result<Resolved, ConfigError> {
        let file = match &self.file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
                    path: path.clone(),
                    source,
                })?;
                Some((path.clone(), text))
            }
        };
        self.resolve_text(file.as_ref().map(|(path, text)| (path.as_path(), text.as_str())))
    }

    /// Like [`Self::resolve`], with the file's text given instead of read; `path` is for error messages.
    ///
    /// # Errors
    /// See [`Self::resolve`].
    pub fn resolve_text(&self, file: Option<(&Path, &str)>) -> Result<Resolved, ConfigError> {
        let (named, from_file) = match file {
            None => (None, Vec::new()),
            Some((path, text)) => read_toml(path, text)?,
        };
        let preset = match (self.preset, named) {
            (Some(given), Some((named, origin))) if given != named => {
                return Err(ConfigError::TwoPresets {
                    in_file: named.name(),
                    given: given.name(),
                    origin,
                });
            }
            (Some(preset), _) | (None, Some((preset, _))) => preset,
            (None, None) => DEFAULT_PRESET,
        };
        let mut values = BTreeMap::new();
        let mut origins = BTreeMap::new();
        for parameter in PARAMETERS {
            values.insert(parameter.key, parameter.default(preset));
            origins.insert(parameter.key, Origin::Preset(preset.name()));
        }
        let overrides = self
            .overrides
            .iter()
            .map(|text| read_override(text))
            .collect::<Result<Vec<_>, _>>()?;
        for (parameter, value, origin) in from_file.into_iter().chain(overrides) {
            check(parameter, &value, &origin)?;
            values.insert(parameter.key, value);
            origins.insert(parameter.key, origin);
        }
        let config = NicConfig::from_values(&values)?;
        contradictions::check(&config, &origins)?;
        Ok(Resolved {
            config,
            preset,
            origins,
        })
    }
}

impl NicConfig {
    /// Checks the ranges of all fields and that they do not contradict each other.
    ///
    /// # Errors
    /// The first field out of its range, or else the first contradiction.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (key, value) in self.values() {
            if let Some(parameter) = Parameter::find(key) {
                check(parameter, &value, &Origin::Field)?;
            }
        }
        contradictions::check(self, &BTreeMap::new())
    }
}

type Setting = (&'static Parameter, Value, Origin);

fn check(parameter: &'static Parameter, value: &Value, origin: &Origin) -> Result<(), ConfigError> {
    parameter.allowed.check(value).map_err(|misfit| match misfit {
        Misfit::Type => wrong_type(parameter, value.to_string(), value.type_name(), origin.clone()),
        Misfit::Range => ConfigError::OutOfRange {
            key: parameter.key,
            value: value.to_string(),
            allowed: parameter.range(),
            origin: origin.clone(),
        },
    })
}

fn wrong_type(parameter: &'static Parameter, value: String, found: &'static str, origin: Origin) -> ConfigError {
    ConfigError::WrongType {
        key: parameter.key,
        value,
        found,
        expected: parameter.range(),
        origin,
    }
}

fn unknown_key(key: &str, origin: Origin) -> ConfigError {
    // Near is what differs in fewer than half of its letters.
    let near = |known: &str, given: &str| {
        let distance = strsim::damerau_levenshtein(known, given);
        (distance <= 3 && 2 * distance < given.len()).then_some(distance)
    };
    let last = key.rsplit('.').next().unwrap_or(key);
    let nearest = PARAMETERS
        .iter()
        .filter_map(|parameter| {
            // A key without its section, or in the wrong one, is near too.
            let distances = [near(parameter.key, key), near(parameter.name(), last)];
            Some((distances.into_iter().flatten().min()?, parameter.key))
        })
        .min();
    let section = key.split('.').next().unwrap_or(key);
    let of_section: Vec<&str> = PARAMETERS
        .iter()
        .filter(|parameter| parameter.section == section)
        .map(Parameter::name)
        .collect();
    let hint = match nearest {
        _ if key == section && !of_section.is_empty() => {
            format!("it is a section, [{section}], with {}", of_section.join(", "))
        }
        Some((_, near)) => format!("did you mean `{near}`?"),
        None if !of_section.is_empty() => format!("section [{section}] has {}", of_section.join(", ")),
        None => {
            let sections: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
            format!(
                "the sections are {}; `spraynic config` prints every key",
                sections.join(", ")
            )
        }
    };
    ConfigError::UnknownKey {
        key: key.to_owned(),
        origin,
        hint,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// The preset that a file names, and the keys it sets.
type FileSettings = (Option<(Preset, Origin)>, Vec<Setting>);

fn read_toml(path: &Path, text: &str) -> Result<FileSettings, ConfigError> {
    let origin_at = |offset: usize| Origin::File {
        path: path.to_owned(),
        line: line_of(text, offset),
    };
    let document = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let mut preset = None;
    let mut settings = Vec::new();
    for (key, value) in document.get_ref() {
        let name = key.get_ref().as_ref();
        let origin = origin_at(key.span().start);
        if name == PRESET_KEY {
            let given = value.get_ref().as_str().unwrap_or("(not text)");
            let found = Preset::from_name(given).ok_or_else(|| ConfigError::UnknownPreset {
                name: given.to_owned(),
                origin: origin.to_string(),
                known: Preset::NAMES.join(", "),
            })?;
            preset = Some((found, origin));
        } else if let Some(parameter) = Parameter::find(name) {
            settings.push((parameter, read_value(parameter, value.get_ref(), &origin)?, origin));
        } else if let (Some(table), true) = (value.get_ref().as_table(), SECTIONS.iter().any(|s| s.name == name)) {
            for (key, value) in table {
                let full = format!("{name}.{}", key.get_ref());
                let origin = origin_at(key.span().start);
                let parameter = Parameter::find(&full).ok_or_else(|| unknown_key(&full, origin.clone()))?;
                settings.push((parameter, read_value(parameter, value.get_ref(), &origin)?, origin));
            }
        } else {
            return Err(unknown_key(name, origin));
        }
    }
    Ok((preset, settings))
}

fn read_value(parameter: &'static Parameter, value: &DeValue<'_>, origin: &Origin) -> Result<Value, ConfigError> {
    match value {
        DeValue::Boolean(flag) => Ok(Value::Flag(*flag)),
        DeValue::String(text) => Ok(Value::Text(text.clone().into_owned())),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(Value::Integer)
            .map_err(|_| ConfigError::OutOfRange {
                key: parameter.key,
                value: number.to_string(),
                allowed: parameter.range(),
                origin: origin.clone(),
            }),
        DeValue::Array(items) => {
            let mut names = Vec::new();
            for item in items {
                match item.get_ref().as_str() {
                    Some(name) => names.push(name.to_owned()),
                    None => {
                        let found = "a list of something else than text";
                        return Err(wrong_type(parameter, "[…]".to_owned(), found, origin.clone()));
                    }
                }
            }
            Ok(in_order(parameter, names))
        }
        DeValue::Float(number) => Err(wrong_type(
            parameter,
            number.to_string(),
            "a number with a fraction",
            origin.clone(),
        )),
        DeValue::Datetime(date) => Err(wrong_type(parameter, date.to_string(), "a date", origin.clone())),
        DeValue::Table(_) => Err(wrong_type(parameter, "{…}".to_owned(), "a table", origin.clone())),
    }
}

/// A list without duplicates, in the order of the parameter's names, so that equal sets are equal values; unknown
/// names go last, for the check to find.
fn in_order(parameter: &Parameter, mut names: Vec<String>) -> Value {
    if let Allowed::Set(known) = parameter.allowed {
        let rank = |name: &String| known.iter().position(|k| k == name).unwrap_or(known.len());
        names.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
        names.dedup();
    }
    Value::Set(names)
}

fn read_override(text: &str) -> Result<Setting, ConfigError> {
    let origin = Origin::Override(text.to_owned());
    let (key, value) = text
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| ConfigError::Override { text: text.to_owned() })?;
    let parameter = Parameter::find(key).ok_or_else(|| unknown_key(key, origin.clone()))?;
    // Bare words where TOML wants quotes: a shell has taken the quotes away already.
    let bare = || match parameter.allowed {
        Allowed::Set(_) => in_order(parameter, value.split(',').map(|name| name.trim().to_owned()).collect()),
        _ => Value::Text(value.to_owned()),
    };
    let value = match DeValue::parse(value) {
        Ok(parsed) => match (parameter.allowed, parsed.get_ref()) {
            (Allowed::Name, DeValue::String(name)) => Value::Text(name.clone().into_owned()),
            (Allowed::Name, _) => bare(),
            (Allowed::Set(_), DeValue::String(name)) => in_order(parameter, vec![name.clone().into_owned()]),
            (_, parsed) => read_value(parameter, parsed, &origin)?,
        },
        Err(_) => bare(),
    };
    Ok((parameter, value, origin))
}
