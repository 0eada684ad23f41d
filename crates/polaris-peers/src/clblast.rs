//! CLBlast, on any OpenCL device.

use std::ptr;

use cl3::types::{cl_command_queue, cl_event, cl_mem};
use polaris_core::DType;

use crate::library::{function, open};
use crate::opencl::{ClBuffer, ClSession};
use crate::{Error, OpenClTarget, Peer, Problem, Product, Result};

pub const NAME: &str = "CLBlast";

const LIBRARIES: &[&str] = if cfg!(windows) {
    &["clblast.dll"]
} else if cfg!(target_os = "macos") {
    &["libclblast.1.dylib", "libclblast.dylib"]
} else {
    &["libclblast.so.1", "libclblast.so"]
};

const ROW_MAJOR: i32 = 101;
const AS_STORED: i32 = 111;
const TRANSPOSED: i32 = 112;

/// `T` is the type of the factors; half-precision ones are passed as their bits.
type Gemm<T> = unsafe extern "C" fn(
    i32,
    i32,
    i32,
    usize,
    usize,
    usize,
    T,
    cl_mem,
    usize,
    usize,
    cl_mem,
    usize,
    usize,
    T,
    cl_mem,
    usize,
    usize,
    *mut cl_command_queue,
    *mut cl_event,
) -> i32;

pub struct ClBlast {
    session: ClSession,
    sgemm: Gemm<f32>,
    dgemm: Gemm<f64>,
    hgemm: Gemm<u16>,
}

impl ClBlast {
    pub fn load(device: &OpenClTarget) -> Result<Self> {
        let library = open(LIBRARIES)?;
        // SAFETY: these are the types in CLBlast's clblast_c.h.
        let (sgemm, dgemm, hgemm) = unsafe {
            (
                function(library, "CLBlastSgemm")?,
                function(library, "CLBlastDgemm")?,
                function(library, "CLBlastHgemm")?,
            )
        };
        Ok(Self { session: ClSession::new(device)?, sgemm, dgemm, hgemm })
    }
}

impl Peer for ClBlast {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        // The library has no function that tells.
        "1.x"
    }

    fn supports(&self, problem: &Problem) -> bool {
        matches!(problem.dtype, DType::F32 | DType::F64 | DType::F16) && !problem.tf32
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
        let zeros = vec![0; problem.output_bytes()];
        Ok(Box::new(Running {
            library: self,
            problem: *problem,
            a: self.session.buffer(a)?,
            b: self.session.buffer(b)?,
            c: self.session.buffer(&zeros)?,
        }))
    }
}

struct Running<'a> {
    library: &'a ClBlast,
    problem: Problem,
    a: ClBuffer<'a>,
    b: ClBuffer<'a>,
    c: ClBuffer<'a>,
}

impl Running<'_> {
    fn call<T>(&self, gemm: Gemm<T>, one: T, zero: T) -> i32 {
        let Problem { m, n, k, .. } = self.problem;
        let how = |transposed| if transposed { TRANSPOSED } else { AS_STORED };
        let mut queue = self.library.session.queue();
        // SAFETY: the buffers have the sizes that are given and belong to the queue's context.
        // Without an event nothing has to be released.
        unsafe {
            gemm(
                ROW_MAJOR,
                how(self.problem.transpose_a),
                how(self.problem.transpose_b),
                m,
                n,
                k,
                one,
                self.a.raw(),
                0,
                self.problem.row_a(),
                self.b.raw(),
                0,
                self.problem.row_b(),
                zero,
                self.c.raw(),
                0,
                n,
                &raw mut queue,
                ptr::null_mut(),
            )
        }
    }
}

impl Product for Running<'_> {
    fn run(&mut self) -> Result<()> {
        /// One in half precision.
        const HALF_ONE: u16 = 0x3c00;
        let (call, code) = match self.problem.dtype {
            DType::F64 => ("CLBlastDgemm", self.call(self.library.dgemm, 1.0, 0.0)),
            DType::F16 => ("CLBlastHgemm", self.call(self.library.hgemm, HALF_ONE, 0)),
            _ => ("CLBlastSgemm", self.call(self.library.sgemm, 1.0, 0.0)),
        };
        match code {
            0 => Ok(()),
            code => Err(Error::CallFailed { call, code, meaning: meaning(code) }),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.library.session.finish()
    }

    fn result(&mut self) -> Result<Vec<u8>> {
        self.c.read()
    }
}

/// CLBlast's own codes, and OpenCL's for the rest.
fn meaning(code: i32) -> String {
    match code {
        -2046 => "invalid local memory usage".into(),
        -2045 => "no half precision on this device".into(),
        -2044 => "no double precision on this device".into(),
        _ => cl3::error_codes::error_text(code).to_owned(),
    }
}
