//! cuBLAS, on NVIDIA's GPUs: the yardstick for OpenCL on the same card.

use std::ffi::{c_int, c_void};
use std::ptr;

use polaris_core::DType;

use crate::cuda::{Cuda, CudaMemory};
use crate::library::{function, open};
use crate::{Error, Peer, Problem, Product, Result};

pub const NAME: &str = "cuBLAS";

/// The runtime and cuBLAS of one release of CUDA, newest first.
const RELEASES: &[[&str; 2]] = if cfg!(windows) {
    &[["cudart64_13.dll", "cublas64_13.dll"], ["cudart64_12.dll", "cublas64_12.dll"]]
} else {
    &[["libcudart.so.13", "libcublas.so.13"], ["libcudart.so.12", "libcublas.so.12"]]
};

const AS_STORED: c_int = 0;
const TRANSPOSED: c_int = 1;

/// `cublasMath_t`: `f32` stays `f32`, or may be rounded for the tensor cores.
const DEFAULT_MATH: c_int = 0;
const TF32_MATH: c_int = 3;

/// `cudaDataType_t`.
const R_16F: c_int = 2;
const R_8I: c_int = 3;
const R_32I: c_int = 10;
const R_16BF: c_int = 14;

/// `cublasComputeType_t`.
const COMPUTE_32F: c_int = 68;
const COMPUTE_32I: c_int = 72;

/// `cublasGemmAlgo_t`: the library chooses.
const ALGORITHM: c_int = -1;

type Handle = *mut c_void;

type Gemm<T> = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const T,
    *const c_void,
    c_int,
    *const c_void,
    c_int,
    *const T,
    *mut c_void,
    c_int,
) -> c_int;

type GemmEx = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

pub struct CuBlas {
    cuda: Cuda,
    handle: Handle,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    set_math_mode: unsafe extern "C" fn(Handle, c_int) -> c_int,
    sgemm: Gemm<f32>,
    dgemm: Gemm<f64>,
    gemm_ex: GemmEx,
    version: String,
}

impl CuBlas {
    pub fn load(pci_address: Option<&str>) -> Result<Self> {
        let mut result = Err(Error::NoDevice { name: NAME.into() });
        for [runtime, blas] in RELEASES {
            result = Self::load_release(runtime, blas, pci_address);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn load_release(runtime: &str, blas: &str, pci_address: Option<&str>) -> Result<Self> {
        let runtime = open(&[runtime])?;
        let library = open(&[blas])?;
        // SAFETY: these are the types in CUDA's cublas_api.h since release 11; enums are C's int.
        let (create, get_version, destroy, set_math_mode, sgemm, dgemm, gemm_ex) = unsafe {
            let create: unsafe extern "C" fn(*mut Handle) -> c_int =
                function(library, "cublasCreate_v2")?;
            let get_version: unsafe extern "C" fn(Handle, *mut c_int) -> c_int =
                function(library, "cublasGetVersion_v2")?;
            (
                create,
                get_version,
                function(library, "cublasDestroy_v2")?,
                function(library, "cublasSetMathMode")?,
                function(library, "cublasSgemm_v2")?,
                function(library, "cublasDgemm_v2")?,
                function(library, "cublasGemmEx")?,
            )
        };
        let cuda = Cuda::new(runtime, pci_address)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the handle is written to a place that is there; it belongs to the device that
        // was just chosen for this thread.
        check("cublasCreate_v2", unsafe { create(&raw mut handle) })?;
        let version = String::new();
        let mut blas =
            Self { cuda, handle, destroy, set_math_mode, sgemm, dgemm, gemm_ex, version };
        let mut number = 0;
        // SAFETY: the handle is alive, the number is written to a place that is there.
        check("cublasGetVersion_v2", unsafe { get_version(blas.handle, &raw mut number) })?;
        // As in 120304 for 12.3.4.
        blas.version = format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100);
        Ok(blas)
    }
}

impl Drop for CuBlas {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle.
        let _ = unsafe { (self.destroy)(self.handle) };
    }
}

impl Peer for CuBlas {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn supports(&self, problem: &Problem) -> bool {
        use DType::{BF16, F16, F32, F64, I8};
        matches!(problem.dtype, F32 | F64 | F16 | BF16 | I8)
    }

    fn prepare<'a>(
        &'a self,
        problem: &Problem,
        a: &'a [u8],
        b: &'a [u8],
    ) -> Result<Box<dyn Product + 'a>> {
        problem.check_operands(a, b)?;
        if !self.supports(problem) {
            return Err(problem.unsupported());
        }
        let product = Running {
            library: self,
            problem: *problem,
            a: self.cuda.upload(a)?,
            b: self.cuda.upload(b)?,
            c: self.cuda.zeros(problem.output_bytes())?,
        };
        // Copies and the filling with zeros may be under way when their calls return.
        self.cuda.synchronize()?;
        Ok(Box::new(product))
    }
}

struct Running<'a> {
    library: &'a CuBlas,
    problem: Problem,
    a: CudaMemory<'a>,
    b: CudaMemory<'a>,
    c: CudaMemory<'a>,
}

impl Running<'_> {
    /// cuBLAS counts by columns, so it sees every row-major matrix as its transpose. It is asked
    /// for the transpose of the result, which is the product of the transposes in the other order.
    fn operations(&self) -> [c_int; 2] {
        let how = |transposed| if transposed { TRANSPOSED } else { AS_STORED };
        [how(self.problem.transpose_b), how(self.problem.transpose_a)]
    }

    fn real<T>(&self, gemm: Gemm<T>, one: T, zero: T) -> c_int {
        let [m, n, k, row_a, row_b] = self.problem.int_sizes();
        let [first, second] = self.operations();
        // SAFETY: the memory has the sizes that are given; the factors are read on the host before
        // the call returns, which is the handle's usual mode.
        unsafe {
            gemm(
                self.library.handle,
                first,
                second,
                n,
                m,
                k,
                &raw const one,
                self.b.pointer(),
                row_b,
                self.a.pointer(),
                row_a,
                &raw const zero,
                self.c.pointer(),
                n,
            )
        }
    }

    /// `T` is the type of the factors that belongs to the type of the sums.
    fn mixed<T>(&self, types: [c_int; 2], compute: c_int, one: T, zero: T) -> c_int {
        let [m, n, k, row_a, row_b] = self.problem.int_sizes();
        let [first, second] = self.operations();
        let [input, output] = types;
        // SAFETY: as above.
        unsafe {
            (self.library.gemm_ex)(
                self.library.handle,
                first,
                second,
                n,
                m,
                k,
                (&raw const one).cast(),
                self.b.pointer(),
                input,
                row_b,
                self.a.pointer(),
                input,
                row_a,
                (&raw const zero).cast(),
                self.c.pointer(),
                output,
                n,
                compute,
                ALGORITHM,
            )
        }
    }
}

impl Product for Running<'_> {
    fn run(&mut self) -> Result<()> {
        let library = self.library;
        let mode = if self.problem.tf32 { TF32_MATH } else { DEFAULT_MATH };
        // SAFETY: the handle is alive. Setting the mode costs a store, and other products of the
        // same handle may have set another one.
        let code = unsafe { (library.set_math_mode)(library.handle, mode) };
        check("cublasSetMathMode", code)?;
        let float = (1.0f32, 0.0f32);
        let (call, code) = match self.problem.dtype {
            DType::F64 => ("cublasDgemm_v2", self.real(library.dgemm, 1.0, 0.0)),
            DType::F16 => {
                ("cublasGemmEx", self.mixed([R_16F, R_16F], COMPUTE_32F, float.0, float.1))
            }
            DType::BF16 => {
                ("cublasGemmEx", self.mixed([R_16BF, R_16BF], COMPUTE_32F, float.0, float.1))
            }
            DType::I8 => ("cublasGemmEx", self.mixed([R_8I, R_32I], COMPUTE_32I, 1i32, 0i32)),
            _ => ("cublasSgemm_v2", self.real(library.sgemm, float.0, float.1)),
        };
        check(call, code)
    }

    fn finish(&mut self) -> Result<()> {
        self.library.cuda.synchronize()
    }

    fn result(&mut self) -> Result<Vec<u8>> {
        self.c.read()
    }
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    let meaning = match code {
        0 => return Ok(()),
        1 => "not initialised",
        3 => "out of memory",
        7 => "invalid value",
        8 => "the device is too old for this",
        11 => "memory mapping failed",
        13 => "the kernel failed",
        14 => "internal error",
        15 => "not supported",
        _ => "see cublasStatus_t",
    };
    Err(Error::CallFailed { call, code, meaning: meaning.to_owned() })
}
