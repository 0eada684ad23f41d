//! The little of CUDA's runtime that cuBLAS needs around it: a device and its memory.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use libloading::Library;

use crate::library::function;
use crate::{Error, Result};

const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;

/// The functions of the runtime, and the device that was chosen.
pub struct Cuda {
    malloc: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int,
    free: unsafe extern "C" fn(*mut c_void) -> c_int,
    memset: unsafe extern "C" fn(*mut c_void, c_int, usize) -> c_int,
    memcpy: unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int) -> c_int,
    synchronize: unsafe extern "C" fn() -> c_int,
    error_text: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Cuda {
    /// Chooses the device at a PCI address, or the first one where there is no address.
    pub fn new(library: &'static Library, pci_address: Option<&str>) -> Result<Self> {
        // SAFETY: these are the types in CUDA's cuda_runtime_api.h; enums are C's int.
        let (cuda, set_device, device_at) = unsafe {
            let cuda = Self {
                malloc: function(library, "cudaMalloc")?,
                free: function(library, "cudaFree")?,
                memset: function(library, "cudaMemset")?,
                memcpy: function(library, "cudaMemcpy")?,
                synchronize: function(library, "cudaDeviceSynchronize")?,
                error_text: function(library, "cudaGetErrorString")?,
            };
            let set_device: unsafe extern "C" fn(c_int) -> c_int =
                function(library, "cudaSetDevice")?;
            let device_at: unsafe extern "C" fn(*mut c_int, *const c_char) -> c_int =
                function(library, "cudaDeviceGetByPCIBusId")?;
            (cuda, set_device, device_at)
        };
        let mut device = 0;
        if let Some(address) = pci_address {
            let missing = |_| Error::NoDevice { name: address.to_owned() };
            let address = CString::new(address).map_err(missing)?;
            // SAFETY: the number is written to a place that is there, the address is a C string.
            let code = unsafe { device_at(&raw mut device, address.as_ptr()) };
            cuda.check("cudaDeviceGetByPCIBusId", code)?;
        }
        // SAFETY: any number may be passed; a wrong one is an error.
        cuda.check("cudaSetDevice", unsafe { set_device(device) })?;
        Ok(cuda)
    }

    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the function takes nothing.
        self.check("cudaDeviceSynchronize", unsafe { (self.synchronize)() })
    }

    /// Memory with these bytes.
    pub fn upload(&self, bytes: &[u8]) -> Result<CudaMemory<'_>> {
        let memory = self.allocate(bytes.len())?;
        let source = bytes.as_ptr().cast();
        // SAFETY: both sides have this many bytes.
        let code = unsafe { (self.memcpy)(memory.pointer, source, bytes.len(), HOST_TO_DEVICE) };
        self.check("cudaMemcpy", code)?;
        Ok(memory)
    }

    /// Memory that holds zeros.
    pub fn zeros(&self, bytes: usize) -> Result<CudaMemory<'_>> {
        let memory = self.allocate(bytes)?;
        // SAFETY: the memory has this many bytes.
        self.check("cudaMemset", unsafe { (self.memset)(memory.pointer, 0, bytes) })?;
        Ok(memory)
    }

    fn allocate(&self, bytes: usize) -> Result<CudaMemory<'_>> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the pointer is written to a place that is there.
        self.check("cudaMalloc", unsafe { (self.malloc)(&raw mut pointer, bytes) })?;
        Ok(CudaMemory { cuda: self, pointer, bytes })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number and returns a constant string, or null.
        let text = unsafe { (self.error_text)(code) };
        let meaning = if text.is_null() {
            "unknown error".to_owned()
        } else {
            // SAFETY: a string that is not null is a constant of the library.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(Error::CallFailed { call, code, meaning })
    }
}

/// Memory of the device.
pub struct CudaMemory<'a> {
    cuda: &'a Cuda,
    pointer: *mut c_void,
    bytes: usize,
}

impl CudaMemory<'_> {
    pub fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    /// What it holds, after everything that was started.
    pub fn read(&self) -> Result<Vec<u8>> {
        self.cuda.synchronize()?;
        let mut bytes = vec![0u8; self.bytes];
        let target = bytes.as_mut_ptr().cast();
        // SAFETY: both sides have this many bytes; the copy is done when the call returns.
        let code = unsafe { (self.cuda.memcpy)(target, self.pointer, self.bytes, DEVICE_TO_HOST) };
        self.cuda.check("cudaMemcpy", code)?;
        Ok(bytes)
    }
}

impl Drop for CudaMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the memory. The call waits for kernels that use it.
        let _ = unsafe { (self.cuda.free)(self.pointer) };
    }
}
