//! One case on one device: operands, errors, times.

use std::time::Duration;

use polaris_core::DType;
use polaris_peers::{Peer, Problem};
use polaris_runtime::DeviceRef;

use super::GemmOptions;
use super::cases::{Case, Dims, VariantChoice};
use super::contenders::{Named, Theirs, bias_gelu, streamed, variants};
use super::operands::{Operands, spoil};
use super::reference::Reference;
use super::results::{OverlapRow, PeerRow, Row, finite};
use super::roofline::{Roofline, intensity};
use crate::timing::{Contender, Limits, Timing, take_turns, time_one};
use crate::{Error, Result};

/// The shortest sample: long against the clock, against waiting for a GPU, and against waking the
/// threads that slept while the others had their turn.
const SAMPLE: Duration = Duration::from_millis(2);

/// Samples of each contender, whatever the time.
const ROUNDS: usize = 5;

/// Where a case is measured.
pub struct Place<'a> {
    pub device: &'a DeviceRef,
    pub host: &'a DeviceRef,
    pub roofline: Roofline,
    pub peers: &'a [Box<dyn Peer>],
}

/// A peer that takes part, with its error.
struct PeerEntry<'a> {
    name: &'static str,
    contender: Theirs<'a>,
    error: f64,
}

/// Measures a case. Notes go out one by one.
pub fn run_case(
    case: &Case,
    place: &Place<'_>,
    options: &GemmOptions,
    note: &mut dyn FnMut(String),
) -> Result<Vec<Row>> {
    let (device, host) = (place.device, place.host);
    let with_epilogue = options.epilogue.is_some() && case.numbers.dtype().is_float();
    if options.epilogue.is_some() && !with_epilogue {
        note(format!("{} has no GELU; only the matmul is measured", case.numbers.name()));
    }
    let is_opencl = device.as_opencl().is_some();
    let more_than_kernels = is_opencl
        && case.numbers.dtype() == DType::F32
        && options.variants.iter().any(VariantChoice::is_more_than_default);
    let on_device = Operands::new(case, device, host, with_epilogue || more_than_kernels);
    let in_blocks = is_opencl && on_device.as_ref().is_err_and(Error::is_too_large);
    let operands = if in_blocks {
        note(format!("{}: {} does not fit and is streamed", device.id(), case.dims));
        Operands::new(case, host, host, false)?
    } else if more_than_kernels {
        on_device?.with_extra(case, host)?
    } else {
        on_device?
    };
    let reference = Reference::new(case, &operands)?;
    let mut ours = if in_blocks {
        vec![streamed(case, device, &operands)]
    } else {
        variants(case, device, &operands, &options.variants, note)
    };
    let mut bias_reference = None;
    if let Some([bias, _]) = operands.bias.as_ref() {
        if with_epilogue {
            ours.extend(bias_gelu(case, device, &operands)?);
        }
        bias_reference = Some(reference.bias_gelu(bias, host)?);
    }
    let budget = Duration::from_secs_f64(options.seconds);
    let mut errors = Vec::new();
    let mut kept = Vec::new();
    for mut one in ours {
        spoil(one.contender.out())?;
        // The first call builds programs.
        time_one::<Error>(&mut one.contender)?;
        let reference = match &bias_reference {
            Some(reference) if one.with_epilogue => reference,
            _ => &reference,
        };
        let error = reference.error_of(&one.contender.result()?);
        if one.optional && time_one::<Error>(&mut one.contender)? > budget {
            note(format!(
                "{}: {} {}: one call of the variant {} takes longer than the time for a case; skipped",
                device.id(),
                case.numbers.name(),
                case.dims,
                one.variant
            ));
            continue;
        }
        errors.push(error);
        kept.push(one);
    }
    let host_operands = operands.host()?;
    let [a, b] = [host_operands[0].bytes(), host_operands[1].bytes()];
    let mut peers = enter_peers(case, place.peers, a, b, &reference, note);
    let rest = Duration::from_secs_f64(options.rest);
    let limits = Limits { sample: SAMPLE, budget, rounds: ROUNDS, rest };
    let mut contenders: Vec<&mut dyn Contender> = Vec::new();
    contenders.extend(kept.iter_mut().map(|one| &mut one.contender as &mut dyn Contender));
    contenders.extend(peers.iter_mut().map(|peer| &mut peer.contender as &mut dyn Contender));
    let timings = take_turns(&mut contenders, &limits, &options.cancellation)?;
    let (our_timings, peer_timings) = timings.split_at(kept.len());
    Ok(rows(case, place, &kept, &errors, our_timings, &peers, peer_timings))
}

/// Prepares the peers and runs each once; one that fails is left out with a note.
fn enter_peers<'a>(
    case: &Case,
    peers: &'a [Box<dyn Peer>],
    a: &'a [u8],
    b: &'a [u8],
    reference: &Reference,
    note: &mut dyn FnMut(String),
) -> Vec<PeerEntry<'a>> {
    let Dims { m, n, k } = case.dims;
    let problem = Problem {
        m,
        n,
        k,
        transpose_a: case.transpose.a(),
        transpose_b: case.transpose.b(),
        dtype: case.numbers.dtype(),
        tf32: case.numbers.name() == "tf32",
    };
    let mut entries = Vec::new();
    for peer in peers.iter().filter(|peer| peer.supports(&problem)) {
        let entry = || -> Result<PeerEntry<'a>> {
            let product = peer.prepare(&problem, a, b)?;
            let mut contender = Theirs { product, settles_in: peer.settles_in() };
            time_one::<Error>(&mut contender)?;
            let error = reference.error_of(&contender.result()?);
            Ok(PeerEntry { name: peer.name(), contender, error })
        };
        match entry() {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                let (name, numbers) = (peer.name(), case.numbers.name());
                note(format!("{name} is skipped for {numbers} {}: {error}", case.dims));
            }
        }
    }
    entries
}

fn rows(
    case: &Case,
    place: &Place<'_>,
    ours: &[Named<'_>],
    errors: &[f64],
    timings: &[Timing],
    peers: &[PeerEntry<'_>],
    peer_timings: &[Timing],
) -> Vec<Row> {
    let device = place.device;
    let gflops = |timing: &Timing| case.dims.operations() / timing.seconds / 1e9;
    let plain = ours.iter().position(|one| !one.with_epilogue).map(|place| timings[place].seconds);
    let limit = place.roofline.limit(case, device);
    let row = |((one, &error), timing): ((&Named<'_>, &f64), &Timing)| {
        let reached = gflops(timing);
        let peers = peers.iter().zip(peer_timings).map(|(peer, theirs)| PeerRow {
            name: peer.name,
            gflops: gflops(theirs),
            ratio: reached / gflops(theirs),
            error: finite(peer.error),
            cv: theirs.cv,
        });
        Row {
            device: device.id(),
            device_name: device.info().name.clone(),
            dtype: case.numbers,
            transpose: case.transpose,
            m: case.dims.m,
            n: case.dims.n,
            k: case.dims.k,
            threads: device.as_cpu().map(|cpu| cpu.pool().threads()),
            variant: one.variant.clone(),
            kernel: one.kernel.clone(),
            gflops: reached,
            us: timing.seconds * 1e6,
            intensity: intensity(case),
            roofline_share: limit.map(|limit| reached / limit),
            error: finite(error),
            cv: timing.cv,
            samples: timing.samples,
            time_by_plain: plain.filter(|_| one.with_epilogue).map(|plain| timing.seconds / plain),
            overlap: one.contender.overlap().map(|overlap| OverlapRow {
                copying_ms: overlap.copying.as_secs_f64() * 1e3,
                computing_ms: overlap.computing.as_secs_f64() * 1e3,
                both_ms: overlap.both.as_secs_f64() * 1e3,
            }),
            // Peers multiply and do nothing else.
            peers: if one.with_epilogue { Vec::new() } else { peers.collect() },
        }
    };
    ours.iter().zip(errors).zip(timings).map(row).collect()
}
