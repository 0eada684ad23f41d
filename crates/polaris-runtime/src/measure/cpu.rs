//! Measurements of the CPU by plain loops.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Stop, median_seconds};
use crate::cpu::{SimdLevel, ThreadPool};
use crate::{DeviceRef, Error, Result};

/// Rounds of one measurement: some milliseconds.
const ROUNDS: usize = 1 << 20;

pub fn fp32_gflops(device: &DeviceRef, stop: Stop<'_>) -> Result<f64> {
    let cpu = device.as_cpu().ok_or(Error::NotHostMemory { device: device.id() })?;
    let threads = cpu.pool().threads();
    let lanes = 12 * cpu.simd().f32_lanes();
    let seconds = median_seconds(device, 9, stop, || {
        cpu.pool().run(threads, |thread| {
            std::hint::black_box(multiply_add(cpu.simd(), 1.0 + thread as f32));
        });
        Ok(())
    })?;
    Ok(2.0 * (threads * ROUNDS * lanes) as f64 / seconds / 1e9)
}

/// Twelve vectors, each a chain of its own: enough to keep two units with a latency of four or
/// five cycles busy.
fn multiply_add(level: SimdLevel, seed: f32) -> f32 {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level was found on this processor.
        SimdLevel::Avx512 => unsafe { x86::multiply_add_avx512(seed) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        SimdLevel::Avx2 => unsafe { x86::multiply_add_avx2(seed) },
        _ => portable(seed),
    }
}

fn portable(seed: f32) -> f32 {
    let mut vectors = [[seed; 4]; 12];
    for _ in 0..ROUNDS {
        for vector in &mut vectors {
            for lane in vector {
                *lane = *lane * 0.999 + 0.001;
            }
        }
    }
    vectors.iter().flatten().sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::ROUNDS;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub fn multiply_add_avx512(seed: f32) -> f32 {
        let (m, a) = (_mm512_set1_ps(0.999), _mm512_set1_ps(0.001));
        let mut v = [_mm512_set1_ps(seed); 12];
        for _ in 0..ROUNDS {
            for x in &mut v {
                *x = _mm512_fmadd_ps(*x, m, a);
            }
        }
        v.into_iter().map(|x| _mm512_reduce_add_ps(x)).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn multiply_add_avx2(seed: f32) -> f32 {
        let (m, a) = (_mm256_set1_ps(0.999), _mm256_set1_ps(0.001));
        let mut v = [_mm256_set1_ps(seed); 12];
        for _ in 0..ROUNDS {
            for x in &mut v {
                *x = _mm256_fmadd_ps(*x, m, a);
            }
        }
        v.into_iter().map(|x| _mm256_cvtss_f32(x)).sum()
    }
}

/// The plainest loops over all threads: what a good programmer writes without thinking, and what
/// Polaris' own operations are held against.
pub struct PlainLoops {
    source: Vec<u64>,
    target: Vec<u64>,
}

impl PlainLoops {
    /// Loops over arrays of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { source: vec![1; bytes / 8], target: vec![0; bytes / 8] }
    }

    /// Copies one array to the other in a loop over its elements.
    pub fn copy(&mut self, pool: &ThreadPool) {
        // A mask that the compiler cannot see through keeps the loop a loop: it would make a call
        // of memcpy out of it otherwise, which is anything but plain.
        let mask = std::hint::black_box(u64::MAX);
        self.each_pair(pool, |to, from| {
            for (to, from) in to.iter_mut().zip(from) {
                *to = from & mask;
            }
        });
    }

    /// Copies one array to the other by the system's own copy.
    pub fn memcpy(&mut self, pool: &ThreadPool) {
        self.each_pair(pool, |to, from| to.copy_from_slice(from));
    }

    fn each_pair(&mut self, pool: &ThreadPool, work: impl Fn(&mut [u64], &[u64]) + Sync) {
        let chunk = self.source.len().div_ceil(pool.threads()).max(1);
        let pairs = self.target.chunks_mut(chunk).zip(self.source.chunks(chunk));
        let pairs: Vec<_> = pairs.map(Mutex::new).collect();
        pool.run(pairs.len(), |i| {
            let mut pair = pairs[i].lock().unwrap_or_else(PoisonError::into_inner);
            let (to, from) = &mut *pair;
            work(to, from);
        });
    }

    /// Sums one array. Of integers: their sums may be reordered, so that the compiler makes
    /// vector code of the loop.
    pub fn read(&self, pool: &ThreadPool) -> u64 {
        let chunks: Vec<&[u64]> =
            self.source.chunks(self.source.len().div_ceil(pool.threads()).max(1)).collect();
        let total = AtomicU64::new(0);
        pool.run(chunks.len(), |i| {
            total
                .fetch_add(chunks[i].iter().copied().fold(0, u64::wrapping_add), Ordering::Relaxed);
        });
        total.into_inner()
    }
}
