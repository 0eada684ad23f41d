//! `polaris quickstart`: the first command. Inspects, measures and checks the machine, and recommends a mode.

use std::time::Duration;

use polaris_bench::digits::{Digits, Picture, ReadDigits, SIDE};
use polaris_bench::gemm::{QUICK_SIZES, QuickProduct, quick};
use polaris_bench::modes;
use polaris_testkit::Level;
use serde::Serialize;

use super::{bench_modes, check, devices};
use crate::arguments::Global;
use crate::checks::{self, Checked};
use crate::exit;
use crate::interrupt;
use crate::output::{self, Table, print_line};
use crate::session::Session;

/// The check starts no case on an OpenCL device after this time, since some drivers compile slowly.
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
    say("Checking: every operation on every device against an f64 reference ...\n")?;
    let checked = checks::check(&mut session, &Level::Standard.into(), Some(CHECK_LIMIT))?;
    let (ok, cancelled) =
        (checked.ok, checked.devices.iter().any(|device| device.report.cancelled));
    // Figures of a device that computes wrongly, or whose check was stopped, mean nothing.
    let (mut matmul, mut digits, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
    let mut modes = None;
    if !json {
        check::print(&checked)?;
        print_line("\nThis machine\n")?;
        devices::print(&devices::describe(&session))?;
    }
    if ok && !cancelled {
        say("\nComparing: CPU, GPU and hybrid on workloads of models ...")?;
        let model = Digits::new(&session.runtime)?;
        for device in session.devices()? {
            matmul.extend(quick(&device, &interrupt::token())?);
            digits.push(model.read(&session.runtime, &device, &interrupt::token())?);
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
            print_line("\nModes compared on workloads of models\n")?;
            bench_modes::print(modes)?;
        }
        print_digits(&digits, &pictures)?;
        print_line(
            "\nNext: polaris bench modes --html modes.html, polaris train digits; polaris --help lists all commands.",
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
    print_line("\nSquare f32 matmuls with operands on the device, GFLOPS\n")?;
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
    print_line("\nHandwritten digits, classified by the built-in model as ONNX\n")?;
    print_pictures(pictures)?;
    print_line("")?;
    let mut table = Table::new(&["device", ">digits", ">correct", ">accuracy", ">digits/s"]);
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

/// Prints pictures side by side, each above what it was taken for.
fn print_pictures(pictures: &[Picture]) -> anyhow::Result<()> {
    for row in 0..SIDE {
        let line: Vec<&str> = pictures.iter().map(|picture| picture.rows[row].as_str()).collect();
        print_line(format!("  {}", line.join("  ")).trim_end())?;
    }
    let words = |picture: &Picture| match picture.predicted == picture.digit {
        true => format!("read as {}", picture.predicted),
        false => format!("read as {}, is {}", picture.predicted, picture.digit),
    };
    let line: Vec<String> =
        pictures.iter().map(|picture| format!("{:<1$}", words(picture), 2 * SIDE)).collect();
    print_line(format!("  {}", line.join("  ")).trim_end())
}

fn devices_in_words(count: usize) -> String {
    match count {
        1 => "the CPU is the only usable device".to_owned(),
        n => format!("{n} usable devices"),
    }
}
