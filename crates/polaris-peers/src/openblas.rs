//! OpenBLAS, on the processor.

use std::ffi::{CStr, c_char};
use std::time::Duration;

use bytemuck::Pod;
use polaris_core::DType;

use crate::library::{function, open};
use crate::{Error, Peer, Problem, Product, Result};

pub const NAME: &str = "OpenBLAS";

const LIBRARIES: &[&str] = if cfg!(windows) {
    &["libopenblas.dll", "openblas.dll"]
} else if cfg!(target_os = "macos") {
    &["libopenblas.0.dylib", "libopenblas.dylib"]
} else {
    &["libopenblas.so.0", "libopenblas.so"]
};

/// Its threads look for work for two to this power ticks of the processor's clock before they
/// sleep.
const TIMEOUT: &str = "OPENBLAS_THREAD_TIMEOUT";

/// About a third of a millisecond: they stay awake from one call to the next, and are asleep soon
/// after the last.
const SHORT_TIMEOUT: u32 = 20;

/// The timeout that is built in.
const USUAL_TIMEOUT: u32 = 26;

const ROW_MAJOR: i32 = 101;
const AS_STORED: i32 = 111;
const TRANSPOSED: i32 = 112;

type Gemm<T> = unsafe extern "C" fn(
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    T,
    *const T,
    i32,
    *const T,
    i32,
    T,
    *mut T,
    i32,
);

/// Lets OpenBLAS' threads sleep soon after a product, unless the user has decided. Otherwise they
/// would take processor time from whatever is measured next, for some twenty milliseconds.
///
/// To be called before the program starts threads that call into C.
pub fn calm_threads() {
    if std::env::var_os(TIMEOUT).is_none() {
        // SAFETY: setting the environment races with other threads that read it through C; the
        // command line calls this before it looks for devices, which starts the first of those.
        unsafe { std::env::set_var(TIMEOUT, SHORT_TIMEOUT.to_string()) };
    }
}

pub struct OpenBlas {
    sgemm: Gemm<f32>,
    dgemm: Gemm<f64>,
    version: String,
    settles_in: Duration,
}

impl OpenBlas {
    pub fn load(threads: usize) -> Result<Self> {
        let library = open(LIBRARIES)?;
        // SAFETY: these are the types in OpenBLAS' cblas.h, with its usual 32-bit integers.
        let (sgemm, dgemm, set_threads, config) = unsafe {
            (
                function::<Gemm<f32>>(library, "cblas_sgemm")?,
                function::<Gemm<f64>>(library, "cblas_dgemm")?,
                function::<unsafe extern "C" fn(i32)>(library, "openblas_set_num_threads")?,
                function::<unsafe extern "C" fn() -> *const c_char>(
                    library,
                    "openblas_get_config",
                )?,
            )
        };
        // A build with 64-bit integers would read beyond the arguments' ends.
        // SAFETY: the function takes nothing and returns a string that lives as long as the library.
        let version = unsafe { CStr::from_ptr(config()) }.to_string_lossy().trim().to_owned();
        if version.contains("USE64BITINT") {
            return Err(Error::Unsupported { what: "32-bit sizes; its integers have 64".into() });
        }
        let threads = i32::try_from(threads).unwrap_or(i32::MAX);
        // SAFETY: any positive number is allowed; the library takes what it can.
        unsafe { set_threads(threads) };
        let ticks = std::env::var(TIMEOUT).ok().and_then(|value| value.trim().parse().ok());
        // A tick is a nanosecond at most: clocks have a gigahertz or more.
        let ticks = 1u64 << ticks.unwrap_or(USUAL_TIMEOUT).clamp(4, 30);
        Ok(Self { sgemm, dgemm, version, settles_in: Duration::from_nanos(ticks) })
    }
}

impl Peer for OpenBlas {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn supports(&self, problem: &Problem) -> bool {
        matches!(problem.dtype, DType::F32 | DType::F64) && !problem.tf32
    }

    fn prepare<'a>(
        &'a self,
        problem: &Problem,
        a: &'a [u8],
        b: &'a [u8],
    ) -> Result<Box<dyn Product + 'a>> {
        problem.check_operands(a, b)?;
        match problem.dtype {
            _ if !self.supports(problem) => Err(problem.unsupported()),
            DType::F32 => Running::start(self.sgemm, problem, a, b, [1.0, 0.0]),
            _ => Running::start(self.dgemm, problem, a, b, [1.0, 0.0]),
        }
    }

    fn settles_in(&self) -> Duration {
        self.settles_in
    }
}

/// A product of `f32` or `f64`.
struct Running<'a, T> {
    gemm: Gemm<T>,
    problem: Problem,
    a: &'a [T],
    b: &'a [T],
    c: Vec<T>,
    /// One and zero.
    factors: [T; 2],
}

impl<'a, T: Pod> Running<'a, T> {
    fn start(
        gemm: Gemm<T>,
        problem: &Problem,
        a: &'a [u8],
        b: &'a [u8],
        factors: [T; 2],
    ) -> Result<Box<dyn Product + 'a>> {
        let typed = |bytes: &'a [u8]| {
            let unaligned = |_| Error::Unsupported { what: "unaligned operands".into() };
            bytemuck::try_cast_slice(bytes).map_err(unaligned)
        };
        let c = vec![T::zeroed(); problem.m * problem.n];
        Ok(Box::new(Running { gemm, problem: *problem, a: typed(a)?, b: typed(b)?, c, factors }))
    }
}

impl<T: Pod> Product for Running<'_, T> {
    fn run(&mut self) -> Result<()> {
        let [m, n, k, row_a, row_b] = self.problem.int_sizes();
        let how = |transposed| if transposed { TRANSPOSED } else { AS_STORED };
        let [one, zero] = self.factors;
        // SAFETY: the operands' lengths were checked against the sizes, and C has m x n elements.
        unsafe {
            (self.gemm)(
                ROW_MAJOR,
                how(self.problem.transpose_a),
                how(self.problem.transpose_b),
                m,
                n,
                k,
                one,
                self.a.as_ptr(),
                row_a,
                self.b.as_ptr(),
                row_b,
                zero,
                self.c.as_mut_ptr(),
                n,
            );
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        // The work is done when the call returns.
        Ok(())
    }

    fn result(&mut self) -> Result<Vec<u8>> {
        Ok(bytemuck::cast_slice(&self.c).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 3] = [3, 5, 4];

    /// A small product of whole numbers, which every order of sums gives exactly.
    fn expected(transpose_a: bool, transpose_b: bool, a: &[f64], b: &[f64]) -> Vec<f64> {
        let [m, n, k] = SIZES;
        let at_a = |i: usize, l: usize| a[if transpose_a { l * m + i } else { i * k + l }];
        let at_b = |l: usize, j: usize| b[if transpose_b { j * k + l } else { l * n + j }];
        let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
        places.map(|(i, j)| (0..k).map(|l| at_a(i, l) * at_b(l, j)).sum()).collect()
    }

    #[test]
    fn products_are_right_in_every_layout() {
        let blas = match OpenBlas::load(1) {
            Ok(blas) => blas,
            Err(error) => {
                eprintln!("SKIPPED: products_are_right_in_every_layout: {error}");
                return;
            }
        };
        assert!(blas.version().contains("OpenBLAS"), "{}", blas.version());
        let [m, n, k] = SIZES;
        let a: Vec<f64> = (0..m * k).map(|i| i as f64 - 4.0).collect();
        let b: Vec<f64> = (0..k * n).map(|i| 7.0 - i as f64).collect();
        let [single_a, single_b] =
            [&a, &b].map(|values| values.iter().map(|&x| x as f32).collect::<Vec<f32>>());
        for (transpose_a, transpose_b) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let expected = expected(transpose_a, transpose_b, &a, &b);
            let (dtype, tf32) = (DType::F64, false);
            let double = Problem { m, n, k, transpose_a, transpose_b, dtype, tf32 };
            let single = Problem { dtype: DType::F32, ..double };
            let result = |problem, a: &[u8], b: &[u8]| {
                let mut product = blas.prepare(problem, a, b).unwrap();
                product.run().unwrap();
                product.finish().unwrap();
                product.result().unwrap()
            };
            let doubles = result(&double, bytemuck::cast_slice(&a), bytemuck::cast_slice(&b));
            let doubles = doubles.chunks_exact(8).map(bytemuck::pod_read_unaligned::<f64>);
            assert!(doubles.eq(expected.iter().copied()));
            let (a, b) = (bytemuck::cast_slice(&single_a), bytemuck::cast_slice(&single_b));
            let singles = result(&single, a, b);
            let singles = singles.chunks_exact(4).map(bytemuck::pod_read_unaligned::<f32>);
            assert!(singles.map(f64::from).eq(expected.iter().copied()));
        }
    }
}
