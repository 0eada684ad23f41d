//! `polaris bench launch`: the overhead of one small operation against a bare OpenCL enqueue.

use polaris_bench::launch::{self, BATCHES, CALLS, ELEMENTS};

use crate::arguments::Global;
use crate::output::{self, Table};
use crate::session::Session;
use crate::{exit, interrupt};

pub fn run(global: Global) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let results = launch::run(&session.runtime, &session.chosen, &interrupt::token())?;
    if json {
        output::print_json("polaris.bench.launch/1", &results)?;
        return Ok(exit::OK);
    }
    output::print_line(&format!(
        "add of {ELEMENTS} f32, microseconds per call, medians of {BATCHES} x {CALLS} calls in turns"
    ))?;
    let mut table = Table::new(&["device", "call", ">us", ">bare enqueue", ">added"]);
    let show = |value: Option<f64>| value.map_or("-".to_owned(), |us| format!("{us:.2}"));
    for row in results.results {
        let cells = [format!("{:.2}", row.us), show(row.baseline_us), show(row.added_us)];
        table.row([row.device.to_string(), row.name.to_owned()].into_iter().chain(cells).collect());
    }
    table.print()?;
    Ok(exit::OK)
}
