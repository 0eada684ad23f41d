//! OpenCL queries. A query that fails returns nothing instead of an error, since drivers differ and a missing fact
//! must not make a device unusable.

use cl3::device::get_device_data;
use cl3::platform::get_platform_data;
use cl3::types::{cl_device_id, cl_platform_id};
use polaris_core::printable;

/// Names are shown to the user, so that what could steer a terminal is escaped.
fn text(bytes: Vec<u8>) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    printable(String::from_utf8_lossy(&bytes[..end]).trim()).into_owned()
}

pub fn device_text(device: cl_device_id, what: u32) -> Option<String> {
    get_device_data(device, what).ok().map(text).filter(|text| !text.is_empty())
}

pub fn platform_text(platform: cl_platform_id, what: u32) -> Option<String> {
    get_platform_data(platform, what).ok().map(text)
}

/// An unsigned number of whatever width the driver gives it.
pub fn device_number(device: cl_device_id, what: u32) -> Option<u64> {
    numbers(&get_device_data(device, what).ok()?, None).first().copied()
}

/// A list of `size_t`.
pub fn device_sizes(device: cl_device_id, what: u32) -> Vec<u64> {
    get_device_data(device, what)
        .map(|data| numbers(&data, Some(size_of::<usize>())))
        .unwrap_or_default()
}

pub fn device_bytes(device: cl_device_id, what: u32) -> Option<Vec<u8>> {
    get_device_data(device, what).ok()
}

fn numbers(data: &[u8], width: Option<usize>) -> Vec<u64> {
    let width = width.unwrap_or(data.len());
    if width == 0 || width > 8 {
        return Vec::new();
    }
    let number = |chunk: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    };
    data.chunks_exact(width).map(number).collect()
}
