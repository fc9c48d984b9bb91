//! The blocks of `spraynic-hdl`, as the generator takes them.

use spraynic_config::NicConfig;
use spraynic_cosim::ModelSource;
use spraynic_hdl::EmitError;
use spraynic_hdl::catalogue::TOP;
use spraynic_hdl::state_bits::state_bits;
use spraynic_rtl::Context;

use crate::error::CliError;
use crate::generate::{BlockSummary, Design, Library};

/// All blocks of `spraynic-hdl`.
pub(crate) struct Hdl;

impl Library for Hdl {
    fn blocks(&self) -> Vec<BlockSummary> {
        spraynic_hdl::blocks()
            .iter()
            .map(|block| BlockSummary {
                name: block.name,
                description: block.description,
            })
            .collect()
    }

    fn emit(&self, config: &NicConfig, block: Option<&str>) -> Result<Design, CliError> {
        let files = spraynic_hdl::emit(config, block).map_err(|error| match error {
            EmitError::Config(error) => CliError::Config(error),
            EmitError::UnknownBlock { .. } => CliError::Usage(format!("--block: {error}")),
        })?;
        // The block asked for is the last file: what it uses comes before it.
        let top = files
            .last()
            .map_or("", |file| file.name.trim_end_matches(".v"))
            .to_owned();
        Ok(Design {
            top,
            files: files.into_iter().map(|file| (file.name, file.text)).collect(),
            registers: spraynic_hdl::registers(config, block),
            state_bits: match block {
                None | Some(TOP) => state_bits(config),
                Some(_) => vec![],
            },
        })
    }
}

/// The names of all blocks.
pub(crate) fn names() -> String {
    let names: Vec<_> = spraynic_hdl::blocks().iter().map(|block| block.name).collect();
    names.join(", ")
}

/// What a block's model is built from; `None`: there is no such block. The configuration must be valid.
pub(crate) fn model_source(config: &NicConfig, block: &str) -> Option<ModelSource> {
    let block = spraynic_hdl::blocks().iter().find(|known| known.name == block)?;
    let context = Context::new();
    Some(ModelSource::from_definition(block.build(&context, config)))
}
