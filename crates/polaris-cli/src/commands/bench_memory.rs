//! `polaris bench memory`: copy, add and sum against a plain loop or the driver's copy.

use polaris::runtime::Bytes;
use polaris_bench::memory::{self, MemoryOptions, ROUNDS};

use crate::arguments::{Global, Memory};
use crate::output::{self, Table};
use crate::session::Session;
use crate::{exit, interrupt};

pub fn run(global: Global, options: &Memory) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let (devices, cancellation) = (session.chosen.clone(), interrupt::token());
    let chosen = MemoryOptions { devices, bytes: options.size, cancellation };
    let results = memory::run(&session.runtime, &chosen)?;
    if json {
        output::print_json("polaris.bench.memory/1", &results)?;
        return Ok(exit::OK);
    }
    output::print_line(&format!(
        "arrays of {}, f32, medians of {ROUNDS} rounds in turns",
        Bytes(options.size)
    ))?;
    let mut table =
        Table::new(&["device", "operation", ">GB/s", "baseline", ">GB/s", ">ratio", ">memcpy"]);
    for row in results.results {
        table.row(vec![
            row.device.to_string(),
            row.name.into(),
            format!("{:.1}", row.gbs),
            row.baseline.into(),
            format!("{:.1}", row.baseline_gbs),
            format!("{:.2}", row.ratio),
            row.memcpy_gbs.map_or("-".into(), |gbs| format!("{gbs:.1}")),
        ]);
    }
    table.print()?;
    Ok(exit::OK)
}
