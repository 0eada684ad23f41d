//! The model against figures that others published. Their kernels are not at hand: each is written
//! down here as instructions, as its description says.
//!
//! The errors that are allowed are those that `docs/gcn-model.md` states. They may become smaller.

use polaris_gcn::card::{self, Card};
use polaris_gcn::{Access, Code, Kernel, Nest, TiledProduct, predict};

/// A kernel with one loop along k of these instructions.
fn code(name: &str, vgprs: u32, lds_bytes: u32, threads: u32, body: &str) -> Code {
    let text = format!(".L0:\n{body}s_cbranch_scc0 .L0\ns_endpgm");
    let kernel = Kernel {
        name: name.to_owned(),
        vgprs,
        sgprs: 40,
        vgpr_spills: 0,
        sgpr_spills: 0,
        lds_bytes,
        dynamic_lds: false,
        scratch_bytes: 0,
        dynamic_stack: false,
        max_workgroup: threads,
        required_workgroup: Some([threads, 1, 1]),
        code_bytes: 0,
        clang_occupancy: (256 / vgprs.next_multiple_of(4)).min(10),
    };
    Code { kernel, nest: Nest::parse(text.lines()) }
}

fn repeated(line: &str, times: usize) -> String {
    format!("{line}\n").repeat(times)
}

const MAC: &str = "v_mac_f32 v0, v1, v2";
const ADD: &str = "v_add_u32 v0, vcc, v1, v2";
const SCALAR: &str = "s_add_u32 s0, s1, s2";
const LOAD: &str = "flat_load_dword v0, v[1:2]";
const READ_PAIR: &str = "ds_read2_b32 v[0:1], v2";
const WRITE: &str = "ds_write_b32 v0, v1";
const ALL_LOADED: &str = "s_waitcnt vmcnt(0)";
const ALL_READ: &str = "s_waitcnt lgkmcnt(0)";
const BARRIER: &str = "s_barrier";

/// rocBLAS' assembly for gfx803: 128x128 by steps of 8, 8x8 sums, operands of the next step of k
/// read ahead into registers, two buffers, one barrier a step.
fn rocblas() -> Code {
    let mut body = repeated("flat_load_dwordx4 v[0:3], v[4:5]", 2) + &repeated(ADD, 4);
    for step in 0..8 {
        if step == 7 {
            let write = repeated("ds_write_b128 v0, v[1:4]", 2);
            body += &[ALL_LOADED, &write, ALL_READ, BARRIER].map(|line| repeated(line, 1)).concat();
        }
        body += &repeated("ds_read_b128 v[0:3], v4", 4);
        body += &repeated("s_waitcnt lgkmcnt(4)", 1);
        body += &repeated(MAC, 64);
    }
    body += &repeated(ADD, 4);
    body += &repeated(SCALAR, 10);
    code("rocblas", 128, 16_384, 256, &body)
}

/// clBLAS: 96x96 by steps of 16, 6x6 sums, one buffer, a fence after each step of k.
fn clblas() -> Code {
    let mut body = repeated(LOAD, 12) + &repeated(ADD, 24) + &repeated(ALL_LOADED, 1);
    body += &repeated(WRITE, 12);
    body += &[ALL_READ, BARRIER].map(|line| repeated(line, 1)).concat();
    for _ in 0..16 {
        body += &(repeated(READ_PAIR, 6) + &repeated(ALL_READ, 1) + &repeated(MAC, 36));
    }
    body += &(repeated(BARRIER, 1) + &repeated(SCALAR, 10));
    code("clblas", 84, 2 * 97 * 16 * 4, 256, &body)
}

/// An earlier project's tile of 20: 10x10 work-items, 2x2 sums, one buffer. Elements are loaded one
/// by one, each waited for, and neighbouring work-items load from different rows.
fn earlier_20() -> Code {
    let mut body = String::new();
    for _ in 0..8 {
        body += &(repeated(ADD, 8) + &repeated(LOAD, 1) + &repeated(SCALAR, 6));
        body += &(repeated(ALL_LOADED, 1) + &repeated(WRITE, 1));
    }
    body += &repeated("v_mul_lo_u32 v0, v1, v2", 2);
    body += &[ALL_READ, BARRIER].map(|line| repeated(line, 1)).concat();
    for _ in 0..20 {
        body += &(repeated(READ_PAIR, 2) + &repeated(ALL_READ, 1) + &repeated(MAC, 4));
    }
    body += &repeated(BARRIER, 1);
    code("earlier 20", 27, 3360, 100, &body)
}

/// The same project's tile of 24: 12x12 work-items, 2x2 sums, one buffer. Rows are loaded in fours;
/// of the fours that are read from local memory, selects pick what a work-item needs.
fn earlier_24() -> Code {
    let mut body = String::new();
    for _ in 0..2 {
        body += &(repeated(ADD, 12) + &repeated("flat_load_dwordx4 v[0:3], v[4:5]", 1));
        body += &(repeated(SCALAR, 12) + &repeated(ALL_LOADED, 1));
        body += &repeated("ds_write_b128 v0, v[1:4]", 1);
    }
    body += &[ALL_READ, BARRIER].map(|line| repeated(line, 1)).concat();
    for _ in 0..6 {
        body += &(repeated("ds_read_b128 v[0:3], v4", 6) + &repeated("s_waitcnt lgkmcnt(1)", 3));
        body += &(repeated("v_cndmask_b32 v0, v1, v2, vcc", 24) + &repeated(ALL_READ, 2));
        body += &repeated(MAC, 16);
    }
    body += &repeated(BARRIER, 1);
    code("earlier 24", 45, 4608, 144, &body)
}

struct Known {
    code: Code,
    card: Card,
    tile: [u32; 3],
    sums: u32,
    access: Access,
    size: u32,
    gflops: f64,
    /// How far off the model may be: a share of what was measured, below and above.
    error: [f64; 2],
}

/// Nobody else staggers.
const STRAIGHT: Access = Access { staggered: false, scattered: false, bank_conflicts: 1.0 };
const SCATTERED: Access = Access { scattered: true, ..STRAIGHT };

fn known() -> Vec<Known> {
    let case = |code, card, (tile, sums), access, (size, gflops), error| Known {
        code,
        card,
        tile,
        sums,
        access,
        size,
        gflops,
        error,
    };
    let (large, six) = (([128, 128, 8], 8), ([96, 96, 16], 6));
    let (twenty, twenty_four) = (([20, 20, 20], 2), ([24, 24, 24], 2));
    vec![
        case(rocblas(), card::R9_NANO, large, STRAIGHT, (5760, 7471.0), [0.05, 0.05]),
        case(clblas(), card::S9150, six, STRAIGHT, (5760, 4116.0), [0.05, 0.05]),
        case(clblas(), card::W9100, six, STRAIGHT, (5760, 4250.0), [0.05, 0.05]),
        case(clblas(), card::S9150, six, STRAIGHT, (4096, 3349.0), [0.20, 0.05]),
        case(clblas(), card::W9100, six, STRAIGHT, (4096, 2814.0), [0.05, 0.10]),
        case(earlier_20(), card::RX_590, twenty, SCATTERED, (1024, 601.0), [0.05, 0.20]),
        case(earlier_20(), card::RX_590, twenty, SCATTERED, (1280, 745.6), [0.05, 0.15]),
        case(earlier_20(), card::RX_590, twenty, SCATTERED, (1400, 866.9), [0.10, 0.05]),
        case(earlier_24(), card::RX_590, twenty_four, STRAIGHT, (1280, 703.9), [0.05, 0.95]),
        case(earlier_24(), card::RX_590, twenty_four, STRAIGHT, (2048, 764.7), [0.05, 0.45]),
    ]
}

#[test]
fn known_figures_are_met_within_the_stated_errors() {
    let mut faults = Vec::new();
    for case in known() {
        let [tile_m, tile_n, tile_k] = case.tile;
        let product = TiledProduct {
            m: case.size,
            n: case.size,
            k: case.size,
            tile_m,
            tile_n,
            tile_k,
            threads: tile_m * tile_n / (case.sums * case.sums),
            rows: case.sums,
            columns: case.sums,
            access: case.access,
        };
        let prediction = predict(&case.card, &case.code, &product).unwrap();
        let error = prediction.gflops / case.gflops - 1.0;
        let line = format!(
            "{:10}  {:13}  {:4}  {:6.1} known  {:6.1} predicted  {:+5.1} %  {:4.1} % of the peak  {}",
            case.code.kernel.name,
            case.card.name,
            case.size,
            case.gflops,
            prediction.gflops,
            100.0 * error,
            100.0 * prediction.share_of_peak,
            prediction.bound.name(),
        );
        println!("{line}");
        let [below, above] = case.error;
        if error < -below || error > above {
            faults.push(line);
        }
    }
    assert!(faults.is_empty(), "further off than stated:\n{}", faults.join("\n"));
}
