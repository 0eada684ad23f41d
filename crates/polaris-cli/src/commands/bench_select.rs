//! `polaris bench select`: the time to choose a matmul kernel, and the size of the predictor.

use polaris_bench::select;

use crate::arguments::Global;
use crate::output::{self, Table};
use crate::session::Session;
use crate::{exit, interrupt};

pub fn run(global: Global) -> anyhow::Result<u8> {
    let json = global.json;
    let session = Session::new(global)?;
    let results = select::run(&session.runtime, &session.chosen, &interrupt::token())?;
    if json {
        output::print_json("polaris.bench.select/1", &results)?;
        return Ok(exit::OK);
    }
    output::print_line("choosing a matmul kernel, microseconds")?;
    let mut table = Table::new(&[
        "device",
        ">first",
        ">later",
        ">slowest",
        ">measured",
        ">predicted",
        ">predictor bytes",
        ">us per prediction",
    ]);
    for row in results.results {
        let predictor = row.predictor.as_ref();
        let show = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row(vec![
            row.device.to_string(),
            format!("{:.1}", row.first_us),
            format!("{:.2}", row.later_us),
            format!("{:.2}", row.slowest_us),
            row.measured.to_string(),
            row.predicted.to_string(),
            show(predictor.map(|p| p.bytes.to_string())),
            show(predictor.map(|p| format!("{:.2}", p.predict_us))),
        ]);
    }
    table.print()?;
    Ok(exit::OK)
}
