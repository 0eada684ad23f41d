//! Matmul of other libraries, loaded at run time where they are installed, to be measured
//! beside Polaris' own. Nothing of Polaris needs them.
//!
//! Every call into a foreign library is in this crate, so that the command line stays free of
//! `unsafe`. Libraries are looked for in the folders of `POLARIS_PEERS_PATH`, then where the
//! system's loader looks.

mod clblast;
mod cublas;
mod cuda;
mod error;
mod library;
mod openblas;
mod opencl;
mod problem;

use std::time::Duration;

pub use error::{Error, Result};
pub use library::SEARCH_PATH;
pub use openblas::calm_threads;
pub use problem::Problem;

/// A library that multiplies matrices.
pub trait Peer {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its version, as it gives it.
    fn version(&self) -> &str;

    /// Whether it has a product of this kind.
    fn supports(&self, problem: &Problem) -> bool;

    /// Copies the operands to where the library wants them. They are dense, row-major, and of
    /// the problem's type; a transposed one is stored as its transpose.
    ///
    /// # Errors
    /// If the operands do not have the problem's sizes, or there is no room.
    fn prepare<'a>(
        &'a self,
        problem: &Problem,
        a: &'a [u8],
        b: &'a [u8],
    ) -> Result<Box<dyn Product + 'a>>;

    /// How long its threads may stay busy after the work is done; who measures next should wait
    /// for that long.
    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// One product that is ready to run.
pub trait Product {
    /// Starts it once.
    ///
    /// # Errors
    /// What the library says.
    fn run(&mut self) -> Result<()>;

    /// Waits for all that was started.
    ///
    /// # Errors
    /// What the library says.
    fn finish(&mut self) -> Result<()>;

    /// The bytes of the result, dense and row-major, after waiting for it.
    ///
    /// # Errors
    /// What the library says.
    fn result(&mut self) -> Result<Vec<u8>>;
}

/// What a peer is to compute on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The processor, with this many threads.
    Processor {
        /// Threads.
        threads: usize,
    },
    /// An OpenCL device.
    OpenCl(OpenClTarget),
}

/// Which OpenCL device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenClTarget {
    /// The platform's name.
    pub platform: String,
    /// The device's name; its driver's own name may be in brackets at the end.
    pub name: String,
    /// How many devices of the same platform and name come before it.
    pub nth: usize,
    /// Its PCI address where the driver tells.
    pub pci_address: Option<String>,
    /// Whether CUDA may reach it too.
    pub is_nvidia: bool,
}

/// The peers that were found for a target, and why others were not.
#[derive(Default)]
pub struct Found {
    /// Those that can be used.
    pub peers: Vec<Box<dyn Peer>>,
    /// A name and a reason for each of the others.
    pub absent: Vec<(&'static str, Error)>,
}

/// Looks for the libraries that compute on a target.
pub fn find(target: &Target) -> Found {
    let mut found = Found::default();
    match target {
        Target::Processor { threads } => {
            found.add(openblas::NAME, openblas::OpenBlas::load(*threads));
        }
        Target::OpenCl(device) => {
            found.add(clblast::NAME, clblast::ClBlast::load(device));
            if device.is_nvidia {
                found.add(cublas::NAME, cublas::CuBlas::load(device.pci_address.as_deref()));
            }
        }
    }
    found
}

impl Found {
    fn add<P: Peer + 'static>(&mut self, name: &'static str, loaded: Result<P>) {
        match loaded {
            Ok(peer) => self.peers.push(Box::new(peer)),
            Err(error) => self.absent.push((name, error)),
        }
    }
}
