//! `polaris quickstart`: the first command. Looks, measures, checks, recommends.

use std::time::Duration;

use polaris_testkit::Level;
use serde::Serialize;

use super::bench_gemm::quick::{self, QuickProduct, SIZES};
use super::digits::{self, ReadDigits};
use super::{check, devices};
use crate::arguments::Global;
use crate::exit;
use crate::output::{self, Table, print_line};
use crate::session::Session;

/// Drivers that compile slowly get as much of the check as fits into this.
const CHECK_LIMIT: Duration = Duration::from_secs(20);

#[derive(Serialize)]
struct Quickstart<'a> {
    machine: devices::Machine<'a>,
    check: check::Checked,
    matmul: Vec<QuickProduct>,
    digits: Vec<ReadDigits>,
}

pub fn run(global: Global) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global)?;
    let count = session.devices()?.len();
    let say = |text: &str| if json { Ok(()) } else { print_line(text) };
    say(&format!("Polaris {}: {}", env!("CARGO_PKG_VERSION"), devices_in_words(count)))?;
    say("\nMeasuring: arithmetic, memory, transfers, launches ...")?;
    devices::measure_devices(&mut session)?;
    say("Checking: every operation on every device, against a double-precision reference ...\n")?;
    let checked = check::check(&mut session, Level::Standard, Some(CHECK_LIMIT))?;
    let (ok, cancelled) =
        (checked.ok, checked.devices.iter().any(|device| device.report.cancelled));
    // A device that was stopped or computes wrongly is not worth a measurement.
    let (mut matmul, mut digits) = (Vec::new(), Vec::new());
    if ok && !cancelled {
        for device in session.devices()? {
            matmul.extend(quick::measure(&device)?);
            digits.push(digits::read(&device)?);
        }
    }
    if json {
        let machine = devices::describe(&session);
        let result = Quickstart { machine, check: checked, matmul, digits };
        output::print_json("polaris.quickstart/1", &result)?;
    } else {
        check::print(&checked)?;
        print_line("\nThis machine\n")?;
        devices::print(&devices::describe(&session))?;
        print_products(&matmul)?;
        print_digits(&digits)?;
        print_line(
            "\nNext: polaris devices, polaris bench gemm, polaris train digits; polaris --help lists all.",
        )?;
    }
    Ok(match (cancelled, ok) {
        (true, _) => exit::INTERRUPTED,
        (_, true) => exit::OK,
        (_, false) => exit::FOUND_WRONG,
    })
}

fn print_products(products: &[QuickProduct]) -> anyhow::Result<()> {
    if products.is_empty() {
        return Ok(());
    }
    print_line("\nMatrix products, square, f32, GFLOPS\n")?;
    let sizes = SIZES.map(|size| format!(">{size}"));
    let mut table = Table::new(&["device", &sizes[0], &sizes[1], &sizes[2]]);
    for products in products.chunks(SIZES.len()) {
        let figures = products
            .iter()
            .map(|product| product.gflops.map_or("-".to_owned(), |gflops| format!("{gflops:.0}")));
        table.row([products[0].device.to_string()].into_iter().chain(figures).collect());
    }
    table.print()
}

fn print_digits(digits: &[ReadDigits]) -> anyhow::Result<()> {
    if digits.is_empty() {
        return Ok(());
    }
    print_line("\nHandwritten digits, read by the model that is built in\n")?;
    let mut table = Table::new(&["device", ">digits", ">right", ">a second"]);
    for ReadDigits { device, digits, right, per_second } in digits {
        let cells = [device.clone(), digits.to_string(), right.to_string()];
        table.row(cells.into_iter().chain([format!("{per_second:.0}")]).collect());
    }
    table.print()
}

fn devices_in_words(count: usize) -> String {
    match count {
        1 => "the CPU is the one device that can be used here".to_owned(),
        n => format!("{n} devices can be used here"),
    }
}
