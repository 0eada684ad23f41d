//! `polaris quickstart`: the first command. Looks, measures, checks, recommends, and shows what it brings.

use std::time::Duration;

use polaris_bench::gemm::{QUICK_SIZES, QuickProduct, quick};
use polaris_bench::modes;
use polaris_testkit::Level;
use serde::Serialize;

use super::digits::{Digits, Picture, ReadDigits, print_pictures};
use super::{bench_modes, check, devices};
use crate::arguments::Global;
use crate::checks::{self, Checked};
use crate::exit;
use crate::interrupt;
use crate::output::{self, Table, print_line};
use crate::session::Session;

/// Drivers that compile slowly get as much of the check as fits into this.
const CHECK_LIMIT: Duration = Duration::from_secs(20);

#[derive(Serialize)]
struct Quickstart<'a> {
    machine: devices::Machine<'a>,
    check: Checked,
    matmul: Vec<QuickProduct>,
    modes: Option<modes::Results>,
    digits: Vec<ReadDigits>,
    pictures: Vec<Picture>,
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
    let checked = checks::check(&mut session, Level::Standard, Some(CHECK_LIMIT))?;
    let (ok, cancelled) =
        (checked.ok, checked.devices.iter().any(|device| device.report.cancelled));
    // A device that was stopped or computes wrongly is not worth a measurement.
    let (mut matmul, mut digits, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
    let mut modes = None;
    if !json {
        check::print(&checked)?;
        print_line("\nThis machine\n")?;
        devices::print(&devices::describe(&session))?;
    }
    if ok && !cancelled {
        say("\nComparing: CPU, GPU and both, in what models are made of ...")?;
        let model = Digits::new(&session)?;
        for device in session.devices()? {
            matmul.extend(quick(&device, &interrupt::token())?);
            digits.push(model.read(&session, &device)?);
        }
        pictures = digits.first().map_or(Ok(Vec::new()), |read| model.pictures(read))?;
        modes = Some(bench_modes::quick(&session)?);
    }
    let ok = ok && modes.as_ref().is_none_or(|modes| modes.ok);
    if json {
        let machine = devices::describe(&session);
        let result = Quickstart { machine, check: checked, matmul, modes, digits, pictures };
        output::print_json("polaris.quickstart/1", &result)?;
    } else {
        print_products(&matmul)?;
        if let Some(modes) = &modes {
            print_line("\nModes, compared by what models are made of\n")?;
            bench_modes::print(modes)?;
        }
        print_digits(&digits, &pictures)?;
        print_line(
            "\nNext: polaris bench modes --html modes.html, polaris train digits; polaris --help lists all.",
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
    print_line("\nMatrix products of operands that are on the device, square, f32, GFLOPS\n")?;
    let sizes = QUICK_SIZES.map(|size| format!(">{size}"));
    let mut table = Table::new(&["device", &sizes[0], &sizes[1], &sizes[2]]);
    for products in products.chunks(QUICK_SIZES.len()) {
        let figures = products
            .iter()
            .map(|product| product.gflops.map_or("-".to_owned(), |gflops| format!("{gflops:.0}")));
        table.row([products[0].device.to_string()].into_iter().chain(figures).collect());
    }
    table.print()
}

fn print_digits(digits: &[ReadDigits], pictures: &[Picture]) -> anyhow::Result<()> {
    if digits.is_empty() {
        return Ok(());
    }
    print_line("\nHandwritten digits, read by the model that is built in, as ONNX\n")?;
    print_pictures(pictures)?;
    print_line("")?;
    let mut table = Table::new(&["device", ">digits", ">right", ">accuracy", ">a second"]);
    for read in digits {
        table.row(vec![
            read.device.clone(),
            read.digits.to_string(),
            read.right.to_string(),
            format!("{:.1}%", 100.0 * read.right as f64 / read.digits.max(1) as f64),
            format!("{:.0}", read.per_second),
        ]);
    }
    table.print()
}

fn devices_in_words(count: usize) -> String {
    match count {
        1 => "the CPU is the one device that can be used here".to_owned(),
        n => format!("{n} devices can be used here"),
    }
}
