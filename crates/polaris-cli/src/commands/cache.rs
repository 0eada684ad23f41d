//! `polaris cache`: built programs, prepacked weights and measured costs on disk.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use polaris::runtime::Bytes;
use polaris::runtime::machine::{Paths, files_in};
use polaris::runtime::opencl::ProgramCache;
use serde::Serialize;

use crate::arguments::{Cache, Global};
use crate::{exit, output};

#[derive(Serialize)]
struct Contents {
    /// The folder of programs; the others are next to it.
    folder: Option<PathBuf>,
    programs: usize,
    bytes: u64,
    /// Prepacked weights of models.
    packed: Files,
    /// Measured times of instructions.
    costs: Files,
    removed: usize,
}

/// Files of a folder.
#[derive(Serialize, Clone, Copy, Default)]
struct Files {
    files: usize,
    bytes: u64,
}

impl Files {
    fn of(folder: Option<&Path>) -> Self {
        files_in(folder).fold(Self::default(), |sum, file| Self {
            files: sum.files + 1,
            bytes: sum.bytes + file.metadata().map_or(0, |meta| meta.len()),
        })
    }
}

fn clear(folder: Option<&Path>) -> anyhow::Result<usize> {
    let mut removed = 0;
    for file in files_in(folder) {
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        removed += 1;
    }
    Ok(removed)
}

pub fn run(global: Global, options: &Cache) -> anyhow::Result<u8> {
    let paths = Paths::from_environment();
    let programs = ProgramCache::new(paths.programs());
    let cache = paths.cache.as_deref();
    let [packed, costs] = [cache.map(Paths::packed), cache.map(Paths::costs)];
    let removed = match options.clear {
        true => programs.clear()? + clear(packed.as_deref())? + clear(costs.as_deref())?,
        false => 0,
    };
    let (count, bytes) = programs.contents();
    let contents = Contents {
        folder: programs.folder().cloned(),
        programs: count,
        bytes,
        packed: Files::of(packed.as_deref()),
        costs: Files::of(costs.as_deref()),
        removed,
    };
    if global.json {
        output::print_json("polaris.cache/1", &contents)?;
        return Ok(exit::OK);
    }
    let Some(cache) = cache else {
        output::print_line(
            "there is no cache folder, since the home folder is unknown; set POLARIS_CACHE_DIR",
        )?;
        return Ok(exit::OK);
    };
    if options.clear {
        output::print_line(&format!("removed {removed} files"))?;
    }
    let Contents { packed, costs, .. } = contents;
    output::print_line(&format!("in {}:", cache.display()))?;
    output::print_line(&format!("  {count} programs, {}", Bytes(bytes)))?;
    output::print_line(&format!(
        "  prepacked weights of {} models, {}",
        packed.files,
        Bytes(packed.bytes)
    ))?;
    output::print_line(&format!(
        "  measured costs of {} devices, {}",
        costs.files,
        Bytes(costs.bytes)
    ))?;
    Ok(exit::OK)
}
