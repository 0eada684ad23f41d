//! `polaris cache`: the built programs on disk.

use std::path::PathBuf;

use polaris::runtime::Bytes;
use polaris::runtime::machine::Paths;
use polaris::runtime::opencl::ProgramCache;
use serde::Serialize;

use crate::arguments::{Cache, Global};
use crate::{exit, output};

#[derive(Serialize)]
struct Contents {
    folder: Option<PathBuf>,
    programs: usize,
    bytes: u64,
    removed: usize,
}

pub fn run(global: Global, options: &Cache) -> anyhow::Result<u8> {
    let cache = ProgramCache::new(Paths::from_environment().programs());
    let removed = if options.clear { cache.clear()? } else { 0 };
    let (programs, bytes) = cache.contents();
    let folder = cache.folder().cloned();
    if global.json {
        output::print_json("polaris.cache/1", &Contents { folder, programs, bytes, removed })?;
        return Ok(exit::OK);
    }
    match folder {
        Some(folder) => {
            if options.clear {
                output::print_line(&format!("{removed} programs were removed"))?;
            }
            output::print_line(&format!(
                "{programs} programs, {}, in {}",
                Bytes(bytes),
                folder.display()
            ))?;
        }
        None => output::print_line("there is no cache folder; set POLARIS_CACHE_DIR to have one")?,
    }
    Ok(exit::OK)
}
