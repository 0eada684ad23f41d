//! Made-up machines that time a made-up matrix product: test functions for strategies. The cost has
//! the shape of the real thing (limits of memories, cliffs where one group fewer fits, failures,
//! noise), but none of its numbers.

use crate::{Points, Random, Recording, Space};

/// A machine and a task for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    /// Rows, columns and depth of the product.
    size: [i64; 3],
    units: i64,
    /// Bytes of local memory of a unit.
    local: i64,
    registers: i64,
    /// How much dearer than a multiplication are local reads, global reads, barriers, loops.
    prices: [f64; 4],
    /// The width it loads best.
    favourite: i64,
    /// Values of two parameters, which make its space large or small.
    depths: &'static [i64],
    unrolls: &'static [i64],
}

/// With few points, most of which work.
pub(super) const EASY: Machine = Machine {
    size: [512, 512, 4096],
    units: 60,
    local: 65536,
    registers: 192,
    prices: [1.5, 20.0, 10.0, 6.0],
    favourite: 1,
    depths: &[8, 16],
    unrolls: &[1],
};

/// With little memory and few registers: a quarter of its points fail.
pub(super) const FAILING: Machine = Machine {
    size: [2048, 2048, 2048],
    units: 8,
    local: 16384,
    registers: 96,
    prices: [0.6, 40.0, 30.0, 8.0],
    favourite: 2,
    depths: &[16],
    unrolls: &[1, 2, 4],
};

/// A small space with the constraints that such kernels have: some hundred valid points.
pub(super) fn points(machine: &Machine) -> Points {
    let local = machine.local.min(32768);
    Space::new("a made-up product")
        .parameter("tile_m", [16, 32, 64, 128])
        .parameter("tile_n", [16, 32, 64, 128])
        .parameter("tile_k", machine.depths.iter().copied())
        .parameter("threads_m", [4, 8, 16])
        .parameter("threads_n", [8, 16, 32])
        .parameter("vector", [1, 2, 4])
        .parameter("unroll", machine.unrolls.iter().copied())
        .parameter("buffers", [1, 2])
        .constraint("threads divide rows", &["tile_m", "threads_m"], |v| {
            (1..=8).contains(&(v[0] / v[1]))
        })
        .constraint("threads divide columns", &["tile_n", "threads_n"], |v| {
            (1..=8).contains(&(v[0] / v[1]))
        })
        .constraint("groups are full", &["threads_m", "threads_n"], |v| {
            (64..=256).contains(&(v[0] * v[1]))
        })
        .constraint("vectors divide columns", &["tile_n", "threads_n", "vector"], |v| {
            (v[0] / v[1]) % v[2] == 0
        })
        .constraint(
            "all threads load",
            &["tile_m", "tile_k", "threads_m", "threads_n", "vector"],
            |v| v[0] * v[1] >= v[2] * v[3] * v[4],
        )
        .constraint(
            "tiles fit into local memory",
            &["tile_m", "tile_n", "tile_k", "buffers"],
            move |v| (v[0] + v[1]) * v[2] * v[3] * 4 <= local,
        )
        .points()
        .expect("the made-up space should have points")
}

/// Seconds of a point without noise; none if it fails.
fn seconds(machine: &Machine, v: &[i64]) -> Option<f64> {
    let [tile_m, tile_n, tile_k, threads_m, threads_n, vector, unroll, buffers] = v else {
        return None;
    };
    let threads = threads_m * threads_n;
    let (rows, columns) = (tile_m / threads_m, tile_n / threads_n);
    let registers = rows * columns + (rows + columns) * (1 + unroll / 2) + 8 * buffers + 16;
    // The compiler gives up on the largest bodies, and one combination computes wrongly.
    if registers > machine.registers * 3 / 4 || (*vector == 4 && *buffers == 2 && *tile_k == 8) {
        return None;
    }
    let bytes = (tile_m + tile_n) * tile_k * buffers * 4;
    let by_registers = (machine.registers * 4 / registers) * 64 / threads;
    let groups_at_once = (machine.local / bytes).min(by_registers * 2).clamp(1, 8);
    let waves = (groups_at_once * threads / 64) as f64;
    let hiding = 1.0 - (-0.2 * waves * (1.0 + 0.5 * (*buffers as f64 - 1.0))).exp();
    let [local, global, barrier, looping] = machine.prices;
    let width_misfit = (*vector as f64 / machine.favourite as f64).log2().abs();
    // For one step in depth, of one thread.
    let multiply = (rows * columns) as f64;
    let conflicts = if threads_n * vector % 64 == 0 { 1.3 } else { 1.0 };
    let reads = local * (rows + columns) as f64 * conflicts / (*vector as f64).sqrt();
    let loads = global * (tile_m + tile_n) as f64 / threads as f64 / 4.0;
    let loads = loads * (1.0 + 0.3 * width_misfit) / hiding;
    let overhead = barrier / *tile_k as f64 / *buffers as f64 + looping / *unroll as f64;
    let dear = multiply.max(reads).max(loads);
    let step = dear + 0.25 * (multiply + reads + loads - dear) + overhead;
    let spills = (registers - machine.registers / 2).max(0) as f64;
    let step = step * (1.0 + 0.02 * spills) / hiding;
    let [m, n, k] = machine.size;
    let groups = ((m + tile_m - 1) / tile_m) * ((n + tile_n - 1) / tile_n);
    // The last round of groups leaves units idle.
    let at_once = machine.units * groups_at_once;
    let rounds = ((groups + at_once - 1) / at_once) as f64;
    Some(rounds * (groups_at_once * threads * k) as f64 * step * 1e-10)
}

/// Every point of a machine's space, with noise.
pub(super) fn recording(machine: &Machine, noise: f64, seed: u64) -> Recording {
    let points = points(machine);
    let mut random = Random::new(seed);
    let all = (0..points.len()).map(|point| {
        let factor = (noise * random.normal()).exp();
        seconds(machine, points.values(point)).map(|seconds| seconds * factor)
    });
    let seconds = all.collect();
    Recording { points, seconds }
}
